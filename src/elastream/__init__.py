"""elastream makes stateful streams on Apache Spark elastic.

It decides how many executors a Structured Streaming query needs and which state partition lives
where, moving provably the least state, and does it in the running query. This list is the whole
public interface; everything else may change.
"""

from elastream.attach import Attachment, attach
from elastream.control.policy import Policy
from elastream.model.assignment import Assignment, Interval
from elastream.model.errors import (
    ElastreamError,
    ProblemError,
    QueryRefusedError,
    SparkError,
    StateHeldError,
    UnsupportedSparkError,
)
from elastream.model.migration import SequenceProblem, StepProblem, Target
from elastream.model.plan import Infeasible, Move, SequencePlan, StepPlan
from elastream.planners.certificate import Certificate, certify_sequence, certify_step
from elastream.planners.free_step.planner import free_step
from elastream.planners.sequence.planner import sequence
from elastream.planners.single_step import single_step

__all__ = [
    "Assignment",
    "Attachment",
    "Certificate",
    "ElastreamError",
    "Infeasible",
    "Interval",
    "Move",
    "Policy",
    "ProblemError",
    "QueryRefusedError",
    "SequencePlan",
    "SequenceProblem",
    "SparkError",
    "StateHeldError",
    "StepPlan",
    "StepProblem",
    "Target",
    "UnsupportedSparkError",
    "attach",
    "certify_sequence",
    "certify_step",
    "free_step",
    "sequence",
    "single_step",
]
