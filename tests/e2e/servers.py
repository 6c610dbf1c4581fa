"""Servers for the tests: Spark's, from the Spark that pip installed, with Delta; and Kafka's."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pyspark
from dbt.adapters.sparkcdc import jars, session
from dbt.adapters.sparkcdc.java import find_java
from dbt.adapters.sparkcdc.prepare import prepare

START_SECONDS = 120
STOP_SECONDS = 30
DBT_SECONDS = 900

THRIFT = "org.apache.spark.sql.hive.thriftserver.HiveThriftServer2"
CONNECT = "org.apache.spark.sql.connect.service.SparkConnectServer"

# The broker of the version whose client Spark's connector has.
KAFKA = "org.apache.kafka:kafka_2.13:3.9.1"
BROKER = """\
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:{controller}
listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}
controller.listener.names=CONTROLLER
log.dirs={folder}/messages
offsets.topic.replication.factor=1
num.partitions=3
"""

SETTINGS = {
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.ui.enabled": "false",
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    "spark.sql.catalogImplementation": "hive",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.shuffle.partitions": "1",
    "spark.databricks.delta.snapshotPartitions": "1",
    # As in the other tests: compiling a query would take longer than running it.
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.adaptive.enabled": "false",
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1",
}


@contextmanager
def spark_server(server: str, folder: Path) -> Iterator[int]:
    """Runs a Spark server as long as the block lasts.

    Args:
        server: THRIFT or CONNECT.
        folder: Empty folder for its tables, metastore and log.

    Yields:
        The port that it listens on.
    """
    prepare({})
    delta = [str(jar) for jar in jars.cached_jars(jars.packages({}))]
    port = free_port()
    settings = SETTINGS | {
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        "spark.hadoop.javax.jdo.option.ConnectionURL": (
            f"jdbc:derby:;databaseName={folder / 'metastore'};create=true"
        ),
        "spark.hadoop.hive.server2.thrift.bind.host": "127.0.0.1",
        "spark.hadoop.hive.server2.thrift.port": str(port),
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.connect.grpc.binding.port": str(port),
    }
    home = Path(pyspark.__file__).parent
    command = [str(home / "bin" / "spark-submit"), "--class", server, "--driver-memory", "2g"]
    command += ["--master", "local[2]", "--driver-class-path", os.pathsep.join(delta)]
    for name, value in settings.items():
        command += ["--conf", f"{name}={value}"]
    with _running([*command, "spark-internal"], folder, port):
        yield port


@contextmanager
def kafka_broker(folder: Path) -> Iterator[int]:
    """Runs a Kafka broker that is its own controller as long as the block lasts.

    Args:
        folder: Empty folder for its messages and log.

    Yields:
        The port that it listens on.
    """
    prepare({})
    found = session.resolve(KAFKA, {}, folder / "resolve.log")
    # Spark's resolver leaves Scala to Spark, which also has what the broker logs with.
    path = [str(jar) for jar in found] + [str(Path(pyspark.__file__).parent / "jars" / "*")]
    port, controller = free_port(), free_port()
    settings = folder / "server.properties"
    settings.write_text(BROKER.format(port=port, controller=controller, folder=folder))
    java = [str(find_java().home / "bin" / "java"), "-Xmx512m", "-XX:TieredStopAtLevel=1"]
    java += ["-cp", os.pathsep.join(path)]
    storage = ["kafka.tools.StorageTool", "format", "-t", "MkU3OEVBNTcwNTJENDM2Qg"]
    subprocess.run([*java, *storage, "-c", str(settings)], check=True, capture_output=True)
    with _running([*java, "kafka.Kafka", str(settings)], folder, port):
        yield port


@contextmanager
def _running(command: Sequence[str], folder: Path, port: int) -> Iterator[None]:
    """Runs a server as long as the block lasts; its output goes to server.log."""
    log = folder / "server.log"
    with log.open("wb") as out:
        process = subprocess.Popen(
            command,
            cwd=folder,
            env=os.environ
            | {
                "JAVA_HOME": str(find_java().home),
                "SPARK_HOME": str(Path(pyspark.__file__).parent),
                "PYSPARK_PYTHON": sys.executable,
            },
            stdout=out,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        wait_for(port, process, log)
        yield
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGTERM)
            try:
                process.wait(STOP_SECONDS)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()


def free_port() -> int:
    """Returns a port that nothing listens on."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


def wait_for(port: int, process: subprocess.Popen[bytes], log: Path) -> None:
    """Waits until a server listens.

    Args:
        port: Where.
        process: The server.
        log: What it prints.

    Raises:
        RuntimeError: It has ended, or takes too long.
    """
    end = time.monotonic() + START_SECONDS
    while time.monotonic() < end and process.poll() is None:
        with socket.socket() as client:
            if client.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.2)
    said = log.read_text(errors="replace")[-3000:]
    raise RuntimeError(f"The server did not start:\n{said}")


def dbt(folder: Path, *arguments: str, **environment: str) -> str:
    """Runs dbt in a process of its own, in a project whose profiles.yml lies beside it.

    Args:
        folder: The project.
        arguments: dbt's own.
        environment: Variables beside those of this process.

    Returns:
        What it printed.
    """
    ran = subprocess.run(
        [sys.executable, "-c", "from dbt.cli.main import cli; cli()", *arguments],
        cwd=folder,
        env=os.environ | {"DBT_PROFILES_DIR": str(folder)} | environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=DBT_SECONDS,
    )
    assert ran.returncode == 0, ran.stdout
    return ran.stdout
