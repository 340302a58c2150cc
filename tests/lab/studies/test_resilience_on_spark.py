from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.resilience.planner.problems import random_space

from elastream.model.errors import ProblemError, SparkError
from elastream.model.observation import BatchObservation, TaskId, TaskObservation
from elastream_lab.applications.traffic.made_packets import MadeTraffic, make_packets
from elastream_lab.studies.machine import QuietHost
from elastream_lab.studies.resilience.batch_figures import batch_figures
from elastream_lab.studies.resilience.level_traffic import LEAD_S, Levelled, Source
from elastream_lab.studies.resilience.on_spark import (
    earlier_replays,
    replayed_figures,
    replayed_so_far,
)
from elastream_lab.studies.resilience.replays import (
    KNOWN,
    SUBSTREAMS,
    Replayed,
    SparkLatency,
    placement,
    quietest,
)


def batch(
    finished_ms: int, duration_ms: float, *, rows: int = 5, **run_ms: float
) -> BatchObservation:
    tasks = tuple(
        TaskObservation(TaskId("q", 0, number), executor, ms, rows, 0, 0)
        for number, (executor, ms) in enumerate(run_ms.items())
    )
    return BatchObservation("q", "run", 0, duration_ms, rows, None, finished_ms, None, tasks)


def parsing(seen: BatchObservation, **run_ms: float) -> BatchObservation:
    return replace(seen, outside_ms=run_ms)


def test_the_worst_utilisation_is_of_the_busiest_executor_in_the_replay_alone() -> None:
    seen = [
        batch(900, 500, a=9000),
        parsing(batch(1500, 400, a=100, b=300), a=600, idle=50),
        batch(3000, 800, a=200, b=500),
        batch(2500, 50, rows=0, a=1000),
    ]
    found = batch_figures(seen, 1000, came_in_ms=1600, executors=["a", "b", "idle"])
    assert found.placed_utilisation == pytest.approx(800 / 1600)
    assert found.worst_utilisation == pytest.approx(900 / 1600), "with what has no state"
    assert found.durations_ms == [400, 800]


def test_a_replay_without_batches_is_an_error() -> None:
    with pytest.raises(SparkError, match="no batch of the replay"):
        batch_figures([batch(900, 500, a=1)], 1000, came_in_ms=1600, executors=["a"])


def replayed(method: str, repeat: int, level: float, used: float, mean_ms: float) -> Replayed:
    return Replayed(method, repeat, level, used, 0.4, 900, mean_ms, 2 * mean_ms, 3 * mean_ms)


LEVELS = (1.0, 4.0)


def at_levels(rod: float, llf: float, rod_ms: float = 900.0) -> list[Replayed]:
    """What two bursts showed: at level 1 no one fails, at level 4 as given."""
    by_method = (("llf", llf, 1500.0), ("rod", rod, rod_ms), ("refined", 0.1, 100.0))
    return [
        replayed(method, repeat, level, used if level > 1 else used / 4, ms + 200 * repeat)
        for method, used, ms in by_method
        for repeat in range(2)
        for level in LEVELS
    ]


STUDY = SparkLatency(methods=("rod", "llf", "refined"), levels=LEVELS)


@pytest.mark.parametrize(
    ("rod", "llf", "holds"),
    [(0.9, 0.95, False), (0.9, 1.2, True), (1.1, 1.2, False)],
    ids=["none fails", "the rival fails", "all fail"],
)
def test_the_trend_needs_rod_to_survive_where_others_fail(
    rod: float, llf: float, holds: bool
) -> None:
    summary, _ = replayed_figures(at_levels(rod, llf), STUDY)
    assert summary.trend_holds is holds
    failed = {(row["level"], row["method"]): row["failed"] for row in summary.rows}
    assert failed[1.0, "llf"] == 0
    assert failed[4.0, "llf"] == (2 if llf > 1 else 0)
    assert ("ROD alone survives at 4." in summary.says) is holds


def test_a_study_that_is_cut_short_reports_the_bursts_that_all_placements_had() -> None:
    found = at_levels(0.9, 1.2)
    cut = [one for one in found if (one.method, one.repeat, one.level) != ("llf", 1, 4.0)]
    summary, each = replayed_so_far(cut, STUDY)
    assert "of 1 bursts" in summary.says
    assert len(each.rows) == len(cut), "all of them, to go on from"
    (alone,) = replayed_so_far(cut[:1], STUDY)
    assert not alone.trend_holds
    assert replayed_so_far([], STUDY) == ()
    assert replayed_so_far(found, STUDY) == replayed_figures(found, STUDY)


def written(path: Path, found: Sequence[Replayed], study: SparkLatency) -> Path:
    figures = [figure.as_json("latency") for figure in replayed_so_far(found, study)]
    path.write_text(json.dumps(figures))
    return path


def test_a_study_goes_on_from_what_an_earlier_run_wrote(tmp_path: Path) -> None:
    found = at_levels(0.9, 1.2)
    first = written(tmp_path / "first.json", found[:5], STUDY)
    second = written(tmp_path / "second.json", found[3:], STUDY)
    known = earlier_replays([first, second], STUDY)
    assert sorted(known, key=str) == sorted(found, key=str)
    more = replace(STUDY, repeats=3)
    assert len(earlier_replays([first], more)) == 5, "made bursts do not depend on how many"


def test_a_replay_that_the_host_disturbed_is_not_known(tmp_path: Path) -> None:
    quiet, spoilt = at_levels(0.9, 1.2)[:2]
    path = written(tmp_path / "first.json", [quiet, replace(spoilt, stolen=0.06)], STUDY)
    assert earlier_replays([path], STUDY) == [quiet]


@pytest.mark.parametrize(
    ("other", "why"),
    [
        ({"seed": 1}, "was run otherwise"),
        ({"levels": (1.0, 3.0)}, "was run otherwise"),
        ({"work": "burnt"}, "was run otherwise"),
        ({"methods": ("rod", "llf")}, "has refined, which"),
    ],
    ids=str,
)
def test_what_was_run_otherwise_is_refused(tmp_path: Path, other: dict[str, Any], why: str) -> None:
    study = replace(STUDY, seed=11)
    path = written(tmp_path / "first.json", at_levels(0.9, 1.2), study)
    assert earlier_replays([path], study)
    with pytest.raises(ProblemError, match=f"first.json: {why}"):
        earlier_replays([path], replace(study, **other))


@pytest.mark.parametrize(
    ("text", "why"),
    [("", "cannot be read"), ("[]", "has no replays"), ("rows", "has a row without 'method'")],
)
def test_a_file_that_has_no_replays_is_reported(tmp_path: Path, text: str, why: str) -> None:
    path = written(tmp_path / "first.json", at_levels(0.9, 1.2)[:1], STUDY)
    if text == "rows":
        text = path.read_text().replace('"method"', '"planner"')
    path.write_text(text)
    with pytest.raises(ProblemError, match=f"first.json: {why}"):
        earlier_replays([path], STUDY)


def test_only_levels_that_the_host_disturbed_are_replayed_again() -> None:
    kept = {1.0: [0.0], 2.0: [0.4, 0.2, 0.3], 4.0: [0.1, 0.01]}
    asked: list[tuple[float, ...]] = []

    def replay(levels: tuple[float, ...]) -> Iterator[Replayed]:
        asked.append(levels)
        for level in levels:
            one = replayed("rod", 0, level, len(asked), 900)
            yield replace(one, stolen=kept[level].pop(0))

    host = QuietHost(lambda _: None, tries=9, probe=lambda: 0.0)
    tries = quietest(replay, (1.0, 2.0, 4.0), host)
    first = next(tries)
    assert len(asked) == 1, "what was not disturbed is there at once"
    best = [first, *tries]
    assert asked == [(1.0, 2.0, 4.0), (2.0, 4.0), (2.0,)]
    assert [(one.level, one.stolen, one.worst_utilisation) for one in best] == [
        (1.0, 0.0, 1),
        (4.0, 0.01, 2),
        (2.0, 0.2, 2),
    ]
    assert list(quietest(replay, (), host)) == [], "all is known"


@pytest.mark.parametrize(("rod_ms", "holds"), [(900.0, True), (1600.0, False)])
def test_the_figure_shows_means_and_spread_and_whether_rod_is_lowest(
    rod_ms: float, holds: bool
) -> None:
    summary, each = replayed_figures(at_levels(0.9, 1.2, rod_ms), STUDY)
    assert summary.trend_holds is holds
    rows = {(row["level"], row["method"]): row for row in summary.rows}
    llf = rows[4.0, "llf"]
    assert llf["mean_response_ms"] == 1600
    assert (llf["response_least"], llf["response_most"]) == (1500, 1700)
    assert llf["worst_response_ms"] == 4800
    assert len(each.rows) == 12
    assert summary.curves is not None
    assert {summary.curves.x, *summary.curves.y} <= set(summary.rows[0])
    json.dumps([figure.as_json("latency") for figure in (summary, each)], allow_nan=False)


@pytest.mark.parametrize("method", [name for name in KNOWN if name != "stock"])
def test_every_method_places_all_pairs(method: str) -> None:
    space = random_space(SUBSTREAMS, 4, 3, 1)
    seen = np.random.default_rng(0).uniform(0.1, 0.3, size=(6, SUBSTREAMS))
    assert len(placement(method, space, seen) or ()) == len(space.shares)


@pytest.mark.parametrize(
    "wrong",
    [
        {"repeats": 0},
        {"replay_s": 4.0},
        {"methods": ("rod", "best")},
        {"methods": ("llf", "stock")},
        {"levels": ()},
        {"levels": (0.5, 1.0)},
        {"levels": (2.0, 1.0)},
        {"executors": 1},
        {"work": "dreamt"},
    ],
    ids=str,
)
def test_wrong_settings_are_refused_by_name(wrong: dict[str, Any]) -> None:
    with pytest.raises(ProblemError) as refused:
        SparkLatency(**wrong)
    assert refused.value.field in wrong


def source(*, of_a_log: bool) -> Source:
    log = make_packets(MadeTraffic(seed=7, span_s=300, packets_a_second=60)) if of_a_log else None
    return Source(SUBSTREAMS, 20.0, (1.0, 2.0, 4.0), repeats=2, seed=3, log=log)


def times(bursts: Levelled, level: int, substream: int = 0) -> list[int]:
    first, last = bursts.rows(level)[substream]
    due = bursts.recordings[substream].due_ms[first:last]
    return [int(ms - 1000 * bursts.begins_s(level)) for ms in due]


@pytest.mark.parametrize("of_a_log", [False, True], ids=["made", "of a log"])
def test_a_level_has_the_packets_of_the_one_below_at_the_same_times_and_more(
    tmp_path: Path, of_a_log: bool
) -> None:
    bursts = source(of_a_log=of_a_log).bursts(0, tmp_path / "bursts")
    low, middle, high = (times(bursts, level) for level in range(3))
    assert Counter(low) <= Counter(middle) <= Counter(high)
    assert len(low) < len(middle) < len(high)
    assert all(-1 <= ms <= 20_000 for ms in high)
    packets = sum(last - first for first, last in bursts.rows(2))
    assert packets == pytest.approx(4 * 20.0 * 20, rel=0.5)


@pytest.mark.parametrize("of_a_log", [False, True], ids=["made", "of a log"])
def test_some_levels_alone_have_the_packets_they_have_among_all(
    tmp_path: Path, of_a_log: bool
) -> None:
    drawn_from = source(of_a_log=of_a_log)
    every = drawn_from.bursts(1, tmp_path / "every")
    some = drawn_from.bursts(1, tmp_path / "some", (2.0, 4.0))
    assert some.levels == (2.0, 4.0)
    for substream in range(SUBSTREAMS):
        assert times(some, 0, substream) == times(every, 1, substream)
        assert times(some, 1, substream) == times(every, 2, substream)
        assert some.rows(0)[substream][0] == every.rows(0)[substream][0], "the same lead"


def test_event_times_go_on_from_level_to_level(tmp_path: Path) -> None:
    bursts = source(of_a_log=False).bursts(1, tmp_path / "bursts")
    for recording in bursts.recordings:
        parts = list(recording.slices(0, recording.rows))
        at = [moment for part in parts for moment in part.column("time").to_pylist()]
        assert at == sorted(at)
        assert (at[-1] - at[0]).total_seconds() == pytest.approx(LEAD_S + 3 * 20, abs=3)


def test_the_trial_and_the_repeats_see_other_packets(tmp_path: Path) -> None:
    of_a_log = source(of_a_log=True)
    seen = []
    for name in ("trial", "first", "second"):
        folder = tmp_path / name
        levelled = (
            of_a_log.trial(folder) if name == "trial" else of_a_log.bursts(name == "second", folder)
        )
        part = next(iter(levelled.recordings[0].slices(0, levelled.recordings[0].rows)))
        seen.append(part.column("time").to_pylist()[0])
    assert len(set(seen)) == 3
    assert seen == sorted(seen), "one part of the log after the other"


def test_a_log_with_few_packets_makes_each_dearer() -> None:
    log = make_packets(MadeTraffic(seed=7, span_s=300, packets_a_second=5))
    scarce, plenty = SparkLatency(log=log), SparkLatency()
    assert scarce.source.packets_a_second < plenty.source.packets_a_second
    assert scarce.service_us > plenty.service_us
