"""Starts, shows and stops a cluster."""

from __future__ import annotations

import fcntl
import json
import os
import secrets
import shlex
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass

from dbt.adapters.sparkcdc import private

from cluster import metastore, processes, spark
from cluster.options import HOST, Folder, Options, Problem
from cluster.processes import Process

POSTGRES_PROCESS = "metastore"

Tell = Callable[[str], None]


@dataclass(frozen=True)
class Cluster:
    """A cluster that was started.

    Attributes:
        options: Its ports and sizes.
        processes: Its processes, in the order of their start.
    """

    options: Options
    processes: list[Process]

    @property
    def missing(self) -> list[str]:
        """Names of the processes that have ended."""
        return [process.name for process in self.processes if not process.runs]

    @property
    def is_whole(self) -> bool:
        """Whether all of it runs."""
        return bool(self.processes) and not self.missing

    @property
    def is_gone(self) -> bool:
        """Whether none of it runs."""
        return not any(process.runs for process in self.processes)

    def process(self, name: str) -> Process:
        """Returns a process by its name."""
        return next(process for process in self.processes if process.name == name)


def find(folder: Folder) -> Cluster:
    """Returns the cluster of a folder.

    Args:
        folder: Its folder; one that does not exist has no processes.

    Raises:
        Problem: What is in the folder cannot be read.
    """
    known, started = processes.read(folder.processes)
    return Cluster(Options.of(known), started)


def up(folder: Folder, options: Options, tell: Tell) -> Cluster:
    """Starts a cluster, whole or not at all. One that runs already is left as it is.

    Args:
        folder: Its folder. Tables and metastore of the last time are there again.
        options: Its ports and sizes.
        tell: Takes what is to be said.

    Returns:
        The cluster.

    Raises:
        Problem: It cannot be started, or one runs with other options or in part.
    """
    options.checked()
    _make(folder)
    with _alone(folder):
        known = find(folder)
        if known.is_whole:
            if known.options != options:
                raise Problem(
                    "The cluster runs with other options: "
                    f"{_differences(known.options, options)}. Stop it first: make cluster-down"
                )
            tell("The cluster runs already.")
            return known
        if not known.is_gone:
            raise Problem(
                f"The cluster runs in part: {', '.join(known.missing)} ended. {folder.logs} says "
                "why. Stop the rest of it first: make cluster-down"
            )
        taken = [f"{name} ({port})" for name, port in options.ports().items() if _is_taken(port)]
        if taken:
            raise Problem(
                f"These ports are in use by others: {', '.join(taken)}. End what listens there, "
                "or name others: --master-port, --ui-port, --connect-port, --thrift-port, "
                "--metastore-port."
            )
        started: list[Process] = []
        try:
            _start(folder, options, started, tell)
        except BaseException:
            for process in _stop_order(started):
                processes.stop(process)
            folder.processes.unlink(missing_ok=True)
            raise
        return Cluster(options, started)


def down(folder: Folder, tell: Tell) -> bool:
    """Stops what `up` has started, and nothing else.

    Args:
        folder: The cluster's folder.
        tell: Takes what is to be said.

    Returns:
        Whether anything ran.
    """
    if not folder.processes.exists():
        tell("No cluster runs.")
        return False
    with _alone(folder):
        stopped = [p.name for p in _stop_order(find(folder).processes) if processes.stop(p)]
        folder.processes.unlink(missing_ok=True)
        folder.environment.unlink(missing_ok=True)
        for scratch in (folder.local, folder.work):
            shutil.rmtree(scratch, ignore_errors=True)
    tell(f"Stopped: {', '.join(stopped)}." if stopped else "No cluster runs.")
    return bool(stopped)


def restart(folder: Folder, name: str) -> Process:
    """Starts a process of a cluster again that has ended.

    Args:
        folder: The cluster's folder.
        name: The process.

    Raises:
        Problem: There is none of this name, it runs, or it does not start.
    """
    with _alone(folder):
        known = find(folder)
        names = [process.name for process in known.processes]
        if name not in names:
            raise Problem(f"The cluster has no process {name!r}: {', '.join(names) or 'it is off'}")
        if known.process(name).runs:
            raise Problem(f"{name} runs. End it first: kill {known.process(name).pid}")
        fresh = _start_one(folder, known.options, name, _secrets(folder))
        all_of_them = [fresh if process.name == name else process for process in known.processes]
        processes.write(folder.processes, asdict(known.options), all_of_them)
        if port := known.options.ports().get(name):
            processes.wait_for(fresh, port, folder.log(name))
        return fresh


def connection(folder: Folder, options: Options) -> dict[str, str]:
    """Returns the variables that dbt's profiles read.

    Args:
        folder: The cluster's folder.
        options: Its ports.
    """
    return {
        # A client sends a token without TLS only to a host of this name.
        "CDC_REMOTE": f"sc://localhost:{options.connect}",
        "DBT_ENV_SECRET_CDC_TOKEN": _secrets(folder)["token"],
        "CDC_THRIFT_HOST": HOST,
        "CDC_THRIFT_PORT": str(options.thrift),
        "CDC_SHARED_FILES": "True",
    }


def _start(folder: Folder, options: Options, started: list[Process], tell: Tell) -> None:
    known = _secrets(folder)
    spark.configure(folder, options, known)
    for name in (POSTGRES_PROCESS, *spark.commands(options)):
        tell(f"Starting {name} ...")
        started.append(_start_one(folder, options, name, known))
        # What was started is known at every moment, also to those who come after a crash.
        processes.write(folder.processes, asdict(options), started)
        _wait(folder, options, started[-1], known)
    lines = [f"export {k}={shlex.quote(v)}\n" for k, v in connection(folder, options).items()]
    folder.environment.unlink(missing_ok=True)
    with open(folder.environment, "w", encoding="utf-8", opener=private.opener) as out:
        out.writelines(lines)


def _start_one(folder: Folder, options: Options, name: str, known: dict[str, str]) -> Process:
    for scratch in (folder.local, folder.work):
        scratch.mkdir(mode=private.FOLDER, exist_ok=True)
    if name == POSTGRES_PROCESS:
        command = metastore.prepare(folder, options.metastore, known["metastore"])
        variables = {k: v for k, v in os.environ.items() if k in ("PATH", "LANG", "TZ")}
        return processes.start(name, command, folder.log(name), variables, folder.postgres)
    command = spark.commands(options)[name]
    variables = spark.environment(folder, name, known)
    return processes.start(name, command, folder.log(name), variables, folder.path)


def _wait(folder: Folder, options: Options, process: Process, known: dict[str, str]) -> None:
    port = options.ports().get(process.name)
    if port is not None:
        processes.wait_for(process, port, folder.log(process.name))
    if process.name == POSTGRES_PROCESS:
        metastore.create_database(options.metastore, known["metastore"])
        spark.make_tables(folder, options, known["metastore"])


def _make(folder: Folder) -> None:
    # PostgreSQL's user has to pass through, where PostgreSQL does not run as this one.
    mode = 0o711 if os.geteuid() == 0 else private.FOLDER
    folder.path.mkdir(parents=True, exist_ok=True)
    folder.path.chmod(mode)
    for inner in (folder.conf, folder.logs, folder.warehouse):
        inner.mkdir(mode=private.FOLDER, exist_ok=True)


def _secrets(folder: Folder) -> dict[str, str]:
    """The cluster's secrets, made up when it starts for the first time."""
    if not folder.secrets.exists():
        made = {name: secrets.token_urlsafe(32) for name in ("rpc", "metastore", "token")}
        with open(folder.secrets, "x", encoding="utf-8", opener=private.opener) as out:
            json.dump(made, out)
    try:
        found = json.loads(folder.secrets.read_text(encoding="utf-8"))
        return {name: str(found[name]) for name in ("rpc", "metastore", "token")}
    except (ValueError, KeyError, TypeError) as exc:
        raise Problem(
            f"{folder.secrets} cannot be read. The metastore's password is there: without it the "
            f"tables cannot be reached. Restore the file, or begin anew without {folder.path}."
        ) from exc


@contextmanager
def _alone(folder: Folder) -> Iterator[None]:
    """Lets nobody else start or stop the cluster meanwhile."""
    with open(folder.lock, "w", opener=private.opener) as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _is_taken(port: int) -> bool:
    return not processes.is_free(port)


def _stop_order(started: list[Process]) -> list[Process]:
    """The servers first, since they need all others; then the rest, the last one first."""
    return sorted(reversed(started), key=lambda process: process.name not in spark.SERVERS)


def _differences(one: Options, other: Options) -> str:
    now = asdict(other)
    return ", ".join(
        f"{name} {value}, not {now[name]}"
        for name, value in asdict(one).items()
        if value != now[name]
    )
