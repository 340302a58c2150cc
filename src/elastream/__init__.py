"""elastream makes stateful streams on Apache Spark elastic.

It decides how many executors a Structured Streaming query needs and which state partition lives
where, moving provably the least state, and does it in the running query. This list is the whole
public interface; everything else may change.
"""

from elastream.attach import Attachment, attach
from elastream.control.policy import Policy
from elastream.control.replication.policy import ReplicationPolicy
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
from elastream.model.replication.problem import Weights
from elastream.planners.certificate import Certificate, certify_sequence, certify_step
from elastream.planners.free_step.planner import free_step
from elastream.planners.sequence.planner import sequence
from elastream.planners.single_step import single_step
from elastream.replicate import Replication, replicate
from elastream.spark.measure import Measured, measure
from elastream.spark.place import NotPlaced, Placed, place

__all__ = [
    "Assignment",
    "Attachment",
    "Certificate",
    "ElastreamError",
    "Infeasible",
    "Interval",
    "Measured",
    "Move",
    "NotPlaced",
    "Placed",
    "Policy",
    "ProblemError",
    "QueryRefusedError",
    "Replication",
    "ReplicationPolicy",
    "SequencePlan",
    "SequenceProblem",
    "SparkError",
    "StateHeldError",
    "StepPlan",
    "StepProblem",
    "Target",
    "UnsupportedSparkError",
    "Weights",
    "attach",
    "certify_sequence",
    "certify_step",
    "free_step",
    "measure",
    "place",
    "replicate",
    "sequence",
    "single_step",
]
