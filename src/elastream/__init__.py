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
    from elastream.loop.application import Observed
    from elastream.loop.decision_log import DecisionLog, read_decisions
    from elastream.loop.decisions import Decision
    from elastream.loop.goals.by_hand import ByHand
    from elastream.loop.goals.combined import Combined
    from elastream.loop.goals.goal import Goal, Think, Wanted
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
    from elastream.model.handover import QueryShape, Window
    from elastream.model.migration import SequenceProblem, StepProblem, Target
    from elastream.model.observation import BatchObservation, Executor, TaskId
    from elastream.model.plan import Infeasible, Move, SequencePlan, StepPlan, step_plan
    from elastream.model.replication.problem import Weights
    from elastream.model.transition import MigrationChain, TransitionPlan, TransitionProblem
    from elastream.planners.certificate import Certificate, certify_sequence, certify_step
    from elastream.planners.free_step.planner import free_step
    from elastream.planners.sequence.planner import sequence
    from elastream.planners.single_step import single_step
    from elastream.planners.transition.planner import TransitionPlanner, transition
    from elastream.spark.observe.measure import Measured, measure
    from elastream.spark.sessions.settings import session_settings
    from elastream.traces.values_file import read_values

__all__ = [
    "AlreadyAttachedError",
    "Assignment",
    "Attachment",
    "BatchObservation",
    "ByHand",
    "Certificate",
    "Combined",
    "Decision",
    "DecisionLog",
    "ElastreamError",
    "Executor",
    "Goal",
    "Infeasible",
    "Interval",
    "Measured",
    "MigrationChain",
    "Move",
    "Observed",
    "Policy",
    "ProblemError",
    "QueryRefusedError",
    "QueryShape",
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
    "Think",
    "TransitionPlan",
    "TransitionPlanner",
    "TransitionProblem",
    "UnsupportedSparkError",
    "Utilisation",
    "Wanted",
    "Weights",
    "Window",
    "attach",
    "certify_sequence",
    "certify_step",
    "free_step",
    "measure",
    "read_decisions",
    "read_values",
    "sequence",
    "session_settings",
    "single_step",
    "step_plan",
    "transition",
]

_HOMES = {
    "AlreadyAttachedError": "elastream.model.errors",
    "Assignment": "elastream.model.assignment",
    "Attachment": "elastream.attachment",
    "BatchObservation": "elastream.model.observation",
    "ByHand": "elastream.loop.goals.by_hand",
    "Certificate": "elastream.planners.certificate",
    "Combined": "elastream.loop.goals.combined",
    "Decision": "elastream.loop.decisions",
    "DecisionLog": "elastream.loop.decision_log",
    "ElastreamError": "elastream.model.errors",
    "Executor": "elastream.model.observation",
    "Goal": "elastream.loop.goals.goal",
    "Infeasible": "elastream.model.plan",
    "Interval": "elastream.model.assignment",
    "Measured": "elastream.spark.observe.measure",
    "MigrationChain": "elastream.model.transition",
    "Move": "elastream.model.plan",
    "Observed": "elastream.loop.application",
    "Policy": "elastream.loop.policy",
    "ProblemError": "elastream.model.errors",
    "QueryRefusedError": "elastream.model.errors",
    "QueryShape": "elastream.model.handover",
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
    "Think": "elastream.loop.goals.goal",
    "TransitionPlan": "elastream.model.transition",
    "TransitionPlanner": "elastream.planners.transition.planner",
    "TransitionProblem": "elastream.model.transition",
    "UnsupportedSparkError": "elastream.model.errors",
    "Utilisation": "elastream.loop.goals.utilisation",
    "Wanted": "elastream.loop.goals.goal",
    "Weights": "elastream.model.replication.problem",
    "Window": "elastream.model.handover",
    "attach": "elastream.attachment",
    "certify_sequence": "elastream.planners.certificate",
    "certify_step": "elastream.planners.certificate",
    "free_step": "elastream.planners.free_step.planner",
    "measure": "elastream.spark.observe.measure",
    "read_decisions": "elastream.loop.decision_log",
    "read_values": "elastream.traces.values_file",
    "sequence": "elastream.planners.sequence.planner",
    "session_settings": "elastream.spark.sessions.settings",
    "single_step": "elastream.planners.single_step",
    "step_plan": "elastream.model.plan",
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
