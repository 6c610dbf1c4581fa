"""What a cluster is made of: its folder, its ports and its sizes."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, fields, replace
from pathlib import Path

HOST = "127.0.0.1"
MEMORY = re.compile(r"[1-9]\d*[mg]", re.IGNORECASE)
MOST_WORKERS = 16
PORTS = range(1024, 65536)


class Problem(Exception):
    """What keeps a cluster from running, with the remedy."""


@dataclass(frozen=True)
class Options:
    """Ports and sizes of a cluster.

    Attributes:
        master: Port of the master.
        ui: Port of the master's web page.
        connect: Port of the Spark Connect server.
        thrift: Port of the Thrift server.
        metastore: Port of PostgreSQL.
        workers: How many there are.
        connect_memory: Heap of the Connect server.
        thrift_memory: Heap of the Thrift server.
        executor_memory: Heap of each executor. Each worker can run one for either server.
    """

    master: int = 7077
    ui: int = 18080
    connect: int = 15002
    thrift: int = 10000
    metastore: int = 15432
    workers: int = 2
    connect_memory: str = "1280m"
    thrift_memory: str = "896m"
    executor_memory: str = "640m"

    def ports(self) -> dict[str, int]:
        """Returns the ports by what listens on them."""
        return {
            "master": self.master,
            "ui": self.ui,
            "connect": self.connect,
            "thrift": self.thrift,
            "metastore": self.metastore,
        }

    def problems(self) -> Iterator[str]:
        """Yields everything that is wrong with these options."""
        named: dict[int, str] = {}
        for name, port in self.ports().items():
            if port not in PORTS:
                yield f"--{name}-port {port} is not a port from {PORTS[0]} to {PORTS[-1]}."
            elif port in named:
                yield f"--{name}-port and --{named[port]}-port are both {port}."
            named.setdefault(port, name)
        if not 1 <= self.workers <= MOST_WORKERS:
            yield f"--workers {self.workers} is not from 1 to {MOST_WORKERS}."
        for name in ("connect_memory", "thrift_memory", "executor_memory"):
            value = getattr(self, name)
            if not MEMORY.fullmatch(value):
                yield f"--{name.replace('_', '-')} {value!r} is not a size such as 768m or 2g."

    def checked(self) -> Options:
        """Returns these options.

        Raises:
            Problem: Some are wrong; the message names all of them.
        """
        if found := list(self.problems()):
            raise Problem("\n".join(found))
        return self

    @classmethod
    def of(cls, known: dict[str, object]) -> Options:
        """Returns the options that a cluster was started with; unknown ones are passed over.

        Args:
            known: Values by name.
        """
        names = {field.name for field in fields(cls)}
        return replace(cls(), **{k: v for k, v in known.items() if k in names})  # type: ignore[arg-type]


@dataclass(frozen=True)
class Folder:
    """Where a cluster keeps its state. It is open to its owner alone.

    Attributes:
        path: The folder.
    """

    path: Path

    @property
    def conf(self) -> Path:
        return self.path / "conf"

    @property
    def logs(self) -> Path:
        return self.path / "logs"

    @property
    def work(self) -> Path:
        """Where workers keep what executors print."""
        return self.path / "work"

    @property
    def local(self) -> Path:
        """What Spark spills."""
        return self.path / "local"

    @property
    def warehouse(self) -> Path:
        return self.path / "warehouse"

    @property
    def postgres(self) -> Path:
        return self.path / "postgres"

    @property
    def processes(self) -> Path:
        return self.path / "processes.json"

    @property
    def secrets(self) -> Path:
        return self.path / "secrets.json"

    @property
    def environment(self) -> Path:
        """Variables for dbt, to be read by a shell."""
        return self.path / "env"

    @property
    def lock(self) -> Path:
        return self.path / "lock"

    def log(self, name: str) -> Path:
        """Returns the file that a process prints to."""
        return self.logs / f"{name}.log"
