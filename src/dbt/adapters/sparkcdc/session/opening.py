"""Spark sessions: one JVM a process, one isolated session for each dbt connection."""

from __future__ import annotations

import atexit
import contextlib
import logging
import os
import shutil
import signal
import subprocess
import sys
import threading
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dbt.adapters.events.logging import AdapterLogger
from dbt.adapters.sparkcdc import private, storage
from dbt.adapters.sparkcdc.credentials import SparkCdcCredentials
from dbt.adapters.sparkcdc.errors import message_of
from dbt.adapters.sparkcdc.jvm import archive, gateways, jars, metastore
from dbt.adapters.sparkcdc.jvm.java import find_java
from dbt.adapters.sparkcdc.jvm.settings import BRIEF_RUN, LONG_RUN, launch_settings
from dbt.adapters.sparkcdc.jvm.submit import given, given_to_hadoop
from dbt.adapters.sparkcdc.session import remote
from dbt_common.exceptions import DbtRuntimeError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# A connection breaks a moment before the process is gone.
JVM_END_SECONDS = 5
# Where Hadoop's `Configuration` keeps which file or program each setting comes from.
ORIGINS = "updatingResource"
# With them PySpark looks for a server. A process that ever had a session of one leaves the first to
# all that it starts.
FOR_CONNECT = ("SPARK_CONNECT_MODE_ENABLED", "SPARK_REMOTE")


@dataclass
class Root:
    """The process's JVM, and the session that all others are split off from."""

    spark: SparkSession
    process: Any
    holder: int | None
    classes: Path
    warehouse: str
    metastore: Path | None
    parameters: dict[str, str]
    local: Path | None


_lock = threading.RLock()
_logger = AdapterLogger("sparkcdc")
_root: Root | None = None
_failure: DbtRuntimeError | None = None
_remote: set[SparkSession] = set()


def open_session(creds: SparkCdcCredentials) -> SparkSession:
    """Returns a new session with temp views and settings of its own, over the shared tables.

    Args:
        creds: The profile's connection settings.

    Raises:
        DbtRuntimeError: Spark cannot be started or reached; the message says why and what to do.
    """
    if creds.remote:
        return _open_remote(creds)
    root = _local_root(creds)
    try:
        spark = root.spark.newSession()
    except Exception as exc:
        if ended := end_of_java(creds, exc):
            raise DbtRuntimeError(ended) from exc
        raise
    for key, value in creds.server_side_parameters.items() - root.parameters.items():
        spark.conf.set(key, value)
    # Code that asks Spark for "the active session" of this thread must find this one.
    sessions = getattr(spark._jvm, "org.apache.spark.sql.classic.SparkSession")
    sessions.setActiveSession(spark._jsparkSession)
    return spark


def close_session(spark: SparkSession) -> None:
    """Ends a session, not the JVM: the next session starts from there at once.

    Args:
        spark: A session that `open_session` returned.
    """
    if spark in _remote:
        _remote.discard(spark)
        remote.hang_up(spark)


def warm_up(creds: SparkCdcCredentials, *, record: bool = False, brief: bool = False) -> None:
    """Starts the JVM in the background, while dbt reads the project.

    Args:
        creds: The profile's connection settings.
        record: Whether this process will use most of Spark, so that the classes it loads are worth
            an archive for later starts.
        brief: Whether it will run a few statements only, so that compiling them well costs more
            than it saves.
    """

    def start() -> None:
        global _failure
        with _lock:
            try:
                root = _local_root(creds, record, brief)
            except DbtRuntimeError as exc:
                _failure = exc  # reported where a connection is wanted
                return
        # The first job loads what all later ones need; dbt lists its schemas meanwhile.
        with contextlib.suppress(Exception):
            root.spark.newSession().sql("select count(*) from range(1)").collect()

    if _root is None and not creds.remote:
        import pyspark.sql  # noqa: F401  # in a thread beside dbt's parser it takes twice as long

        threading.Thread(target=start, name="spark-warm-up", daemon=True).start()


def end_of_java(creds: SparkCdcCredentials, exc: Exception | None = None) -> str | None:
    """Returns what is to be said where Java is gone; None where it runs.

    Args:
        creds: The profile's connection settings.
        exc: The error that a statement ended with.
    """
    from py4j.protocol import Py4JJavaError
    from pyspark.errors import PySparkException

    if _root is None or creds.remote:
        return None
    # What Java itself answers shows that it is there. py4j has many errors for one that is not.
    answered = exc is None or isinstance(exc, (PySparkException, Py4JJavaError))
    wait = 0 if answered else JVM_END_SECONDS
    try:
        code = _root.process.wait(wait)
    except subprocess.TimeoutExpired:
        return None
    killed = code == -signal.SIGKILL
    why = "was killed, as systems do that run out of memory" if killed else f"ended with {code}"
    return (
        f"Spark's Java process {why}. The end of {creds.spark_log} may say more. Start dbt again: "
        "a build goes on from what was committed. If it happens again, lower `threads` or "
        "spark.driver.memory in the profile, or give the machine more memory."
    )


@atexit.register
def stop() -> None:
    """Ends all sessions and the JVM, and waits for it, so that the metastore is free again."""
    global _root
    for spark in list(_remote):
        close_session(spark)
    remote.forget()
    with _lock:
        root, _root = _root, None
    if root is not None:
        with contextlib.suppress(Exception):  # a model may have stopped it
            root.spark.stop()
        gateways.forget()
        gateways.end(root.process)
        if root.local is not None:
            shutil.rmtree(root.local, ignore_errors=True)
        archive.keep(root.classes)
        metastore.release(root.holder)


def _local_root(creds: SparkCdcCredentials, record: bool = False, brief: bool = False) -> Root:
    global _root, _failure
    with _lock:
        failure, _failure = _failure, None
        if failure is not None:
            raise failure
        if _root is None:
            _root = _start(creds, record, brief)
        elif ended := end_of_java(creds):
            raise DbtRuntimeError(ended)
        elif (_root.warehouse, _root.metastore) != (creds.warehouse, creds.metastore_folder):
            held, wanted = (
                f"{warehouse} with the metastore {folder or 'of the profile'}"
                for warehouse, folder in (
                    (_root.warehouse, _root.metastore),
                    (creds.warehouse, creds.metastore_folder),
                )
            )
            raise DbtRuntimeError(
                f"This process already runs Spark on the warehouse {held}, and can hold no other: "
                f"run dbt for {wanted} in a process of its own."
            )
        return _root


def _open_remote(creds: SparkCdcCredentials) -> SparkSession:
    _quiet()
    try:
        spark = remote.connect(creds)
    except Exception as exc:
        raise DbtRuntimeError(
            remote.what_ended(creds, exc)
            or f"Spark Connect at {creds.remote} cannot be used: "
            f"{remote.without_token(creds, message_of(exc))}\n"
            "Check that the server runs, and that `pip install 'pyspark[connect]'` is done."
        ) from exc
    _remote.add(spark)
    return spark


def _start(creds: SparkCdcCredentials, record: bool, brief: bool) -> Root:
    java = find_java()
    for name in FOR_CONNECT:
        os.environ.pop(name, None)
    os.environ["JAVA_HOME"] = str(java.home)
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    _quiet()
    log = Path(creds.spark_log)
    parameters = dict(creds.server_side_parameters)
    wanted = jars.packages(parameters)
    found = jars.cached_jars(wanted) or jars.fetch_jars(
        wanted, lambda packages: gateways.resolve(packages, parameters, log)
    )
    spark_home = Path(os.environ.setdefault("SPARK_HOME", str(archive.spark_home())))
    elsewhere = given_to_hadoop(spark_home) | given(spark_home)
    added = storage.settings(creds.warehouse, elsewhere | parameters)
    if added and (classes_jar := _storage_jar(added, found, log)):
        found = [*found, classes_jar]
        parameters |= added
    classes = archive.archive_file(java, spark_home, found)
    conf = launch_settings(
        {key: value for key, value in parameters.items() if key != "spark.jars.packages"},
        warehouse=creds.warehouse,
        metastore=creds.metastore_folder,
        spark_log=log,
        jars=found,
        java_options=[
            *(archive.use(classes) or (archive.record(classes) if record else [])),
            *(BRIEF_RUN if brief else LONG_RUN),
        ],
    )
    if creds.warehouse_folder is not None:
        creds.warehouse_folder.mkdir(mode=private.FOLDER, parents=True, exist_ok=True)
    embedded = creds.metastore_folder
    holder = None if embedded is None else metastore.hold(embedded)
    local = private.local_folder(parameters)
    if local is not None:
        conf["spark.local.dir"] = str(local)
    try:
        spark, process = _launch(conf, embedded, log, [] if holder is None else [holder])
    except BaseException:
        metastore.release(holder)
        if local is not None:
            shutil.rmtree(local, ignore_errors=True)
        raise
    return Root(spark, process, holder, classes, creds.warehouse, embedded, parameters, local)


def _storage_jar(added: Mapping[str, str], found: Sequence[Path], log: Path) -> Path | None:
    """The jar of the adapter's classes; None where there can be none and Delta's own will do."""
    try:
        return storage.compiled(found, lambda: gateways.compiler(log))
    except DbtRuntimeError as exc:
        if added.keys() & {*storage.S3_LOG_STORES}:
            raise
        _logger.warning(
            f"{exc.msg}\nUntil then this process commits as Delta does by itself, which is slower, "
            "and safe only while no other process writes the same table."
        )
        return None


def _launch(
    conf: dict[str, str], embedded: Path | None, log: Path, inherited: Iterable[int]
) -> tuple[SparkSession, Any]:
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    # py4j's first conversion of an argument imports pandas; that can be done while Java starts.
    threading.Thread(target=import_module, args=["pyspark.testing.utils"], daemon=True).start()
    gateway = gateways.launch(conf, log, inherited)
    began = log.stat().st_size
    try:
        SparkContext._ensure_initialized(gateway=gateway)
        spark = SparkSession.builder.config(map={**conf}).getOrCreate()
        spark.sql("show databases").collect()  # boots the metastore, where starts fail
        if embedded is not None:
            metastore.make_room(spark._jvm, embedded)
        _forget_origins(spark)
    except Exception as exc:
        # Some exceptions ask Java for their text, which is about to end, or has ended.
        try:
            cause = message_of(exc)
        except Exception:
            cause = type(exc).__name__
        if SparkContext._active_spark_context is not None:
            SparkContext._active_spark_context.stop()
        gateways.forget()
        gateways.end(gateway.proc)
        # Derby: booted by another process
        if embedded is not None and b"XSDB6" in log.read_bytes()[began:]:
            message = metastore.in_use(embedded)
        else:
            message = (
                f"Spark did not start: {cause}\nThe end of {log} has the whole error. Correct the"
                " setting, the package or the metastore of the profile that it names."
            )
        raise DbtRuntimeError(message) from exc
    return spark, gateway.proc


def _forget_origins(spark: SparkSession) -> None:
    """Lets Hadoop forget which file or program each of its settings comes from.

    Spark sends Hadoop's settings with each scan and each write. Hadoop then compresses the origin
    of each of the thousand settings by itself, which was 6 % of the processor time of small
    batches. It reads origins only to show them.
    """
    find_class = spark._jvm.java.lang.Class.forName  # type: ignore[union-attr]
    try:
        # They bring files of settings along, after which Hadoop reads all its files again.
        for name in ("mapred.JobConf", "hdfs.HdfsConfiguration"):
            find_class(f"org.apache.hadoop.{name}")
        settings = spark.sparkContext._jsc.hadoopConfiguration()
        settings.size()  # it reads its files when it is asked the first time
        origins = find_class("org.apache.hadoop.conf.Configuration").getDeclaredField(ORIGINS)
        origins.setAccessible(True)
        origins.get(settings).clear()
    except Exception as exc:  # another Hadoop may keep them elsewhere
        _logger.debug(f"Hadoop keeps the origins of its settings: {message_of(exc)}")


def _quiet() -> None:
    """What these would print, dbt says in its own words, or the log file has it."""
    from pyspark.logger import PySparkLogger

    logging.getLogger("py4j").setLevel(logging.CRITICAL)
    logging.getLogger().addFilter(_is_not_py4js)
    logging.getLogger("pyspark").setLevel(logging.ERROR)
    for name in ("SQLQueryContextLogger", "DataFrameQueryContextLogger"):
        PySparkLogger.getLogger(name).setLevel(logging.CRITICAL)
    warnings.filterwarnings("ignore", module=r"(pyspark|py4j|delta)\b")


def _is_not_py4js(record: logging.LogRecord) -> bool:
    """Where Java is gone, py4j logs a stack for each connection, and not under its own name."""
    return record.msg != "Exception while sending command."
