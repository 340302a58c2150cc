"""Changes and their phases as spans of OpenTelemetry, for teams that trace there.

A change is a trace of its own: a root span from its decision until the last move or the last
release, a child span for each phase, and what was decided meanwhile as events. A root is handed
over when its outcome is logged, with the figures of that; it ends when the change did.

Everything here is made from the records of the loop. OpenTelemetry is imported when a writer is
made for its exporter, never before.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, get_args

from elastream.core.change import ChangeKind
from elastream.core.decision_log import LogEntry
from elastream.core.decisions import Decision
from elastream.core.scenes import Scene, SceneChange
from elastream.extras import expect_installed

if TYPE_CHECKING:
    from opentelemetry.trace import Span, Tracer

SERVICE: Final = "elastream"
"""What the spans are of, unless ``OTEL_SERVICE_NAME`` says otherwise."""
_PREFIX: Final = "elastream."
_BEGINNINGS: Final = frozenset(get_args(ChangeKind))
_QUIET: Final = frozenset({"hold", "advise"})
_FLUSH_MS: Final = 2000
_NS_A_MS: Final = 1_000_000

Attributes = dict[str, str | float | int]


class SpanWriter:
    """Writes what the loop records as spans of a tracer; for one thread."""

    def __init__(self, tracer: Tracer, close: Callable[[], object] = lambda: None) -> None:
        self._tracer = tracer
        self._close = close
        self._root: Span | None = None
        self._phase: tuple[str, Span] | None = None
        self._ended_ms: int | None = None
        """When the change of the root ended, where its outcome is not logged yet."""
        self._now_ms = 0

    def take(self, entry: LogEntry) -> None:
        """Take an entry of the loop, which writes to this as to a log."""
        if isinstance(entry, Decision):
            self._now_ms = max(self._now_ms, entry.at_ms or 0)
            self._take_decision(entry)
        elif isinstance(entry, Scene):
            self._now_ms = max(self._now_ms, entry.at_ms)
            self._take_change(entry.change)

    def close(self) -> None:
        """End what is open, and hand over the rest."""
        self._end_root("let go")
        self._close()

    def _take_decision(self, decision: Decision) -> None:
        if decision.kind in _BEGINNINGS:
            self._begin(decision.kind, {"reason": decision.reason}, decision.figures)
        elif decision.kind in ("done", "abandon") and "seconds" in decision.figures:
            self._conclude(decision)
        elif decision.kind == "detach":
            self._end_root("let go")
        elif self._root is not None and self._ended_ms is None and decision.kind not in _QUIET:
            about = {"reason": decision.reason}
            about |= {} if decision.query is None else {"query": decision.query}
            _, span = self._phase or ("", self._root)
            named = _attributes(about, decision.figures)
            span.add_event(decision.kind, named, timestamp=_ns(self._now_ms))

    def _take_change(self, change: SceneChange | None) -> None:
        if change is None:
            if self._root is not None and self._ended_ms is None:
                self._ended_ms = self._now_ms
            self._end_phase()
            return
        if self._root is None:  # the records begin in the middle of a change
            self._begin(change.kind, {"reason": change.reason}, {})
        assert self._root is not None  # noqa: S101 - it has just begun
        self._root.set_attributes(
            _attributes(
                {},
                {
                    "executors_before": change.before,
                    "executors_wanted": change.executors,
                    "replans": change.replans,
                },
            )
        )
        if self._phase is None or self._phase[0] != change.phase:
            self._end_phase()
            self._phase = change.phase, self._start(change.phase, parent=self._root)

    def _begin(self, kind: str, about: Mapping[str, str], figures: Mapping[str, Any]) -> None:
        self._end_root("unknown")
        self._root = self._start(kind)
        self._root.set_attributes(_attributes({"change": kind, **about}, figures))
        self._ended_ms = None

    def _conclude(self, decision: Decision) -> None:
        if self._root is None:
            return
        from opentelemetry.trace import Status, StatusCode

        is_done = decision.kind == "done"
        self._root.set_attributes(
            _attributes({"outcome_reason": decision.reason}, decision.figures)
        )
        self._root.set_status(
            Status(StatusCode.OK) if is_done else Status(StatusCode.ERROR, decision.reason)
        )
        self._end_root("done" if is_done else "abandoned")

    def _end_root(self, outcome: str) -> None:
        self._end_phase()
        root, self._root = self._root, None
        if root is not None:
            root.set_attributes(_attributes({"outcome": outcome}, {}))
            root.end(_ns(self._now_ms if self._ended_ms is None else self._ended_ms))
        self._ended_ms = None

    def _end_phase(self) -> None:
        phase, self._phase = self._phase, None
        if phase is not None:
            phase[1].end(_ns(self._now_ms))

    def _start(self, name: str, parent: Span | None = None) -> Span:
        from opentelemetry.context import Context
        from opentelemetry.trace import set_span_in_context

        context = Context() if parent is None else set_span_in_context(parent, Context())
        return self._tracer.start_span(name, context, start_time=_ns(self._now_ms))


def otlp_spans(application: str) -> SpanWriter:
    """Return a writer that sends spans over OTLP, as the variables ``OTEL_…`` say.

    Raises ``ElastreamError`` where the extra ``otel`` is not installed.
    """
    expect_installed("opentelemetry")
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk.resources import OTELResourceDetector, Resource
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor

    named = Resource.create({"service.name": SERVICE, f"{_PREFIX}application": application})
    provider = TracerProvider(
        resource=named.merge(OTELResourceDetector().detect()), shutdown_on_exit=False
    )
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))

    def close() -> None:
        with suppress(Exception):  # no collector answers: that does not concern the program
            provider.force_flush(_FLUSH_MS)
        provider.shutdown()

    return SpanWriter(provider.get_tracer("elastream"), close)


def _attributes(about: Mapping[str, str], figures: Mapping[str, Any]) -> Attributes:
    """Return texts and figures by their names; figures of queries have theirs behind a dot."""
    named: Attributes = {f"{_PREFIX}{name}": text for name, text in about.items()}
    for name, value in figures.items():
        if isinstance(value, Mapping):
            named |= {f"{_PREFIX}{name}.{query}": each for query, each in value.items()}
        else:
            named[f"{_PREFIX}{name}"] = value
    return named


def _ns(ms: int) -> int:
    return ms * _NS_A_MS
