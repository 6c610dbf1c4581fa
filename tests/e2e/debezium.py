"""Debezium in Kafka Connect, and a MariaDB server that it reads."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.error import URLError
from urllib.request import urlopen

import pyspark
import pytest
from dbt.adapters.sparkcdc.jvm import gateways, jars
from dbt.adapters.sparkcdc.jvm.java import find_java
from dbt.adapters.sparkcdc.prepare import prepare

from tests.e2e.servers import free_port, wait_for

# The last versions whose connectors for both databases run on Java 17.
VERSIONS = {
    "org.apache.kafka:connect-runtime": "4.1.1",
    "io.debezium:debezium-connector-postgres": "3.5.0.Final",
    "io.debezium:debezium-connector-mariadb": "3.5.0.Final",
}
SHA256 = {
    "org.apache.kafka_connect-runtime-4.1.1.jar": (
        "01600f8b4e3a26016ba3f87e12f1fec7945673a9654ee7fb93b3591e47837ed6"
    ),
    "io.debezium_debezium-connector-postgres-3.5.0.Final.jar": (
        "266b46d47b3bf66ffd484ffae01da40be52399f9b012b75e8f36909ac35a3f17"
    ),
    "io.debezium_debezium-connector-mariadb-3.5.0.Final.jar": (
        "6ea239f23d74486a77e89cceae11120f208e9f832ccdff9d88cb629ce298e890"
    ),
}
# Connect speaks to the log of Spark's version, and has the older one of two interfaces to it.
LOGGING = ("slf4j-api-*.jar", "log4j-*.jar")
OLD_LOGGING = "org.slf4j_slf4j-api"

WORKER = """\
bootstrap.servers=127.0.0.1:{broker}
listeners=http://127.0.0.1:{port}
key.converter=org.apache.kafka.connect.json.JsonConverter
value.converter=org.apache.kafka.connect.json.JsonConverter
offset.storage.file.filename={folder}/offsets
offset.flush.interval.ms={flush}
plugin.discovery=service_load
config.providers=env
config.providers.env.class=org.apache.kafka.common.config.provider.EnvVarConfigProvider
config.providers.env.param.allowlist.pattern=DEBEZIUM_.*
"""
WAIT_SECONDS = 120
STOP_SECONDS = 30
MARIADB = "apt-get install mariadb-server-core mariadb-client-core"


def until(condition: Callable[[], Any], what: str, seconds: float = WAIT_SECONDS) -> Any:
    """Waits for a condition, and returns what it found.

    Args:
        condition: Asked until it answers something.
        what: The condition in words.
        seconds: How long to wait.
    """
    end = time.monotonic() + seconds
    while not (found := condition()):
        assert time.monotonic() < end, what
        time.sleep(0.2)
    return found


class Connector:
    """A connector in a process of Kafka Connect, which keeps its position in a file."""

    def __init__(
        self,
        folder: Path,
        broker: int,
        config: Mapping[str, Any],
        flush_ms: int = 1000,
        **secrets: str,
    ) -> None:
        """Writes the files of the worker and of the connector.

        Args:
            folder: For these files, the position and the log.
            broker: Port of the broker.
            config: The connector's name and configuration, as Connect's REST interface takes them.
            flush_ms: How often the position is written.
            secrets: Variables of the environment that the configuration names.
        """
        folder.mkdir(parents=True, exist_ok=True)
        self.folder, self.name, self.secrets = folder, str(config["name"]), secrets
        self.port, self.path = free_port(), _class_path()
        self.process: subprocess.Popen[bytes] | None = None
        (folder / "worker.properties").write_text(
            WORKER.format(broker=broker, port=self.port, folder=folder, flush=flush_ms)
        )
        (folder / "connector.json").write_text(json.dumps(config))

    def __enter__(self) -> Connector:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def start(self) -> None:
        """Starts the process, and waits until the connector's task runs."""
        java = [str(find_java().home / "bin" / "java"), "-Xmx512m", "-XX:TieredStopAtLevel=1"]
        java += ["-Dlog4j2.level=INFO", "-cp", os.pathsep.join(self.path)]
        java += ["org.apache.kafka.connect.cli.ConnectStandalone", "worker.properties"]
        with (self.folder / "connect.log").open("ab") as out:
            self.process = subprocess.Popen(
                [*java, "connector.json"],
                cwd=self.folder,
                env=os.environ | self.secrets,
                stdout=out,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        wait_for(self.port, self.process, self.folder / "connect.log")
        until(self._runs, f"the connector does not run, see {self.folder}/connect.log")

    def _runs(self) -> bool:
        assert self.process is not None
        assert self.process.poll() is None, self.log()[-3000:]
        try:
            place = f"http://127.0.0.1:{self.port}/connectors/{self.name}/status"
            with urlopen(place, timeout=5) as answer:
                states = [task["state"] for task in json.load(answer)["tasks"]]
        except (URLError, OSError):
            return False
        assert "FAILED" not in states, self.log()[-6000:]
        return states == ["RUNNING"]

    def remembers(self) -> bool:
        """Whether it has written a position behind its first snapshot.

        One that is killed before reads the tables again, and deletes from between are in no event.
        """
        return bool(self.offsets()) and '"snapshot_completed":false' not in self.offsets()

    def kill(self) -> None:
        """Ends the process as a machine does that goes away."""
        assert self.process is not None
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()

    def stop(self) -> None:
        """Ends the process in order."""
        if self.process is not None and self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(STOP_SECONDS)
            except subprocess.TimeoutExpired:
                self.kill()

    def log(self) -> str:
        """What the process has printed."""
        return (self.folder / "connect.log").read_text(errors="replace")

    def offsets(self) -> str:
        """The position up to which the broker has everything, as the connector writes it."""
        path = self.folder / "offsets"
        return path.read_text(encoding="latin-1") if path.exists() else ""


def _class_path() -> list[str]:
    """Kafka Connect with the connectors. Spark's resolver is asked once for each version."""
    prepare({})
    wanted = ",".join(f"{name}:{version}" for name, version in VERSIONS.items())
    key = hashlib.sha256(wanted.encode()).hexdigest()[:10]
    home = jars.cache_folder() / "jars" / f"connect-{key}"
    if not home.exists():
        with tempfile.TemporaryDirectory(dir=home.parent, prefix=".connect-") as fresh:
            for jar in gateways.resolve(wanted, {}, Path(fresh) / "resolve.log"):
                shutil.copyfile(jar, Path(fresh) / jar.name)
            whole = Path(fresh).rename(home)
            Path(fresh).mkdir()  # what the context removes
        assert whole.exists()
    for name, expected in SHA256.items():
        assert hashlib.sha256((home / name).read_bytes()).hexdigest() == expected, name
    ours = [jar for jar in sorted(home.glob("*.jar")) if not jar.name.startswith(OLD_LOGGING)]
    sparks = Path(pyspark.__file__).parent / "jars"
    return [str(jar) for jar in ours] + [
        str(jar) for pattern in LOGGING for jar in sorted(sparks.glob(pattern))
    ]


@contextmanager
def mariadb(folder: Path) -> Iterator[dict[str, Any]]:
    """Runs a MariaDB server with a binary log as long as the block lasts.

    Args:
        folder: Empty folder for its data and log.

    Yields:
        How to connect, as PyMySQL takes it.
    """
    found = [shutil.which(name, path=f"{os.environ['PATH']}:/usr/sbin") for name in PROGRAMS]
    if None in found:
        pytest.skip(f"MariaDB was not found. On Debian install it with: {MARIADB}")
    install, server = map(str, found)
    # Paths of sockets are short.
    with tempfile.TemporaryDirectory(prefix="mariadb-") as place:
        port = free_port()
        data = ["--no-defaults", f"--datadir={folder / 'data'}", *_as_root()]
        (folder / "data").mkdir(parents=True)
        settled = [*data, "--auth-root-authentication-method=normal", "--skip-test-db"]
        ran = subprocess.run([install, *settled], capture_output=True, text=True)
        assert ran.returncode == 0, ran.stdout + ran.stderr
        command = [server, *data, f"--socket={place}/socket", f"--port={port}"]
        command += ["--bind-address=127.0.0.1", "--server-id=1", f"--pid-file={place}/pid"]
        command += ["--log-bin=bin", "--binlog-format=ROW", "--binlog-row-image=FULL"]
        command += ["--innodb-flush-log-at-trx-commit=0", "--innodb-buffer-pool-size=32M"]
        command += ["--character-set-server=utf8mb4", "--default-time-zone=+00:00"]
        with (folder / "server.log").open("wb") as out:
            process = subprocess.Popen(
                command, stdout=out, stderr=subprocess.STDOUT, start_new_session=True
            )
        try:
            wait_for(port, process, folder / "server.log")
            yield {"host": "127.0.0.1", "port": port, "user": "root", "charset": "utf8mb4"}
        finally:
            process.terminate()
            process.wait(STOP_SECONDS)


PROGRAMS = ("mariadb-install-db", "mariadbd")


def _as_root() -> list[str]:
    return ["--user=root"] if os.geteuid() == 0 else []
