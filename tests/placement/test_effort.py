from __future__ import annotations

import ast
from pathlib import Path

import elastream.placement
from elastream.cli.plan.app import BRANCHES_A_SECOND
from elastream.cli.plan.printing import effort_of
from elastream.foresight.commands.sequence import CELLS_A_SECOND
from elastream.foresight.oms import planner as sequence
from elastream.placement.branches import branches_of
from elastream.placement.free_step import planner as free_step
from elastream.replication.commands import VALUES_A_SECOND
from elastream.replication.planner import exact

PLANNERS = Path(elastream.placement.__path__[0])


def clocks(source: str) -> set[str]:
    """Return what a module knows of time: clocks that it imports, time limits that it sets."""
    nodes = list(ast.walk(ast.parse(source)))
    imported = {
        alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names
    }
    imported |= {node.module or "" for node in nodes if isinstance(node, ast.ImportFrom)}
    limits = {node.value for node in nodes if isinstance(node, ast.Constant)} & {"time_limit"}
    return {*(imported & {"time", "datetime"}), *map(str, limits)}


def test_no_planner_looks_at_a_clock() -> None:
    assert clocks('import time\nmilp(options={"time_limit": 1})') == {"time", "time_limit"}
    found = {path.name: clocks(path.read_text()) for path in PLANNERS.rglob("*.py")}
    assert {name: known for name, known in found.items() if known} == {}


def test_without_seconds_the_planners_own_effort_holds() -> None:
    assert effort_of(None, CELLS_A_SECOND, sequence.EFFORT) == sequence.EFFORT
    assert effort_of(2.0, CELLS_A_SECOND, sequence.EFFORT) == 2 * CELLS_A_SECOND


def test_the_planners_own_efforts_are_those_of_the_seconds_they_had() -> None:
    assert effort_of(60, CELLS_A_SECOND, 0) == sequence.EFFORT
    assert effort_of(60, VALUES_A_SECOND, 0) == exact.EFFORT
    assert effort_of(30, BRANCHES_A_SECOND, 0) == free_step.EFFORT


def test_a_program_that_could_hardly_branch_is_left_out() -> None:
    assert branches_of(20_000, 1000) == 20
    assert branches_of(19_999, 1000) == 0
    assert branches_of(0, 0) == 0
