"""`python -m dbt.adapters.sparkcdc.prepare`: fetches Spark's jars ahead of the first run."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence

from dbt.adapters.sparkcdc import jars, session
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
    extra = ",".join(parser.parse_args(arguments).packages)
    try:
        prepare({"spark.jars.packages": extra} if extra else {})
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


if __name__ == "__main__":
    sys.exit(main())
