"""What a change and the batches before it asked of the object store that checkpoints are in."""

from __future__ import annotations

from dataclasses import dataclass

from elastream_lab.mechanisms.trace import Resize, ResizeFigures, Trace, steady_batches
from elastream_lab.stores.object_store import ObjectStore, Traffic


@dataclass(frozen=True, slots=True)
class StoreFigures:
    """What went between Spark and the store."""

    steady: Traffic
    """From the beginning of the first steady batch to the moment the change was asked for."""
    steady_batches: int
    change: Traffic
    """From then until the query was steady again."""

    def as_json(self) -> dict[str, object]:
        """Return it in the names of the run summaries."""
        peak = max(self.steady.peak_bytes_per_s, self.change.peak_bytes_per_s)
        return {
            "requests_per_batch": round(self.steady.requests / self.steady_batches, 1),
            "bytes_up_per_batch": round(self.steady.bytes_up / self.steady_batches),
            "bytes_down_per_batch": round(self.steady.bytes_down / self.steady_batches),
            "change_requests": self.change.requests,
            "change_bytes_up": self.change.bytes_up,
            "change_bytes_down": self.change.bytes_down,
            "peak_bytes_per_s": round(peak),
        }


def store_figures(
    store: ObjectStore, trace: Trace, change: Resize, figures: ResizeFigures
) -> StoreFigures:
    """Return what a change asked of the store."""
    steady = steady_batches(trace.batches, change.asked_ms)
    settled_ms = change.asked_ms + 1000 * figures.asked_to_settled_s
    return StoreFigures(
        steady=store.traffic(steady[0].began_ms, change.asked_ms),
        steady_batches=len(steady),
        change=store.traffic(change.asked_ms, settled_ms),
    )
