from __future__ import annotations

from pathlib import Path

import pytest

from elastream.model.errors import ProblemError
from elastream.spark.sessions.settings import session_settings, wrong_among
from elastream_lab.benchmarks.elasticity.settings import WAYS, ElasticitySettings
from elastream_lab.benchmarks.elasticity.ways import cluster_of, executors_at_first, policy_of

SETTINGS = ElasticitySettings(min_executors=2, max_executors=5, partitions=10)
PLAIN = ("fixed-min", "fixed-max", "spark-dynamic")
LOCALITY = ("spark.locality.wait", "spark.shuffle.reduceLocality.enabled")


def settings_of(way: str) -> dict[str, str]:
    return cluster_of(way, SETTINGS).settings(Path("scratch"))


@pytest.mark.parametrize("way", PLAIN)
def test_the_ways_of_spark_itself_have_nothing_of_elastream(way: str) -> None:
    settings = settings_of(way)
    assert policy_of(way, SETTINGS) is None
    assert not any(name in settings for name in LOCALITY)
    assert "spark.decommission.enabled" not in settings
    assert settings["spark.sql.streaming.stateStore.providerClass"].endswith(
        "RocksDBStateStoreProvider"
    )


@pytest.mark.parametrize("way", [way for way in WAYS if way not in PLAIN])
def test_the_ways_of_elastream_have_a_session_that_can_be_steered(way: str) -> None:
    settings = settings_of(way)
    assert session_settings().items() <= settings.items()
    assert wrong_among(settings) == ()
    cluster = cluster_of(way, SETTINGS)
    assert (cluster.executors, cluster.max_executors) == (2, 5)


def test_a_fixed_number_of_executors_has_room_for_no_other() -> None:
    sizes = {way: cluster_of(way, SETTINGS) for way in ("fixed-min", "fixed-max")}
    assert [(each.executors, each.max_executors) for each in sizes.values()] == [(2, 2), (5, 5)]


def test_dynamic_allocation_is_between_the_same_bounds_with_the_timeouts_asked_for() -> None:
    settings = ElasticitySettings(max_executors=3, backlog_timeout_s=2, idle_timeout_s=7)
    config = cluster_of("spark-dynamic", settings).config
    assert {
        name.removeprefix("spark.dynamicAllocation."): value for name, value in config.items()
    } == {
        "enabled": "true",
        "shuffleTracking.enabled": "true",
        "shuffleTracking.timeout": "7s",
        "initialExecutors": "1",
        "minExecutors": "1",
        "maxExecutors": "3",
        "schedulerBacklogTimeout": "2s",
        "executorIdleTimeout": "7s",
        "spark.executor.cores": "1",
    }


@pytest.mark.parametrize(("way", "spares"), [("elastream", 0), ("elastream-spare", 1)])
def test_the_loop_decides_between_the_same_bounds(way: str, spares: int) -> None:
    policy = policy_of(way, SETTINGS)
    assert policy is not None
    assert (policy.min_executors, policy.max_executors, policy.spares) == (2, 5, spares)


def test_a_spare_is_there_before_the_load_begins() -> None:
    at_first = {way: executors_at_first(way, SETTINGS) for way in WAYS}
    assert at_first == dict.fromkeys(WAYS, 2) | {"fixed-max": 5, "elastream-spare": 3}


def test_the_peak_follows_from_what_the_most_executors_can_do() -> None:
    # Four words a post in the mean: 4 ms; half of the time of 4 executors is 2 s a second.
    settings = ElasticitySettings(service_us=1000.0, max_executors=4, peak_utilisation=0.5)
    assert settings.peak == 500
    assert settings.rows_a_batch == 2000
    assert ElasticitySettings(peak_rows_per_s=70.0).peak == 70


@pytest.mark.parametrize(
    ("wrong", "line"),
    [
        ({"ways": ()}, "ways: '' is not one of fixed-min, fixed-max, spark-dynamic"),
        ({"ways": ("fixed-max", "x")}, "ways: 'x' is not one of fixed-min"),
        ({"work": "done"}, "work: 'done' is not one of slept, burnt"),
        ({"min_executors": 4}, "min_executors: 4 is not below `max_executors`, 4"),
        ({"max_executors": 1}, "max_executors: 1 is too small; the least is 2"),
        ({"partitions": 3}, "partitions: 3 is too small; the least is 4"),
        ({"seconds": 5}, "seconds: 5 is not between 10 and 86400"),
        ({"seconds": float("nan")}, "seconds: nan is not finite"),
        ({"hours": 3.0}, "hours: chooses a part of `load`, which is not given"),
        ({"begin": "2020-03-01"}, "begin: chooses a part of `load`, which is not given"),
        ({"load": Path("a"), "hours": 0.0}, "hours: 0 is not positive"),
        ({"peak_utilisation": 1.5}, "peak_utilisation: 1.5 is above 1"),
        ({"service_us": 2e6}, "service_us: 2e+06 is above a second a word"),
        ({"idle_timeout_s": 0}, "idle_timeout_s: 0 is too small; the least is 1"),
    ],
)
def test_a_wrong_setting_is_named(wrong: dict[str, object], line: str) -> None:
    with pytest.raises(ProblemError) as raised:
        ElasticitySettings(**wrong)  # type: ignore[arg-type]
    assert str(raised.value).startswith(line)
