"""Studies of paper 003 on a file of one's own, in place of made graphs and made traffic."""

from __future__ import annotations

from pathlib import Path

from elastream_lab.cli.study.output import tell
from elastream_lab.cli.traffic_settings import TrafficSettings


def resilience_of(file: Path, seed: int, json_file: Path | None, picture: Path | None) -> None:
    """Make figure 14 of the graph of a problem file, as `elastream plan resilient` reads it."""
    from elastream.cli.command_rules import fields_of_a_file
    from elastream.cli.problem_files import read_fields
    from elastream.resilience.commands import resilient_problem
    from elastream_lab.studies.resilience.given import of_one_graph

    with fields_of_a_file():
        problem, _ = resilient_problem(read_fields(file))
    tell("resilience", [lambda: (of_one_graph(problem, file.name, seed),)], json_file, picture)


def latency_of(
    log: TrafficSettings, name: str, seed: int, json_file: Path | None, picture: Path | None
) -> None:
    """Make figure 18, simulated, of the packets of a log."""
    from elastream_lab.studies.resilience.latency import latency_of_packets

    packets = log.packets()
    tell("latency", [lambda: (latency_of_packets(packets, name, seed),)], json_file, picture)
