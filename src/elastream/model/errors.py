"""The tree of exceptions.

::

    ElastreamError
    ├── AlreadyAttachedError        the application has a loop already, with another policy
    ├── GivenUpError                what was asked for is no longer wanted
    ├── ProblemError                a problem or a setting is wrong; names the field
    └── SparkError                  Spark cannot do, or was kept from doing, what was asked
        ├── UnsupportedSparkError   this version, mode or machine lacks what elastream needs
        ├── QueryRefusedError       the query is stopped, or keeps no state
        ├── QueryStoppedError       a query was stopped for a change and stays stopped
        └── StateHeldError          an executor was not released: it still holds state

An infeasible problem is no exception: planners return :class:`~elastream.model.plan.Infeasible`.
"""

from __future__ import annotations


class ElastreamError(Exception):
    """Any error that elastream raises on purpose; its text is one line for a person."""


class AlreadyAttachedError(ElastreamError):
    """The application has a loop already; two would work against each other."""


class GivenUpError(ElastreamError):
    """What was asked for is no longer wanted, and was not carried out."""


class ProblemError(ElastreamError):
    """A problem that no planner can read: which field is wrong, and why.

    ``field`` is the path of the value as a reader would write it, such as ``work[3]``.
    """

    def __init__(self, field: str, why: str) -> None:
        super().__init__(f"{field}: {why}" if field else why)
        self.field = field
        self.why = why


class SparkError(ElastreamError):
    """Spark cannot do, or was kept from doing, what was asked."""


class UnsupportedSparkError(SparkError):
    """The Spark version, mode or machine lacks what elastream needs; says what is missing."""


class QueryRefusedError(SparkError):
    """The query cannot be made elastic: it is stopped, or it keeps no state."""


class QueryStoppedError(SparkError):
    """A query was stopped for a change, was not started again, and stays stopped."""


class StateHeldError(SparkError):
    """An executor was not released, because a query's state is still on it."""
