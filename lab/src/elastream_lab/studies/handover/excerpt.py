"""Both outputs side by side around the handover, as the paper prints them in figures 4 to 6.

AQSIOS also writes a minus tuple for every result that leaves a window; Spark has none.
"""

from __future__ import annotations

from typing import Final

from elastream_lab.studies.figure import Figure
from elastream_lab.studies.handover.outputs import Output, PaperQuery
from elastream_lab.studies.handover.run import QueryRun

_EACH: Final = 3
"""Results shown on each side of the boundary."""


def excerpt(run: QueryRun) -> Figure:
    """Return the last results of the origin and the first of the target, next to the same alone."""
    own, taken = (
        sorted(each.output for each in written) for written in (run.by_origin, run.by_target)
    )
    alone = sorted(each.output for each in run.alone)
    first = taken[0][0] if taken else None
    before = [output for output in alone if first is None or output[0] < first]  # type: ignore[operator]
    shown = [("origin", each) for each in own[-_EACH:]] + [
        ("target", each) for each in taken[:_EACH]
    ]
    others = [*before[-_EACH:], *alone[len(before) :][:_EACH]]
    others_or_none: list[Output | None] = [*others, *([None] * (len(shown) - len(others)))]
    rows = [
        {
            "with_a_handover": _line(run.query, output),
            "by": side,
            "without": None if other is None else _line(run.query, other),
        }
        for (side, output), other in zip(shown, others_or_none, strict=False)
    ]
    same = run.is_exact and all(row["with_a_handover"] == row["without"] for row in rows)
    end = "the same rows" if same else "OTHER rows"
    return Figure(
        f"002 fig. {run.query.figure}, the outputs",
        f"{run.query.name}, the last rows of the origin and the first of the target; "
        "in brackets milliseconds since the stream began",
        rows,
        None,
        same,
        "The paper: the output with a migration is that without one, the origin's rows followed by "
        f"the target's; here {end}.",
    )


def _line(query: PaperQuery, output: Output) -> str:
    report = dict(zip(query.columns, output, strict=True))
    (time,) = query.times
    rest = ", ".join(str(value) for name, value in report.items() if name != time)
    return f"[{report[time]}] {rest}"
