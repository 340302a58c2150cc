"""``elastream page FILE``: the page over a decision log."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Annotated

import typer

from elastream.cli.options import PAGE_NAME, PAGE_PORT, LogFile
from elastream.cli.terminal import say

At = Annotated[
    str,
    typer.Option(
        "--port",
        metavar="PORT",
        help="The port on this machine; 0 takes one that is free. HOST:PORT lets others look too.",
    ),
]


def page(
    file: LogFile,
    port: At = str(PAGE_PORT),
    page_names: Annotated[list[str] | None, PAGE_NAME] = None,
) -> None:
    """Show a decision log in the browser: where state was, and why.

    The log of a run that is over can be scrubbed through; one that is being written is followed.
    Prometheus finds its metrics under /metrics. Ctrl-C ends it.

      elastream page decisions.jsonl
    """
    from elastream.cli.quiet import ended_like_by_ctrl_c
    from elastream.page.server import PageServer, checked_names, page_address
    from elastream.page.tail import Tail

    address = page_address(port, field="port")
    names = checked_names(page_names or ())
    tail = Tail(file)
    with ended_like_by_ctrl_c(), PageServer(tail.run, address, names=names) as server:
        for where in tail.torn:
            say(f"{where} is torn, and passed over", err=True)
        say(f"{file} is shown on {server.url} (Ctrl-C ends it)")
        tail.start()
        try:
            threading.Event().wait()
        finally:
            tail.close()


def with_port(arguments: Sequence[str]) -> list[str]:
    """Return the arguments, with the usual port where ``--page`` stands without one.

    Those of ``run`` are unchanged: behind its own are a program's.
    """
    given: list[str] = []
    if arguments[:1] == ["run"]:
        return list(arguments)
    for argument, following in zip(arguments, [*arguments[1:], "--"], strict=False):
        given.append(argument)
        if argument == "--":
            return [*given, *arguments[len(given) :]]
        if argument == "--page" and following.startswith("-"):
            given.append(str(PAGE_PORT))
    return given
