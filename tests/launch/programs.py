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


def by_python(program: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return _ran([sys.executable, str(program), *arguments], {})


def by_elastream(
    program: Path, *arguments: str, options: str = "", environ: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    command = [*ELASTREAM, "run", "--max-executors", "2", *options.split()]
    return _ran([*command, str(program), *arguments], environ or {})


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


def _ran(command: list[str], environ: Mapping[str, str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command,
        env=environment(environ),
        capture_output=True,
        text=True,
        timeout=_PATIENCE_S,
        check=False,
        preexec_fn=_hear_ctrl_c,
    )


def _hear_ctrl_c() -> None:
    """Be as at a terminal: whatever runs in the background may have been told not to hear it."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
