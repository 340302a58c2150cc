from __future__ import annotations

from pathlib import Path

import pytest

from elastream.model.errors import UnsupportedSparkError
from elastream.spark.sessions.embedded_cluster import EmbeddedCluster
from elastream.spark.sessions.settings import (
    advised,
    local_disk_settings,
    session_settings,
    state_settings,
    wrong_among,
)

GOOD = session_settings()


def test_the_session_settings_serve() -> None:
    assert wrong_among(GOOD) == ()


def test_spark_as_it_comes_does_not_serve_and_every_setting_to_change_is_named() -> None:
    wrong = {setting.name: setting for setting in wrong_among({})}
    assert {name for name, setting in wrong.items() if setting.required} == {
        "spark.locality.wait",
        "spark.shuffle.reduceLocality.enabled",
    }
    assert all(GOOD[name] == setting.wanted for name, setting in wrong.items())
    line = str(wrong["spark.locality.wait"])
    assert line.startswith("spark.locality.wait is 3s; set it to 30s: ")
    assert "\n" not in line


@pytest.mark.parametrize("value", ["10s", "10000", "10000ms", "1m", "2min", "1h", " 30 s "])
def test_any_long_enough_wait_serves(value: str) -> None:
    assert wrong_among({**GOOD, "spark.locality.wait": value}) == ()


@pytest.mark.parametrize("value", ["9s", "3s", "0", "10", "soon", "-30s", ""])
def test_a_short_or_unreadable_wait_does_not(value: str) -> None:
    (wrong,) = wrong_among({**GOOD, "spark.locality.wait": value})
    assert (wrong.name, wrong.value, wrong.required) == ("spark.locality.wait", value, True)


@pytest.mark.parametrize(
    "name", ["spark.dynamicAllocation.enabled", "spark.speculation", "spark.locality.wait.process"]
)
def test_what_moves_state_behind_our_back_is_refused(name: str) -> None:
    value = "0s" if "wait" in name else "true"
    assert [wrong.name for wrong in wrong_among({**GOOD, name: value})] == [name]


def test_the_in_memory_state_store_is_advised_against_only() -> None:
    store = "spark.sql.streaming.stateStore.providerClass"
    (wrong,) = wrong_among({name: value for name, value in GOOD.items() if name != store})
    assert (wrong.name, wrong.required) == (store, False)


def test_a_session_that_cannot_be_steered_is_refused_by_the_setting_to_change() -> None:
    with pytest.raises(UnsupportedSparkError, match=r"spark\.locality\.wait is 3s.*\(and 1 more\)"):
        advised(wrong_among({}))


def test_what_only_costs_more_is_returned_as_advice() -> None:
    name = "spark.decommission.enabled"
    wrong = wrong_among({**GOOD, name: "false"})
    assert [setting.name for setting in advised(wrong)] == [name]


def test_a_query_that_no_one_steers_keeps_its_state_as_the_others_do() -> None:
    state = state_settings()
    assert state.items() <= GOOD.items()
    assert all(name.startswith("spark.sql.streaming.stateStore.") for name in state)
    assert {setting.name for setting in wrong_among(state) if setting.required} == {
        setting.name for setting in wrong_among({}) if setting.required
    }


MANAGER = "spark.sql.streaming.checkpointFileManagerClass"
OTHER_STORAGE = (
    {"spark.hadoop.fs.s3a.endpoint": "http://127.0.0.1:9000"},
    {"spark.hadoop.fs.defaultFS": "hdfs://host:8020"},
    {"spark.sql.streaming.checkpointLocation": "s3a://bucket/checkpoints"},
    {"spark.jars.packages": "org.apache.hadoop:hadoop-aws:3.5.0"},
)


@pytest.mark.parametrize("master", ["local[2]", "local-cluster[2,1,800]"])
def test_on_this_machine_the_quicker_file_manager_is_advised(master: str) -> None:
    (wrong,) = advised(wrong_among({**GOOD, "spark.master": master}))
    assert (wrong.name, wrong.value) == (MANAGER, "Spark's own choice")
    assert {wrong.name: wrong.wanted} == local_disk_settings()


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"spark.master": "spark://host:7077"},
        {"spark.master": "k8s://https://host", **session_settings(master="k8s://https://host")},
        {"spark.master": "local[2]", **session_settings(local_disk=True)},
        {"spark.master": "local[2]", MANAGER: "one.of.the.User"},
        *({"spark.master": "local[2]", **storage} for storage in OTHER_STORAGE),
    ],
)
def test_elsewhere_and_where_somebody_has_chosen_it_is_not(settings: dict[str, str]) -> None:
    assert wrong_among({**GOOD, **settings}) == ()


def test_only_a_session_with_local_checkpoints_has_it() -> None:
    assert MANAGER not in session_settings()
    assert session_settings(local_disk=True) == GOOD | local_disk_settings()


@pytest.mark.parametrize("storage", OTHER_STORAGE)
def test_the_embedded_cluster_leaves_spark_its_choice_on_other_storage(
    storage: dict[str, str], tmp_path: Path
) -> None:
    assert MANAGER not in EmbeddedCluster(config=storage).settings(tmp_path)
    local = {"spark.sql.streaming.checkpointLocation": "file:///tmp/checkpoints"}
    assert MANAGER in EmbeddedCluster(config=local).settings(tmp_path)


@pytest.mark.parametrize("master", ["yarn", "k8s://https://there:6443"])
def test_lost_executors_are_forgotten_where_spark_counts_them(master: str) -> None:
    name = "spark.executor.failuresValidityInterval"
    forgetful = {**session_settings(master=master), "spark.master": master}
    assert wrong_among(forgetful) == ()
    assert wrong_among({**forgetful, name: "20min"}) == ()
    del forgetful[name]
    (wrong,) = wrong_among(forgetful)
    assert (wrong.name, wrong.value, wrong.required) == (name, "not set", False)
    assert wrong_among({**forgetful, "spark.master": "spark://there:7077"}) == ()


def test_pods_that_are_refused_shall_not_end_an_application() -> None:
    name, there = "spark.executor.maxNumFailures", "k8s://https://there:6443"
    assert name not in GOOD
    assert name not in session_settings(master="yarn")
    (wrong,) = wrong_among({**GOOD, "spark.master": there})
    assert (wrong.name, wrong.required) == (name, False)
    assert wrong_among({**GOOD, "spark.master": there, name: wrong.wanted}) == ()
    assert wrong_among({**GOOD, "spark.master": there, name: "20"})[0].name == name


def test_queries_in_real_time_mode_have_settings_of_their_own() -> None:
    realtime = session_settings(realtime=True)
    own = {"spark.task.cpus", "spark.sql.streaming.stateStore.maintenanceInterval"}
    own.add("spark.shuffle.streaming.networkBufferMaxWaitTimeMs")
    assert realtime.keys() - GOOD.keys() == own
    assert wrong_among(realtime, realtime=True) == ()
    assert {each.name for each in wrong_among(GOOD, realtime=True)} == own - {
        "spark.sql.streaming.stateStore.maintenanceInterval"
    }
    assert wrong_among(GOOD) == ()


@pytest.mark.parametrize(("value", "serves"), [("0.25", True), ("1", False), ("many", False)])
def test_tasks_in_real_time_mode_share_cores(value: str, *, serves: bool) -> None:
    settings = {**session_settings(realtime=True), "spark.task.cpus": value}
    assert (wrong_among(settings, realtime=True) == ()) is serves
