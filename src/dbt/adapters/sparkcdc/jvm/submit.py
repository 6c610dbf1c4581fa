"""Spark's settings on their way to its JVM."""

from __future__ import annotations

import contextlib
import itertools
import os
import re
import shlex
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from xml.etree import ElementTree

ARGUMENTS = "PYSPARK_SUBMIT_ARGS"
HADOOP_FILES = ("core-site.xml", "hive-site.xml")
DEFAULT = "pyspark-shell"  # what pyspark takes where the variable is not set


@contextmanager
def submitted(settings: Mapping[str, str]) -> Iterator[Path]:
    """Has the next JVM that pyspark launches read settings from a file, for as long as it lasts.

    Args:
        settings: Spark settings by name; they win over those of Spark's own `conf` folder.

    Yields:
        The file, which its owner alone can read.
    """
    before = os.environ.get(ARGUMENTS) or DEFAULT
    handle, name = tempfile.mkstemp(prefix="dbt-spark-cdc-", suffix=".properties")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(as_properties(settings))
        ours = ["--load-spark-defaults", "--properties-file", name]
        os.environ[ARGUMENTS] = f"{shlex.join(ours)} {before}"
        yield Path(name)
    finally:
        Path(name).unlink(missing_ok=True)
        # Never removed: dbt reads the whole environment in other threads meanwhile, and a variable
        # that vanishes under `os.environ.items()` is a KeyError there.
        os.environ[ARGUMENTS] = before


def given(spark_home: Path) -> dict[str, str]:
    """Returns the settings that Spark gets from its `conf` folder and from pyspark's variable.

    Args:
        spark_home: Where Spark is.
    """
    found: dict[str, str] = {}
    folder = Path(os.environ.get("SPARK_CONF_DIR") or spark_home / "conf")
    with contextlib.suppress(OSError, UnicodeDecodeError):
        for line in (folder / "spark-defaults.conf").read_text(encoding="utf-8").splitlines():
            if line.strip() and line.strip()[0] not in "#!":
                name, *rest = re.split(r"\s*[=:]\s*|\s+", line.strip(), maxsplit=1)
                found[name] = rest[0] if rest else ""
    arguments = shlex.split(os.environ.get(ARGUMENTS) or "")
    for option, value in itertools.pairwise(arguments):
        if option in ("--conf", "-c") and "=" in value:
            name, _, text = value.partition("=")
            found[name] = text
    return found


def given_to_hadoop(spark_home: Path) -> dict[str, str]:
    """Returns the settings of Hadoop's files on Spark's class path, named as Spark names them.

    Args:
        spark_home: Where Spark is.
    """
    # In the order in which Spark puts them there: of two files of a name Java reads the first one.
    folders = [os.environ.get("SPARK_CONF_DIR") or str(spark_home / "conf")]
    for variable in ("HADOOP_CONF_DIR", "YARN_CONF_DIR"):
        folders += os.environ.get(variable, "").split(os.pathsep)
    found: dict[str, str] = {}
    for name in HADOOP_FILES:
        files = (Path(folder) / name for folder in folders if folder)
        file = next((file for file in files if file.is_file()), None)
        if file is None:
            continue
        # What is wrong with a file, Java says.
        with contextlib.suppress(OSError, ValueError, ElementTree.ParseError):
            for given_property in ElementTree.parse(file).getroot().iter("property"):
                key = (given_property.findtext("name") or "").strip()
                found[f"spark.hadoop.{key}"] = (given_property.findtext("value") or "").strip()
    return found


def as_properties(settings: Mapping[str, str]) -> str:
    """Returns settings as a file of Java properties.

    Args:
        settings: Spark settings by name.
    """
    return "".join(f"{_escaped(key)} {_escaped(value)}\n" for key, value in settings.items())


def _escaped(text: str) -> str:
    """A name or a value as a file of Java properties spells it."""
    special = {"\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t", "\f": "\\f"}
    return "".join(special.get(char) or (f"\\{char}" if char in " :=#!" else char) for char in text)
