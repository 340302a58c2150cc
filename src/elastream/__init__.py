"""elastream makes stateful streams on Apache Spark elastic.

It decides how many executors the Structured Streaming queries of an application need and which
state partition lives where, moving provably the least state, and does it in the running queries.
The stub ``__init__.pyi`` lists the public names. Those of the papers' capabilities are in
``elastream.foresight``, ``elastream.resilience``, ``elastream.replication`` and
``elastream.handover``, tools for tests in ``elastream.testing``. Everything else may change.
"""

from elastream.lazy import lazy_names

__all__, __getattr__, __dir__ = lazy_names(__name__)
