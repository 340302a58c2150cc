"""Changes and their phases as spans, with OpenTelemetry's own SDK and its exporter in memory."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import pytest
from tests.page.runs import begun

from elastream import Decision, ElastreamError, Policy
from elastream.page.spans import SpanWriter
from elastream.testing import SimulatedLoop

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import ReadableSpan
else:
    ReadableSpan = Any

pytest.importorskip("opentelemetry.sdk")


@pytest.fixture
def kept() -> Iterator[tuple[SpanWriter, Any]]:
    """A writer, and where its spans end up."""
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import SimpleSpanProcessor
    from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

    exporter, provider = InMemorySpanExporter(), TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    yield SpanWriter(provider.get_tracer("test")), exporter
    provider.shutdown()


def run(writer: SpanWriter, policy: Policy | None = None) -> SimulatedLoop:
    cluster, loop = begun(policy=policy)
    loop.add_log(writer.take)
    with loop:
        cluster.advance(90)
    return loop


def roots(spans: tuple[ReadableSpan, ...]) -> list[ReadableSpan]:
    return [span for span in spans if span.parent is None]


def test_every_change_is_a_trace_with_its_figures(kept: tuple[SpanWriter, Any]) -> None:
    writer, exporter = kept
    loop = run(writer)
    found = roots(exporter.get_finished_spans())
    begun_changes = loop.of("scale-out", "scale-in", "rebalance", "move")
    assert [span.name for span in found] == [change.kind for change in begun_changes]
    assert len({span.context.trace_id for span in found}) == len(found) > 0
    for span, change in zip(found, begun_changes, strict=True):
        assert span.start_time == 1_000_000 * (change.at_ms or 0)
        assert span.attributes["elastream.reason"] == change.reason
    for span, done in zip(found, loop.of("done"), strict=True):
        assert span.attributes["elastream.outcome"] == "done"
        assert span.attributes["elastream.tasks_moved"] == done.figures["tasks_moved"] > 0
        name, took = "elastream.measured_batch_ms.orders", done.figures["measured_batch_ms"]
        assert span.attributes[name] == took["orders"]
        assert span.status.is_ok


def test_phases_follow_each_other_within_their_change(kept: tuple[SpanWriter, Any]) -> None:
    writer, exporter = kept
    run(writer)
    spans = exporter.get_finished_spans()
    root = roots(spans)[0]
    phases = [span for span in spans if span.parent and span.parent.span_id == root.context.span_id]
    names = [phase.name for phase in phases]
    assert names[0] == "growing"
    assert {"warming", "planning", "moving"} <= set(names)
    assert phases[0].start_time == root.start_time
    assert phases[-1].end_time == root.end_time
    assert all(one.end_time == following.start_time for one, following in pairwise(phases))


def test_what_is_decided_meanwhile_is_an_event_of_its_phase(kept: tuple[SpanWriter, Any]) -> None:
    writer, exporter = kept
    loop = run(writer)
    events = [event for span in exporter.get_finished_spans() for event in span.events]
    assert {"plan", "migrate"} <= {event.name for event in events}
    plan = next(event for event in events if event.name == "plan")
    assert plan.attributes["elastream.reason"] == loop.of("plan")[0].reason
    assert "hold" not in {event.name for event in events}


def test_an_abandoned_change_is_an_error_with_its_reason(kept: tuple[SpanWriter, Any]) -> None:
    writer, exporter = kept
    cluster, loop = begun()
    loop.add_log(writer.take)
    with loop:
        loop.run_until("scale-out")
        loop.pause()
        cluster.advance(1)
    (span,) = roots(exporter.get_finished_spans())
    assert span.attributes["elastream.outcome"] == "abandoned"
    assert not span.status.is_ok
    assert span.status.description == loop.of("abandon")[0].reason


def test_what_is_open_when_the_loop_lets_go_ends_then(kept: tuple[SpanWriter, Any]) -> None:
    writer, exporter = kept
    cluster, loop = begun()
    loop.add_log(writer.take)
    with loop:
        loop.run_until("scale-out")
    writer.close()
    (span,) = roots(exporter.get_finished_spans())
    assert span.attributes["elastream.outcome"] in ("abandoned", "let go")
    assert cluster.now_ms >= span.end_time / 1_000_000 >= span.start_time / 1_000_000


def test_a_decision_without_a_change_makes_no_span(kept: tuple[SpanWriter, Any]) -> None:
    writer, exporter = kept
    for kind in ("attach", "hold", "done", "abandon", "learn", "detach"):
        writer.take(Decision(1, None, kind, "so", 1))
    writer.close()
    assert exporter.get_finished_spans() == ()


def test_the_extra_is_named_where_it_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    from elastream import extras
    from elastream.page.spans import otlp_spans

    monkeypatch.setattr(extras, "find_spec", lambda _: None)
    with pytest.raises(ElastreamError, match=r"pip install \"elastream\[otel\]\""):
        otlp_spans("an application")
