"""``elastream taxi``: the reference application of paper 004, from its options to its exit code."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from elastream.atomic_io import replacing
from elastream.cli.exits import BROKEN
from elastream.model.errors import ProblemError

if TYPE_CHECKING:
    from rich.console import Console

    from elastream.core.policy import Policy
    from elastream_lab.applications.taxi.run import TaxiRun


_INPUT = typer.Option(
    "--input", help="A file in the 17 columns of DEBS 2015; may be given several times."
)
_SINCE = typer.Option(
    "--since", help='With --input: only trips that ended from then on, such as "2013-01-01 08:00".'
)
_UNTIL = typer.Option("--until", help="With --input: only trips that ended before then.")
_SEED = typer.Option("--seed", help="Of the made trips.")
_MINUTES = typer.Option("--minutes", help="Minutes of made trips.")
_TRIPS = typer.Option("--trips-a-minute", help="Made trips a minute, in the mean.")
_SWING = typer.Option("--swing", help="How many times as many come in the middle as at the ends.")
_SECONDS = typer.Option("--seconds", help="How long the replay takes.")
_SERVICE = typer.Option(
    "--service-us", help="Microseconds that a trip costs, slept where it is counted; 0 for none."
)
_OUT = typer.Option("--out", help="Write the ranking of every minute as JSON lines.")
_JSON = typer.Option("--json", help="Write the summary as JSON.")
_LOG = typer.Option(
    "--log", help="With --replicate: write every decision as JSON lines; elastream log reads them."
)
_REPLICATE = typer.Option(
    "--replicate", help="Keep solving how many replicas each operator needs, and where."
)
_ACT = typer.Option("--act", help="With --replicate: carry the plans out; else they are advice.")
_RESPONSE = typer.Option(
    "--response-ms",
    help="With --replicate: how long a trip may take in the mean, its wait for the batch included.",
)
_PERIOD = typer.Option("--period-s", help="With --replicate: how often it is solved.")
_LINE_EVERY_S = 10.0
_QUIET = ("hold", "wait")


def taxi(
    inputs: Annotated[list[Path] | None, _INPUT] = None,
    since: Annotated[str | None, _SINCE] = None,
    until: Annotated[str | None, _UNTIL] = None,
    seed: Annotated[int, _SEED] = 1,
    minutes: Annotated[float, _MINUTES] = 60.0,
    trips_a_minute: Annotated[float, _TRIPS] = 60.0,
    swing: Annotated[float, _SWING] = 4.0,
    replay_s: Annotated[float, _SECONDS] = 60.0,
    service_us: Annotated[float, _SERVICE] = 0.0,
    executors: Annotated[int, typer.Option("--executors")] = 3,
    partitions: Annotated[int, typer.Option("--partitions")] = 6,
    trigger_s: Annotated[float, typer.Option("--trigger-s")] = 1.0,
    replicate: Annotated[bool, _REPLICATE] = False,
    act: Annotated[bool, _ACT] = False,
    response_ms: Annotated[float, _RESPONSE] = 3000.0,
    period_s: Annotated[float, _PERIOD] = 60.0,
    out: Annotated[Path | None, _OUT] = None,
    json_file: Annotated[Path | None, _JSON] = None,
    log: Annotated[Path | None, _LOG] = None,
) -> None:
    r"""Rank the most frequent taxi routes of the last 30 minutes.

    Query 1 of the DEBS 2015 challenge, on its files or on made trips, replayed in --seconds. Every
    minute's ranking is compared with a plain computation of the same trips; the exit code is 0
    only where all are equal.

    With --replicate the number of executors follows the load: the second example begins with more
    than it needs, gives some back, and takes them again for the rush in the middle.

      elastream taxi --input sorted_data.csv --seconds 120 --out rankings.jsonl
      elastream taxi --replicate --act --service-us 15000 --trips-a-minute 180 --seconds 180 \
        --partitions 3 --trigger-s 3 --response-ms 6000 --period-s 10
    """
    from rich.console import Console

    from elastream.cli.quiet import ended_like_by_ctrl_c, java_kept_quiet
    from elastream.cli.run_summaries import checked_target, failure_written
    from elastream.core.decision_log import DecisionLog
    from elastream_lab.applications.taxi.recorded_trips import TimeSlice
    from elastream_lab.applications.taxi.run import TaxiSettings, cluster_of, prepared, run
    from elastream_lab.harness.job_session import job_session

    settings = TaxiSettings(
        input=tuple(inputs or ()),
        part=TimeSlice(since, until),
        seed=seed,
        minutes=minutes,
        trips_a_minute=trips_a_minute,
        swing=swing,
        replay_s=replay_s,
        executors=executors,
        partitions=partitions,
        service_us=service_us,
        trigger_s=trigger_s,
    )
    policy = _policy(replicate, act, response_ms, period_s, executors)
    checked_target("--out", out)
    checked_target("--json", json_file)
    decision_log = None if log is None else DecisionLog(log)
    console = Console()
    began = time.monotonic()
    with (
        prepared(settings) as made,
        failure_written(json_file, lambda why: _summary(made, time.monotonic() - began, why)),
        ended_like_by_ctrl_c(),
        java_kept_quiet(),
        _watched(console) as show,
    ):
        made.doing = f"starting Spark, {executors} executors"
        show(made)
        with job_session(cluster_of(settings)) as spark:
            append = None if decision_log is None else decision_log.append
            run(made, spark, show=show, policy=policy, log=append)
    _tell(made, console, time.monotonic() - began, out, json_file)
    if not made.exact:
        raise typer.Exit(BROKEN)


def _policy(
    replicate: bool,
    act: bool,
    response_ms: float,
    period_s: float,
    executors: int,
) -> Policy | None:
    from elastream.core.policy import Policy, Timeouts
    from elastream.replication.goal.goal import Replication

    if not replicate:
        return None
    try:
        goal = Replication(
            response_ms=response_ms,
            period_s=period_s,
            cooldown_s=min(15.0, period_s),
        )
    except ProblemError as error:
        raise ProblemError(error.field.removeprefix("goal."), error.why) from None
    return Policy(
        max_executors=executors,
        goal=goal,
        cooldown_s=min(15.0, period_s),
        timeouts=Timeouts(smoothing_s=max(2.0, period_s / 6)),
        advise_only=not act,
    )


@contextmanager
def _watched(console: Console) -> Iterator[Callable[[TaxiRun], None]]:
    """Give the function that shows a run: a line that changes on a terminal, lines elsewhere."""
    if console.is_terminal:
        with console.status("starting") as status:
            yield _Lines(console, lambda run: status.update(_line(run)))
    else:
        yield _Lines(console, None)


class _Lines:
    """Prints each decision that changes something, and now and then how far the run is."""

    def __init__(self, console: Console, update: Callable[[TaxiRun], None] | None) -> None:
        self._console = console
        self._update = update
        self._shown = 0
        self._doing = ""
        self._last_s = 0.0

    def __call__(self, run: TaxiRun) -> None:
        for decision in run.decisions[self._shown :]:
            self._shown += 1
            if decision.kind not in _QUIET:
                self._console.print(f"  {decision.kind}: {decision.reason}", highlight=False)
        if self._update is not None:
            self._update(run)
        elif run.doing != self._doing or time.monotonic() - self._last_s > _LINE_EVERY_S:
            self._doing, self._last_s = run.doing, time.monotonic()
            self._console.print(_line(run), highlight=False)


def _line(run: TaxiRun) -> str:
    total = run.trips.recording.rows
    return (
        f"{run.doing}: {run.rows_done:,} of {total:,} trips, {len(run.rankings):,} minutes reported"
    )


def _tell(
    run: TaxiRun, console: Console, seconds: float, out: Path | None, json_file: Path | None
) -> None:
    from elastream.cli.run_summaries import write_summary

    error = (
        None if run.exact else f"{run.wrong_minutes or 0} minutes differ from the plain computation"
    )
    bad = f", {run.trips.bad_lines:,} lines were no trips" if run.trips.bad_lines else ""
    console.print(
        f"{len(run.trips.trips):,} trips in {seconds:.0f} s{bad}: {len(run.rankings):,} minutes "
        f"ranked, {error or 'all exact against a plain computation'}",
        highlight=False,
    )
    report = _summary(run, seconds, error)
    if report["response_ms"]:
        times = ", ".join(f"{name} {ms / 1000:.2f} s" for name, ms in report["response_ms"].items())
        console.print(f"response time of a trip: {times}", highlight=False)
    if run.settings.service_us:
        slept = f"every trip slept {run.settings.service_us:g} µs where it was counted"
        console.print(f"{slept}, as a stand-in for work", style="dim", highlight=False)
    for operator, names in (report["replicas"] or {}).items():
        console.print(f"operator {operator} ended on executors {', '.join(names)}", highlight=False)
    write_summary(json_file, report)
    if out is not None:
        _write_rankings(run, out)
        console.print(f"written: {out}", highlight=False)


def _summary(run: TaxiRun, seconds: float, error: str | None) -> dict[str, Any]:
    from elastream_lab.harness.response_time import responses, spread

    response = None
    if run.start_ms is not None:
        due_ms = run.trips.recording.due_ms
        found = spread(responses(due_ms, run.start_ms, run.batches, first=run.lead_rows))
        response = None if found is None else found.as_json()
    last = run.samples[-1].replicas if run.samples else None
    fields: dict[str, Any] = {
        "trips": len(run.trips.trips),
        "bad_lines": run.trips.bad_lines,
        "minutes": len(run.rankings),
        "exact": run.exact,
        "seconds": round(seconds, 1),
        "response_ms": response,
        "reconfigurations": len(run.changes),
        "replicas": None if last is None else {str(op): list(names) for op, names in last.items()},
    }
    return fields if error is None else {**fields, "error": error}


def _write_rankings(run: TaxiRun, out: Path) -> None:
    """Write a line a minute, in the order of time."""
    with replacing(out) as temporary, temporary.open("w") as file:
        for minute, best in sorted(run.rankings.items()):
            entries = [
                {"route": one.route, "trips": one.trips, "latest": _time(one.latest_s)}
                for one in best
            ]
            file.write(json.dumps({"minute": _time(minute), "best": entries}) + "\n")


def _time(seconds: int) -> str:
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%d %H:%M:%S}"
