"""Figure 14 of paper 003 on a graph of somebody's own: how much each method's placement bears."""

from __future__ import annotations

from elastream.model.errors import ProblemError
from elastream.model.plan import Infeasible
from elastream.resilience.model.problem import ResilientProblem
from elastream.resilience.planner.normalised import normalise
from elastream_lab.studies.figure import Figure
from elastream_lab.studies.resilience.trials import RIVALS, trial

_METHODS = ("refined", "rod", *RIVALS)


def of_one_graph(problem: ResilientProblem, name: str, seed: int) -> Figure:
    """Return the feasible sets of all methods, next to the ideal one and next to ROD's."""
    space = normalise(problem)
    if isinstance(space, Infeasible):
        raise ProblemError("input", f"{name}: {space.reason}")
    ratios = trial(space, space, _METHODS, seed)
    best = max(ratios[rival] for rival in RIVALS)
    operators, streams = space.shares.shape
    return Figure(
        "003 fig. 14 (one graph)",
        f"{name}: {operators} operators, {streams} inputs, {len(space.capacity)} nodes; rivals run "
        f"ten times each, at rates drawn with seed {seed}",
        [
            {
                "method": method,
                "ratio_to_ideal": ratio,
                "ratio_to_rod": ratio / ratios["rod"] if ratios["rod"] else None,
            }
            for method, ratio in ratios.items()
        ],
        None,
        ratios["rod"] >= best,
        "The paper: ROD bears more than every rival; here it bears "
        f"{ratios['rod']:.3f} of the ideal set, the best rival {best:.3f}, refined "
        f"{ratios['refined']:.3f}.",
    )
