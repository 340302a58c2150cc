from elastream.resilience.goal import Resilient as Resilient
from elastream.resilience.model.problem import ResilientPlan as ResilientPlan
from elastream.resilience.model.problem import ResilientProblem as ResilientProblem
from elastream.resilience.planner.planner import resilient as resilient
from elastream.resilience.spark.measure import Measured as Measured
from elastream.resilience.spark.measure import measure as measure
