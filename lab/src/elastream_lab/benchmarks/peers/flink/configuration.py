"""What a Flink cluster on this machine is given: one slot a task manager, all on the loopback.

Flink's own defaults, but for what makes the comparison fair or the machine small:

- the adaptive scheduler, which rescales a running job in place, without a pause between changes;
- state in RocksDB, as here, checkpointed incrementally to local files as often as a micro-batch
  begins here: work that a rescale repeats is at most that old;
- rows wait 10 ms for others before they are sent on, where Flink's default of 100 ms would be most
  of its latency at this rate;
- about the memory of an executor for each task manager.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

_LOOPBACK: Final = "127.0.0.1"
_FRAMEWORK_HEAP_MB: Final = 128
_TASK_HEAP_MB: Final = 256
_MANAGED_MB: Final = 256
_NETWORK_MB: Final = 64
_FRAMEWORK_OFF_HEAP_MB: Final = 128
_METASPACE_MB: Final = 192
_OVERHEAD_MB: Final = 192
_JOB_MANAGER_HEAP_MB: Final = 384
_OPENED: Final = (
    "java.io",
    "java.lang",
    "java.lang.reflect",
    "java.net",
    "java.nio",
    "java.text",
    "java.time",
    "java.util",
    "java.util.concurrent",
    "java.util.concurrent.atomic",
    "java.util.concurrent.locks",
    "sun.nio.ch",
)
"""What Flink's own scripts open to it in a Java that keeps these packages closed."""


@dataclass(frozen=True, slots=True)
class FlinkConfiguration:
    """One cluster's settings."""

    scratch: Path
    """All its files are in this folder."""
    rest_port: int
    rpc_port: int
    checkpoint_s: float

    def settings(self) -> Mapping[str, str]:
        """Return them by Flink's names."""
        return {
            "jobmanager.rpc.address": _LOOPBACK,
            "jobmanager.rpc.port": str(self.rpc_port),
            "jobmanager.bind-host": _LOOPBACK,
            "rest.address": _LOOPBACK,
            "rest.bind-address": _LOOPBACK,
            "rest.port": str(self.rest_port),
            "taskmanager.host": _LOOPBACK,
            "taskmanager.bind-host": _LOOPBACK,
            "taskmanager.numberOfTaskSlots": "1",
            "taskmanager.cpu.cores": "1",
            "taskmanager.memory.framework.heap.size": f"{_FRAMEWORK_HEAP_MB}m",
            "taskmanager.memory.framework.off-heap.size": f"{_FRAMEWORK_OFF_HEAP_MB}m",
            "taskmanager.memory.task.heap.size": f"{_TASK_HEAP_MB}m",
            "taskmanager.memory.task.off-heap.size": "0m",
            "taskmanager.memory.managed.size": f"{_MANAGED_MB}m",
            "taskmanager.memory.network.min": f"{_NETWORK_MB}m",
            "taskmanager.memory.network.max": f"{_NETWORK_MB}m",
            "taskmanager.memory.jvm-metaspace.size": f"{_METASPACE_MB}m",
            "taskmanager.memory.jvm-overhead.min": f"{_OVERHEAD_MB}m",
            "taskmanager.memory.jvm-overhead.max": f"{_OVERHEAD_MB}m",
            "jobmanager.scheduler": "adaptive",
            "jobmanager.adaptive-scheduler.executing.cooldown-after-rescaling": "0 s",
            "restart-strategy.type": "none",
            "state.backend.type": "rocksdb",
            "execution.checkpointing.interval": f"{round(self.checkpoint_s * 1000)} ms",
            "execution.checkpointing.incremental": "true",
            "execution.checkpointing.storage": "filesystem",
            "execution.checkpointing.dir": (self.scratch / "checkpoints").as_uri(),
            "execution.buffer-timeout.interval": "10 ms",
            "io.tmp.dirs": str(self.scratch / "tmp"),
            "web.tmpdir": str(self.scratch / "web"),
        }

    def write(self) -> Path:
        """Write what the processes read into a folder, and return it."""
        folder = self.scratch / "conf"
        folder.mkdir()
        for name in ("checkpoints", "tmp", "web"):
            (self.scratch / name).mkdir()
        lines = [f'{name}: "{value}"\n' for name, value in self.settings().items()]
        (folder / "config.yaml").write_text("".join(lines))
        (folder / _LOGGING_FILE).write_text(_LOGGING)
        return folder

    @property
    def job_manager_java(self) -> tuple[str, ...]:
        """Return the options of the job manager's Java."""
        return (f"-Xmx{_JOB_MANAGER_HEAP_MB}m", f"-Xms{_JOB_MANAGER_HEAP_MB}m", *self._java)

    @property
    def task_manager_java(self) -> tuple[str, ...]:
        """Return the options of a task manager's Java, which follow from its memory."""
        heap_mb = _FRAMEWORK_HEAP_MB + _TASK_HEAP_MB
        return (
            f"-Xmx{heap_mb}m",
            f"-Xms{heap_mb}m",
            f"-XX:MaxDirectMemorySize={_FRAMEWORK_OFF_HEAP_MB + _NETWORK_MB}m",
            f"-XX:MaxMetaspaceSize={_METASPACE_MB}m",
            *self._java,
        )

    @property
    def _java(self) -> tuple[str, ...]:
        """Return the options of every Java."""
        opened = (f"--add-opens=java.base/{package}=ALL-UNNAMED" for package in _OPENED)
        return (*opened, f"-Dlog4j.configurationFile={self.scratch / 'conf' / _LOGGING_FILE}")


_LOGGING_FILE: Final = "log4j.properties"
_LOGGING: Final = """\
rootLogger.level = WARN
rootLogger.appenderRef.console.ref = console
appender.console.name = console
appender.console.type = CONSOLE
appender.console.layout.type = PatternLayout
appender.console.layout.pattern = %d{HH:mm:ss,SSS} %-5p %c{1} - %m%n
"""
