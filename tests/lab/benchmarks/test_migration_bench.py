"""The migration benchmark around its runs: settings, summary, table, pictures."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from elastream.cli.main import main
from elastream.model.errors import ElastreamError, ProblemError
from elastream_lab.benchmarks.migration.bench import STATES, BenchResult, BenchSettings, state_name
from elastream_lab.benchmarks.migration.figure import FIGURE_MECHANISMS, restart_figures
from elastream_lab.benchmarks.migration.mechanisms import MECHANISMS, live_policy, spares
from elastream_lab.benchmarks.migration.picture import draw_figure, draw_shares
from elastream_lab.cli.bench import migration, table
from elastream_lab.harness.response_time import Spread
from elastream_lab.mechanisms.trace import Phase, Resize, ResizeFigures

BENCH = "elastream_lab.benchmarks.migration.bench.run_benchmark"
CONTRACT = {
    "mechanism", "direction", "exact", "repeat", "steady_batch_ms",
    "steady_worst_batch_ms", "worst_batch_ms",
    "asked_to_settled_s", "response_ms", "added_p99_ms", "longest_gap_ms", "rows_late",
    "preparation", "moving", "state_bytes_moved", "bytes_loaded_in_batches", "partitions_moved",
    "batches_until_balanced",
}  # fmt: skip


def result(
    mechanism: str = "live",
    *,
    repeat: int = 1,
    worst_ms: float = 2300.0,
    balanced: int | None = 2,
    exact: bool = True,
    after: int = 3,
) -> BenchResult:
    figures = ResizeFigures(
        steady_batch_ms=1900.0,
        steady_worst_batch_ms=2200.0,
        worst_batch_ms=worst_ms,
        asked_to_settled_s=21.4,
        steady_again=True,
        steady=Spread(1500, 2100, 2200),
        change=Spread(1600, 2500, 2900),
        after=Spread(1100, 1600, 1700),
        longest_gap_ms=2300.0,
        rows_late=0,
        preparation=Phase(18.0, 2300.0),
        moving=Phase(3.1, None),
        partitions_moved=4,
        state_bytes_moved=178956970,
        bytes_loaded_in_batches=178956970,
        batches_until_balanced=balanced,
    )
    change = Resize(mechanism, 5 - after, after, 0.0, 18_000.0, 40_000.0)
    series = ((-5.0, 1.5), (0.0, 1.6), (21.4, 1.4), (30.0, 1.1))
    return BenchResult(512 << 20, repeat, change, figures, exact, series, ((0.0, 0.0), (20.0, 0.3)))


def test_a_run_is_reported_in_the_names_that_are_agreed() -> None:
    fields = result().as_json()
    assert set(fields) >= CONTRACT
    assert set(fields) - CONTRACT == {"state", "state_bytes", "steady_again"}
    assert (fields["mechanism"], fields["direction"], fields["repeat"]) == ("live", "out", 1)
    assert (fields["added_p99_ms"], fields["worst_batch_ms"]) == (400, 2300)
    assert fields["moving"] == {"seconds": 3.1, "worst_batch_ms": None}
    assert json.loads(json.dumps(fields, allow_nan=False)) == fields
    assert result(balanced=None).as_json()["batches_until_balanced"] is None


def test_the_settings_are_reported_in_the_names_that_are_agreed() -> None:
    settings = BenchSettings(states=(3 << 20, 512 << 20), executors=(4, 6), hot_share=0.5)
    fields = settings.as_json()
    agreed = ("executors", "state_bytes", "hot_share", "work", "store")
    assert [fields[name] for name in agreed] == [[4, 6], 512 << 20, 0.5, "slept", "local"]


def test_a_word_costs_what_keeps_the_fewer_executors_busy() -> None:
    assert BenchSettings(hot_share=0.0).word_us == 300.0
    assert BenchSettings(hot_share=0.0, executors=(4, 6)).word_us == 600.0
    both = BenchSettings(states=(STATES["small"], STATES["large"]))
    assert both.word_us == both.word_us_at(STATES["large"]) < both.word_us_at(STATES["small"])
    assert BenchSettings(work="burnt").word_us < BenchSettings().word_us
    assert BenchSettings(service_us=0.0).word_us == 0.0


def test_states_have_names_or_sizes() -> None:
    assert [state_name(size) for size in (3 << 20, 512 << 20, 64_000_000)] == [
        "small",
        "large",
        "64 MB",
    ]


@pytest.mark.parametrize(
    ("wrong", "field"),
    [
        ({"states": (10,)}, "states"),
        ({"mechanisms": ()}, "mechanisms"),
        ({"executors": (3, 3)}, "executors"),
        ({"executors": (0, 3)}, "executors"),
        ({"hot_share": 1.1}, "hot_share"),
        ({"work": "done"}, "work"),
        ({"repeats": 0}, "repeats"),
        ({"service_us": -1}, "service_us"),
        ({"store": "tape"}, "store"),
        ({"store": "s3", "store_mb_per_s": 0}, "store_mb_per_s"),
        ({"store_mb_per_s": 50.0}, "store_mb_per_s"),
    ],
)
def test_settings_are_checked_when_made(wrong: dict[str, Any], field: str) -> None:
    with pytest.raises(ProblemError) as refused:
        BenchSettings(**wrong)
    assert refused.value.field == field


def test_only_a_mechanism_with_a_spare_needs_room_for_one() -> None:
    assert {name: spares(name) for name in MECHANISMS if spares(name)} == {"live-spare": 1}
    for name, most in (("live", 3), ("live-spare", 4)):
        policy = live_policy(name, least=2, most=3, tau=0.1)
        assert (policy.spares, policy.max_executors) == (spares(name), most)


def test_the_table_has_a_row_for_each_case_with_its_range() -> None:
    console = Console(width=250, record=True)
    runs = [result(worst_ms=2300.0), result("pause"), result(repeat=2, worst_ms=2700.0)]
    console.print(table([*runs, result("stock", balanced=None, exact=False)]))
    shown = console.export_text()
    assert "2.50 (2.30..2.70)" in shown
    assert shown.count(" live ") == shown.count(" pause ") == 1
    assert " never " in shown
    assert " NO " in shown


@pytest.mark.parametrize("draw", [draw_figure, draw_shares])
def test_the_pictures_are_drawn_of_several_repeats(
    draw: Callable[[list[BenchResult], Path], None], tmp_path: Path
) -> None:
    runs = [result(name, repeat=n) for n in (1, 2) for name in ("live", "stock", "live-spare")]
    draw([*runs, result(after=2)], tmp_path / "picture.svg")
    assert "<svg" in (tmp_path / "picture.svg").read_text()


def test_the_summary_is_written_whole_also_where_a_mechanism_failed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def ran(_: BenchSettings, **report: Any) -> None:
        report["done"](result())
        report["failed"]("small state, pause: no batch")

    monkeypatch.setattr(BENCH, ran)
    file = tmp_path / "migration.json"
    assert main(["bench", "migration", "--state", "64M", "--json", str(file)]) == 1
    summary = json.loads(file.read_text())
    assert set(summary) == {"settings", "runs", "error"}
    assert summary["settings"]["state_bytes"] == 64 << 20
    assert [set(run) >= CONTRACT for run in summary["runs"]] == [True]
    assert summary["error"] == "small state, pause: no batch"


def test_a_run_that_breaks_leaves_what_was_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broke(_: BenchSettings, **report: Any) -> None:
        report["done"](result())
        raise ElastreamError("the cluster is gone")

    monkeypatch.setattr(BENCH, broke)
    file = tmp_path / "migration.json"
    assert main(["bench", "migration", "--json", str(file)]) == 2
    summary = json.loads(file.read_text())
    assert (len(summary["runs"]), summary["error"]) == (1, "the cluster is gone")


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (
            ["--state", "64X"],
            "--state: '64X' is not one of small, large, both, nor a size such as 64M",
        ),
        (["--state", "5K"], "--state: '5K' is too small; the least is 1M"),
        (["--executors", "2"], "--executors: '2' must be FEWER,MORE, such as 2,3"),
        (["--executors", "3,2"], "--executors: (3, 2) are not two, fewer first"),
        (["--hot-share", "2"], "--hot-share: 2 is more than all of it, 1"),
        (["--work", "done"], "--work: done is not one of slept, burnt"),
        (["--store-mb-per-s", "50"], "--store-mb-per-s: only the store s3 can be slowed down"),
        (["--store", "s3", "--parts", "no"], "--parts: no has no S3 server; make such a folder"),
        (["--mechanisms", "live-fast"], "--mechanisms: live-fast is not one of stock, live"),
    ],
)
def test_a_wrong_setting_is_reported_in_one_line_before_anything_starts(
    refusing: Any, arguments: list[str], line: str
) -> None:
    assert refusing(migration, BENCH)(*arguments).startswith(line)


def test_a_restart_is_held_against_a_live_change_by_the_rows_of_the_change() -> None:
    settings = BenchSettings(mechanisms=FIGURE_MECHANISMS)
    live = [result(after=2), result(after=3)]
    slow = replace(live[0].figures, change=Spread(9000, 25_000, 26_000))
    restarted = [
        replace(each, change=replace(each.change, mechanism="restart"), figures=slow,
                series=((-5.0, 1.5), (10.0, 20.0)))
        for each in live
    ]  # fmt: skip
    table_, around = restart_figures([*live, *restarted], settings)
    assert not table_.trend_holds, "a factor of ten is not several orders"
    assert "3 to 2: a factor of 10" in table_.says
    assert "adds 0.40 s to that under live, 22.90 s under restart" in table_.says
    assert around.trend_holds
    far = [
        replace(each, figures=replace(slow, change=Spread(1, 900_000, 1e6))) for each in restarted
    ]
    assert restart_figures([*live, *far], settings)[0].trend_holds
    wrong = [replace(each, exact=False) for each in far]
    assert not restart_figures([*live, *wrong], settings)[0].trend_holds
    assert "not measured" in restart_figures(live, settings)[0].says


def test_the_study_runs_live_and_restart_and_writes_both_figures(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def run(
        settings: BenchSettings,
        *,
        say: Callable[[str], None],
        done: Callable[[BenchResult], None],
        failed: Callable[[str], None],
    ) -> None:
        say("starting")
        failed("one run came to nothing")
        for mechanism in settings.mechanisms:
            for after in (3, 2):
                done(result(mechanism, after=after))

    monkeypatch.setattr(BENCH, run)
    json_file, picture = tmp_path / "restart.json", tmp_path / "restart.svg"
    files = ["--json", str(json_file), "--picture", str(picture)]
    assert main(["study", "migration-response", "--figures", "restart", *files]) == 0
    fields = json.loads(json_file.read_text())
    assert [each["figure"] for each in fields] == [
        "000 fig. 15, 001 fig. 11",
        "000 fig. 15, 001 fig. 11 (batches)",
    ]
    assert [row["mechanism"] for row in fields[0]["rows"]] == ["live", "live", "restart", "restart"]
    assert not any(each["trend_holds"] for each in fields), "both are as good"
    assert "<svg" in picture.read_text()
