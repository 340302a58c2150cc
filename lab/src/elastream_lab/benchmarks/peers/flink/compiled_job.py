"""The job's jar, compiled from its source by Janino, the compiler that Spark carries."""

from __future__ import annotations

import subprocess
import zipfile
from importlib import resources
from pathlib import Path
from typing import Final

from elastream_lab.benchmarks.peers.flink.cluster import FlinkError
from elastream_lab.benchmarks.peers.flink.installation import FlinkInstallation

ENTRY: Final = "KeyedCount"
_COMPILER: Final = "org.codehaus.commons.compiler.samples.CompilerDemo"


def compiled_job(flink: FlinkInstallation, java: Path, folder: Path) -> Path:
    """Compile the job against a Flink, and return its jar."""
    import pyspark

    classes = folder / "classes"
    classes.mkdir()
    source = folder / f"{ENTRY}.java"
    source.write_bytes(resources.files(__package__).joinpath(source.name).read_bytes())
    jars = Path(pyspark.__file__).parent / "jars"
    compiler = [*jars.glob("janino-*.jar"), *jars.glob("commons-compiler-*.jar")]
    known = ":".join(map(str, flink.jars))
    done = subprocess.run(
        [
            str(java / "bin" / "java"),
            "-cp",
            ":".join(map(str, compiler)),
            _COMPILER,
            "-d",
            str(classes),
            "-classpath",
            known,
            str(source),
        ],
        capture_output=True,
        text=True,
        check=False,
    )
    found = sorted(classes.glob("*.class"))
    if done.returncode or not found:
        said = " ".join((done.stderr or done.stdout).split())[:500]
        raise FlinkError(f"the Flink job does not compile against Flink {flink.version}: {said}")
    jar = folder / f"{ENTRY}.jar"
    with zipfile.ZipFile(jar, "w") as archive:
        for file in found:
            archive.write(file, file.name)
    return jar
