"""The project of integration_tests/: what a user who installs the package has."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from scripts.package import build_archive
from tests.functional.consumer import copy_project, dbt

pytestmark = pytest.mark.extended


@pytest.fixture
def consumer(tmp_path: Path, warehouse: Path, spark: Any, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of the project, so that nothing is written into the repository."""
    monkeypatch.setenv("CDC_WAREHOUSE", str(warehouse))
    return copy_project(tmp_path)


def test_a_consumer_builds_batch_after_batch(consumer: Path) -> None:
    dbt(consumer, "deps")
    for batch in (1, 3, 3):
        # Unit tests read no batch: once is enough.
        options = ["--exclude-resource-type", "unit_test"] * (batch > 1)
        built = dbt(consumer, "build", "--vars", f"batch: {batch}", *options)
        assert ("orders_are_decoded" in built) == (batch == 1)
        assert built["orders"] == built["customers"] == built["landing"] == "success"
        # The reference project's own models stay where they are.
        assert not [name for name in built if "shop" in name or "article" in name]

    # Of the package only macros, generic tests and texts for their columns have been read.
    manifest = json.loads((consumer / "target" / "manifest.json").read_text())
    groups = [
        "nodes",
        "disabled",
        "sources",
        "unit_tests",
        "exposures",
        "groups",
        "metrics",
        "docs",
        "macros",
    ]
    own = {
        group: [key for key in manifest[group] if key.split(".")[1] == "cdc"] for group in groups
    }
    macros = {manifest["macros"][key]["original_file_path"] for key in own.pop("macros")}
    assert {path.split("/")[0] for path in macros} == {"macros", "tests"}
    assert {Path(path).parent.name for path in macros if path.startswith("tests")} == {"generic"}
    docs = {manifest["docs"][key]["original_file_path"] for key in manifest["docs"]}
    assert {path for path in docs if not path.startswith("docs/overview")} == {"macros/columns.md"}
    own.pop("docs")
    hooks = set(own.pop("nodes"))
    assert hooks == {"operation.cdc.cdc-on-run-start-0", "operation.cdc.cdc-on-run-end-0"}
    assert not any(own.values()), own
    ran = json.loads((consumer / "target" / "run_results.json").read_text())["results"]
    compiled = {r["unique_id"]: r["compiled_code"] for r in ran if r["unique_id"] in hooks}
    assert not any((code or "").strip() for code in compiled.values())


@pytest.fixture
def archive_url(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The address of the built archive: dbt downloads a tarball, and only by HTTP."""
    archive = build_archive(tmp_path / "dist")
    # Whatever stands between this machine and others does not stand before its own server.
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    serve = partial(SimpleHTTPRequestHandler, directory=str(archive.parent))
    with ThreadingHTTPServer(("127.0.0.1", 0), serve) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/{archive.name}"
        server.shutdown()


def test_a_consumer_installs_the_built_archive(consumer: Path, archive_url: str) -> None:
    (consumer / "packages.yml").write_text(
        f"packages:\n  - tarball: {archive_url}\n    name: cdc\n"
    )
    dbt(consumer, "deps")
    installed = consumer / "dbt_packages" / "cdc"
    assert not installed.is_symlink() and not (installed / "models").exists()
    built = dbt(consumer, "build", "--select", "+customers", "--vars", "batch: 1")
    assert built["customers_history"] == built["customers"] == "success"
    # The generic tests come with the archive as well.
    assert "pass" in {status for name, status in built.items() if "one_current_row" in name}
