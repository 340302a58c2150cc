"""elastream makes stateful streams on Apache Spark elastic.

It decides how many executors the Structured Streaming queries of an application need and which
state partition lives where, moving provably the least state, and does it in the running queries.
This list is the whole public interface; everything else may change.

A name's module is imported when the name is first used: the package itself takes no time.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from elastream.attachment import Attachment, attach
    from elastream.loop.decision_log import DecisionLog, read_decisions
    from elastream.loop.decisions import Decision
    from elastream.loop.goals.by_hand import ByHand
    from elastream.loop.goals.combined import Combined
    from elastream.loop.goals.replication.goal import Replication
    from elastream.loop.goals.resilient import Resilient
    from elastream.loop.goals.schedule import Schedule
    from elastream.loop.goals.utilisation import Utilisation
    from elastream.loop.policy import Policy
    from elastream.model.assignment import Assignment, Interval
    from elastream.model.errors import (
        AlreadyAttachedError,
        ElastreamError,
        ProblemError,
        QueryRefusedError,
        SparkError,
        StateHeldError,
        UnsupportedSparkError,
    )
    from elastream.model.migration import SequenceProblem, StepProblem, Target
    from elastream.model.observation import Executor, TaskId
    from elastream.model.plan import Infeasible, Move, SequencePlan, StepPlan
    from elastream.model.replication.problem import Weights
    from elastream.model.transition import MigrationChain, TransitionPlan, TransitionProblem
    from elastream.planners.certificate import Certificate, certify_sequence, certify_step
    from elastream.planners.free_step.planner import free_step
    from elastream.planners.sequence.planner import sequence
    from elastream.planners.single_step import single_step
    from elastream.planners.transfer.forecast import Forecast, forecast
    from elastream.planners.transition.planner import TransitionPlanner, transition
    from elastream.spark.observe.measure import Measured, measure
    from elastream.spark.sessions.settings import session_settings
    from elastream.traces.values_file import read_values

__all__ = [
    "AlreadyAttachedError",
    "Assignment",
    "Attachment",
    "ByHand",
    "Certificate",
    "Combined",
    "Decision",
    "DecisionLog",
    "ElastreamError",
    "Executor",
    "Forecast",
    "Infeasible",
    "Interval",
    "Measured",
    "MigrationChain",
    "Move",
    "Policy",
    "ProblemError",
    "QueryRefusedError",
    "Replication",
    "Resilient",
    "Schedule",
    "SequencePlan",
    "SequenceProblem",
    "SparkError",
    "StateHeldError",
    "StepPlan",
    "StepProblem",
    "Target",
    "TaskId",
    "TransitionPlan",
    "TransitionPlanner",
    "TransitionProblem",
    "UnsupportedSparkError",
    "Utilisation",
    "Weights",
    "attach",
    "certify_sequence",
    "certify_step",
    "forecast",
    "free_step",
    "measure",
    "read_decisions",
    "read_values",
    "sequence",
    "session_settings",
    "single_step",
    "transition",
]

_HOMES = {
    "AlreadyAttachedError": "elastream.model.errors",
    "Assignment": "elastream.model.assignment",
    "Attachment": "elastream.attachment",
    "ByHand": "elastream.loop.goals.by_hand",
    "Certificate": "elastream.planners.certificate",
    "Combined": "elastream.loop.goals.combined",
    "Decision": "elastream.loop.decisions",
    "DecisionLog": "elastream.loop.decision_log",
    "ElastreamError": "elastream.model.errors",
    "Executor": "elastream.model.observation",
    "Forecast": "elastream.planners.transfer.forecast",
    "Infeasible": "elastream.model.plan",
    "Interval": "elastream.model.assignment",
    "Measured": "elastream.spark.observe.measure",
    "MigrationChain": "elastream.model.transition",
    "Move": "elastream.model.plan",
    "Policy": "elastream.loop.policy",
    "ProblemError": "elastream.model.errors",
    "QueryRefusedError": "elastream.model.errors",
    "Replication": "elastream.loop.goals.replication.goal",
    "Resilient": "elastream.loop.goals.resilient",
    "Schedule": "elastream.loop.goals.schedule",
    "SequencePlan": "elastream.model.plan",
    "SequenceProblem": "elastream.model.migration",
    "SparkError": "elastream.model.errors",
    "StateHeldError": "elastream.model.errors",
    "StepPlan": "elastream.model.plan",
    "StepProblem": "elastream.model.migration",
    "Target": "elastream.model.migration",
    "TaskId": "elastream.model.observation",
    "TransitionPlan": "elastream.model.transition",
    "TransitionPlanner": "elastream.planners.transition.planner",
    "TransitionProblem": "elastream.model.transition",
    "UnsupportedSparkError": "elastream.model.errors",
    "Utilisation": "elastream.loop.goals.utilisation",
    "Weights": "elastream.model.replication.problem",
    "attach": "elastream.attachment",
    "certify_sequence": "elastream.planners.certificate",
    "certify_step": "elastream.planners.certificate",
    "forecast": "elastream.planners.transfer.forecast",
    "free_step": "elastream.planners.free_step.planner",
    "measure": "elastream.spark.observe.measure",
    "read_decisions": "elastream.loop.decision_log",
    "read_values": "elastream.traces.values_file",
    "sequence": "elastream.planners.sequence.planner",
    "session_settings": "elastream.spark.sessions.settings",
    "single_step": "elastream.planners.single_step",
    "transition": "elastream.planners.transition.planner",
}
"""Of each public name the module that has it."""


if not TYPE_CHECKING:  # else any name at all would be there for a type checker

    def __getattr__(name: str) -> Any:
        if name not in _HOMES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        value = globals()[name] = getattr(import_module(_HOMES[name]), name)
        return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
