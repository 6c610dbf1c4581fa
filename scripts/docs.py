"""What `make docs` asks dbt for, in one process: catalog, lineage, and how old the sources are.

It fails where a table or column has no description.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from dbt.cli.main import dbtRunner

from dbt_spark_cdc.project import read_artifact, target_folder

ROOT = Path(__file__).resolve().parents[1]
KINDS = ("model", "snapshot", "seed")


def undescribed(manifest: Mapping[str, Any], catalog: Mapping[str, Any]) -> Iterator[str]:
    """Yields the tables and columns without a description, one table a line.

    Args:
        manifest: dbt's manifest.
        catalog: dbt's catalog. Of sources the declared columns count, for several share a table.
    """
    for node_id, node in {**manifest["nodes"], **manifest["sources"]}.items():
        if node["resource_type"] not in (*KINDS, "source"):
            continue
        if not node.get("description"):
            yield f"{node_id} has no description"
        described = {n.lower(): bool(c.get("description")) for n, c in node["columns"].items()}
        built = catalog["nodes"].get(node_id, {"columns": {}})["columns"]
        missing = [name for name in {**node["columns"], **built} if not described.get(name.lower())]
        if missing:
            yield f"{node_id} has columns without a description: {', '.join(missing)}"


def main() -> int:
    """Runs dbt; returns the exit code."""
    os.chdir(ROOT)
    if not dbtRunner().invoke(["--quiet", "docs", "generate", "--static"]).success:
        return 1
    # What was not built yet has no age. The site says so.
    dbtRunner().invoke(["--quiet", "--log-level", "none", "source", "freshness"])
    target = target_folder(ROOT)
    manifest, catalog = (read_artifact(target / f"{name}.json") for name in ("manifest", "catalog"))
    missing = list(undescribed(manifest, catalog))
    for line in missing:
        print(line, file=sys.stderr)
    return 1 if missing else 0


if __name__ == "__main__":
    sys.exit(main())
