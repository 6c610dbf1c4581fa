"""`python -m dbt.adapters.sparkcdc.prepare`: fetches Spark's jars ahead of the first run."""

from __future__ import annotations

import argparse
import os
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

from dbt.adapters.sparkcdc import storage
from dbt.adapters.sparkcdc.jvm import gateways, jars
from dbt.adapters.sparkcdc.jvm.java import find_java
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
        help="writes the jar with the adapter's log stores, for servers that share its tables",
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
        if options.log_store:
            write_log_store(parameters, options.log_store)
        else:
            prepare(parameters)
    except DbtRuntimeError as exc:
        print(exc.msg, file=sys.stderr)
        return 1
    return 0


def prepare(parameters: dict[str, str]) -> list[Path]:
    """Makes the cache complete for these Spark settings.

    Args:
        parameters: Spark settings as in a profile.

    Returns:
        The jars that Spark needs beside its own.

    Raises:
        DbtRuntimeError: There is no Java, or the jars cannot be had.
    """
    java = find_java()
    os.environ["JAVA_HOME"] = str(java.home)
    log = jars.cache_folder() / "prepare.log"
    wanted = jars.packages(parameters)
    if not jars.cached_jars(wanted):
        print(f"Fetching the jars of {', '.join(wanted)}", flush=True)
        jars.fetch_jars(wanted, lambda packages: gateways.resolve(packages, parameters, log))
    found = jars.cached_jars(wanted)
    return [*found, storage.compiled(found, lambda: gateways.compiler(log))]


def write_log_store(parameters: dict[str, str], file: Path) -> None:
    """Writes the jar with the log stores.

    Args:
        parameters: Spark settings as in a profile.
        file: The file, which is replaced.

    Raises:
        DbtRuntimeError: It cannot be compiled, or not be written.
    """
    jar = prepare(parameters)[-1]
    try:
        shutil.copyfile(jar, file)
    except OSError as exc:
        raise DbtRuntimeError(
            f"{file} cannot be written: {exc.strerror}. Name a file in a folder that this user can"
            " write."
        ) from exc
    stores = {value for value in storage.SETTINGS.values() if value.endswith("LogStore")}
    print(f"{file} has {' and '.join(sorted(stores))}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
