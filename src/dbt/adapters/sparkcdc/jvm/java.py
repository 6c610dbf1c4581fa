"""Finds a Java that Spark can run on, before anything is launched."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from dbt_common.exceptions import DbtRuntimeError

SUPPORTED = (17, 21)

INSTALL = """\
Install one of them and try again:
  Debian, Ubuntu   sudo apt-get install openjdk-17-jre-headless
  Fedora           sudo dnf install java-21-openjdk-headless
  macOS            brew install openjdk@17
  Windows          winget install EclipseAdoptium.Temurin.17.JRE
or point JAVA_HOME at one that is already there."""


class Java(NamedTuple):
    """A Java installation: its home and its full version, for instance 17.0.15."""

    home: Path
    version: str

    @property
    def major(self) -> int:
        return int(self.version.removeprefix("1.").split(".")[0])


def find_java() -> Java:
    """Returns the first supported Java of JAVA_HOME and PATH.

    Raises:
        DbtRuntimeError: Neither holds Java 17 or 21; the message says how to get one.
    """
    found = []
    for place, home in _candidates():
        version = _version(home)
        if version is None:
            found.append(f"{place} ({home}) holds no working Java")
            continue
        java = Java(home, version)
        if java.major in SUPPORTED:
            return java
        found.append(f"{place} ({home}) holds Java {version}")
    raise DbtRuntimeError(
        f"Spark needs Java {' or '.join(map(str, SUPPORTED))}; "
        f"{'; '.join(found) or 'JAVA_HOME and PATH hold none'}.\n{INSTALL}"
    )


def _candidates() -> Iterator[tuple[str, Path]]:
    if home := os.environ.get("JAVA_HOME"):
        yield "JAVA_HOME", Path(home)
    if binary := shutil.which("java"):
        yield "PATH", Path(binary).resolve().parent.parent


def _version(home: Path) -> str | None:
    """Version from the installation's release file; where it has none, Java itself is asked."""
    binary = home / "bin" / ("java.exe" if os.name == "nt" else "java")
    if not binary.is_file():
        return None
    try:
        text = (home / "release").read_text(encoding="utf-8", errors="replace")
    except OSError:
        try:
            text = subprocess.run(
                [str(binary), "-version"], capture_output=True, text=True, timeout=30, check=True
            ).stderr
        except (OSError, subprocess.SubprocessError):
            return None
    match = re.search(r'(?:JAVA_VERSION=|version )"([\d.]+)', text)
    return match.group(1) if match else None
