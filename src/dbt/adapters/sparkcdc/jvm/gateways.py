"""JVMs that have the classes of Spark: launched, asked for packages, and ended."""

from __future__ import annotations

import contextlib
import subprocess
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from dbt.adapters.sparkcdc import private
from dbt.adapters.sparkcdc.jvm import answers, jars
from dbt.adapters.sparkcdc.jvm.submit import submitted
from dbt_common.exceptions import DbtRuntimeError

MAX_LOG_BYTES = 10 * 1024**2
JVM_EXIT_SECONDS = 60
LOG_LINES_SHOWN = 8


def launch(conf: dict[str, str], log: Path, inherited: Iterable[int] = ()) -> Any:
    """Launches a JVM whose output goes to the log.

    Its settings are in a file that only this user can read, and that is gone once they were read:
    every user of the machine sees the arguments of a process.

    Args:
        conf: Spark's settings.
        log: File that gets what the JVM prints.
        inherited: File descriptors that the JVM keeps open.

    Returns:
        py4j's gateway to it.

    Raises:
        DbtRuntimeError: Java does not start.
    """
    from pyspark.errors import PySparkRuntimeError
    from pyspark.java_gateway import launch_gateway

    log.parent.mkdir(parents=True, exist_ok=True)
    if log.exists() and log.stat().st_size > MAX_LOG_BYTES:
        log.replace(log.with_name(f"{log.name}.1"))
    with open(log, "ab", opener=private.opener) as out:
        began = out.tell()
        options = {"stdout": out, "stderr": out}
        if inherited:
            options["pass_fds"] = tuple(inherited)  # type: ignore[assignment]
        try:
            with submitted(conf):
                gateway = launch_gateway(None, options)
        except PySparkRuntimeError as exc:
            said = log.read_bytes()[began:].decode(errors="replace").strip().splitlines()
            last = "\n".join(said[-LOG_LINES_SHOWN:])
            raise DbtRuntimeError(
                f"Java did not start:\n{last}\nMore is in {log}. Correct the option that Java"
                " refuses in the profile's server_side_parameters; where memory is short, lower"
                " `spark.driver.memory`."
            ) from exc
    answers.hasten(gateway)
    return gateway


def resolve(wanted: str, parameters: dict[str, str], log: Path) -> list[Path]:
    """Fetches packages with Spark's own resolver: its JVM has them as files once it is up.

    Args:
        wanted: Maven coordinates, separated by commas.
        parameters: The profile's Spark settings; `spark.jars.*` say where to look.
        log: File that gets what the resolver says.

    Raises:
        DbtRuntimeError: The packages cannot be had.
    """
    conf = {key: value for key, value in parameters.items() if key.startswith("spark.jars.")}
    try:
        gateway = launch(conf | {"spark.jars.packages": wanted}, log)
    except DbtRuntimeError as exc:
        raise DbtRuntimeError(
            f"The jars of {wanted} are not in the cache and could not be fetched. "
            f"{jars.how_to_get(jars.packages(parameters))} What the resolver said is in {log}."
        ) from exc
    try:
        listed = gateway.jvm.System.getProperty("spark.jars") or ""
    finally:
        gateway.shutdown()
        end(gateway.proc)
    return [Path(jar.removeprefix("file:")) for jar in listed.split(",") if jar]


def compiler(log: Path) -> tuple[Any, Callable[[], None]]:
    """Starts a JVM with Spark's classes, and without Spark.

    Args:
        log: File that gets what the JVM prints.

    Returns:
        py4j's gateway to it, and what ends it.
    """
    gateway = launch({}, log)

    def end_it() -> None:
        gateway.shutdown()
        end(gateway.proc)

    return gateway, end_it


def forget() -> None:
    """Takes leave of the JVM: objects freed later must not call it, a later start gets new ones."""
    from pyspark import SparkContext

    gateway = SparkContext._gateway
    SparkContext._gateway = SparkContext._jvm = None
    if gateway is not None:
        with contextlib.suppress(Exception):
            gateway.shutdown()


def end(process: Any) -> None:
    """Lets the JVM end by itself, as it does when its standard input closes.

    Args:
        process: The JVM's, as a gateway has it.
    """
    process.stdin.close()
    try:
        process.wait(JVM_EXIT_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
