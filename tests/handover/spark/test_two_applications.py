"""Two driver processes hand over by the commands of ``handover``, also when one of them dies."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.handover.spark.applications import Applications
from tests.handover.spark.expected import Expected, pair_windows, pairs, row_windows, sums
from tests.handover.spark.handed_queries import CLOCK, readings

pytestmark = [pytest.mark.slow, pytest.mark.spark]

EXPECTED: dict[str, Callable[[], Expected]] = {
    "sums": lambda: sums(readings(), 3000, 1000),
    "q1": lambda: pairs(readings(), 800),
    "q2": lambda: row_windows(readings(), 5, 2),
    "q3": lambda: pair_windows(readings(), 800, 5, 2),
}


@pytest.fixture
def expected(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Expected]:
    monkeypatch.setenv(CLOCK, str(tmp_path / "clock"))
    return lambda name: EXPECTED[name]()


@contextmanager
def applications(
    folder: Path, query: str, master: str | None = "local[1]"
) -> Iterator[Applications]:
    run = Applications(folder, query, master)
    try:
        yield run
    finally:
        run.close()


@pytest.mark.parametrize("name", EXPECTED)
def test_two_applications_together_put_out_what_one_would(
    tmp_path: Path, name: str, expected: Callable[[str], Expected]
) -> None:
    with applications(tmp_path, name) as run:
        origin = run.serve()
        run.await_until(lambda: bool(run.put_out("origin")))
        run.join()
        run.check_whole(expected(name))
        assert origin.wait(120) == 0


def test_two_clusters_together_put_out_what_one_would(
    tmp_path: Path, expected: Callable[[str], Expected]
) -> None:
    """Executors of their own, as the commands start them if no master is named."""
    with applications(tmp_path, "sums", master=None) as run:
        origin = run.serve()
        run.await_until(lambda: bool(run.put_out("origin")))
        run.join()
        run.check_whole(expected("sums"))
        assert origin.wait(120) == 0


@pytest.mark.parametrize("name", ["sums", "q3"])
def test_an_origin_that_dies_before_it_is_decided_keeps_everything_and_can_hand_over_again(
    tmp_path: Path, name: str, expected: Callable[[str], Expected]
) -> None:
    with applications(tmp_path, name) as run:
        origin = run.serve()
        run.await_until(lambda: bool(run.put_out("origin")))
        target = run.join()
        run.await_until(lambda: "accept" in run.kinds("origin"))
        run.kill(origin)
        assert "commit" not in run.kinds("origin")
        before = run.put_out("origin")
        origin = run.serve()
        run.await_until(lambda: target.poll() is not None)
        assert target.returncode == 2
        assert "knows no such handover" in run.notes("target")[-1].reason
        run.await_until(lambda: run.put_out("origin") > before)
        assert not run.put_out("target")
        run.join()
        run.check_whole(expected(name))
        assert origin.wait(120) == 0


@pytest.mark.parametrize("name", ["sums", "q1"])
def test_an_origin_that_dies_after_it_is_decided_completes_its_own_windows(
    tmp_path: Path, name: str, expected: Callable[[str], Expected]
) -> None:
    with applications(tmp_path, name) as run:
        origin = run.serve()
        run.await_until(lambda: bool(run.put_out("origin")))
        run.join()
        run.await_until(lambda: run.batches("target") > 0)
        run.await_until(lambda: "commit" in run.kinds("origin"))
        run.kill(origin)
        assert "finish" not in run.kinds("origin")
        origin = run.serve()
        run.check_whole(expected(name))
        assert "restart" in run.kinds("origin")
        assert origin.wait(120) == 0


@pytest.mark.parametrize("name", ["sums", "q2"])
def test_a_target_that_dies_after_its_first_rows_leaves_each_window_one_owner(
    tmp_path: Path, name: str, expected: Callable[[str], Expected]
) -> None:
    with applications(tmp_path, name) as run:
        origin = run.serve(patience_s=90)
        run.await_until(lambda: bool(run.put_out("origin")))
        target = run.join()
        run.await_until(lambda: run.batches("target") > 0)
        run.kill(target)
        run.await_until(lambda: bool({"abort", "commit"} & run.kinds("origin")), paced=False)
        assert not run.put_out("target") or "commit" in run.kinds("origin")
        run.join()
        run.check_whole(expected(name))
        assert origin.wait(120) == 0
