"""The failure benchmark around its runs: settings, ways, summary, table, picture."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console
from tests.lab.benchmarks.failure.test_loss import CONTRACT, result

from elastream.cli.main import main
from elastream.model.errors import ElastreamError, ProblemError
from elastream_lab.benchmarks.failure.picture import draw_losses
from elastream_lab.benchmarks.failure.settings import WAYS, FailureSettings
from elastream_lab.benchmarks.failure.ways import cluster_of, policy_of
from elastream_lab.cli.bench_failure import failure, table

BENCH = "elastream_lab.benchmarks.failure.bench.run_failures"


@pytest.mark.parametrize(
    ("wrong", "field"),
    [
        ({"states": (10,)}, "states"),
        ({"ways": ()}, "ways"),
        ({"ways": ("magic",)}, "ways"),
        ({"executors": 1}, "executors"),
        ({"hot_share": 1.1}, "hot_share"),
        ({"repeats": 0}, "repeats"),
        ({"trigger_s": 0}, "trigger_s"),
    ],
)
def test_settings_are_checked_when_made(wrong: dict[str, Any], field: str) -> None:
    with pytest.raises(ProblemError) as refused:
        FailureSettings(**wrong)
    assert refused.value.field == field


def test_the_stream_is_one_that_those_who_are_left_can_bear() -> None:
    settings = FailureSettings(executors=4)
    assert settings.stream.executors == (3, 4)
    fields = settings.as_json()
    assert (fields["executors"], fields["state_bytes"], fields["partitions"]) == (4, 64 << 20, 16)


def test_only_spark_as_it_is_has_a_session_that_cannot_be_steered() -> None:
    settings = FailureSettings(executors=4)
    clusters = {way: cluster_of(way, settings) for way in WAYS}
    assert [clusters[way].steered for way in WAYS] == [False, True, True]
    assert {(each.executors, each.max_executors) for each in clusters.values()} == {(4, 4)}
    assert policy_of("stock", settings) is None


def test_the_loop_keeps_as_many_executors_as_there_are() -> None:
    policy = policy_of("elastream", FailureSettings(executors=4))
    assert policy is not None
    assert (policy.min_executors, policy.max_executors, policy.spares) == (4, 4, 0)


def test_standbys_are_all_that_tells_the_two_policies_apart() -> None:
    settings = FailureSettings()
    plain, standing = (policy_of(way, settings) for way in ("elastream", "standbys"))
    assert plain is not None
    assert standing is not None
    assert (plain.standbys, standing.standbys) == (0, 1)
    assert replace(plain, standbys=1) == standing


def test_the_table_has_a_row_for_each_case() -> None:
    console = Console(width=250, record=True)
    runs = [result(), result(repeat=2), result(way="stock", exact=False)]
    console.print(table(runs))
    shown = console.export_text()
    assert shown.count(" elastream ") == shown.count(" stock ") == 1
    assert " NO " in shown
    assert " 5.50 " in shown


def test_the_picture_is_drawn_of_several_repeats(tmp_path: Path) -> None:
    runs = [result(way=way, repeat=repeat) for way in WAYS for repeat in (1, 2)]
    draw_losses([*runs, result(state_bytes=512 << 20)], tmp_path / "picture.svg")
    assert "<svg" in (tmp_path / "picture.svg").read_text()


def test_the_summary_is_written_whole_also_where_a_way_failed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def ran(_: FailureSettings, **report: Any) -> None:
        report["done"](result())
        report["failed"]("64 MB state, stock: no batch")

    monkeypatch.setattr(BENCH, ran)
    file = tmp_path / "failure.json"
    assert main(["bench", "failure", "--state", "32M", "--json", str(file)]) == 1
    summary = json.loads(file.read_text())
    assert set(summary) == {"settings", "runs", "error"}
    assert summary["settings"]["state_bytes"] == 32 << 20
    assert [set(run) >= CONTRACT for run in summary["runs"]] == [True]
    assert summary["error"] == "64 MB state, stock: no batch"


def test_a_run_that_breaks_leaves_what_was_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broke(_: FailureSettings, **report: Any) -> None:
        report["done"](result())
        raise ElastreamError("the cluster is gone")

    monkeypatch.setattr(BENCH, broke)
    file = tmp_path / "failure.json"
    assert main(["bench", "failure", "--json", str(file)]) == 2
    summary = json.loads(file.read_text())
    assert (len(summary["runs"]), summary["error"]) == (1, "the cluster is gone")


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (
            ["--state", "64X"],
            "--state: '64X' is not one of small, large, both, nor a size such as 64M",
        ),
        (["--executors", "1"], "--executors: 1 is too small; the least is 2"),
        (["--hot-share", "2"], "--hot-share: 2 is more than all of it, 1"),
        (["--ways", "magic"], "--ways: magic is not one of stock, elastream, standbys"),
        (["--ways", ","], "--ways: name at least one of stock, elastream, standbys"),
        (["--repeats", "0"], "--repeats: 0 is too small; the least is 1"),
    ],
)
def test_a_wrong_setting_is_reported_in_one_line_before_anything_starts(
    refusing: Any, arguments: list[str], line: str
) -> None:
    assert refusing(failure, BENCH)(*arguments).startswith(line)
