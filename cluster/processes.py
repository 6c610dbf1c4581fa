"""The processes of a cluster: started in the background, and known by more than their number."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from dbt.adapters.sparkcdc import private

from cluster.options import HOST, Problem
from dbt_spark_cdc.whole_file import write_whole

START_SECONDS = 120
STOP_SECONDS = 30
LINES_SHOWN = 15


@dataclass(frozen=True)
class Process:
    """A process of the cluster. The system gives a number to another process in time.

    Attributes:
        name: What it is.
        pid: Its number.
        began: When it began, as the system tells.
    """

    name: str
    pid: int
    began: str

    @property
    def runs(self) -> bool:
        """Whether it runs, and not another one of its number."""
        return began(self.pid) == self.began


def began(pid: int) -> str | None:
    """Returns when a process began, in the system's words; None where there is none.

    Args:
        pid: Its number.
    """
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except FileNotFoundError:
        if Path("/proc/self/stat").exists():
            return None
        asked = ["ps", "-o", "state=,lstart=", "-p", str(pid)]
        answer = subprocess.run(asked, capture_output=True, text=True).stdout.strip()
        state, _, when = answer.partition(" ")
        return when.strip() or None if not state.startswith("Z") else None
    # The program's name is in parentheses, and may have any character.
    state, *rest = stat.rpartition(")")[2].split()
    return None if state in "ZX" else rest[18]


def read(file: Path) -> tuple[dict[str, object], list[Process]]:
    """Reads what a cluster has started.

    Args:
        file: The file that `write` wrote.

    Returns:
        The options that it was started with, and its processes in the order of their start.

    Raises:
        Problem: The file is not one of a cluster.
    """
    try:
        known = json.loads(file.read_text(encoding="utf-8"))
        return known["options"], [Process(**process) for process in known["processes"]]
    except FileNotFoundError:
        return {}, []
    except (ValueError, KeyError, TypeError) as exc:
        raise Problem(
            f"{file} cannot be read: {exc}. End the processes of the cluster yourself, and remove "
            "the file."
        ) from exc


def write(file: Path, options: Mapping[str, object], processes: Sequence[Process]) -> None:
    """Writes what a cluster has started.

    Args:
        file: The file.
        options: The options that it was started with.
        processes: Its processes.
    """
    known = {"options": dict(options), "processes": [asdict(process) for process in processes]}
    write_whole(file, json.dumps(known, indent=2) + "\n")


def start(
    name: str, command: Sequence[str], log: Path, environment: Mapping[str, str], folder: Path
) -> Process:
    """Starts a process that outlives this one.

    Args:
        name: What it is.
        command: Program and arguments; every user of the machine can read them.
        log: File that gets what it prints.
        environment: All its variables.
        folder: Its working directory.
    """
    with open(log, "wb", opener=private.opener) as out:
        started = subprocess.Popen(
            command,
            cwd=folder,
            env=dict(environment),
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            umask=0o077,
        )
    # It cannot be gone from the list before somebody has asked for its exit status.
    when = began(started.pid)
    started.returncode = 0  # Python would warn that it still runs
    if when is None:
        raise Problem(f"{name} ended at once:\n{end_of(log)}")
    return Process(name, started.pid, when)


def wait_for(process: Process, port: int, log: Path) -> None:
    """Waits until a process listens.

    Args:
        process: The process.
        port: Where.
        log: File that it prints to.

    Raises:
        Problem: It has ended, or takes too long.
    """
    end = time.monotonic() + START_SECONDS
    while time.monotonic() < end:
        if not process.runs:
            raise Problem(f"{process.name} has ended. The end of {log}:\n{end_of(log)}")
        if listens(port):
            return
        time.sleep(0.1)
    raise Problem(
        f"{process.name} does not listen on port {port} after {START_SECONDS} s. "
        f"The end of {log}:\n{end_of(log)}"
    )


def listens(port: int) -> bool:
    """Whether something listens on a port of this machine."""
    with socket.socket() as client:
        client.settimeout(1)
        return client.connect_ex((HOST, port)) == 0


def is_free(port: int) -> bool:
    """Whether a port can be listened on."""
    with socket.socket() as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind((HOST, port))
        except OSError:
            return False
    return True


def end_of(log: Path) -> str:
    """Returns the last lines of a log, without the places in Java where errors came from."""
    try:
        lines = log.read_text(encoding="utf-8", errors="replace").strip().splitlines()
    except OSError:
        lines = []
    shown = [line for line in lines if not line.startswith(("\tat ", "\t... "))]
    return "\n".join(shown[-LINES_SHOWN:]) or "(nothing)"


def stop(process: Process, seconds: float = STOP_SECONDS) -> bool:
    """Ends a process and what it has started, if it is still the one that was started.

    Args:
        process: The process.
        seconds: How long it may take to end by itself.

    Returns:
        Whether it ran.
    """
    if not process.runs:
        return False
    # PostgreSQL waits for its clients where it is asked with SIGTERM.
    _signal(process, signal.SIGINT if process.name == "metastore" else signal.SIGTERM)
    end = time.monotonic() + seconds
    while process.runs:
        if time.monotonic() > end:
            _signal(process, signal.SIGKILL, whole_group=True)
        _reap(process.pid)
        time.sleep(0.1)
    return True


def _signal(process: Process, number: int, whole_group: bool = False) -> None:
    if process.runs:
        with contextlib.suppress(ProcessLookupError):
            (os.killpg if whole_group else os.kill)(process.pid, number)


def _reap(pid: int) -> None:
    """Takes note of the end of a child; one of a former process's is not ours to wait for."""
    with contextlib.suppress(ChildProcessError):
        os.waitpid(pid, os.WNOHANG)
