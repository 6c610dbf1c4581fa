"""Spark settings that fit one machine; a profile's `server_side_parameters` override each."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from pathlib import Path

from dbt.adapters.sparkcdc.jvm.metastore import url

GIB = 1024**3
MAX_DRIVER_MEMORY = 8 * GIB
# Each task sorts, joins and writes in memory of its own. A larger heap makes nothing faster: Java
# only collects later, and holds what it collects.
MEMORY_OF_A_CORE = 2 * GIB
MEMORY_IF_UNKNOWN = 4 * GIB
# A heap as Java takes it.
MEMORY = re.compile(r"(\d+)([kmgt]?)", re.IGNORECASE)
UNITS = {"": 1, "k": 1024, "m": 1024**2, "g": GIB, "t": 1024 * GIB}
# Java's default collector divides the heap into so many regions, of these sizes at least and most.
REGIONS = 2048
LEAST_REGION, LARGEST_REGION = 1024**2, 32 * 1024**2
# What Java puts before the numbers of an array.
ARRAY_HEADER = 16
CHANGE_FEED = "spark.databricks.delta.changeDataFeed"

# dbt's work is planning hundreds of different statements, each once. Java's optimizing compiler
# takes a third of the processor for code that hardly runs again: it gets four times the usual proof
# that code is hot, and in a run of a few statements it is left out. Java then reserves too little
# room for code, and a statement fails where that is full.
LONG_RUN = (
    "-XX:Tier4InvocationThreshold=20000",
    "-XX:Tier4MinInvocationThreshold=2400",
    "-XX:Tier4CompileThreshold=60000",
    "-XX:Tier4BackEdgeThreshold=160000",
)
BRIEF_RUN = (
    "-XX:TieredStopAtLevel=1",
    "-XX:+UseSerialGC",
    "-XX:ReservedCodeCacheSize=128m",
)
# Avro sets aside what a message says that comes next. One that is damaged may say 2 GB, and a Java
# process that has no more memory ends. What is longer does not match its schema.
AVRO_LIMITS = (
    f"-Dorg.apache.avro.limits.bytes.maxLength={128 * 1024**2}",
    f"-Dorg.apache.avro.limits.string.maxLength={128 * 1024**2}",
    f"-Dorg.apache.avro.limits.collectionItems.maxLength={16 * 1024**2}",
)
COLLECTOR = re.compile(r"-XX:\+Use\w+GC\b")


def launch_settings(
    parameters: Mapping[str, str],
    *,
    warehouse: Path | str,
    spark_log: Path,
    jars: Iterable[Path],
    metastore: Path | None = None,
    java_options: Iterable[str] = (),
) -> dict[str, str]:
    """Settings that the JVM and its one SparkContext start with.

    Args:
        parameters: The profile's own settings, which win.
        warehouse: Folder of the tables, or its address in an object store.
        spark_log: Log file of the JVM; Derby's log goes beside it.
        jars: Jars for the class path: on it from the start, Spark need not copy or serve them.
        metastore: Folder of the embedded metastore; None where the parameters name another one.
        java_options: Further options of the JVM.

    Returns:
        Spark's settings by name.
    """
    settings = _defaults(warehouse)
    if metastore is not None:
        settings |= {
            "spark.hadoop.javax.jdo.option.ConnectionURL": f"{url(metastore)};create=true",
            "spark.hadoop.hive.exec.scratchdir": str(metastore / "scratch"),
        }
    master = parameters.get("spark.master", "local")
    if master.startswith("local"):
        # A laptop's host name may not resolve; nobody else has to reach a local driver.
        settings |= {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
        # Other users of the machine reach its ports. Spark makes up the secret by itself.
        settings["spark.authenticate"] = "true"
        is_elsewhere = parameters.get("spark.memory.offHeap.enabled", "false").lower() == "true"
        if not is_elsewhere and not master.startswith("local-cluster"):
            settings |= _page_size({**settings, **parameters}["spark.driver.memory"])
    settings |= parameters
    _extend(settings, "spark.executor.extraJavaOptions", list(AVRO_LIMITS), " ")
    log4j = Path(__file__).with_name("log4j2.properties")
    options = [
        f"-Dlog4j2.configurationFile={log4j.as_uri()}",
        f'-Dderby.stream.error.file="{spark_log.with_name("derby.log")}"',
        # In any other zone Delta checks the state of a small table with every commit.
        "-Duser.timezone=UTC",
        "-XX:-UsePerfData",
        "-XX:-DontCompileHugeMethods",
        *AVRO_LIMITS,
        *java_options,
    ]
    if COLLECTOR.search(settings.get("spark.driver.extraJavaOptions", "")):
        # Java refuses to start with two.
        options = [option for option in options if not COLLECTOR.match(option)]
    _extend(settings, "spark.driver.extraJavaOptions", options, " ")
    _extend(settings, "spark.driver.extraClassPath", [str(jar) for jar in jars], os.pathsep)
    return settings


def _defaults(warehouse: Path | str) -> dict[str, str]:
    """Settings of every session, which the profile can change."""
    cores = cpu_cores()
    return {
        "spark.app.name": "dbt",
        "spark.master": "local[*]",
        "spark.driver.memory": f"{driver_memory() // 1024**2}m",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.catalogImplementation": "hive",
        "spark.sql.warehouse.dir": str(warehouse),
        "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.ansi.enabled": "true",
        "spark.sql.adaptive.enabled": "true",
        "spark.sql.shuffle.partitions": str(cores),
        "spark.sql.execution.arrow.pyspark.enabled": "true",
        # One small Delta log each: 50 tasks to read it are 49 too many.
        "spark.databricks.delta.snapshotPartitions": "1",
        # VACUUM lists a table's folders in so many tasks, by default 10,000.
        "spark.sql.sources.parallelPartitionDiscovery.parallelism": str(4 * cores),
        # A checkpoint of a small table takes as long as three commits, and a hundred commits are
        # read as fast as ten.
        "spark.databricks.delta.properties.defaults.checkpointInterval": "100",
        # It counts the commits of a process: every scheduled build would compact every table once.
        "spark.databricks.delta.autoCompact.enabled": "false",
        # Names are mapped to columns, and types only widen: older changes read as the table is now.
        f"{CHANGE_FEED}.unsafeBatchReadOnIncompatibleSchemaChanges.enabled": "true",
        # Each column of a DataFrame would keep where it was made, a stack of Java's. Delta makes
        # hundreds with each statement.
        "spark.sql.dataFrameQueryContext.enabled": "false",
        # Lists are aggregated in a hash table, and beyond 128 groups by sorting, twice. Our rows
        # come sorted already.
        "spark.sql.execution.useObjectHashAggregateExec": "false",
        # Spark makes one method of all columns, up to 65,535 bytes by default. Beyond this limit
        # it makes small ones, which Java compiles and does not interpret.
        "spark.sql.codegen.hugeMethodLimit": "8000",
    }


def _page_size(memory: str) -> dict[str, str]:
    """The size of the pages that tasks sort, join and aggregate in.

    Spark's default follows the heap, 64 MiB of 4 GiB. Each sort and each broadcast table takes a
    page for its first row, and Java cannot move objects of that size: the small batches of a
    long-running process held a gigabyte of them. A row that is longer gets a page of its own.

    A page is an array that fills one region of G1 with its header. Some bytes more would take two,
    and Spark, which counts without the header, would use twice the memory that it takes itself to
    use (https://issues.apache.org/jira/browse/SPARK-37593).

    Args:
        memory: The heap, as Java takes it.
    """
    if not (found := MEMORY.fullmatch(memory.strip())):
        return {}
    heap = int(found[1]) * UNITS[found[2].lower()]
    region = 1 << max(heap // REGIONS - 1, 0).bit_length()
    region = min(max(region, LEAST_REGION), LARGEST_REGION)
    return {"spark.buffer.pageSize": f"{region - ARRAY_HEADER}b"}


def cpu_cores() -> int:
    """Returns the cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def driver_memory() -> int:
    """Returns the driver's heap in bytes: 2 GiB a core, from 1 to 8 GiB, and half the machine."""
    wanted = min(MAX_DRIVER_MEMORY, cpu_cores() * MEMORY_OF_A_CORE)
    return max(GIB, min(wanted, machine_memory() // 2))


def machine_memory() -> int:
    """Returns the memory in bytes that this process may use, a container's limit included."""
    try:
        physical = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, OSError, ValueError):  # Windows has no sysconf
        physical = MEMORY_IF_UNKNOWN
    return min([physical, *_cgroup_limits()])


def _cgroup_limits(root: Path = Path("/sys/fs/cgroup")) -> list[int]:
    files = [root / "memory.max", root / "memory" / "memory.limit_in_bytes"]
    try:
        own = Path("/proc/self/cgroup").read_text(encoding="utf-8").strip().rpartition(":")[2]
        files += [root / part.lstrip("/") / "memory.max" for part in _with_parents(own)]
    except OSError:
        pass
    limits = []
    for file in files:
        try:
            text = file.read_text(encoding="utf-8").strip()
        except OSError:
            continue
        if text.isdigit():  # "max" means no limit
            limits.append(int(text))
    return limits


def _with_parents(path: str) -> list[str]:
    return [path, *map(str, Path(path).parents)] if path else []


def _extend(settings: dict[str, str], key: str, ours: list[str], separator: str) -> None:
    """Puts our entries before those that the profile may hold, so that the profile's win."""
    theirs = [settings[key]] if settings.get(key) else []
    if ours or theirs:
        settings[key] = separator.join([*ours, *theirs])
