"""A call for every option of every command, so short that nothing is started.

Most calls give the option a wrong value, and the one line that follows names it: the value has gone
from the command line to where it is checked. Where no value is wrong, what the command would start
is replaced by :func:`stop_with`, which ends the command with what it was asked for.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, NoReturn

from elastream.doctor.findings import Report
from elastream.model.errors import ElastreamError

__all__ = ["CALLS", "Call"]

_SUMS = "tests.handover.commands.test_handover:sums"
_LAB = "elastream_lab"


def stop_with(*arguments: object, **named: object) -> NoReturn:
    """End the command with what it was asked for."""
    raise ElastreamError(f"asked for {(*arguments, named)}")


@dataclass(frozen=True)
class Call:
    """One call of a command, with one option that it is about."""

    option: str
    arguments: str
    """All of them, with spaces between."""
    says: str
    """What is in the output."""
    code: int = 2
    instead: Mapping[str, object] = field(default_factory=dict)
    """What is replaced meanwhile, by its whole name."""


def _wrong(option: str, value: str, *, before: str = "", after: str = "") -> Call:
    """A value that is refused in a line that begins with the option."""
    arguments = f"{before} {option} {value} {after}"
    return Call(option, arguments, f"elastream: {option}: ")


def _asked(option: str, value: str, says: str, starts: str, **more: Any) -> Call:
    """A value that reaches what the command starts."""
    before, after = more.pop("before", ""), more.pop("after", "")
    arguments = f"{before} {option} {value} {after}"
    return Call(option, arguments, says, instead={starts: stop_with, **more.pop("instead", {})})


_COLUMNS = "--time t --source s --destination d"
_PACKETS = (
    _wrong("--input", "none.csv", after=_COLUMNS),
    *(_wrong(option, "x") for option in ("--time", "--source", "--destination", "--size")),
    _wrong("--seed", "-1"),
    _wrong("--substreams", "0"),
    _wrong("--partitions", "65"),
    _wrong("--executors", "0"),
    _wrong("--service-us", "1e7"),
)
_FILES = (_wrong("--json", "/"), _wrong("--picture", "x.bmp"))
_STUDIES = f"{_LAB}.studies"
_READ = {
    f"{_STUDIES}.migration_cost.load.read_load": lambda path: path,
    f"{_STUDIES}.migration_cost.figures.figures": lambda *_: [],
}
_COST = f"{_STUDIES}.migration_cost.study.CostStudy"
_CHECKED = {_COST: lambda *_, **__: SimpleNamespace(check=lambda: None)}
_LOAD = "--input load.csv"
_NO_LOADS = {
    f"{_STUDIES}.look_ahead.series.read_series": lambda path: path,
    f"{_STUDIES}.look_ahead.figures.figures": lambda *_: [],
}
_SESSION = "elastream.handover.spark.application_session.application_session"
_BATCH = "elastream.spark.sessions.batch_session.batch_session"
_SETTINGS = f"{_LAB}.applications.patterns.settings.TraceSettings"
_GROWTH = "elastream.foresight.mtm.growth.GrowthSettings"
_BUILD = "--input log.jsonl --format json --time t --out o"
_FIGURES = {f"{_STUDIES}.resilience.figures.FIGURES": {"9": stop_with}}
_HOUR = f"{_STUDIES}.replication.hour.hour"
_CELLS = f"{_STUDIES}.replication.scale.table_four_cells"
_FORECAST = (
    _wrong("--bytes-per-s", "fast", before="problem.json"),
    Call("--moves-per-batch", "problem.json --moves-per-batch 0", "'--moves-per-batch'"),
    Call("--bytes-per-batch", "problem.json --bytes-per-batch x", "'--bytes-per-batch'"),
)
_SERVE = f"{_SUMS} --folder ."
_JOIN = f"{_SUMS} 127.0.0.1:1 --token-file token --folder ."
_VALUES = "values.json --out v.parquet"
_PRECOMPUTE = f"{_STUDIES}.precompute.study.precompute_figures"
_TWO, _PROGRAM = "--max-executors 2", "problem.json --not ours"
_DOCTOR = "elastream.doctor.settings.DoctorSettings"
_WELL = {"elastream.doctor.examination.examined": lambda *_: Report(())}
_RUN = "elastream.launch.settings.RunSettings"


def _no_session(**_: object) -> AbstractContextManager[object]:
    """Return what a command takes for a session until it uses one."""
    context = SimpleNamespace(master="none")
    return nullcontext(SimpleNamespace(version="none", sparkContext=context))


def _side(arguments: str) -> tuple[Call, ...]:
    """The options that both sides of a handover have."""
    return (
        _wrong("--patience", "0.1", before=arguments),
        _wrong("--folder", "text", before=arguments),
        _asked("--executors", "3", "'executors': 3", _SESSION, before=arguments),
        _asked("--partitions", "7", "'partitions': 7", _SESSION, before=arguments),
        _asked("--master", "yarn", "'master': 'yarn'", _SESSION, before=arguments),
        _asked("--conf", "a.b=c", "'config': {'a.b': 'c'}", _SESSION, before=arguments),
        Call("--log", f"{arguments} --log text", "text: exists and is not a decision log"),
    )


CALLS: Mapping[str, tuple[Call, ...]] = {
    "": (Call("--version", "--version", "elastream 0.", code=0),),
    "demo": (
        _asked("--long", "", "long=True", "elastream.demo.run.run"),
        Call("--realtime", "--realtime --long", "--realtime: has a load of its own"),
        _wrong("--planner", "best"),
        *_FILES,
        Call("--log", "--log text", "text: exists and is not a decision log"),
        _wrong("--page", "x"),
    ),
    "doctor": (
        _asked("--master", "yarn", "'yarn'", _DOCTOR),
        _wrong("--conf", "speculation"),
        _asked("--checkpoint", "there", "'there'", _DOCTOR),
        _wrong("--executors", "0"),
        _wrong("--patience", "0"),
        Call("--app", "--app none.py", "none.py: does not exist"),
        Call("--json", "--json", '"would_attach": true', code=0, instead=_WELL),
    ),
    "run": (
        _wrong("--max-executors", "0", after=_PROGRAM),
        _wrong("--min-executors", "3", before=_TWO, after=_PROGRAM),
        _wrong("--master", "local[2]", before=_TWO, after=_PROGRAM),
        _wrong("--goal", "best", before=_TWO, after=_PROGRAM),
        _wrong("--planner", "best", before=_TWO, after=_PROGRAM),
        _asked("--repartition", "", "repartition=True", _RUN, before=_TWO, after=_PROGRAM),
        _asked("--advise-only", "", "advise_only=True", _RUN, before=_TWO, after=_PROGRAM),
        _asked("--force", "", "'force': True", _RUN, before=_TWO, after=_PROGRAM),
        Call("--log", f"{_TWO} --log text {_PROGRAM}", "text: exists and is not a decision log"),
        _wrong("--page", "x", before=_TWO, after=_PROGRAM),
        _wrong("--page-name", "a:80", before=_TWO, after=_PROGRAM),
        _wrong("--page-token", "text", before=f"{_TWO} --page 0", after=_PROGRAM),
        _wrong("--page-certificate", "text", before=f"{_TWO} --page 0", after=_PROGRAM),
        _wrong("--control", "text", before=_TWO, after=_PROGRAM),
        _asked("--spans", "", "'spans': True", _RUN, before=_TWO, after=_PROGRAM),
        _wrong("--measure", "/", before=_TWO, after=_PROGRAM),
        Call("--launcher", "--launcher", "launcher.py", code=0),
    ),
    "control": (
        _wrong("--token-file", "none", before="http://localhost:1 status"),
        _wrong("--certificate", "text", before="https://localhost:1 status --token-file secret"),
        Call("--json", "none.sock status --json", "none.sock: there is no such socket"),
    ),
    "page": (
        _wrong("--port", "x", before="log.jsonl"),
        _wrong("--page-name", "http://a", before="log.jsonl --port 0"),
    ),
    "log": (Call("--json", "log.jsonl --json", '{"v": 3, "at_ms": 0', code=0),),
    "measure": (
        _wrong("--out", "/"),
        _wrong("--batches", "0", after="--out p.json"),
        Call("--lower-bound", "--lower-bound --out /", "elastream: --out: "),
        *(Call(one.option, f"{one.arguments} --out p.json", one.says) for one in _PACKETS),
    ),
    "patterns": (
        _wrong("--input", "none.csv", after="--time t --text x"),
        _wrong("--time", "t"),
        _wrong("--text", "x"),
        *(_wrong(option, "-1") for option in ("--seed", "--moves")),
        *(_wrong(option, "0") for option in ("--posts", "--seconds", "--window", "--tick")),
        *(_wrong(option, "0") for option in ("--least", "--most-words")),
        *(_wrong(option, "0") for option in ("--executors", "--partitions")),
        _wrong("--out", "/"),
        _wrong("--json", "/"),
    ),
    "taxi": (
        _wrong("--input", "none.csv"),
        _wrong("--since", "soon"),
        _wrong("--until", "late"),
        _wrong("--seed", "-1"),
        *(_wrong(option, "0") for option in ("--minutes", "--trips-a-minute", "--swing")),
        *(_wrong(option, "0") for option in ("--seconds", "--executors", "--partitions")),
        _wrong("--trigger-s", "0"),
        _wrong("--service-us", "1e9"),
        Call("--replicate", "--replicate --act --json /", "elastream: --json: "),
        Call("--act", "--act --json /", "elastream: --act: "),
        _wrong("--response-ms", "0", before="--replicate"),
        _wrong("--period-s", "0", before="--replicate"),
        _wrong("--out", "/"),
        _wrong("--json", "/"),
        _wrong("--log", "d.jsonl"),
    ),
    "trial": (
        _wrong("--runs", "0"),
        _wrong("--seed", "-1"),
        _wrong("--run", "-1"),
        _wrong("--json", "/"),
    ),
    "traffic": (
        *_PACKETS,
        _wrong("--seconds", "1"),
        _wrong("--plan", "problem.json"),
        _wrong("--out", "/"),
    ),
    "plan single-step": (Call("--draw", "problem.json --draw", "node", code=0), *_FORECAST),
    "plan free-step": (
        Call("--draw", "problem.json --draw", "node", code=0),
        _asked("--seconds", "2.5", "250000.0}", "elastream.placement.free_step.planner.free_step",
               before="problem.json"),
        *_FORECAST,
    ),
    "plan sequence": (
        Call("--draw", "sequence.json --draw", "node", code=0),
        _asked("--seconds", "2.5", "150000000.0}", "elastream.foresight.oms.planner.sequence",
               before="sequence.json"),
    ),
    "plan transition": (
        Call("--values", "transition.json --values none", "none: "),
    ),
    "plan resilient": (
        Call("--method", "resilient.json --method rod", "feasible_ratio", code=0),
        Call("--draw", "resilient.json --draw", "stream 0", code=0),
    ),
    "plan replication": (
        _asked("--seconds", "2.5", "375000000.0}",
               "elastream.replication.planner.exact.replication", before="text",
               instead={"elastream.replication.commands.replication_problem": lambda _: None,
                        "elastream.replication.commands.read_fields": lambda _: {}}),
    ),
    "handover serve": (
        *_side(_SERVE),
        _wrong("--address", "here", before=_SERVE),
        Call("--token-file", f"{_SERVE} --token-file text", "text: the token has fewer than"),
    ),
    "handover join": (
        *_side(_JOIN),
        Call("--token-file", f"{_SUMS} here:1 --token-file text", "text: the token has fewer"),
        _wrong("--since", "noon", before=_JOIN),
        _wrong("--address", "here", before=_JOIN),
        Call("--origin-record", f"{_JOIN} --origin-record r.json",
             "'origin_record': PosixPath('r.json')",
             instead={_SESSION: _no_session, "elastream.handover.offering.take": stop_with}),
    ),
    "handover manage": (
        _wrong("--every", "0", before="none.json"),
        Call("--act", "none.json --act", "none.json: cannot be read"),
    ),
    "trace from-log": (
        _wrong("--out", "text", before="log.jsonl"),
        _wrong("--every", "5x", before="log.jsonl --out o"),
        _wrong("--query", "nobody", before="log.jsonl --out o"),
        Call("--overwrite", "log.jsonl --out trace --overwrite", "work and state of", code=0),
    ),
    "trace nodes": (
        _wrong("--min", "0", before="trace"),
        _wrong("--max", "1", before="trace --min 2"),
        _wrong("--of", "bytes", before="trace"),
        _wrong("--low", "-1", before="trace"),
        _wrong("--high", "-1", before="trace"),
    ),
    "trace chain": (
        _wrong("--gamma", "2", before="trace"),
        _wrong("--smoothing", "-1", before="trace"),
        Call("--directed", "trace --directed", '"directions"', code=0),
        _wrong("--out", "/", before="trace"),
    ),
    "trace build": (
        _wrong("--input", "none.csv", after="--time t --text x --out o"),
        _asked("--time", "t", "'time': 't'", _SETTINGS, before=_BUILD.replace("--time t", "")),
        Call("--out", f"{_BUILD} --text x", "asked for (None, None, PosixPath('o')",
             instead={_BATCH: lambda *_, **__: nullcontext(), _SETTINGS: lambda **_: None,
                      f"{_LAB}.applications.patterns.building.build_trace": stop_with}),
        _asked("--text", "x", "'text': 'x'", _SETTINGS, before=_BUILD),
        _asked("--key", "x", "'key': 'x'", _SETTINGS, before=_BUILD),
        _wrong("--patterns", "9", before=f"{_BUILD} --text x"),
        _wrong("--tasks", "0", before=f"{_BUILD} --text x"),
        _wrong("--every", "5x", before=f"{_BUILD} --text x"),
        _wrong("--window", "5x", before=f"{_BUILD} --text x"),
        _wrong("--value-bytes", "-1", before=f"{_BUILD} --text x"),
        _wrong("--max-bad-share", "2", before=f"{_BUILD} --text x"),
        _wrong("--format", "doc", before=f"{_BUILD} --text x"),
        Call("--overwrite", f"{_BUILD} --text x --overwrite", "'overwrite': True",
             instead={_BATCH: lambda *_, **__: nullcontext(), _SETTINGS: lambda **_: None,
                      f"{_LAB}.applications.patterns.building.build_trace": stop_with}),
        _asked("--master", "yarn", "'master': 'yarn'", _BATCH, before=f"{_BUILD} --text x"),
    ),
    "repartition": (
        _asked("--master", "yarn", "'master': 'yarn'", _BATCH, before="hdfs://nowhere/c 8"),
    ),
    "values build": (
        _wrong("--out", "/", before="problem.json"),
        Call("--trace", "--trace nowhere --chain chain.json --out o", "nowhere: is not a trace"),
        Call("--chain", "--trace trace --chain problem.json --out o", "chain.work: is not a field"),
        _wrong("--tau", "-1", before="--trace trace --chain chain.json --out o"),
        _wrong("--list-up-to", "10000001", before="values.json --out v.parquet"),
        _asked("--pool", "70", "'pool': 70", _GROWTH, before=_VALUES),
        _asked("--rounds", "3", "'rounds': 3", _GROWTH, before=_VALUES),
        _asked("--seed", "5", "'seed': 5", _GROWTH, before=_VALUES),
        _asked("--spark", "", "'master': None", _BATCH, before=_VALUES),
        Call("--in-process", f"{_VALUES} --master yarn --in-process", "v.parquet: all", code=0),
        _asked("--master", "yarn", "'master': 'yarn'", _BATCH, before=_VALUES),
    ),
    "bench control": (
        _wrong("--sizes", "1x"),
        _wrong("--json", "/"),
        Call("--jvm", "--jvm --sizes 4x40x1", "asked for",
             instead={f"{_LAB}.benchmarks.control.simulated.measured_apart":
                      lambda _: SimpleNamespace(as_json=dict),
                      f"{_LAB}.benchmarks.control.jvm.jvm_costs": stop_with}),
        Call("--no-jvm", "--no-jvm --sizes 4x40x1", "the loop on a simulated cluster", code=0,
             instead={f"{_LAB}.benchmarks.control.jvm.jvm_costs": stop_with}),
    ),
    "bench sweep": (
        _wrong("--applications", "0"),
        _wrong("--seed", "-1"),
        _wrong("--goal", "x"),
        _wrong("--json", "/"),
    ),
    "bench elasticity": (
        _wrong("--load", "none.csv"),
        _wrong("--from", "now"),
        _wrong("--hours", "3"),
        _wrong("--seconds", "0"),
        _wrong("--ways", "magic"),
        _wrong("--min-executors", "4"),
        _wrong("--max-executors", "1"),
        _wrong("--peak-utilisation", "2"),
        *(_wrong(option, "0") for option in ("--peak-rows-per-s", "--service-us", "--trigger-s")),
        _wrong("--work", "done"),
        _wrong("--partitions", "3"),
        *(_wrong(f"--{name}-s", "0") for name in ("backlog-timeout", "idle-timeout", "look-ahead")),
        _wrong("--seed", "-1"),
        *_FILES,
    ),
    "bench failure": (
        _wrong("--state", "huge"),
        _wrong("--ways", "magic"),
        _wrong("--executors", "1"),
        _wrong("--hot-share", "1.5"),
        _wrong("--repeats", "0"),
        _wrong("--trigger-s", "0"),
        *_FILES,
    ),
    "bench migration": (
        _wrong("--state", "huge"),
        _wrong("--partition-mb", "0"),
        _wrong("--mechanisms", "magic"),
        _wrong("--executors", "3,2"),
        _wrong("--hot-share", "1.5"),
        _wrong("--work", "done"),
        _wrong("--repeats", "0"),
        _asked("--master", "yarn", "master='yarn'",
               f"{_LAB}.benchmarks.migration.bench.run_benchmark"),
        _wrong("--posts-a-second", "0"),
        _wrong("--service-us", "-1"),
        _wrong("--trigger-s", "0"),
        _asked("--in-memory", "", "in_memory=True",
               f"{_LAB}.benchmarks.migration.bench.run_benchmark"),
        _wrong("--store", "tape"),
        _wrong("--store-mb-per-s", "50"),
        _wrong("--parts", "nowhere", before="--store s3"),
        *_FILES,
        _wrong("--share-picture", "x.bmp"),
    ),
    "bench peers": (
        _wrong("--flink", "nowhere"),
        _wrong("--rows-a-second", "0"),
        _wrong("--state-mb", "0"),
        _wrong("--hot-share", "1.1"),
        _wrong("--trigger-s", "0"),
        _wrong("--json", "/"),
    ),
    "bench realtime": (
        _wrong("--rows-a-second", "0"),
        _wrong("--burst", "0"),
        _wrong("--partition-mb", "-1"),
        _wrong("--batches", "0"),
        _wrong("--rounds", "0"),
        _wrong("--trigger-s", "4"),
        _wrong("--json", "/"),
    ),
    "bench relief": (
        _wrong("--shape", "round"),
        _wrong("--change", "2-2"),
        _wrong("--planner", "best"),
        _wrong("--tau", "-1"),
        _wrong("--row-ms", "0"),
        _wrong("--batches", "1"),
        _wrong("--json", "/"),
    ),
    "bench transfer": (
        _wrong("--store", "tape"),
        _wrong("--partition-mb", "0"),
        _wrong("--store-mb-per-s", "0"),
        _wrong("--store-open-ms", "-1"),
        _wrong("--executor-mb-per-s", "0"),
        _wrong("--offers", "-1"),
        _wrong("--repeats", "0"),
        _wrong("--json", "/"),
    ),
    "study resilience": (
        Call("--input", "--input none.json", "none.json: "),
        _wrong("--figures", "99"),
        Call("--graphs", "--figures 9 --graphs 3", "asked for (0, 3, {})", instead=_FIGURES),
        Call("--seed", "--figures 9 --seed 4", "asked for (4, 5, {})", instead=_FIGURES),
        Call("--on-spark", "--on-spark --points 0", "elastream: --points: "),
        _wrong("--points", "0", before="--on-spark"),
        _wrong("--batches", "1", before="--on-spark"),
        _wrong("--executors", "1", before="--on-spark"),
        _wrong("--work", "dreamt", before="--on-spark"),
        _wrong("--trigger-s", "0", before="--on-spark"),
        _wrong("--methods", "best", before="--on-spark"),
        Call("--measured", "--on-spark --measured none.json", "none.json: "),
        *_FILES,
    ),
    "study latency": (
        _wrong("--input", "none.csv", after=_COLUMNS),
        *(_wrong(option, "x") for option in ("--time", "--source", "--destination")),
        _asked("--hours", "3", "asked for (0, 3, {})", f"{_STUDIES}.resilience.latency.latency"),
        _asked("--seed", "4", "asked for (4, 5, {})", f"{_STUDIES}.resilience.latency.latency"),
        Call("--on-spark", "--on-spark --repeats 0", "elastream: --repeats: "),
        _wrong("--repeats", "0", before="--on-spark"),
        _wrong("--seconds", "1", before="--on-spark"),
        _wrong("--methods", "best", before="--on-spark"),
        _wrong("--levels", "4,3", before="--on-spark"),
        _wrong("--executors", "1", before="--on-spark"),
        _wrong("--work", "dreamt", before="--on-spark"),
        Call("--measured", "--on-spark --measured none.json", "none.json: cannot be read"),
        *_FILES,
    ),
    "study replication": (
        _wrong("--input", "none.csv", before="--part hour"),
        _asked("--part", "scale", "'milp_limit_s': 60.0", _CELLS),
        _asked("--minutes", "3", "'minutes': 3", _HOUR),
        _asked("--milp-seconds", "7", "'milp_limit_s': 7.0", _CELLS, before="--part scale"),
        _asked("--on-spark", "", "asked for (60.0, {'trips': None,",
               f"{_STUDIES}.replication.on_spark.study_settings"),
        _asked("--seconds", "30", "asked for (30.0, {'trips': None,",
               f"{_STUDIES}.replication.on_spark.study_settings", before="--on-spark"),
        _asked("--service-us", "7", "'service_us': 7.0",
               f"{_STUDIES}.replication.on_spark.study_settings", before="--on-spark"),
        _wrong("--repeats", "0", before="--on-spark"),
        *(_wrong(option, "x", before="--on-spark")
          for option in ("--weightings", "--since", "--until")),
        Call("--hosts", "--hosts", "elastream: --hosts: none can be made here: so",
             instead={f"{_LAB}.hosts.namespaces.why_not": lambda: "so"}),
        _wrong("--delay-ms", "0", before="--hosts"),
        Call("--measured", "--on-spark --measured none.json", "none.json: cannot be read"),
        *_FILES,
    ),
    "study handover": (
        _wrong("--queries", "q9"),
        _wrong("--range-s", "0"),
        _wrong("--join-at-s", "1"),
        _wrong("--gap-ms", "0"),
        _wrong("--trigger-s", "0"),
        _wrong("--repeats", "0"),
        _wrong("--masters", "a,b,c"),
        _wrong("--seed", "-1"),
        *_FILES,
    ),
    "study transfer-phases": (
        Call("--input", "--input none.json", "none.json: "),
        Call("--hosts", "--hosts", "elastream: --hosts: none can be made here: so",
             instead={f"{_LAB}.hosts.namespaces.why_not": lambda: "so"}),
        _wrong("--bytes-per-s", "0"),
        _wrong("--repeats", "0"),
        _asked("--seed", "5", "asked for (5, {})",
               f"{_STUDIES}.transfer.migrations.made_migrations"),
        *_FILES,
    ),
    "study precompute": (
        Call("--input", "--input none.json", "none.json: "),
        _asked("--tasks", "9", "asked for (9, 0.19, {})",
               f"{_LAB}.benchmarks.transition.skewed_problem"),
        _wrong("--taus", "x"),
        _wrong("--cores", "x"),
        _asked("--most", "70", "most=70", _PRECOMPUTE),
        _asked("--pool", "70", "pool=70", _PRECOMPUTE),
        *_FILES,
    ),
    "study projected-cost": (
        Call("--sequences", "transition.json --sequences 2", "least_total", code=0),
    ),
    "study migration-response": (
        _wrong("--figures", "x"),
        _wrong("--applications", "x"),
        _wrong("--windows", "150"),
        _wrong("--planners", "x"),
        _wrong("--sizes", "2,2"),
        _wrong("--nodes", "8"),
        _wrong("--seconds", "1"),
        _wrong("--repeats", "0"),
        _wrong("--migrations", "1"),
        _wrong("--posts-a-second", "0"),
        _wrong("--tau", "-1"),
        _wrong("--seed", "-1"),
        _wrong("--input", "none.csv"),
        _wrong("--time", "t"),
        _wrong("--text", "x"),
        Call("--trace", "--trace nowhere", "nowhere: is not a trace"),
        _wrong("--train", "nowhere"),
        Call("--measured", "--measured none.json", "none.json: cannot be read"),
        *_FILES,
    ),
    "study look-ahead": (
        _wrong("--input", "none.csv"),
        _wrong("--look-ahead-s", "3601", before=_LOAD),
        _wrong("--pool-s", "-1", before=_LOAD),
        _wrong("--days", "0", before=_LOAD),
        *(
            Call(one.option, f"{_LOAD} {one.arguments}", one.says, instead=_NO_LOADS)
            for one in _FILES
        ),
    ),
    "study soak": (
        _wrong("--days", "-1"),
        _wrong("--live-minutes", "-1"),
        _wrong("--json", "/"),
        _wrong("--picture", "soak.txt"),
    ),
    "study migration-cost": (
        Call("--trace", "--trace nowhere", "nowhere: is not a trace"),
        _wrong("--train", "a", before="--trace b --train c"),
        _asked("--migrations", "7", "'migrations': 7", _COST, before="--trace a", instead=_READ),
        _asked("--seeds", "7", "'seeds': 7", _COST, before="--trace a", instead=_READ),
        _asked("--tasks", "7", "'tasks': 7", _COST, before="--trace a", instead=_READ),
        _wrong("--figures", "x", before="--trace a"),
        Call("--taus", "--trace a --taus x", "elastream: --taus: ", instead=_READ | _CHECKED),
        *(
            Call(one.option, f"--trace a {one.arguments}", one.says, instead=_READ | _CHECKED)
            for one in _FILES
        ),
    ),
}  # fmt: skip
"""Of each command, by its name, a call for each of its options."""
