"""What a copy of a state store is opened with: schemas, encoders and settings, as for its owner.

A stateful operator hands them to its tasks in the RDD that it returns. A join opens its stores in
another way, and is asked for their schemas. Where neither is known, the reason is returned.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from elastream.spark.internals.jvm_values import items
from elastream.spark.internals.queries import JOIN, JOIN_STORES, RunningQuery
from elastream.spark.internals.spark_internals import SparkInternals
from elastream.spark.internals.variants import ROCKSDB_PROVIDER, STATE

_BASE_RDD: Final = f"{STATE}.BaseStateStoreRDD"
_CHANGES: Final = "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled"
_COUNTS: Final = "spark.sql.streaming.stateStore.rocksdb.trackTotalNumberOfRows"
_FAMILIES_FROM: Final = 3
"""Joins keep all in one store, with column families, from this state format on."""


@dataclass(frozen=True, slots=True)
class OrderBook:
    """The orders of one run of a query."""

    orders: Mapping[tuple[int, str], tuple[Any, ...]]
    """By operator and store: all that an order has but the key and the store's id."""
    refused: Mapping[int, str]
    """Why the stores of an operator cannot be copied."""


def copy_orders(internals: SparkInternals, query: RunningQuery) -> OrderBook:
    """Return the orders for every state store of a query that has run a batch."""
    orders: dict[tuple[int, str], tuple[Any, ...]] = {}
    refused: dict[int, str] = {}
    settings, nodes = query.execution.sparkSession().conf(), internals.queries.writer_nodes(query)
    if settings.get(_CHANGES, "false") != "true":
        return OrderBook({}, dict.fromkeys(nodes, f"{_CHANGES} is off"))
    for operator, node in nodes.items():
        kind = node.getClass().getSimpleName()
        found = _of_join(internals, node) if kind == JOIN else _of_rdd(internals, node, operator)
        if not found:
            refused[operator] = f"how a {kind} opens its stores is not known"
        for store, order in found.items():
            _, _, _, _, families, conf, _, _, _ = order
            if conf.providerClass() != ROCKSDB_PROVIDER:
                refused[operator] = f"its state is in a {conf.providerClass().rpartition('.')[2]}"
            elif families and settings.get(_COUNTS, "true") != "true":
                refused[operator] = f"{_COUNTS} is off"
            else:
                orders[operator, store] = order
    return OrderBook(orders, refused)


def _of_rdd(internals: SparkInternals, node: Any, operator: int) -> dict[str, tuple[Any, ...]]:
    """Read the order out of the RDD of an operator with one store."""
    waiting = [node.execute()]
    while waiting:
        rdd = waiting.pop()
        if internals.is_instance(_BASE_RDD, rdd) and internals.field(rdd, "operatorId") == operator:
            fields = ("keySchema", "valueSchema", "keyStateEncoderSpec", "useColumnFamilies")
            order = (
                rdd.hadoopConfBroadcast(),
                *(internals.field(rdd, name) for name in fields),
                rdd.storeConf(),
                internals.field(rdd, "useMultipleValuesPerKey", default=False),
                internals.field(rdd, "stateSchemaBroadcast"),
                0,
            )
            return {"default": order}
        waiting += [dependency.rdd() for dependency in items(rdd.dependencies())]
    return {}


def _of_join(internals: SparkInternals, node: Any) -> dict[str, tuple[Any, ...]]:
    """Ask a join for the schemas of its stores."""
    conf, hadoop = internals.field(node, "storeConf"), internals.field(node, "hadoopConfBcast")
    version = int(node.stateFormatVersion())
    state = internals.jvm.org.apache.spark.sql.execution.streaming.state
    manager = _module(internals, internals.variant.join_stores)
    sides = (
        ("LeftSide", node.left(), node.leftKeys()),
        ("RightSide", node.right(), node.rightKeys()),
    )
    found: dict[str, tuple[Any, ...]] = {}
    for side, child, keys in sides:
        which = _module(internals, f"{internals.variant.join_sides}${side}")
        schemas = manager.getSchemaForStateStores(which, child.output(), keys, version).toSeq()
        for schema in items(schemas):
            store, pair = schema._1(), schema._2()
            key, value, none = pair._1(), pair._2(), internals.jvm.scala.Option.empty()
            spec = state.NoPrefixKeyStateEncoderSpec(key)
            place = JOIN_STORES.index(store) if store in JOIN_STORES else 0
            found[store] = (hadoop, key, value, spec, False, conf, False, none, place)
    if version < _FAMILIES_FROM:
        return found
    # Each task names the column families itself; what the store is opened with is not used.
    hadoop, key, value, spec, _, conf, many, schemas, _ = next(iter(found.values()))
    return {"default": (hadoop, key, value, spec, True, conf, many, schemas, 0)}


def _module(internals: SparkInternals, class_name: str) -> Any:
    """Return the one instance of a Scala object."""
    return internals.jvm.java.lang.Class.forName(f"{class_name}$").getField("MODULE$").get(None)
