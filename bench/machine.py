"""What the run had to work with, and the memory it took."""

from __future__ import annotations

import os
import platform
import re
import subprocess
import threading
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from dbt.adapters.sparkcdc.jvm.java import find_java
from dbt.adapters.sparkcdc.jvm.settings import GIB, cpu_cores, driver_memory, machine_memory

PACKAGES = ("dbt-core", "dbt-spark", "pyspark", "delta-spark", "duckdb", "deltalake")
SECONDS_BETWEEN_LOOKS = 0.5


def describe() -> dict[str, object]:
    """Returns commit, cores, memory and versions."""
    return {
        "commit": _commit(),
        "cores": cpu_cores(),
        "memory_gib": round(machine_memory() / GIB, 1),
        "spark_driver_memory_gib": round(driver_memory() / GIB, 1),
        "system": f"{platform.system()} {platform.machine()}",
        "versions": {"python": platform.python_version(), "java": _java()} | _packages(),
    }


def _commit() -> str:
    """The commit that is measured, `-dirty` where files differ from it; empty without git."""
    try:
        said = subprocess.run(
            ["git", "describe", "--always", "--dirty", "--exclude", "*"],
            cwd=Path(__file__).parent,
            capture_output=True,
            text=True,
        )
    except OSError:
        return ""
    return said.stdout.strip()


def _packages() -> dict[str, str]:
    found = {}
    for name in PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            found[name] = "not installed"
    return found


def _java() -> str:
    said = subprocess.run(
        [find_java().home / "bin" / "java", "-version"], capture_output=True, text=True, check=True
    )
    return said.stderr.partition('"')[2].partition('"')[0]


def tree_memory() -> int:
    """Returns the resident memory of this process and all below it in MiB: Spark is a child."""
    try:
        listed = subprocess.run(
            ["ps", "-axo", "pid=,ppid=,rss="], capture_output=True, text=True, check=True
        )
    except (OSError, subprocess.CalledProcessError):
        return 0  # without `ps` nobody knows the memory
    children: dict[int, list[int]] = {}
    resident: dict[int, int] = {}
    for line in listed.stdout.splitlines():
        pid, parent, kib = map(int, line.split())
        children.setdefault(parent, []).append(pid)
        resident[pid] = kib
    total, waiting = 0, [os.getpid()]
    while waiting:
        pid = waiting.pop()
        total += resident.get(pid, 0)
        waiting += children.get(pid, [])
    return total // 1024


def java_peak(pid: int) -> int:
    """Returns the most memory that a process has held, in MiB; 0 where Linux does not say it.

    Args:
        pid: The process.
    """
    try:
        status = Path(f"/proc/{pid}/status").read_text(encoding="ascii")
    except OSError:
        return 0
    found = re.search(r"^VmHWM:\s+(\d+) kB", status, re.MULTILINE)
    return int(found[1]) // 1024 if found else 0


def reset_java_peak(pid: int) -> None:
    """Lets `java_peak` count from now on, where Linux permits it.

    Args:
        pid: The process.
    """
    with suppress(OSError):
        Path(f"/proc/{pid}/clear_refs").write_text("5", encoding="ascii")


class MemoryWatch:
    """Looks at the memory of the process tree from time to time.

    Attributes:
        peak: The most it saw since the last `reset`, in MiB.
    """

    def __init__(self) -> None:
        self.peak = 0
        self._ended = threading.Event()
        threading.Thread(target=self._watch, name="memory-watch", daemon=True).start()

    def _watch(self) -> None:
        while not self._ended.wait(SECONDS_BETWEEN_LOOKS):
            self.peak = max(self.peak, tree_memory())

    def reset(self) -> None:
        """Forgets what was seen."""
        self.peak = 0

    def end(self) -> None:
        """Looks no more."""
        self._ended.set()
