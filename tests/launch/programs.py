"""Programs as users have them, run by ``elastream run`` and by Python itself."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pyspark

from elastream.spark.sessions.java import java_home

__all__ = ["ELASTREAM", "by_elastream", "by_python", "by_submit", "environment", "written"]

ELASTREAM = [sys.executable, "-m", "elastream.cli.main"]
_VARIABLES = ("MASTER", "PYSPARK_SUBMIT_ARGS", "SPARK_CONF_DIR", "SPARK_HOME", "SPARK_REMOTE")
"""What the machine's own may say of Spark."""
_PATIENCE_S = 600.0


def written(folder: Path, text: str, name: str = "app.py") -> Path:
    file = folder / name
    file.write_text(text)
    return file


def by_python(
    program: Path | str, *arguments: str, folder: Path | None = None, together: bool = False
) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(program), *arguments]
    return _ran(command, {}, folder=folder, together=together)


def by_elastream(
    program: Path | str,
    *arguments: str,
    options: str = "",
    environ: Mapping[str, str] | None = None,
    folder: Path | None = None,
    together: bool = False,
) -> subprocess.CompletedProcess[str]:
    """``together``: standard error is in standard output, in the order in which both came."""
    command = [*ELASTREAM, "run", "--max-executors", "2", *options.split()]
    return _ran([*command, str(program), *arguments], environ or {}, folder, together=together)


def by_submit(
    program: Path, *arguments: str, submit: str = "", options: str = ""
) -> subprocess.CompletedProcess[str]:
    """The program by its launcher, under ``spark-submit``."""
    spark = Path(pyspark.__file__).parent
    launcher = _ran([*ELASTREAM, "run", "--launcher"], {}).stdout.strip()
    command = [str(spark / "bin" / "spark-submit"), *submit.split(), launcher]
    command += ["--max-executors", "2", *options.split(), "--", str(program), *arguments]
    variables = {
        "JAVA_HOME": str(java_home()),
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_LOCAL_IP": "127.0.0.1",
    }
    return _ran(command, variables)


def environment(more: Mapping[str, str]) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if name not in _VARIABLES}
    return {**kept, **more}


def _ran(
    command: list[str],
    environ: Mapping[str, str],
    folder: Path | None = None,
    *,
    together: bool = False,
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command,
        cwd=folder,
        env=environment(environ),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT if together else subprocess.PIPE,
        text=True,
        timeout=_PATIENCE_S,
        check=False,
        preexec_fn=_hear_ctrl_c,
    )


def _hear_ctrl_c() -> None:
    """Be as at a terminal: what runs in the background may ignore it."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
