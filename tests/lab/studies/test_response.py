"""Delays around migrations: the planners, the costs, the simulated part and the verdicts."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from elastream.cli.main import main
from elastream.foresight.chain import ChainSettings, migration_chain
from elastream.model.errors import ProblemError
from elastream.model.migration import Target
from elastream.model.observation import BatchObservation, TaskId, TaskObservation
from elastream_lab.studies.migration_cost.load import Load
from elastream_lab.studies.picture import draw_figures
from elastream_lab.studies.response.costs import Costs, costs_of
from elastream_lab.studies.response.days import Days, made_days, traced_days
from elastream_lab.studies.response.figures import RAW, window_figures
from elastream_lab.studies.response.gamma import GAMMAS
from elastream_lab.studies.response.live import LiveCase, _quietest
from elastream_lab.studies.response.planning import (
    PLANNERS,
    Planning,
    aware_planner,
    step_problem,
)
from elastream_lab.studies.response.posts import user_posts
from elastream_lab.studies.response.settings import ResponseStudy
from elastream_lab.studies.response.study import (
    Known,
    known_figures,
    live_figures,
    read_known,
    simulated_figures,
    waits_by_gamma,
)
from elastream_lab.studies.response.turns import Case, Measured

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SMALL = ResponseStudy(
    applications=("words",),
    windows=(100, 200),
    seconds=8.0,
    repeats=1,
    nodes=(2, 4),
    tasks=8,
    migrations=3,
    tau=0.5,
)
COSTS = Costs(
    application="words",
    window=100,
    nodes=3.0,
    posts_a_second=40.0,
    post_ms=20.0,
    overhead_ms=200.0,
    load_ms=50.0,
    load_ms_per_mib=400.0,
    state_bytes=3 << 20,
    moves=9,
)
KNOWN = Known(costs=[COSTS, replace(COSTS, window=200, post_ms=35.0)])


def days_of(application: str) -> Days:
    return made_days(SMALL, application)


@pytest.mark.parametrize(
    ("wrong", "field"),
    [
        ({"applications": ("taxi",)}, "applications"),
        ({"windows": ()}, "windows"),
        ({"windows": (150,)}, "windows"),
        ({"planners": ("best",)}, "planners"),
        ({"sizes": (2,)}, "sizes"),
        ({"sizes": (2, 2, 3)}, "sizes"),
        ({"seconds": 1.0}, "seconds"),
        ({"nodes": (4, 4)}, "nodes"),
        ({"tasks": 8}, "tasks"),
        ({"gamma": 1.0}, "gamma"),
    ],
)
def test_what_cannot_be_compared_is_refused(wrong: dict[str, Any], field: str) -> None:
    with pytest.raises(ProblemError) as refused:
        ResponseStudy(**wrong)
    assert refused.value.field == field


@pytest.mark.parametrize("name", PLANNERS)
def test_every_planner_goes_on_from_where_it_begins(name: str) -> None:
    work, state, sizes = [3.0, 1, 2, 4, 1, 2], [10, 5, 8, 7, 2, 4], (2, 4, 3)
    chain = migration_chain(sizes, ChainSettings(gamma=0.8))
    planning = Planning(name, 0.5, seed=3, aware=aware_planner(work, state, 0.5, chain))
    here = planning.start(step_problem(work, state, [0] * 6, 4, Target(2, 0.5)))
    for place, size in enumerate(sizes[1:], 1):
        at = here.assignment.nodes_of_tasks
        problem = step_problem(work, state, at, 4, Target(size, 0.5))
        again = planning.plan(problem, sizes[place + 1 :])
        assert len(set(again.assignment.nodes_of_tasks)) <= size
        if name in PLANNERS[:4]:
            assert again.max_load <= again.limit * (1 + 1e-9)
        here = again


def observed(
    batch: int, places: Sequence[str], rows: int = 10, came: Sequence[int] = ()
) -> BatchObservation:
    """A batch of tasks of 1 and 2 MiB, and of an operator that does little."""
    tasks = [
        TaskObservation(
            TaskId("q", 1, task), node, 40.0 + (30.0 + 20.0 * (task + 1)) * (task in came),
            rows, rows, (task + 1) << 20,
        )
        for task, node in enumerate(places)
    ]  # fmt: skip
    tasks.append(TaskObservation(TaskId("q", 0, 0), "a", 1.0, 1, 1, 100))
    busiest = max(sum(t.run_ms for t in tasks[:-1] if t.executor == node) for node in places)
    return BatchObservation(
        query="q", run="r", batch=batch, duration_ms=busiest + 300.0, rows=rows, backlog=None,
        finished_at_ms=1000 * batch, interval_ms=None, tasks=tuple(tasks), outside_ms={},
    )  # fmt: skip


def test_costs_are_those_of_the_batches_that_were_seen() -> None:
    seen = [
        observed(0, "aaab"),
        observed(1, "aaab"),
        observed(2, "abbb", came=(1, 2)),
        observed(3, "abbb"),
        observed(4, "bbba", came=(0, 3)),
        observed(5, "bbba", rows=0),
        observed(6, "bbba"),
    ]
    costs = costs_of("words", 100, 2.0, 10.0, seen)
    assert costs.post_ms == pytest.approx(4 * 40 / 10)
    assert costs.overhead_ms == pytest.approx(300)
    assert costs.load_ms == pytest.approx(30)
    assert costs.load_ms_per_mib == pytest.approx(20)
    assert (costs.state_bytes, costs.moves) == (10 << 20, 4)
    assert Costs.of(json.loads(json.dumps(costs.as_json()))) == costs


def test_the_papers_sizes_are_simulated_with_measured_costs(tmp_path: Path) -> None:
    (figure,) = simulated_figures(SMALL, KNOWN, days_of, lambda _: None)
    fields = figure.as_json("migration-response")
    json.dumps(fields, allow_nan=False)
    assert [row["planner"] for row in figure.rows] == [*PLANNERS, *PLANNERS]
    assert all(row["migrations"] == 3 and row["mean_ms"] > 0 for row in figure.rows)
    assert "the delay grows with the window under every planner: yes" in figure.says
    even, single = (
        next(row for row in figure.rows if row["planner"] == name)
        for name in ("even-split", "single-step")
    )
    assert even["state_moved_percent"] > single["state_moved_percent"]
    (waits,) = waits_by_gamma(SMALL, KNOWN, days_of)
    assert [row["gamma"] for row in waits.rows] == list(GAMMAS)
    draw_figures((figure, waits), tmp_path / "waits.svg")
    assert "<svg" in (tmp_path / "waits.svg").read_text()


def test_a_month_of_the_users_takes_the_place_of_made_days() -> None:
    counts = (3, 3, 4, 5, 5, 4, 3, 5)
    work = np.arange(16, dtype=np.int64).reshape(1, 16).repeat(len(counts), axis=0)
    month = Load(work, work, counts, range(3, 6), work[0])
    days = traced_days(SMALL, month, month)
    assert len(days.loads.work) == SMALL.tasks
    assert days.loads.work[0] == pytest.approx((0 + 8) / 120)
    assert (days.run(1, 3), days.run(2, 3)) == ((3, 4, 5, 4), (3, 4, 5, 4))
    assert (days.run(1, 2), days.run(2, 2)) == ((3, 4, 5), (5, 4, 3))
    assert days.chain(0.5).sizes == (3, 4, 5)
    with pytest.raises(ProblemError, match="another range"):
        traced_days(SMALL, month, replace(month, sizes=range(3, 7)))


def migration(planner: str, window: int, mean_ms: float, repeat: int = 1) -> Measured:
    return Measured(
        application="patterns", window=window, repeat=repeat, planner=planner, before=2, after=4,
        seconds=8.0, mean_ms=mean_ms, p99_ms=2 * mean_ms, added_p99_ms=10.0, settled_s=3.0,
        state_moved_percent=12.0, tasks_moved=4, imbalance=0.2,
    )  # fmt: skip


def papers(transition_ms: float = 900.0) -> list[Measured]:
    """What the papers show: transition below single-step, both far below hashing."""
    delays = {
        "single-step": 1000.0,
        "transition": transition_ms,
        "consistent-hashing": 2000.0,
        "even-split": 5000.0,
    }
    return [
        migration(name, window, more * delay, repeat)
        for window, more in ((200, 1.0), (400, 1.5))
        for name, delay in delays.items()
        for repeat in (1, 2)
    ]


def test_the_verdict_is_the_papers_and_can_fail() -> None:
    (figure,) = window_figures(papers(), "live", "made")
    assert figure.trend_holds
    assert "runs of one planner by up to 0%" in figure.says
    (figure,) = window_figures(papers(transition_ms=1100.0), "live", "made")
    assert not figure.trend_holds
    assert "transition waits less than single-step: NO" in figure.says
    (alone,) = window_figures([migration("single-step", 200, 1.0)], "live", "made")
    assert not alone.trend_holds, "nothing was tried"


def test_runs_are_joined_by_their_files(tmp_path: Path) -> None:
    known = Known(measured=papers(), costs=[COSTS])
    figures = known_figures(SMALL, known)
    assert [figure.figure for figure in figures][1] == RAW
    path = tmp_path / "run.json"
    path.write_text(json.dumps([figure.as_json("migration-response") for figure in figures]))
    again = read_known([path, path])
    assert [each.repeat for each in again.measured] == [*(1, 2) * 8, *(3, 4) * 8]
    assert again.of("words", 100) == COSTS
    assert again.of("words", 200) is None
    for text in ("{", "3", "[]", '[{"figure": "each migration on executors", "rows": [1]}]'):
        path.write_text(text)
        with pytest.raises(ProblemError):
            read_known([path])


def test_what_a_query_has_shown_is_known_though_the_next_one_is_cut_short(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ran: list[Case] = []

    def run(_study: object, _spark: object, case: Case, *_: object) -> LiveCase:
        ran.append(case)
        if len(ran) == 3:
            raise KeyboardInterrupt
        shown = migration("single-step", case.window, 1.0, case.repeat)
        return LiveCase((shown,), COSTS, wrong_ticks=0)

    def session() -> AbstractContextManager[Any]:
        return nullcontext()

    monkeypatch.setattr("elastream_lab.studies.response.live.run_live", run)
    known = Known(measured=[migration("single-step", 100, 1.0)])
    study = replace(SMALL, applications=("patterns",), windows=(100,), repeats=3)
    with pytest.raises(KeyboardInterrupt):
        live_figures(study, known, session, lambda _: None)
    assert [each.repeat for each in known.measured] == [1, 2, 3], "numbered on"
    assert len(known.costs) == 2
    assert known_figures(study, known)[0].rows[0]["migrations"] == 3


@pytest.mark.parametrize(
    ("kept", "turns", "counts"),
    [((0.01,), 1, 0.01), ((0.3, 0.02), 2, 0.02), ((0.3, 0.1, 0.2), 3, 0.1)],
    ids=["quiet", "once more", "never quiet"],
)
def test_a_planner_has_its_turn_again_where_the_host_kept_much_of_the_time(
    monkeypatch: pytest.MonkeyPatch, kept: tuple[float, ...], turns: int, counts: float
) -> None:
    shares, said = iter(kept), list[str]()

    def turned(*_: object) -> Iterator[SimpleNamespace]:
        yield SimpleNamespace(stolen=0.0)
        yield SimpleNamespace(stolen=next(shares))

    monkeypatch.setattr("elastream_lab.studies.response.live.turn", turned)
    stage: Any = None
    found = _quietest(SMALL, stage, Planning("single-step", 0.4), said.append)
    assert [each.stolen for each in found] == [0.0, counts]
    assert said.count("single-step") == turns
    assert sum("the host kept" in line for line in said) == sum(share > 0.05 for share in kept)


def test_migrations_that_the_host_disturbed_are_reported() -> None:
    disturbed = replace(migration("single-step", 100, 1.0), load=1.0, stolen=0.2)
    quiet = replace(disturbed, stolen=0.01)
    reports = known_figures(SMALL, Known(measured=[disturbed, quiet, quiet], costs=[COSTS]))
    assert "around 1 of 3 migrations the host kept more than 5%" in reports[0].data
    assert "the host" not in known_figures(SMALL, Known(measured=[quiet], costs=[COSTS]))[0].data


def test_posts_of_a_file_are_replayed_in_turn_and_described(tmp_path: Path) -> None:
    file = tmp_path / "posts.csv"
    file.write_text("when,what\n2020-01-02,second\n2020-01-01,first\n2020-01-03,third\n")
    with user_posts(file, time="when", text="what") as posts:
        assert posts is not None
        texts = posts.recording.texts_in_turn(5).to_pylist()
        assert texts == ["first", "second", "third", "first", "second"]
        report = posts.description
    assert report == "3 posts of posts.csv, in turn, at a steady rate"
    with user_posts(None, time=None, text=None) as none:
        assert none is None
    known = Known(measured=papers(), costs=[COSTS], posts=["made posts", report])
    figures = known_figures(SMALL, known)
    assert figures[0].data.startswith(f"made posts; {report}, rows due in the ")
    path = tmp_path / "run.json"
    path.write_text(json.dumps([figure.as_json("migration-response") for figure in figures]))
    assert read_known([path]).posts == [f"made posts; {report}"]


def test_posts_are_for_executors(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    file = tmp_path / "posts.csv"
    file.write_text("when,what\n2020-01-01,first\n")
    asked = ["--figures", "restart", "--input", str(file), "--time", "when", "--text", "what"]
    assert main(["study", "migration-response", *asked]) == 2
    assert "--input: is for live, which --figures does not name" in capsys.readouterr().err


@pytest.mark.slow
def test_planners_take_turns_on_a_running_query(spark: SparkSession, tmp_path: Path) -> None:
    from elastream_lab.studies.response.live import run_live

    study = ResponseStudy(
        windows=(100,),
        planners=("single-step", "transition", "consistent-hashing"),
        sizes=(1, 2, 1),
        seconds=4.0,
        partitions=3,
    )
    said: list[str] = []
    file = tmp_path / "posts.csv"
    words = ["the sea the sky", "a ship at sea", "sky over the sea", "land"]
    lines = [f"{number},{words[number % 4]}" for number in range(1000)]
    file.write_text("\n".join(["when,what", *lines]))
    with user_posts(file, time="when", text="what") as posts:
        assert posts is not None
        done = run_live(study, spark, Case("words", 100, 1), said.append, posts.recording)
    assert done.wrong_ticks == 0
    assert {each.planner for each in done.measured} <= set(study.planners)
    assert len(done.measured) + sum("left out" in line for line in said) > 0
    assert done.costs.moves > 0
    assert done.costs.post_ms > 0
