"""Metrics: the counts and the present scene, in the text that Prometheus reads.

Units are seconds, bytes and ratios. A query is labelled by its name, an executor by its id while it
is alive; no label has unbounded values. What is not known has no sample: neither 0 nor NaN.
``docs/reference/metrics.md`` lists them all.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import accumulate
from typing import Any, Final

from prometheus_client import CollectorRegistry
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4, generate_latest
from prometheus_client.openmetrics import exposition as openmetrics
from prometheus_client.registry import Collector
from prometheus_client.utils import floatToGoString

from elastream.core.guards import GUARDS
from elastream.model.checks import Number
from elastream.page.counts import Counted, Counts, Histogram
from elastream.page.metric_view import Samples, View, number_of

_PREFIX: Final = "elastream_"
_OPENMETRICS: Final = "application/openmetrics-text"

_EXECUTOR: Final = ("executor", "host")
_KIND: Final = ("kind",)
_QUERY: Final = ("query",)
_SETTINGS: Final = ("mode", "goal", "planner")

Labels = tuple[str, ...]


def metrics_text(
    counts: Counts, seen: dict[str, Any] | None, accept: str = ""
) -> tuple[bytes, str]:
    """Return the metrics and their content type.

    ``seen`` is the present scene as a whole record, ``None`` while there is none; ``accept`` is the
    header of the request, which gets OpenMetrics where it accepts that.
    """
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Families(counts.now, View.of(seen)))
    if _OPENMETRICS in accept:
        text: bytes = openmetrics.generate_latest(registry)  # type: ignore[no-untyped-call]
        return text, openmetrics.CONTENT_TYPE_LATEST
    return generate_latest(registry), CONTENT_TYPE_PLAIN_0_0_4


class _Families(Collector):
    """All metrics; those of which nothing is known have no sample."""

    def __init__(self, counted: Counted, view: View) -> None:
        self._counted = counted
        self._view = view

    def collect(self) -> Iterator[Metric]:
        """Yield them."""
        counted, view = self._counted, self._view
        yield from _of_loop(view)
        yield from _of_errors(counted)
        yield from _of_executors(counted, view)
        yield from _of_utilisation(counted, view)
        yield from _of_memory(view)
        yield from _of_state(view)
        yield from _of_queries(counted, view)
        yield from _of_changes(counted, view)


def _of_loop(view: View) -> Iterator[Metric]:
    loop = view.loop
    settings = tuple(str(loop.get(name, "")) for name in _SETTINGS)
    phase = (str(loop.get("phase", "")),)
    unknown = loop.get("unknown")
    known = 1 if loop else None
    yield _gauge(
        "loop_info", "Always 1; the labels are the loop's settings.", [(settings, known)], _SETTINGS
    )
    yield _gauge(
        "loop_attached", "1 while the loop is attached, 0 once it has let go.", view.attached
    )
    yield _gauge(
        "loop_phase", "Always 1; the label is what is under way.", [(phase, known)], ("phase",)
    )
    yield _gauge(
        "loop_start_timestamp_seconds",
        "When the loop was attached.",
        view.of_loop("attached_ms", 1000),
    )
    seen_s = None if view.at_ms is None else view.at_ms / 1000
    yield _gauge("loop_seen_timestamp_seconds", "When the loop last showed how it is.", seen_s)
    guards = loop.get("guards")
    active = guards if isinstance(guards, dict) else {}
    yield _gauge(
        "guard_active",
        "1 while the guard holds changes back.",
        [((name,), (1 if name in active else 0) if view.attached else None) for name in GUARDS],
        ("guard",),
    )
    yield _gauge(
        "largest_step_executors",
        "Most executors that one change of a goal adds or gives back.",
        view.of_loop("largest_step"),
    )
    unknowns = len(unknown) if isinstance(unknown, list) else None
    yield _gauge("loop_unknowns", "How many things the loop does not know.", unknowns)


def _of_errors(counted: Counted) -> Iterator[Metric]:
    decisions = [((kind,), number) for kind, number in counted.decisions.items()]
    yield _counter("decisions", "Decisions of each kind.", decisions, _KIND)
    yield _counter("loop_failures", "Times the loop failed and let go.", counted.failures)
    yield _counter(
        "stuck_calls",
        "Calls on the runtime that did not come back in time, and times the monitor fell silent.",
        counted.stuck_calls,
    )
    yield _counter(
        "events_lost",
        "Events of Spark that were lost because there were too many.",
        counted.events_lost,
    )


def _of_executors(counted: Counted, view: View) -> Iterator[Metric]:
    wanted = None
    if view.attached:
        wishes = (number_of(view.change.get("executors")), counted.wanted, view.working)
        wanted = next(wish for wish in wishes if wish is not None)
    yield _gauge("executors", "Executors at work.", view.working)
    yield _gauge("executors_wanted", "Executors that should be at work.", wanted)
    yield _gauge("executors_min", "Fewest executors allowed.", view.of_loop("least"))
    yield _gauge("executors_max", "Most executors allowed.", view.of_loop("most"))
    yield _gauge("spare_executors", "Executors kept ready without state.", view.spares)
    yield _counter("executors_lost", "Executors lost.", counted.executors_lost)
    yield _counter(
        "executor_seconds",
        "What executors have cost since the loop was attached, spares included.",
        view.of_loop("executor_s"),
    )
    yield _counter(
        "spare_executor_seconds",
        "What spares have cost since the loop was attached.",
        view.of_loop("spare_executor_s"),
    )


def _of_utilisation(counted: Counted, view: View) -> Iterator[Metric]:
    for name, what, value in (
        ("utilisation_ratio", "Mean over the executors at work.", view.utilisation),
        ("utilisation_target_ratio", "What the goal aims at.", view.mark("target")),
        ("utilisation_low_ratio", "What a scale-in must leave it below.", view.mark("low")),
        ("utilisation_high_ratio", "Above this it scales out.", view.mark("high")),
        ("demand_ratio", "Work asked for over work done; 1 keeps up.", counted.demand),
        (
            "predicted_busiest_ratio",
            "The busiest executor after the last change, as its plan had it.",
            counted.predicted_busiest,
        ),
        (
            "measured_busiest_ratio",
            "The busiest executor after the last change, as it was.",
            counted.measured_busiest,
        ),
    ):
        yield _gauge(name, what, value)
    yield _gauge(
        "executor_utilisation_ratio",
        "Share of its slots' time that an executor works.",
        view.of_executors("busy"),
        _EXECUTOR,
    )


def _of_memory(view: View) -> Iterator[Metric]:
    yield _gauge(
        "executor_store_memory_bytes",
        "Memory that an executor's state stores use.",
        view.of_executors("store_memory_bytes"),
        _EXECUTOR,
    )
    for name, what, member in (
        ("executor_heap_peak_bytes", "The most that its heap has held.", "heap_peak"),
        ("executor_heap_limit_bytes", "The most that its heap may hold.", "heap_limit"),
        ("executor_process_peak_bytes", "The most that its process has used.", "process_peak"),
        ("executor_memory_limit_bytes", "What its container may use.", "limit"),
    ):
        yield _gauge(name, what, view.of_memory(member), _EXECUTOR)
    warnings = view.loop.get("warnings")
    number = len(warnings) if isinstance(warnings, list) and view.attached else None
    yield _gauge("warnings", "Things that will be trouble unless somebody acts.", number)


def _of_state(view: View) -> Iterator[Metric]:
    partitions: Counter[str] = Counter()
    sizes: dict[str, Number] = {}
    copies: dict[str, Number] = {}
    copied = 0
    for executor, size, copy in view.tasks:
        partitions[executor] += 1
        sizes[executor] = sizes.get(executor, 0) + size
        if copy is not None:
            copied += 1
            copies[copy] = copies.get(copy, 0) + size
    homeless = sum(number for each, number in partitions.items() if each not in view.executors)
    for name, what, held in (
        ("executor_partitions", "Partitions an executor holds.", partitions),
        ("executor_state_bytes", "State an executor holds.", sizes),
        ("executor_standby_bytes", "State of others an executor holds a copy of.", copies),
    ):
        yield _gauge(name, what, view.held(held), _EXECUTOR)
    for name, what, number in (
        ("homeless_partitions", "Partitions whose executor is not alive.", homeless),
        ("standby_partitions", "Partitions a copy of which follows elsewhere.", copied),
        ("standby_bytes", "State a copy of which follows elsewhere.", sum(copies.values())),
    ):
        yield _gauge(name, what, number if view.placed else None)


def _of_queries(counted: Counted, view: View) -> Iterator[Metric]:
    queries = counted.queries.items()
    yield _counter("rows", "Rows worked off.", [((name,), q.rows) for name, q in queries], _QUERY)
    yield _histogram(
        "batch_duration_seconds",
        "How long batches took.",
        [((name,), query.batch_s) for name, query in queries],
        _QUERY,
    )
    yield _counter(
        "moves_asked_again",
        "Moves of partitions that were requested again because they did not hold.",
        [((name,), query.asked_again) for name, query in queries],
        _QUERY,
    )
    yield _counter(
        "moves_refused",
        "Moves of partitions that the runtime did not take.",
        [((name,), query.refused) for name, query in queries],
        _QUERY,
    )
    for name, what, member in (
        (
            "predicted_batch_seconds",
            "A batch after the last change, as its plan had it.",
            "predicted_ms",
        ),
        ("measured_batch_seconds", "A batch after the last change, as it was.", "measured_ms"),
    ):
        lengths = [((query,), _in_s(getattr(counts, member))) for query, counts in queries]
        yield _gauge(name, what, lengths, _QUERY)
    for name, what, samples in (
        ("backlog_rows", "Rows that wait.", view.of_queries("backlog")),
        ("arriving_rows_per_second", "Rows that arrive.", view.of_queries("arrivals_per_s")),
        ("state_bytes", "State of the query.", view.of_queries("state_bytes")),
        ("partitions", "Partitions of the query's state.", view.of_queries("tasks")),
        ("trigger_interval_seconds", "Its trigger.", view.of_queries("trigger_ms", 1000)),
        (
            "realtime_slots",
            "Slots that a batch takes all at once, in Real-time Mode; else 0.",
            view.of_queries("slots"),
        ),
        (
            "realtime_gap_seconds",
            "Of a query in Real-time Mode: the last boundary, until all tasks were launched.",
            view.of_queries("gap_ms", 1000),
        ),
        (
            "realtime_latency_seconds",
            "Of a query in Real-time Mode: from a row's arrival to its result.",
            view.of_queries("latency_ms", 1000),
        ),
    ):
        yield _gauge(name, what, samples, _QUERY)
    yield _gauge(
        "query_idle",
        "1 while no batch runs and no row waits for one.",
        [((name,), 1 if query.get("idle") else 0) for name, query in view.queries.items()],
        _QUERY,
    )


def _of_changes(counted: Counted, view: View) -> Iterator[Metric]:
    yield _gauge(
        "change_under_way_seconds",
        "For how long the change under way has been.",
        [((str(view.change.get("kind", "")),), view.under_way_s)],
        _KIND,
    )
    yield _histogram(
        "change_duration_seconds",
        "How long changes took, from the decision to the end.",
        counted.changes.items(),
        ("kind", "outcome"),
    )
    for name, what, member in (
        ("moved_partitions", "Partitions moved.", "tasks"),
        ("moved_bytes", "State moved.", "state_bytes"),
        ("moved_ahead_partitions", "Of those moved, how many loaded nothing.", "tasks_ahead"),
        ("moved_ahead_bytes", "Of what moved, what came before.", "state_bytes_ahead"),
        ("copied_from_storage_bytes", "Loaded for copies from storage.", "bytes_from_storage"),
        ("copied_from_executors_bytes", "Sent for copies by the owners.", "bytes_from_executors"),
        ("planned_bytes", "State that plans said would move.", "planned_bytes"),
        ("planned_lower_bound_bytes", "What no plan could go below.", "lower_bound_bytes"),
    ):
        samples = [((kind,), getattr(moved, member)) for kind, moved in counted.moves.items()]
        yield _counter(name, what, samples, _KIND)


def _in_s(ms: Number | None) -> Number | None:
    return None if ms is None else ms / 1000


def _gauge(name: str, what: str, samples: Samples | Number | None, labels: Labels = ()) -> Metric:
    return _family(GaugeMetricFamily(_PREFIX + name, what, labels=labels), samples)


def _counter(name: str, what: str, samples: Samples | Number | None, labels: Labels = ()) -> Metric:
    return _family(CounterMetricFamily(_PREFIX + name, what, labels=labels), samples)


def _family(
    family: GaugeMetricFamily | CounterMetricFamily, samples: Samples | Number | None
) -> Metric:
    """Fill a family from samples with labels, or from one value without."""
    if samples is None or isinstance(samples, int | float):
        samples = [((), samples)]
    for values, value in samples:
        if value is not None:
            family.add_metric(_texts(values), value)
    return family


def _histogram(
    name: str, what: str, samples: Iterable[tuple[Labels, Histogram]], labels: Labels
) -> Metric:
    family = HistogramMetricFamily(_PREFIX + name, what, labels=labels)
    for values, spread in samples:
        bounds = [*map(floatToGoString, spread.bounds), "+Inf"]
        buckets = list(zip(bounds, accumulate(spread.counts), strict=True))
        family.add_metric(_texts(values), buckets, spread.total)
    return family


def _texts(values: Labels) -> list[str]:
    """Return the values of labels; half a surrogate pair, which no text may hold, is escaped."""
    return [value.encode("utf-8", "backslashreplace").decode() for value in values]
