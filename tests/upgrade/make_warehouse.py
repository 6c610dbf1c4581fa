"""Builds the warehouse that the upgrade test begins with, by an older version of the package.

    .venv/bin/python -m tests.upgrade.make_warehouse [REVISION]

It checks the revision out beside the repository, lets that version build its `integration_tests/`
with the first batch of events, and packs the raw tables, histories and final tables. Revision
fff729b is the last one whose histories have neither `_cdc_is_latest` nor `_event_id`.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
WAREHOUSE = Path(__file__).with_name("warehouse.tar.gz")
REVISION = "fff729b"
SCHEMA = "app.db"
# What holds state; seeds and views are made again by every build.
PREFIXES = ("raw_", "customers_history", "orders_history")
FINAL = {"customers", "orders"}


def run(*command: str | Path, folder: Path, env: Mapping[str, str] | None = None) -> None:
    """Runs a command that must succeed."""
    subprocess.run(
        [str(part) for part in command], cwd=folder, env={**os.environ, **(env or {})}, check=True
    )


def build(checkout: Path, warehouse: Path) -> None:
    """Builds the first batch with the version that is checked out.

    Args:
        checkout: The repository at the older revision.
        warehouse: Where its tables go.
    """
    env = {
        "PYTHONPATH": str(checkout / "src"),
        "CDC_WAREHOUSE": str(warehouse),
        "DBT_PROFILES_DIR": str(checkout / "integration_tests"),
        "DBT_SEND_ANONYMOUS_USAGE_STATS": "false",
    }
    for command in (["deps"], ["build", "--vars", "batch: 1"]):
        dbt = [sys.executable, "-m", "dbt.cli.main", *command]
        run(*dbt, folder=checkout / "integration_tests", env=env)


def pack(schema: Path, archive: Path) -> None:
    """Packs the Delta tables that hold state, without checksums of Hadoop.

    Args:
        schema: The folder of the schema's tables.
        archive: What to write.
    """
    with tarfile.open(archive, "w:gz", compresslevel=9) as packed:
        for table in sorted(schema.iterdir()):
            if table.name.startswith(PREFIXES) or table.name in FINAL:
                for file in sorted(table.rglob("*")):
                    if file.is_file() and file.suffix != ".crc":
                        packed.add(file, file.relative_to(schema).as_posix())


def main(revision: str = REVISION) -> None:
    """Makes the archive again.

    Args:
        revision: The version to build with.
    """
    folder = Path(tempfile.mkdtemp())
    checkout = folder / "checkout"
    run("git", "worktree", "add", "--detach", checkout, revision, folder=ROOT)
    try:
        build(checkout, folder / "warehouse")
        pack(folder / "warehouse" / SCHEMA, WAREHOUSE)
    finally:
        run("git", "worktree", "remove", "--force", checkout, folder=ROOT)
        shutil.rmtree(folder)
    print(f"{WAREHOUSE.relative_to(ROOT)}: {WAREHOUSE.stat().st_size:,} bytes")


if __name__ == "__main__":
    main(*sys.argv[1:])
