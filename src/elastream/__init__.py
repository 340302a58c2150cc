"""elastream makes stateful streams on Apache Spark elastic.

It decides how many executors the Structured Streaming queries of an application need and which
state partition lives where, moving provably the least state, and does it in the running queries.
This list is the whole public interface; everything else may change.

A name's module is imported when the name is first used: the package itself takes no time. So the
list stands here twice, once for type checkers and once for Python; a test holds them equal.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from elastream.attachment import Attachment as Attachment
    from elastream.attachment import attach as attach
    from elastream.loop.application import Observed as Observed
    from elastream.loop.decision_log import DecisionLog as DecisionLog
    from elastream.loop.decision_log import read_decisions as read_decisions
    from elastream.loop.decisions import Decision as Decision
    from elastream.loop.goals.by_hand import ByHand as ByHand
    from elastream.loop.goals.combined import Combined as Combined
    from elastream.loop.goals.goal import Goal as Goal
    from elastream.loop.goals.goal import Think as Think
    from elastream.loop.goals.goal import Wanted as Wanted
    from elastream.loop.goals.replication.goal import Replication as Replication
    from elastream.loop.goals.resilient import Resilient as Resilient
    from elastream.loop.goals.schedule import Schedule as Schedule
    from elastream.loop.goals.utilisation import Utilisation as Utilisation
    from elastream.loop.policy import Policy as Policy
    from elastream.model.ahead import FreeAheadPlan as FreeAheadPlan
    from elastream.model.ahead import FreeAheadProblem as FreeAheadProblem
    from elastream.model.ahead import Future as Future
    from elastream.model.ahead import PastWork as PastWork
    from elastream.model.assignment import Assignment as Assignment
    from elastream.model.assignment import Interval as Interval
    from elastream.model.errors import AlreadyAttachedError as AlreadyAttachedError
    from elastream.model.errors import ElastreamError as ElastreamError
    from elastream.model.errors import ProblemError as ProblemError
    from elastream.model.errors import QueryRefusedError as QueryRefusedError
    from elastream.model.errors import SparkError as SparkError
    from elastream.model.errors import StateHeldError as StateHeldError
    from elastream.model.errors import UnsupportedSparkError as UnsupportedSparkError
    from elastream.model.handover import QueryShape as QueryShape
    from elastream.model.handover import Start as Start
    from elastream.model.handover import Window as Window
    from elastream.model.migration import SequenceProblem as SequenceProblem
    from elastream.model.migration import StepProblem as StepProblem
    from elastream.model.migration import Target as Target
    from elastream.model.observation import BatchObservation as BatchObservation
    from elastream.model.observation import Executor as Executor
    from elastream.model.observation import TaskId as TaskId
    from elastream.model.plan import Infeasible as Infeasible
    from elastream.model.plan import Move as Move
    from elastream.model.plan import SequencePlan as SequencePlan
    from elastream.model.plan import StepPlan as StepPlan
    from elastream.model.plan import step_plan as step_plan
    from elastream.model.replication.problem import Weights as Weights
    from elastream.model.resilience.problem import ResilientProblem as ResilientProblem
    from elastream.model.transition import MigrationChain as MigrationChain
    from elastream.model.transition import TransitionPlan as TransitionPlan
    from elastream.model.transition import TransitionProblem as TransitionProblem
    from elastream.planners.certificate import Certificate as Certificate
    from elastream.planners.certificate import certify_sequence as certify_sequence
    from elastream.planners.certificate import certify_step as certify_step
    from elastream.planners.free_ahead.planner import FreeAheadPlanner as FreeAheadPlanner
    from elastream.planners.free_ahead.planner import free_ahead as free_ahead
    from elastream.planners.free_step.planner import free_step as free_step
    from elastream.planners.handover import WindowOperator as WindowOperator
    from elastream.planners.resilient.planner import resilient as resilient
    from elastream.planners.sequence.planner import sequence as sequence
    from elastream.planners.single_step import single_step as single_step
    from elastream.planners.transfer.forecast import Forecast as Forecast
    from elastream.planners.transfer.forecast import forecast as forecast
    from elastream.planners.transfer.mini_migrations import mini_migrations as mini_migrations
    from elastream.planners.transfer.transfer_phases import transfer_phases as transfer_phases
    from elastream.planners.transition.planner import TransitionPlanner as TransitionPlanner
    from elastream.planners.transition.planner import transition as transition
    from elastream.spark.handover.row_windows import RowWindowJoin as RowWindowJoin
    from elastream.spark.handover.row_windows import RowWindows as RowWindows
    from elastream.spark.handover.sinks import Writer as Writer
    from elastream.spark.handover.sinks import delta_sink as delta_sink
    from elastream.spark.handover.sinks import files_sink as files_sink
    from elastream.spark.handover.sinks import kafka_sink as kafka_sink
    from elastream.spark.handover.sources import files_since as files_since
    from elastream.spark.handover.sources import kafka_start as kafka_start
    from elastream.spark.handover.windowed import WindowedQuery as WindowedQuery
    from elastream.spark.observe.measure import Measured as Measured
    from elastream.spark.observe.measure import measure as measure
    from elastream.spark.sessions.settings import session_settings as session_settings
    from elastream.spark.steer.graceful_stop import stop_gracefully as stop_gracefully
    from elastream.spark.steer.placed import placed as placed
    from elastream.traces.values_file import read_values as read_values

_MODULES = {
    "elastream.attachment": ("Attachment", "attach"),
    "elastream.loop.application": ("Observed",),
    "elastream.loop.decision_log": ("DecisionLog", "read_decisions"),
    "elastream.loop.decisions": ("Decision",),
    "elastream.loop.goals.by_hand": ("ByHand",),
    "elastream.loop.goals.combined": ("Combined",),
    "elastream.loop.goals.goal": ("Goal", "Think", "Wanted"),
    "elastream.loop.goals.replication.goal": ("Replication",),
    "elastream.loop.goals.resilient": ("Resilient",),
    "elastream.loop.goals.schedule": ("Schedule",),
    "elastream.loop.goals.utilisation": ("Utilisation",),
    "elastream.loop.policy": ("Policy",),
    "elastream.model.assignment": ("Assignment", "Interval"),
    "elastream.model.errors": (
        "AlreadyAttachedError",
        "ElastreamError",
        "ProblemError",
        "QueryRefusedError",
        "SparkError",
        "StateHeldError",
        "UnsupportedSparkError",
    ),
    "elastream.model.ahead": ("FreeAheadPlan", "FreeAheadProblem", "Future", "PastWork"),
    "elastream.model.handover": ("QueryShape", "Start", "Window"),
    "elastream.model.migration": ("SequenceProblem", "StepProblem", "Target"),
    "elastream.model.observation": ("BatchObservation", "Executor", "TaskId"),
    "elastream.model.plan": ("Infeasible", "Move", "SequencePlan", "StepPlan", "step_plan"),
    "elastream.model.replication.problem": ("Weights",),
    "elastream.model.resilience.problem": ("ResilientProblem",),
    "elastream.model.transition": ("MigrationChain", "TransitionPlan", "TransitionProblem"),
    "elastream.planners.certificate": ("Certificate", "certify_sequence", "certify_step"),
    "elastream.planners.free_ahead.planner": ("FreeAheadPlanner", "free_ahead"),
    "elastream.planners.free_step.planner": ("free_step",),
    "elastream.planners.handover": ("WindowOperator",),
    "elastream.planners.resilient.planner": ("resilient",),
    "elastream.planners.sequence.planner": ("sequence",),
    "elastream.planners.single_step": ("single_step",),
    "elastream.planners.transfer.forecast": ("Forecast", "forecast"),
    "elastream.planners.transfer.mini_migrations": ("mini_migrations",),
    "elastream.planners.transfer.transfer_phases": ("transfer_phases",),
    "elastream.planners.transition.planner": ("TransitionPlanner", "transition"),
    "elastream.spark.handover.row_windows": ("RowWindowJoin", "RowWindows"),
    "elastream.spark.handover.sinks": ("Writer", "delta_sink", "files_sink", "kafka_sink"),
    "elastream.spark.handover.sources": ("files_since", "kafka_start"),
    "elastream.spark.handover.windowed": ("WindowedQuery",),
    "elastream.spark.observe.measure": ("Measured", "measure"),
    "elastream.spark.sessions.settings": ("session_settings",),
    "elastream.spark.steer.graceful_stop": ("stop_gracefully",),
    "elastream.spark.steer.placed": ("placed",),
    "elastream.traces.values_file": ("read_values",),
}
"""Of each module that has public names, which."""

_HOMES = {name: module for module, names in _MODULES.items() for name in names}

__all__ = sorted(_HOMES)  # type checkers read the imports above


if not TYPE_CHECKING:  # else any name at all would be there for a type checker

    def __getattr__(name: str) -> Any:
        if name not in _HOMES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        value = globals()[name] = getattr(import_module(_HOMES[name]), name)
        return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
