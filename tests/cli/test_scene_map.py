from __future__ import annotations

from io import StringIO

from rich.console import Console

from elastream.cli.scene_map import scene_map
from elastream.core.goal import Marks
from elastream.core.scenes import Scene, SceneExecutor, SceneLoop, SceneQuery, SceneTask
from elastream.model.observation import TaskId

LOOP = SceneLoop(
    mode="acts",
    phase="moving",
    goal="utilisation 0.7",
    planner="free-step",
    least=1,
    most=4,
    tau=0.2,
    marks=Marks(0.6, 0.7, 0.8),
    utilisation=0.7,
    cooldown_until_ms=None,
    attached_ms=0,
    executor_s=0.0,
    spare_executor_s=0.0,
)
QUERY = SceneQuery(3, 1000, False, 1, 300, 100, 100, 0, 0)


def drawn(scene: Scene) -> list[str]:
    text = StringIO()
    Console(file=text, width=100, color_system=None).print(scene_map(scene))
    return [" ".join(line.split()) for line in text.getvalue().splitlines()]


def executor(busy: float | None, *, warm: bool = True, spare: bool = False) -> SceneExecutor:
    return SceneExecutor("host", 1, warm, spare, busy)


def test_a_row_for_each_executor_with_its_load_tasks_moves_and_copies() -> None:
    tasks = {
        TaskId("q", 0, 0): SceneTask("a", 0.3, 1, standby="b"),
        TaskId("q", 0, 1): SceneTask("a", 0.0, 1, heading="c"),
        TaskId("q", 0, 2): SceneTask("b", 0.1, 1),
    }
    executors = {
        "a": executor(0.9),
        "b": executor(0.1),
        "c": executor(None, warm=False),
        "d": executor(0.0, spare=True),
    }
    assert drawn(Scene(0, LOOP, executors, {"q": QUERY}, tasks)) == [
        "executor a ████████████│███│█░░ 90% 0 1>c",
        "executor b ██░░░░░░░░░░│░░░│░░░ 10% 2 (0)",
        "executor c cold -",
        "executor d spare 0%",
    ]


def test_several_queries_are_named_and_many_tasks_are_counted() -> None:
    tasks = {TaskId("many", 0, j): SceneTask("a", 0.0, 1, standby="b") for j in range(60)}
    tasks[TaskId("one", 1, 7)] = SceneTask("b", 0.0, 1)
    executors = {"a": executor(0.5), "b": executor(0.5)}
    queries = {"many": QUERY, "one": QUERY}
    first, second = drawn(Scene(0, LOOP, executors, queries, tasks))
    assert first.endswith("50% many/0 60 tasks")
    assert second.endswith("50% one/1 7 many/0 (60 copies)")
