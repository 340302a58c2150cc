from __future__ import annotations

from pathlib import Path

import pytest

from elastream import UnsupportedSparkError, session_settings
from elastream.launch.given import Given, has_no_executors, settings_around
from elastream.spark.sessions.embedded_cluster import megabytes


def test_all_that_steering_needs_is_added() -> None:
    assert Given({}, {}).needed(force=False) == session_settings()


def test_what_the_program_chooses_itself_holds_where_it_serves() -> None:
    own = {"spark.locality.wait": "20s"}
    around = {"spark.sql.streaming.stateStore.providerClass": "of.its.Own"}
    added = Given(own, around).needed(force=False)
    assert added.keys() == session_settings().keys() - own.keys() - around.keys()


def test_force_overrides_only_what_is_required() -> None:
    own = {"spark.speculation": "true", "spark.decommission.enabled": "false"}
    added = Given(own, {}).needed(force=True)
    assert added["spark.speculation"] == "false"
    assert "spark.decommission.enabled" not in added


def test_the_programs_own_settings_come_before_those_around_it() -> None:
    around = {"spark.speculation": "true", "spark.master": "yarn"}
    given = Given({"spark.speculation": "false", "spark.master": "spark://a:1"}, around)
    assert given.contradictions() == ()
    assert given.master(None, force=False) == "spark://a:1"


@pytest.mark.parametrize(
    ("program", "around", "option", "force", "master"),
    [
        (None, None, None, False, None),
        (None, None, "yarn", False, "yarn"),
        ("yarn", None, None, False, "yarn"),
        (None, "yarn", None, False, "yarn"),
        (None, "yarn", "spark://a:1", False, "spark://a:1"),
        ("yarn", None, "yarn", False, "yarn"),
        ("yarn", None, "spark://a:1", True, "spark://a:1"),
        ("local[*]", None, None, True, None),
        (None, "local", None, True, None),
        ("local-cluster[2,1,800]", None, None, False, "local-cluster[2,1,800]"),
    ],
)
def test_the_master_is_the_options_else_the_programs_else_what_is_around(
    program: str | None, around: str | None, option: str | None, force: bool, master: str | None
) -> None:
    own, found = ({"spark.master": each} if each else {} for each in (program, around))
    assert Given(own, found).master(option, force=force) == master


@pytest.mark.parametrize("master", ["local", "local[2]", "local[*]"])
def test_a_master_without_executors_is_refused(master: str) -> None:
    assert has_no_executors(master)
    with pytest.raises(UnsupportedSparkError, match="one process without executors"):
        Given({"spark.master": master}, {}).master(None, force=False)


def test_settings_around_are_those_that_spark_submit_finds(tmp_path: Path) -> None:
    (tmp_path / "conf").mkdir()
    (tmp_path / "conf" / "spark-defaults.conf").write_text(
        "# a comment\nspark.a   1\nspark.b=2 and more\n  spark.c: 3\nother.d 4\n\nspark.e\n"
    )
    around = {"spark.a": "1", "spark.b": "2 and more", "spark.c": "3"}
    assert settings_around({}, tmp_path) == around
    elsewhere = {"SPARK_CONF_DIR": str(tmp_path / "conf")}
    assert settings_around(elsewhere, tmp_path / "none") == around
    arguments = "--conf spark.a=5=6 --executor-memory=2g --master yarn pyspark-shell"
    variables = {"PYSPARK_SUBMIT_ARGS": arguments, "MASTER": "spark://a:1"}
    submitted = {"spark.a": "5=6", "spark.executor.memory": "2g", "spark.master": "yarn"}
    assert settings_around(variables, tmp_path) == around | submitted
    assert settings_around({"MASTER": "yarn"}, tmp_path / "none") == {"spark.master": "yarn"}
    assert settings_around({"PYSPARK_SUBMIT_ARGS": "'torn"}, tmp_path / "none") == {}


@pytest.mark.parametrize(
    ("size", "mb"),
    [("2g", 2048), ("800m", 800), ("800", 800), ("1GB", 1024), ("512000k", 500), ("big", None)],
)
def test_sizes_of_memory_are_read_as_spark_writes_them(size: str, mb: int | None) -> None:
    assert megabytes(size) == mb
