"""``elastream plan handover FILE``: where a windowed query stops and its successor starts."""

from __future__ import annotations

from elastream.cli.plan.printing import ProblemFile, print_plan, refuse
from elastream.cli.problem_files import Fields, expect_fields, object_fields, read_fields
from elastream.handover.model import HandoverProblem, Window
from elastream.model.checks import abbreviate
from elastream.model.errors import ProblemError
from elastream.model.plan import Infeasible


def handover(file: ProblemFile) -> None:
    """Where a windowed query stops and its successor starts.

    Fields: window ({"kind": "time" or "rows", "length": 4, "slide": 2}), last_window (start of the
    most recent window produced), first_tuples (timestamp of the successor's first tuple, for each
    input); for rows also arrivals (timestamps at the window from last_window on, for each input).
    A query, where it is given, is in the plan too.
    """
    from elastream.handover.point import migration_point

    data = read_fields(file)
    query = data.pop("query", None)
    if query is not None and (not isinstance(query, str) or not query):
        raise ProblemError("query", f"{abbreviate(query)} is not the name of a query")
    outcome = migration_point(handover_problem(data))
    if isinstance(outcome, Infeasible):
        refuse(outcome)
    fields: dict[str, object] = {} if query is None else {"query": query}
    fields["status"] = outcome.status
    fields["migration_timestamp"] = outcome.migration_timestamp
    if outcome.discards is None:
        fields["activation_timestamp"] = outcome.activation_timestamp
    else:
        fields["discard"] = outcome.discard
        if len(outcome.discards) > 1:
            fields["discards"] = outcome.discards
    print_plan(fields)


def handover_problem(data: Fields) -> HandoverProblem:
    """Return the checked problem of a file's members."""
    required = ("window", "last_window", "first_tuples")
    expect_fields("", data, required=required, optional=("arrivals",))
    return HandoverProblem.of(
        window_of("window", data["window"]),
        data["last_window"],
        data["first_tuples"],
        data.get("arrivals"),
    )


def window_of(field: str, value: object) -> Window:
    """Return the validated window of a file's object."""
    data = object_fields(field, value, required=("kind", "length", "slide"))
    return Window.of(data["kind"], data["length"], data["slide"], field=field)
