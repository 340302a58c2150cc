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
    from elastream.core.application import Observed as Observed
    from elastream.core.decision_log import DecisionLog as DecisionLog
    from elastream.core.decision_log import read_decisions as read_decisions
    from elastream.core.decisions import Decision as Decision
    from elastream.core.goal import Goal as Goal
    from elastream.core.goal import Think as Think
    from elastream.core.goal import Wanted as Wanted
    from elastream.core.policy import Policy as Policy
    from elastream.foresight.ahead.planner import FreeAheadPlanner as FreeAheadPlanner
    from elastream.foresight.ahead.planner import free_ahead as free_ahead
    from elastream.foresight.ahead.problem import FreeAheadPlan as FreeAheadPlan
    from elastream.foresight.ahead.problem import FreeAheadProblem as FreeAheadProblem
    from elastream.foresight.ahead.problem import Future as Future
    from elastream.foresight.ahead.problem import PastWork as PastWork
    from elastream.foresight.mtm.planner import TransitionPlanner as TransitionPlanner
    from elastream.foresight.mtm.planner import transition as transition
    from elastream.foresight.mtm.problem import MigrationChain as MigrationChain
    from elastream.foresight.mtm.problem import TransitionPlan as TransitionPlan
    from elastream.foresight.mtm.problem import TransitionProblem as TransitionProblem
    from elastream.foresight.oms.planner import sequence as sequence
    from elastream.foresight.values_file import read_values as read_values
    from elastream.goals.by_hand import ByHand as ByHand
    from elastream.goals.combined import Combined as Combined
    from elastream.goals.schedule import Schedule as Schedule
    from elastream.goals.utilisation import Utilisation as Utilisation
    from elastream.handover.model import QueryShape as QueryShape
    from elastream.handover.model import Start as Start
    from elastream.handover.model import Window as Window
    from elastream.handover.point import WindowOperator as WindowOperator
    from elastream.handover.spark.row_windows import RowWindowJoin as RowWindowJoin
    from elastream.handover.spark.row_windows import RowWindows as RowWindows
    from elastream.handover.spark.sinks import Writer as Writer
    from elastream.handover.spark.sinks import delta_sink as delta_sink
    from elastream.handover.spark.sinks import files_sink as files_sink
    from elastream.handover.spark.sinks import kafka_sink as kafka_sink
    from elastream.handover.spark.sources import files_since as files_since
    from elastream.handover.spark.sources import kafka_start as kafka_start
    from elastream.handover.spark.windowed import WindowedQuery as WindowedQuery
    from elastream.model.assignment import Assignment as Assignment
    from elastream.model.assignment import Interval as Interval
    from elastream.model.errors import AlreadyAttachedError as AlreadyAttachedError
    from elastream.model.errors import ElastreamError as ElastreamError
    from elastream.model.errors import ProblemError as ProblemError
    from elastream.model.errors import QueryRefusedError as QueryRefusedError
    from elastream.model.errors import SparkError as SparkError
    from elastream.model.errors import StateHeldError as StateHeldError
    from elastream.model.errors import UnsupportedSparkError as UnsupportedSparkError
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
    from elastream.placement.certificate import Certificate as Certificate
    from elastream.placement.certificate import certify_sequence as certify_sequence
    from elastream.placement.certificate import certify_step as certify_step
    from elastream.placement.free_step.planner import free_step as free_step
    from elastream.placement.ssm.single_step import single_step as single_step
    from elastream.placement.transfer.forecast import Forecast as Forecast
    from elastream.placement.transfer.forecast import forecast as forecast
    from elastream.placement.transfer.mini_migrations import mini_migrations as mini_migrations
    from elastream.placement.transfer.transfer_phases import transfer_phases as transfer_phases
    from elastream.replication.goal.goal import Replication as Replication
    from elastream.replication.model.problem import Weights as Weights
    from elastream.resilience.goal import Resilient as Resilient
    from elastream.resilience.model.problem import ResilientProblem as ResilientProblem
    from elastream.resilience.planner.planner import resilient as resilient
    from elastream.resilience.spark.measure import Measured as Measured
    from elastream.resilience.spark.measure import measure as measure
    from elastream.spark.sessions.settings import session_settings as session_settings
    from elastream.spark.steer.graceful_stop import stop_gracefully as stop_gracefully
    from elastream.spark.steer.placed import placed as placed

_MODULES = {
    "elastream.attachment": ("Attachment", "attach"),
    "elastream.core.application": ("Observed",),
    "elastream.core.decision_log": ("DecisionLog", "read_decisions"),
    "elastream.core.decisions": ("Decision",),
    "elastream.goals.by_hand": ("ByHand",),
    "elastream.goals.combined": ("Combined",),
    "elastream.core.goal": ("Goal", "Think", "Wanted"),
    "elastream.replication.goal.goal": ("Replication",),
    "elastream.resilience.goal": ("Resilient",),
    "elastream.goals.schedule": ("Schedule",),
    "elastream.goals.utilisation": ("Utilisation",),
    "elastream.core.policy": ("Policy",),
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
    "elastream.foresight.ahead.problem": (
        "FreeAheadPlan",
        "FreeAheadProblem",
        "Future",
        "PastWork",
    ),
    "elastream.handover.model": ("QueryShape", "Start", "Window"),
    "elastream.model.migration": ("SequenceProblem", "StepProblem", "Target"),
    "elastream.model.observation": ("BatchObservation", "Executor", "TaskId"),
    "elastream.model.plan": ("Infeasible", "Move", "SequencePlan", "StepPlan", "step_plan"),
    "elastream.replication.model.problem": ("Weights",),
    "elastream.resilience.model.problem": ("ResilientProblem",),
    "elastream.foresight.mtm.problem": ("MigrationChain", "TransitionPlan", "TransitionProblem"),
    "elastream.placement.certificate": ("Certificate", "certify_sequence", "certify_step"),
    "elastream.foresight.ahead.planner": ("FreeAheadPlanner", "free_ahead"),
    "elastream.placement.free_step.planner": ("free_step",),
    "elastream.handover.point": ("WindowOperator",),
    "elastream.resilience.planner.planner": ("resilient",),
    "elastream.foresight.oms.planner": ("sequence",),
    "elastream.placement.ssm.single_step": ("single_step",),
    "elastream.placement.transfer.forecast": ("Forecast", "forecast"),
    "elastream.placement.transfer.mini_migrations": ("mini_migrations",),
    "elastream.placement.transfer.transfer_phases": ("transfer_phases",),
    "elastream.foresight.mtm.planner": ("TransitionPlanner", "transition"),
    "elastream.handover.spark.row_windows": ("RowWindowJoin", "RowWindows"),
    "elastream.handover.spark.sinks": ("Writer", "delta_sink", "files_sink", "kafka_sink"),
    "elastream.handover.spark.sources": ("files_since", "kafka_start"),
    "elastream.handover.spark.windowed": ("WindowedQuery",),
    "elastream.resilience.spark.measure": ("Measured", "measure"),
    "elastream.spark.sessions.settings": ("session_settings",),
    "elastream.spark.steer.graceful_stop": ("stop_gracefully",),
    "elastream.spark.steer.placed": ("placed",),
    "elastream.foresight.values_file": ("read_values",),
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
