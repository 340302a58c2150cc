"""``elastream trace``: past load as work and state of tasks, node counts and a migration chain."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from elastream.cli.terminal import say
from elastream.model.checks import abbreviate
from elastream.model.errors import ProblemError

UNITS_S: Final = {"s": 1, "m": 60, "h": 3600, "d": 86_400}

app = typer.Typer(
    help="Learn from past load: tasks, node counts, migration chain.",
    no_args_is_help=True,
    rich_markup_mode=None,
)

Trace = Annotated[Path, typer.Argument(metavar="TRACE", help="The folder of a built trace.")]
_OUT = typer.Option("--out", help="The folder to write.")
_EVERY = typer.Option("--every", help="Length of an interval, such as 15m, 1h or 1d.")
_QUERY = typer.Option("--query", help="Only this query; may be given several times.")
_OF = typer.Option("--of", help="What nodes are proportional to: rows or records.")
_LOW = typer.Option("--low", help="The total that needs the fewest nodes; left out: the least.")
_HIGH = typer.Option("--high", help="The total that needs the most nodes; left out: the greatest.")
_SMOOTHING = typer.Option("--smoothing", help="Share of each row given to changes not seen.")
_DIRECTED = typer.Option("--directed", help="Let the chain remember the last direction.")
_CHAIN_OUT = typer.Option("--out", help="Write the chain to a file, not to standard output.")


@app.command("from-log")
def from_log(
    log: Annotated[Path, typer.Argument(metavar="LOG", help="A decision log, or samples.jsonl.")],
    out: Annotated[Path, _OUT],
    every: Annotated[str, _EVERY] = "1m",
    queries: Annotated[list[str] | None, _QUERY] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace a trace.")] = False,
) -> None:
    """Make a trace of what an attached application logged about itself.

    Work, state and place of every task are in the log's samples; node counts are the executors
    that were really there, so `elastream trace chain` follows at once.

      elastream trace from-log decisions.jsonl --out trace
      elastream trace chain trace --out chain.json
    """
    from elastream.foresight.traces.from_log import trace_from_log

    made = trace_from_log(
        log,
        out,
        every_s=seconds_of("--every", every),
        queries=tuple(queries or ()),
        overwrite=overwrite,
    )
    low, high = min(made.nodes), max(made.nodes)
    say(f"{made.intervals:,} intervals of {every}, {low} to {high} executors")
    say(f"{out}: work and state of {len(made.tasks):,} tasks")


@app.command("nodes")
def nodes(
    trace: Trace,
    least: Annotated[int, typer.Option("--min", help="Nodes at the lowest total.")] = 8,
    most: Annotated[int, typer.Option("--max", help="Nodes at the highest total.")] = 16,
    of: Annotated[str, _OF] = "rows",
    low: Annotated[float | None, _LOW] = None,
    high: Annotated[float | None, _HIGH] = None,
) -> None:
    """Turn totals into node counts, as in section 6 of the papers.

    They are kept with the trace. --low and --high make two months comparable: those of the first
    are printed.

      elastream trace nodes trace --min 8 --max 16
    """
    from elastream.foresight.chain import migrations, node_counts
    from elastream.foresight.traces.folder import read_totals, write_nodes

    if of not in ("rows", "records"):
        raise ProblemError("--of", f"{of!r} is neither rows nor records")
    totals = read_totals(trace, of)
    floor = min(totals) if low is None else low
    ceiling = max(totals) if high is None else high
    counts = node_counts(totals, least, most, low=floor, high=ceiling)
    about = {"min": least, "max": most, "of": of, "low": floor, "high": ceiling}
    write_nodes(trace, {**about, "nodes": counts})
    say(f"{least} to {most} nodes for totals from {floor:g} to {ceiling:g} {of}")
    say(f"{len(migrations(counts)) - 1} migrations in {len(counts)} intervals")


@app.command("chain")
def chain(
    trace: Trace,
    gamma: Annotated[float, typer.Option("--gamma", help="Discount factor.")] = 0.8,
    smoothing: Annotated[float, _SMOOTHING] = 0.1,
    directed: Annotated[bool, _DIRECTED] = False,
    out: Annotated[Path | None, _CHAIN_OUT] = None,
) -> None:
    """Estimate the migration chain of a transition problem.

    elastream trace chain trace --directed --out chain.json
    """
    from elastream.cli.run_summaries import checked_target, write_summary
    from elastream.foresight.chain import ChainSettings, migration_chain
    from elastream.foresight.traces.folder import read_nodes

    checked_target("--out", out)
    kept = read_nodes(trace)
    settings = ChainSettings(gamma=gamma, smoothing=smoothing, directed=directed)
    found = migration_chain(kept["nodes"], settings, sizes=range(kept["min"], kept["max"] + 1))
    fields: dict[str, Any] = {"sizes": found.sizes, "matrix": found.matrix, "gamma": found.gamma}
    if found.directions is not None:
        fields["directions"] = found.directions
    if out is None:
        typer.echo(json.dumps(fields))
    else:
        write_summary(out, fields)


def seconds_of(option: str, text: str) -> int:
    """Return a length of time such as ``90s``, ``15m``, ``1h`` or ``1d`` in seconds."""
    match = re.fullmatch(r"(\d{1,9})([smhd])", text.strip())
    if match is None or int(match[1]) == 0:
        raise ProblemError(
            option, f"{abbreviate(text)} is not a length of time such as 15m, 1h or 1d"
        )
    return int(match[1]) * UNITS_S[match[2]]
