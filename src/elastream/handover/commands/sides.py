"""One side of a handover as a command: its query, in a session of its own."""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final

from elastream.cli.quiet import ended_like_by_ctrl_c, java_kept_quiet
from elastream.cli.terminal import say
from elastream.extras import what_to_install
from elastream.handover.folders import given
from elastream.handover.origin import expect_unyielded
from elastream.handover.seal import read_token
from elastream.handover.transport import Address
from elastream.model.checks import abbreviate
from elastream.model.errors import ElastreamError, ProblemError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from elastream.handover.offering import OfferedQuery
    from elastream.handover.spark.windowed import WindowedQuery

_LOOK_S: Final = 0.5


def query_named(name: str) -> WindowedQuery:
    """Return the query that a function ``module:function`` returns.

    A module in the current folder is found, both here and by the Python of executors on this
    machine.
    """
    from elastream.handover.spark.windowed import WindowedQuery

    module, _, function = name.partition(":")
    if not module or not function:
        raise ProblemError("QUERY", f"{abbreviate(name)} is not module:function")
    here = str(Path.cwd())
    if not sys.flags.safe_path and here not in sys.path:
        sys.path.insert(0, here)
        paths = (here, os.environ.get("PYTHONPATH", ""))
        os.environ["PYTHONPATH"] = os.pathsep.join(path for path in paths if path)
    try:
        query = getattr(importlib.import_module(module), function)()
    except (ImportError, AttributeError) as error:
        if isinstance(error, ImportError) and what_to_install(error):
            raise
        raise ProblemError("QUERY", f"{abbreviate(name)} cannot be found: {error}") from None
    except ElastreamError as error:
        raise ProblemError("QUERY", f"{abbreviate(name)}: {error}") from None
    except Exception as error:
        why = f"{type(error).__name__}: {error}".splitlines()[0]
        raise ProblemError("QUERY", f"{abbreviate(name)} fails: {why}") from error
    if not isinstance(query, WindowedQuery):
        raise ProblemError(
            "QUERY", f"{abbreviate(name)} gives {abbreviate(query)}, not a WindowedQuery"
        )
    return query


def ms_of(since: str) -> int:
    """Return a time in milliseconds since the epoch."""
    if since.isascii() and since.isdigit():
        return int(since)
    try:
        at = datetime.fromisoformat(since)
    except ValueError:
        why = f"{abbreviate(since)} is neither ISO 8601 nor milliseconds since the epoch"
        raise ProblemError("since", why) from None
    return int(at.timestamp() * 1000)


@dataclass(frozen=True, slots=True)
class Side:
    """Settings of one side."""

    query: WindowedQuery
    folder: Path
    master: str | None
    """``None`` for an embedded cluster."""
    executors: int
    partitions: int
    config: Mapping[str, str]
    log: Path | None
    """Path of the decision log."""

    def expect_usable(self, address: str, token_file: Path | None) -> None:
        """Refuse what is wrong before Spark is started, which takes a while."""
        Address.of(address)
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            why = f"{self.folder} cannot be made: {error.strerror}"
            raise ProblemError("--folder", why) from None
        expect_unyielded(given(self.folder).read())
        token = token_file or self.folder / "token"
        if token.exists():
            read_token(token)

    def run(self, begin: Callable[[SparkSession], OfferedQuery]) -> None:
        """Run the query in a session of its own until it has left, fails or is stopped."""
        from elastream.handover.spark.application_session import application_session

        session = application_session(
            master=self.master,
            executors=self.executors,
            partitions=self.partitions,
            config=self.config,
        )
        with ended_like_by_ctrl_c(), java_kept_quiet(), session as spark, self._logged(spark):
            offered = begin(spark)
            try:
                while not offered.wait(_LOOK_S):  # a wait without end is deaf to Ctrl-C
                    pass
            finally:
                offered.stop()
                if offered.late_rows:
                    allowed = f"later than the {self.query.shape.lateness} ms that the query allows"
                    say(f"late: {offered.late_rows} rows came {allowed}, and were dropped")

    def _logged(self, spark: SparkSession) -> AbstractContextManager[object]:
        """Report the Spark version, since the other side may use another one; log the load."""
        say(f"Spark {spark.version} on {spark.sparkContext.master}")
        if self.log is None:
            return nullcontext()
        from elastream.attachment.attaching import attach
        from elastream.core.policy import Policy

        policy = Policy(max_executors=self.executors, advise_only=True)
        return attach(spark, policy, log=self.log)
