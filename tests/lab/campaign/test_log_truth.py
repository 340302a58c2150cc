from __future__ import annotations

from elastream.core.decisions import Decision, Kind
from elastream_lab.campaign.log_truth import lies

FIGURES = {"executors_before": 1, "executors_after": 2, "tasks_moved": 3, "tasks_ahead": 0}


def decision(kind: Kind, reason: str = "", **figures: float) -> Decision:
    return Decision(0, 0, kind, reason, executors=2, figures=figures)


ATTACH, BEGIN = decision("attach"), decision("scale-out", "asked for")
DONE = decision("done", "scale-out from 1 to 2 executors done: 3 tasks moved in 1 batch", **FIGURES)


def found(*decisions: Decision, killed: tuple[str, ...] = (), cut: int = 0) -> list[str]:
    return list(lies(decisions, killed, cut=cut, most=3, lasted_s=90.0))


def test_a_log_that_shows_everything_has_no_lies() -> None:
    lost = decision("lost", "executor 4, 7 was lost, 3 tasks to load elsewhere")
    assert found(ATTACH, BEGIN, lost, DONE, decision("detach"), killed=("7", "4")) == []


def test_a_killed_executor_must_be_reported_as_lost_each_time() -> None:
    lost = decision("lost", "executor 4 was lost, 3 tasks to load elsewhere")
    assert len(found(ATTACH, lost, killed=("4", "4"))) == 1


def test_a_killed_executor_may_be_released_before_anybody_noticed() -> None:
    released = decision("wait", "executor 5, 3 holds no state that is needed: released")
    assert found(ATTACH, released, killed=("3",)) == []
    assert len(found(ATTACH, released, killed=("3", "3"))) == 1
    assert len(found(ATTACH, released, killed=("4",))) == 1


def test_a_change_without_an_end_is_a_lie_unless_its_driver_was_killed() -> None:
    for after in (BEGIN, decision("detach"), ATTACH):
        decisions = (ATTACH, BEGIN, after, *([DONE] if after is BEGIN else []))
        assert len(found(*decisions)) == 1
        assert found(*decisions, cut=1) == []


def test_a_wait_that_is_longer_than_all_of_it_is_a_lie() -> None:
    silence = decision("stuck", "the monitor has reported nothing for 3599 s")
    waits = [decision("wait", f"executors not ready after {seconds} s") for seconds in (88, 92)]
    assert found(ATTACH, silence, *waits) == [
        "a wait this long is impossible: the monitor has reported nothing for 3599 s",
        "a wait this long is impossible: executors not ready after 92 s",
    ]


def test_figures_that_differ_from_the_line_are_lies() -> None:
    wrong = decision("done", DONE.reason, **{**FIGURES, "tasks_moved": 2})
    ahead = decision("done", DONE.reason, **{**FIGURES, "tasks_ahead": 4})
    assert len(found(ATTACH, BEGIN, wrong)) == len(found(ATTACH, BEGIN, ahead)) == 1


def test_more_executors_than_allowed_and_a_loop_that_failed_are_reported() -> None:
    many = Decision(0, 0, "hold", "", executors=4)
    assert len(found(ATTACH, many, decision("detach", "it failed", failed=1))) == 2
