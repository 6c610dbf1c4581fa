"""`python -m dbt.adapters.sparkcdc.prepare`: fetches Spark's jars ahead of the first run."""

from __future__ import annotations

import argparse
import os
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

from dbt.adapters.sparkcdc import jars, log_store, session
from dbt.adapters.sparkcdc.java import find_java
from dbt_common.exceptions import DbtRuntimeError


def main(arguments: Sequence[str] | None = None) -> int:
    """Fetches the jars; what is there already is left alone.

    Args:
        arguments: Command line; further Maven coordinates that profiles name.

    Returns:
        Exit status.
    """
    parser = argparse.ArgumentParser(
        prog="python -m dbt.adapters.sparkcdc.prepare", description=__doc__
    )
    parser.add_argument(
        "packages", nargs="*", help="Maven coordinates beside Delta's, as in spark.jars.packages"
    )
    parser.add_argument(
        "--log-store",
        type=Path,
        metavar="FILE",
        help="writes the jar with the log store for S3, for servers that share its tables",
    )
    parser.add_argument(
        "--exclude",
        action="append",
        default=[],
        metavar="GROUP:ARTIFACT",
        help="what these packages need and nobody uses, as in spark.jars.excludes",
    )
    options = parser.parse_args(arguments)
    parameters = {
        "spark.jars.packages": ",".join(options.packages),
        "spark.jars.excludes": ",".join(options.exclude),
    }
    parameters = {name: value for name, value in parameters.items() if value}
    try:
        prepare(parameters)
        if options.log_store:
            write_log_store(parameters, options.log_store)
    except DbtRuntimeError as exc:
        print(exc.msg, file=sys.stderr)
        return 1
    return 0


def prepare(parameters: dict[str, str]) -> None:
    """Makes the cache complete for these Spark settings.

    Args:
        parameters: Spark settings as in a profile.

    Raises:
        DbtRuntimeError: There is no Java, or the jars cannot be had.
    """
    java = find_java()
    os.environ["JAVA_HOME"] = str(java.home)
    log = jars.cache_folder() / "prepare.log"
    wanted = jars.packages(parameters)
    if not jars.cached_jars(wanted):
        print(f"Fetching the jars of {', '.join(wanted)}", flush=True)
        jars.fetch_jars(wanted, lambda packages: session.resolve(packages, parameters, log))
    if log_store.is_wanted("", parameters):
        log_store.compiled(jars.cached_jars(wanted), lambda: session.compiler(log))


def write_log_store(parameters: dict[str, str], file: Path) -> None:
    """Writes the jar with the log store for S3.

    Args:
        parameters: Spark settings as in a profile, whose jars are in the cache.
        file: The file, which is replaced.

    Raises:
        DbtRuntimeError: It cannot be compiled, or not be written.
    """
    log = jars.cache_folder() / "prepare.log"
    found = jars.cached_jars(jars.packages(parameters))
    try:
        shutil.copyfile(log_store.compiled(found, lambda: session.compiler(log)), file)
    except OSError as exc:
        raise DbtRuntimeError(f"{file} cannot be written: {exc.strerror}.") from exc
    print(f"{file} has {log_store.CLASS}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
