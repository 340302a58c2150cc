"""State is sent between executors in the order of the papers' phases, over links as measured.

The order is the core's; when each transfer begins is decided next to Spark. Here both work
together, over links whose time is computed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import pytest
from tests.core.builders import QUERY, task
from tests.core.harness import Harness
from tests.core.scenes import POLICY

from elastream.core.events import Copy, MoveRequested
from elastream.core.migrator.copying import Copying
from elastream.goals.by_hand import ByHand
from elastream.model.plan import Move
from elastream.placement.transfer.forecast import tasks_in_order, timed_phases
from elastream.spark.internals.keepers import CopyStatus, OfferStatus
from elastream.spark.internals.spark_internals import ExecutorEntry
from elastream.spark.steer.transfers import Scene, Transfers
from elastream.testing import ClusterSettings, SimulatedCluster, SimulatedTask, Workload
from elastream_lab.studies.transfer.fair_shares import fairly_shared_s

MB = 1_000_000
CROSSED = [(0, 3, 4), (0, 4, 5), (1, 3, 3), (1, 4, 3), (2, 3, 2), (2, 4, 1)]
"""From three executors to two others: who sends, who receives, how many MB."""
EVEN = dict.fromkeys("01234", 1.0 * MB)
READY = CopyStatus("ready", 7, 0, 1, 100, "", "")


def ordered(
    volumes: Sequence[tuple[int, int, int]], links: Mapping[str, float]
) -> tuple[list[int], float | None]:
    """In which order the loop asks for copies, and how long it expects them to take."""
    tasks = tuple(
        SimulatedTask(0, j, 1 / len(volumes), 1.0, MB * size)
        for j, (*_, size) in enumerate(volumes)
    )
    nodes = 1 + max(node for *ends, _ in volumes for node in ends)
    cluster = SimulatedCluster(
        Workload(tasks, lambda _: 100.0, name=QUERY), ClusterSettings(executors=nodes, copy_s=0.0)
    )
    movement = replace(
        POLICY.movement,
        moves_per_batch=None,
        bytes_per_batch=None,
        copy_least_bytes=MB,
        copy_source="executor",
    )
    run = Harness(cluster, replace(POLICY, goal=ByHand(), movement=movement))
    at_first = {task(j): str(source) for j, (source, *_) in enumerate(volumes)}
    run.batches(2)
    run.feed(MoveRequested(at_first))
    run.batches(4)
    run.judged()
    assert at_first.items() <= cluster.where().items()
    run.state = replace(run.state, link_bytes_per_s=links)
    report = run.feed(MoveRequested({task(j): str(to) for j, (_, to, _) in enumerate(volumes)}))
    (copy,) = (each for each in report if isinstance(each, Copy))
    assert isinstance(run.state.phase, Copying)
    return [each.partition for each in copy.wanted], run.state.phase.forecast_s


def begun(
    order: Sequence[int], volumes: Sequence[tuple[int, int, int]], links: Mapping[str, float]
) -> list[tuple[float, int]]:
    """When each transfer begins, as the executors become free; at last when the last has ended."""
    stores = [(str(j), str(volumes[j][0]), str(volumes[j][1])) for j in order]
    transfers = Transfers.between(stores)
    alive = {name: ExecutorEntry(name, "host", 1, 0, port=7000) for name in links}
    alive_runs, owners_of = {key for key, *_ in stores}, {key: owner for key, owner, _ in stores}
    copies: dict[str, CopyStatus] = {}
    ends: dict[str, float] = {}
    starts: list[tuple[float, int]] = []
    now = 0.0

    def offered(executor: str) -> Mapping[str, OfferStatus]:
        names = transfers.offers(executor)
        return {k: OfferStatus(n, "offered", 7, "null", 1, 0, "") for k, n in names.items()}

    while len(copies) < len(stores):
        while transfers.advance(Scene(now, alive, alive_runs, offered, owners_of.get, copies)):
            pass
        sending = [each for each in transfers.all if each.state == "sending"]
        owners, targets = [e.owner for e in sending], [e.target for e in sending]
        assert len(set(owners)) == len(owners), "an executor sends to one other at a time"
        assert len(set(targets)) == len(targets), "an executor takes in one store at a time"
        for each in sending:
            if each.key not in ends:
                pace = min(links[each.owner], links[each.target])
                ends[each.key] = now + MB * volumes[int(each.key)][2] / pace
                starts.append((now, int(each.key)))
        key = min((k for k in ends if k not in copies), key=ends.__getitem__)
        now = ends[key]
        copies[key] = READY
    return [*starts, (now, -1)]


def test_copies_begin_in_the_order_of_the_phases_and_take_less_than_all_at_once() -> None:
    order, expected_s = ordered(CROSSED, EVEN)
    phases = timed_phases([Move(j, s, t, MB * mb) for j, (s, t, mb) in enumerate(CROSSED)], MB, 5)
    assert order == tasks_in_order(phases)
    *starts, (end_s, _) = begun(order, CROSSED, EVEN)
    assert [j for _, j in starts[:2]] == order[:2]
    assert expected_s is not None
    assert expected_s == pytest.approx(9.0)
    at_once_s = fairly_shared_s([(s, t, float(mb)) for s, t, mb in CROSSED], 1.0)
    assert expected_s <= end_s < at_once_s == pytest.approx(10.5)


def test_the_link_that_was_measured_to_be_slow_is_the_one_that_is_never_idle() -> None:
    volumes = [(0, 2, 4), (0, 3, 4), (1, 2, 4), (1, 3, 4)]
    even = dict.fromkeys("0123", 1.0 * MB)
    for slow in ("0", "1", "2", "3"):
        links = even | {slow: 0.25 * MB}
        order, expected_s = ordered(volumes, links)
        assert expected_s == pytest.approx(32.0), "what the slow link has to carry"
        *starts, (end_s, _) = begun(order, volumes, links)
        ours = [j for _, j in starts if slow in map(str, volumes[j][:2])]
        assert ours[0] in order[:2]
        assert end_s == pytest.approx(32.0)


def test_a_plan_whose_links_are_not_known_is_ordered_as_if_they_were_alike() -> None:
    order, expected_s = ordered(CROSSED, {})
    assert order == ordered(CROSSED, EVEN)[0]
    assert expected_s is None
