"""``replicate``: replicas of a running query's operators, placed by response time, cost, downtime.

The replication loop of paper 004 (S-EDRP) on top of :func:`~elastream.attach.attach`: that one
watches the query and moves tasks, this one says which executors hold a share of which operator.
Nothing is decided here.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from elastream.attach import Attachment, Detachable, attach
from elastream.control.decisions import Decision, log_writer
from elastream.control.observation import TaskId
from elastream.control.ports import DelayProbe
from elastream.control.replication.policy import ReplicationPolicy

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

    from elastream.control.replication.driver import CarryingOut, ReplicationController
    from elastream.control.replication.graph import OperatorGraph
    from elastream.spark.private_door import StatefulOperator

__all__ = ["Replication", "operator_graph", "replicate"]

_log = logging.getLogger(__name__)

_UNTOLD: Final = frozenset({"attach", "hold"})
"""What the loop below says of its own load; it decides on nothing, so it is left out."""


class Replication(Detachable):
    """A query with its replication loop. Leaving the ``with`` block detaches; it runs on."""

    def __init__(self, controller: ReplicationController, attachment: Attachment) -> None:
        self.controller = controller
        """The loop: ``state``."""
        self.attachment = attachment
        """What watches the query and moves its tasks."""

    def detach(self) -> None:
        """End the loop and leave the query running as it is. Harmless if repeated."""
        self.controller.close()
        self.attachment.detach()


def replicate(
    query: StreamingQuery,
    policy: ReplicationPolicy,
    *,
    log: Path | str | Callable[[Decision], None] | None = None,
    backlog: Callable[[Mapping[str, Any]], int | None] | None = None,
    warm_up_stream: Callable[[SparkSession], DataFrame] | None = None,
    probe: DelayProbe | None = None,
    carry_out: CarryingOut | None = None,
) -> Replication:
    """Keep solving how many replicas each operator of a query needs, and where.

    Advises only, unless ``policy.act``. ``log``, ``backlog`` and ``warm_up_stream`` are those of
    :func:`elastream.attach`. ``probe`` measures delays between hosts; left out, executors connect
    to each other. ``carry_out`` moves tasks; left out, live, a few a batch.

    Raises :class:`~elastream.model.errors.ElastreamError` where the session, its settings or the
    query do not allow it. The query is not touched then.
    """
    from elastream.control.replication.driver import ReplicationController
    from elastream.spark.host_delays import HostProbe
    from elastream.spark.private_door import PrivateDoor
    from elastream.spark.query_session import session_of

    write = log_writer(log)

    def told(decision: Decision) -> None:
        if decision.kind not in _UNTOLD:
            write(decision)

    attachment = attach(
        query, policy.carrying_out(), log=told, backlog=backlog, warm_up_stream=warm_up_stream
    )
    try:
        controller = ReplicationController(
            attachment.monitor,
            attachment.controller,
            operator_graph(attachment.placement.operators),
            policy,
            write,
            carry_out=carry_out or _live(attachment),
            probe=probe or HostProbe(PrivateDoor.of(session_of(query))),
        )
    except BaseException:
        attachment.detach()
        raise
    return Replication(controller, attachment)


def operator_graph(operators: Sequence[StatefulOperator]) -> OperatorGraph:
    """Return which operator's rows go where; operators that share their tasks are one."""
    from elastream.control.replication.graph import OperatorGraph
    from elastream.spark.task_events import lead_of

    leads = lead_of(operators)
    feeds: dict[int, int | None] = dict.fromkeys(sorted(set(leads.values())))
    for operator in operators:
        lead = leads[operator.id]
        above = None if operator.reader is None else leads[operator.reader]
        if above is not None and above != lead:
            feeds[lead] = above
    return OperatorGraph(feeds)


def _live(attachment: Attachment) -> CarryingOut:
    def carry_out(goal: Mapping[TaskId, str], cold: Sequence[str]) -> None:
        if cold:
            try:
                attachment.pool.warm(cold)
            except Exception as error:  # it only spares the query a slow batch
                _log.warning("executors %s stay cold: %s", ", ".join(cold), error)
        attachment.controller.move(goal)

    return carry_out
