"""Spark's part of a cluster: its jars, its configuration and the commands of its processes."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Mapping
from pathlib import Path
from xml.sax.saxutils import escape

import pyspark
from dbt.adapters.sparkcdc import private, storage
from dbt.adapters.sparkcdc.jvm.java import find_java
from dbt.adapters.sparkcdc.jvm.settings import LONG_RUN, launch_settings
from dbt.adapters.sparkcdc.jvm.submit import as_properties
from dbt.adapters.sparkcdc.prepare import prepare

from cluster.metastore import DATABASE, USER
from cluster.options import HOST, Folder, Options, Problem

DRIVER = "org.postgresql:postgresql:42.7.8"
DRIVER_SHA256 = "2a32a9dcbc42d67a50ad3a0de5efd102c8d2be46720045f2cbd6689f160ab7c7"

MASTER = "org.apache.spark.deploy.master.Master"
WORKER = "org.apache.spark.deploy.worker.Worker"
CONNECT = "org.apache.spark.sql.connect.service.SparkConnectServer"
THRIFT = "org.apache.spark.sql.hive.thriftserver.HiveThriftServer2"

# What clients speak to; they are applications of the master's.
SERVERS = ("connect", "thrift")
# Masters and workers only pass messages on.
DAEMON_MEMORY = "192m"
# Executors of the Thrift server: the others are the Connect server's, which builds.
THRIFT_CORES = 1
# As in the embedded session, with the collector that takes the least memory.
JAVA = ["-XX:+UseSerialGC", *LONG_RUN]
# What Java needs beside the heap, as Spark counts it.
OVERHEAD = "384m"


def packages() -> list[Path]:
    """Returns Delta's jars, PostgreSQL's driver and the adapter's classes, fetched or compiled.

    Raises:
        Problem: The driver is not the one that it has to be.
    """
    found = prepare({"spark.jars.packages": DRIVER})
    driver = next(jar for jar in found if "postgresql-" in jar.name)
    if hashlib.sha256(driver.read_bytes()).hexdigest() != DRIVER_SHA256:
        raise Problem(
            f"{driver} is not the file of {DRIVER} that Maven Central has. Remove its folder, "
            "and look where it came from: spark.jars.repositories and spark.jars.ivySettings."
        )
    return found


def configure(folder: Folder, options: Options, secrets: Mapping[str, str]) -> None:
    """Writes the configuration that all processes of the cluster read.

    Args:
        folder: The cluster's folder.
        options: Its ports and sizes.
        secrets: `rpc` and `metastore`.
    """
    settings = _settings(folder, options) | {"spark.authenticate.secret": secrets["rpc"]}
    _write(folder.conf / "spark-defaults.conf", as_properties(settings))
    # Not in Spark's own settings, which every session can ask for.
    _write(folder.conf / "hive-site.xml", _xml(_hive(folder, options, secrets["metastore"])))


def _settings(folder: Folder, options: Options) -> dict[str, str]:
    found = packages()
    path = os.pathsep.join(str(jar) for jar in found)
    settings = launch_settings(
        {
            "spark.master": f"spark://{HOST}:{options.master}",
            "spark.driver.host": HOST,
            "spark.driver.bindAddress": HOST,
            "spark.authenticate": "true",
            # Without it Spark authenticates by an older protocol.
            "spark.network.crypto.enabled": "true",
            "spark.executor.extraClassPath": path,
            # The servers, and whatever else commits to the warehouse, are processes of their own.
            storage.LOCAL_LOG_STORE: storage.SETTINGS[storage.LOCAL_LOG_STORE],
            "spark.executor.cores": "1",
            "spark.executor.memory": options.executor_memory,
            "spark.executor.extraJavaOptions": " ".join([*JAVA, "-Duser.timezone=UTC"]),
            "spark.connect.grpc.binding.address": HOST,
            "spark.connect.grpc.binding.port": str(options.connect),
            # Clients show what went wrong, and dbt only the message of it.
            "spark.sql.connect.serverStacktrace.enabled": "false",
            "spark.hadoop.hive.server2.thrift.bind.host": HOST,
            "spark.hadoop.hive.server2.thrift.port": str(options.thrift),
            # Otherwise all users of the Thrift server would share temporary views and settings.
            "spark.sql.hive.thriftServer.singleSession": "false",
            # Nobody shall end applications from the master's page.
            "spark.ui.killEnabled": "false",
            "spark.master.rest.enabled": "false",
            "spark.shuffle.service.enabled": "false",
            # A worker that is killed is found out sooner than after a minute.
            "spark.worker.timeout": "15",
            # What a client left that was killed ends sooner than after five minutes.
            "spark.connect.execute.manager.detachedTimeout": "2m",
        },
        warehouse=folder.warehouse,
        spark_log=folder.log("spark"),
        jars=found,
        java_options=JAVA,
    )
    # Each server has its own. The metastore is in hive-site.xml.
    del settings["spark.driver.memory"]
    settings["spark.hadoop.hive.exec.scratchdir"] = str(folder.local / "hive")
    return settings


def _hive(folder: Folder, options: Options, password: str) -> dict[str, str]:
    return {
        "javax.jdo.option.ConnectionURL": f"jdbc:postgresql://{HOST}:{options.metastore}/{DATABASE}",
        "javax.jdo.option.ConnectionDriverName": "org.postgresql.Driver",
        "javax.jdo.option.ConnectionUserName": USER,
        "javax.jdo.option.ConnectionPassword": password,
        # `make_tables` has made them.
        "datanucleus.schema.autoCreateAll": "false",
        "hive.metastore.schema.verification": "false",
        "datanucleus.connectionPool.maxPoolSize": "5",
        "hive.metastore.warehouse.dir": str(folder.warehouse),
        "hive.exec.local.scratchdir": str(folder.local / "hive"),
        # Hive makes a session's folder when it begins, fails where another session makes it at that
        # moment, and removes it when it ends: each has its own.
        "hive.downloaded.resources.dir": str(folder.local / "${hive.session.id}_resources"),
        "hive.server2.logging.operation.enabled": "false",
    }


def commands(options: Options) -> dict[str, list[str]]:
    """Returns the command of each of Spark's processes, in the order of their start.

    Args:
        options: Ports and sizes.
    """
    home = Path(pyspark.__file__).parent
    run, submit = str(home / "bin" / "spark-class"), str(home / "bin" / "spark-submit")
    master = f"spark://{HOST}:{options.master}"
    listed = {
        "master": [
            *(run, MASTER, "--host", HOST, "--port", str(options.master)),
            *("--webui-port", str(options.ui)),
        ]
    }
    # An executor of either server fits into each worker.
    memory = 2 * (_mebibytes(options.executor_memory) + _mebibytes(OVERHEAD))
    for number in range(1, options.workers + 1):
        listed[f"worker-{number}"] = [
            *(run, WORKER, "--host", HOST, "--cores", "2", "--memory", f"{memory}m"),
            *("--webui-port", "0", master),
        ]
    for name, server, heap, cores in (
        ("connect", CONNECT, options.connect_memory, options.workers),
        ("thrift", THRIFT, options.thrift_memory, THRIFT_CORES),
    ):
        listed[name] = [
            *(submit, "--class", server, "--name", name, "--driver-memory", heap),
            *("--conf", f"spark.cores.max={cores}", "spark-internal"),
        ]
    return listed


def environment(folder: Folder, name: str, secrets: Mapping[str, str]) -> dict[str, str]:
    """Returns the variables of one of Spark's processes.

    Args:
        folder: The cluster's folder.
        name: The process.
        secrets: `token`.
    """
    unwanted = ("SPARK_", "PYSPARK_", "DBT_", "CDC_")
    kept = {key: value for key, value in os.environ.items() if not key.startswith(unwanted)}
    found = kept | {
        "JAVA_HOME": str(find_java().home),
        "SPARK_HOME": str(Path(pyspark.__file__).parent),
        "SPARK_CONF_DIR": str(folder.conf),
        "SPARK_LOCAL_IP": HOST,
        "SPARK_LOCAL_DIRS": str(folder.local),
        "SPARK_WORKER_DIR": str(folder.work),
        "PYSPARK_PYTHON": sys.executable,
    }
    if name not in SERVERS:
        # For the servers these would replace what they were given.
        found["SPARK_DAEMON_MEMORY"] = DAEMON_MEMORY
        found["SPARK_DAEMON_JAVA_OPTS"] = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1"
    if name == "connect":
        # Sessions can ask for Spark's settings, and not for variables.
        found["SPARK_CONNECT_AUTHENTICATE_TOKEN"] = secrets["token"]
    return found


def _mebibytes(memory: str) -> int:
    return int(memory[:-1]) * (1024 if memory[-1].lower() == "g" else 1)


def _xml(settings: Mapping[str, str]) -> str:
    properties = "".join(
        f"  <property><name>{escape(name)}</name><value>{escape(value)}</value></property>\n"
        for name, value in settings.items()
    )
    return f'<?xml version="1.0"?>\n<configuration>\n{properties}</configuration>\n'


def _write(file: Path, text: str) -> None:
    file.unlink(missing_ok=True)  # an older one may be open to others
    with open(file, "w", encoding="utf-8", opener=private.opener) as out:
        out.write(text)


def make_tables(folder: Folder, options: Options, password: str) -> None:
    """Makes the metastore's tables; those that are there stay.

    Hive itself makes each when it is needed, in the middle of other transactions, and PostgreSQL
    then has it wait for its own locks, for ever.

    Args:
        folder: The cluster's folder.
        options: The cluster's ports.
        password: Of the metastore.

    Raises:
        Problem: They cannot be made.
    """
    shipped = Path(pyspark.__file__).parent / "jars"
    hive = next(shipped.glob("hive-metastore-*.jar"))
    with tempfile.TemporaryDirectory(dir=folder.path) as scratch, zipfile.ZipFile(hive) as jar:
        mapping = jar.extract("package.jdo", scratch)
        settings = Path(scratch) / "metastore.properties"
        known = _hive(folder, options, password)
        kinds = {
            "ConnectionURL": "URL",
            "ConnectionDriverName": "DriverName",
            "ConnectionUserName": "UserName",
            "ConnectionPassword": "Password",
        }
        properties = {
            f"datanucleus.Connection{kind}": known[f"javax.jdo.option.{name}"]
            for name, kind in kinds.items()
        }
        # As Hive names tables and columns.
        properties["datanucleus.identifierFactory"] = "datanucleus1"
        _write(settings, as_properties(properties))
        path = os.pathsep.join([str(shipped / "*"), *map(str, packages())])
        java = [str(find_java().home / "bin" / "java"), "-Xmx256m", "-XX:TieredStopAtLevel=1"]
        tool = ["org.datanucleus.store.schema.SchemaTool", "-create", "-api", "JDO"]
        ran = subprocess.run(
            [*java, "-cp", path, *tool, "-props", str(settings), mapping],
            capture_output=True,
            text=True,
            cwd=scratch,
        )
    if ran.returncode:
        raise Problem(f"The metastore's tables cannot be made:\n{ran.stdout}{ran.stderr}".rstrip())
