"""Builds what a release consists of: the wheel, its sources, and the dbt package as an archive.

A dbt project can take the archive as a `tarball` package. It holds only what dbt reads of an
installed package, so neither the shop nor the Python code.
"""

from __future__ import annotations

import gzip
import io
import sys
import tarfile
from collections.abc import Iterator
from pathlib import Path

import yaml
from dbt.adapters.sparkcdc.__version__ import version as wheel_version
from hatchling.builders.sdist import SdistBuilder
from hatchling.builders.wheel import WheelBuilder

ROOT = Path(__file__).resolve().parents[1]
CONTENTS = ["CHANGELOG.md", "LICENSE", "README.md", "dbt_project.yml", "macros", "tests/generic"]


class VersionsDiffer(Exception):
    """The wheel and the dbt package of one release have different versions."""


def package_version() -> str:
    """The version of the dbt package.

    Raises:
        VersionsDiffer: if the wheel has another one.
    """
    version = str(yaml.safe_load((ROOT / "dbt_project.yml").read_text(encoding="utf-8"))["version"])
    if version != wheel_version:
        raise VersionsDiffer(
            f"dbt_project.yml has version {version}, "
            f"src/dbt/adapters/sparkcdc/__version__.py has {wheel_version}. Make them equal."
        )
    return version


def build_archive(folder: Path) -> Path:
    """Writes the dbt package as an archive; the same files give the same bytes.

    Args:
        folder: Where to write it.

    Returns:
        The archive.

    Raises:
        VersionsDiffer: if the wheel has another version than the dbt package.
    """
    name = f"cdc-{package_version()}"
    written = io.BytesIO()
    with tarfile.open(fileobj=written, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for file in _files():
            # dbt expects one folder, and takes the package's name from the project inside.
            entry = tarfile.TarInfo(f"{name}/{file.relative_to(ROOT).as_posix()}")
            content = file.read_bytes()
            entry.size = len(content)
            entry.mode = 0o644
            archive.addfile(entry, io.BytesIO(content))
    folder.mkdir(parents=True, exist_ok=True)
    target = folder / f"{name}.tar.gz"
    # Without a time in its header.
    target.write_bytes(gzip.compress(written.getvalue(), mtime=0))
    return target


def _files() -> Iterator[Path]:
    """The files of the dbt package, in one order everywhere."""
    for entry in (ROOT / name for name in CONTENTS):
        found = sorted(entry.rglob("*")) if entry.is_dir() else [entry]
        yield from (file for file in found if file.is_file() and not file.name.startswith("."))


def build_wheel(folder: Path, source: Path = ROOT) -> tuple[Path, Path]:
    """Builds the archive of the sources and the wheel.

    Args:
        folder: Where to write them.
        source: The folder of pyproject.toml.

    Returns:
        The sources and the wheel.
    """
    (sources,) = SdistBuilder(str(source)).build(directory=str(folder))
    (wheel,) = WheelBuilder(str(source)).build(directory=str(folder))
    return Path(sources), Path(wheel)


def main() -> int:
    """Builds everything into dist/ and prints the files; returns the exit code."""
    try:
        built = [build_archive(ROOT / "dist"), *build_wheel(ROOT / "dist")]
    except VersionsDiffer as exc:
        print(exc, file=sys.stderr)
        return 1
    for file in built:
        print(file.relative_to(ROOT))
    return 0


if __name__ == "__main__":
    sys.exit(main())
