"""``elastream page FILE``: a run in the browser, as it goes on or as its log tells it."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Final

import typer

from elastream.cli.terminal import say

_PORT: Final = 4060
"""Where a page is unless told otherwise; Spark's own begin at 4040."""

PAGE = typer.Option(
    "--page",
    metavar="[PORT]",
    help=f"Show the run in a browser, on this port of this machine ({_PORT}; 0 takes one that is "
    "free); HOST:PORT lets others look too.",
)

PAGE_NAME = typer.Option(
    "--page-name",
    metavar="NAME",
    help="A host name by which others call the page, besides the machine's addresses and its own "
    "name; may be given several times.",
)

LogFile = Annotated[Path, typer.Argument(metavar="FILE", help="A decision log (JSON lines).")]
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
    port: At = str(_PORT),
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

    Those of ``run`` are left as they are: behind its own are a program's.
    """
    given: list[str] = []
    if arguments[:1] == ["run"]:
        return list(arguments)
    for argument, following in zip(arguments, [*arguments[1:], "--"], strict=False):
        given.append(argument)
        if argument == "--":
            return [*given, *arguments[len(given) :]]
        if argument == "--page" and following.startswith("-"):
            given.append(str(_PORT))
    return given
