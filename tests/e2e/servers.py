"""Servers for the tests: Spark's, from the Spark that pip installed, with Delta; and Kafka's."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyspark
from dbt.adapters.sparkcdc.jvm import gateways, jars
from dbt.adapters.sparkcdc.jvm.java import find_java
from dbt.adapters.sparkcdc.prepare import prepare
from py4j import protocol
from py4j.java_gateway import GatewayParameters, JavaGateway, JavaMember, launch_gateway

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

ENDED = "-- ended"
WARM = f"""
import json, sys
from dbt.cli.main import dbtRunner
for line in sys.stdin:
    result = dbtRunner().invoke(json.loads(line))
    if result.exception:
        print(result.exception)
    print("{ENDED}", result.success, flush=True)
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
    # With one compiler Java reserves too little room for code, and statements fail.
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=128m",
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
def kafka_broker(folder: Path, port: int = 0) -> Iterator[int]:
    """Runs a Kafka broker that is its own controller as long as the block lasts.

    Args:
        folder: Folder for its messages and log; a broker that starts in it again has its messages.
        port: Port to listen on; 0: any that is free.

    Yields:
        The port that it listens on.
    """
    port, controller = port or free_port(), free_port()
    settings = folder / "server.properties"
    settings.write_text(BROKER.format(port=port, controller=controller, folder=folder))
    java = [str(find_java().home / "bin" / "java"), "-Xmx512m", "-XX:TieredStopAtLevel=1"]
    java += ["-cp", os.pathsep.join(_kafka_path(folder))]
    if not (folder / "messages").exists():
        storage = ["kafka.tools.StorageTool", "format", "-t", "MkU3OEVBNTcwNTJENDM2Qg"]
        subprocess.run([*java, *storage, "-c", str(settings)], check=True, capture_output=True)
    with _running([*java, "kafka.Kafka", str(settings)], folder, port):
        yield port


def _kafka_path(folder: Path) -> list[str]:
    """The class path of Kafka's broker and clients."""
    prepare({})
    found = gateways.resolve(KAFKA, {}, folder / "resolve.log")
    # Spark's resolver leaves Scala to Spark, which also has what the broker logs with.
    return [str(jar) for jar in found] + [str(Path(pyspark.__file__).parent / "jars" / "*")]


class KafkaClient:
    """Kafka's own Java clients, in a JVM of their own."""

    def __init__(self, folder: Path, port: int, **settings: str) -> None:
        """Starts the JVM and connects.

        Args:
            folder: Of the broker.
            port: Of the broker.
            settings: Further settings of the producer, with `_` for `.`.
        """
        port_of_java, self.process = launch_gateway(
            classpath=os.pathsep.join(_kafka_path(folder)),
            java_path=str(find_java().home / "bin" / "java"),
            javaopts=["-Xmx256m", "-XX:TieredStopAtLevel=1"],
            die_on_exit=True,
            return_proc=True,
        )
        parameters = GatewayParameters(port=port_of_java, auto_convert=True)
        self.gateway = JavaGateway(gateway_parameters=parameters)
        self.jvm = self.gateway.jvm
        self.known = {"bootstrap.servers": f"127.0.0.1:{port}"}
        known = self.known | {"max.block.ms": "180000"}
        self.admin = self.jvm.org.apache.kafka.clients.admin.AdminClient.create(
            self._properties(known)
        )
        bytes_ = "org.apache.kafka.common.serialization.ByteArraySerializer"
        known |= {"key.serializer": bytes_, "value.serializer": bytes_, "linger.ms": "5"}
        known |= {name.replace("_", "."): value for name, value in settings.items()}
        self.futures: list[Any] = []
        self.producer = self.jvm.org.apache.kafka.clients.producer.KafkaProducer(
            self._properties(known)
        )

    def create(self, topic: str, partitions: int = 1) -> None:
        """Creates a topic."""
        new = self.jvm.org.apache.kafka.clients.admin.NewTopic
        java = new(topic, partitions, self.jvm.java.lang.Short.valueOf("1"))
        self.admin.createTopics([java]).all().get()

    def delete(self, topic: str) -> None:
        """Deletes a topic, and waits until it is gone."""
        self.admin.deleteTopics([topic]).all().get()
        end = time.monotonic() + STOP_SECONDS
        while topic in list(self.admin.listTopics().names().get()):
            assert time.monotonic() < end, f"{topic} is still there"
            time.sleep(0.1)

    def add_partitions(self, topic: str, total: int) -> None:
        """Gives a topic more partitions."""
        more = self.jvm.org.apache.kafka.clients.admin.NewPartitions.increaseTo(total)
        self.admin.createPartitions({topic: more}).all().get()

    def delete_before(self, topic: str, partition: int, offset: int) -> None:
        """Removes the messages before an offset, as retention does."""
        at = self.jvm.org.apache.kafka.common.TopicPartition(topic, partition)
        # py4j takes a static method for that of an object, where both have one name.
        name = protocol.STATIC_PREFIX + "org.apache.kafka.clients.admin.RecordsToDelete"
        before = JavaMember("beforeOffset", None, name, self.gateway._gateway_client)
        self.admin.deleteRecords({at: before(offset)}).all().get()

    def send(
        self,
        topic: str,
        value: bytes | str | None,
        key: bytes | str | None = None,
        partition: int | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        """Sends a message; `flush` waits until the broker has it."""
        record = self.jvm.org.apache.kafka.clients.producer.ProducerRecord(
            topic, partition, _as_bytes(key), _as_bytes(value)
        )
        for name, text in (headers or {}).items():
            record.headers().add(name, _as_bytes(text))
        self.futures.append(self.producer.send(record))

    def flush(self) -> None:
        """Waits until the broker has all that was sent; fails where it has not taken a message."""
        self.producer.flush()
        for future in self.futures:
            future.get()
        self.futures.clear()

    def received(self, pattern: str) -> list[tuple[str, str | None, str | None, dict[str, str]]]:
        """All messages of the topics that match: topic, key, value and headers, as text."""
        strings = "org.apache.kafka.common.serialization.StringDeserializer"
        known = self.known | {"key.deserializer": strings, "value.deserializer": strings}
        java = self.jvm.org.apache.kafka.clients.consumer.KafkaConsumer(self._properties(known))
        try:
            parts = [
                self.jvm.org.apache.kafka.common.TopicPartition(topic, part.partition())
                for topic, infos in java.listTopics().items()
                if re.fullmatch(pattern, topic)
                for part in infos
            ]
            java.assign(parts)
            java.seekToBeginning(parts)
            ends = java.endOffsets(parts)
            found = []
            while any(java.position(part) < ends[part] for part in parts):
                records = java.poll(self.jvm.java.time.Duration.ofSeconds(1)).iterator()
                while records.hasNext():
                    record = records.next()
                    sent = record.headers().toArray()
                    headers = {one.key(): bytes(one.value()).decode() for one in sent}
                    found.append((record.topic(), record.key(), record.value(), headers))
            return found
        finally:
            java.close()

    def close(self) -> None:
        """Ends the JVM."""
        self.gateway.shutdown()
        self.process.terminate()
        self.process.wait(STOP_SECONDS)

    def _properties(self, known: Mapping[str, str]) -> Any:
        properties = self.jvm.java.util.Properties()
        for name, value in known.items():
            properties.setProperty(name, value)
        return properties


def _as_bytes(content: bytes | str | None) -> bytes | None:
    return content.encode() if isinstance(content, str) else content


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


class WarmDbt:
    """dbt in a process that keeps its Spark, for tests that run it many times."""

    def __init__(self, folder: Path, **environment: str) -> None:
        """Starts the process.

        Args:
            folder: The project; its profiles.yml is beside it.
            environment: Variables beside those of this process.
        """
        self.process = subprocess.Popen(
            [sys.executable, "-c", WARM],
            cwd=folder,
            env=os.environ | {"DBT_PROFILES_DIR": str(folder)} | environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )

    def __call__(self, *arguments: str, fails: bool = False) -> str:
        """Runs dbt.

        Args:
            arguments: dbt's own.
            fails: Whether it has to fail.

        Returns:
            What it printed.
        """
        assert self.process.stdin and self.process.stdout
        self.process.stdin.write(json.dumps(arguments) + "\n")
        self.process.stdin.flush()
        said = ""
        for line in self.process.stdout:
            if line.startswith(ENDED):
                assert (line.split()[2] == "False") is fails, said
                return said
            said += line
        raise AssertionError(f"dbt has ended:\n{said}")

    def close(self) -> None:
        """Ends the process."""
        if self.process.stdin:
            self.process.stdin.close()
        self.process.wait(STOP_SECONDS)


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
