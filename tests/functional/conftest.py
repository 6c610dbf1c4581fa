"""dbt reads a project of these tests when it has changed, and not in every command."""

from __future__ import annotations

import copy
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from dbt.adapters.factory import get_adapter, register_adapter
from dbt.cli import requires
from dbt.context.providers import generate_runtime_macro_context
from dbt.context.query_header import generate_query_header_context
from dbt.flags import get_flags
from dbt.mp_context import get_mp_context
from dbt.parser.manifest import MANIFEST_FILE_NAME
from dbt.task import runnable

ROOT = Path(__file__).resolve().parents[2]
# What dbt writes in a project.
WRITTEN = ("target", "logs")
# pytest notes here where it is.
TEST = "PYTEST_CURRENT_TEST"


def state_of(config: Any) -> tuple[Any, ...]:
    """All that the manifest of a project follows from."""
    files = []
    for folder, folders, names in os.walk(config.project_root):
        folders[:] = [name for name in folders if name not in WRITTEN]
        # A package is a link to its folder.
        links = [name for name in folders if Path(folder, name).is_symlink()]
        for name in (*names, *links):
            found = os.lstat(Path(folder, name))
            files.append((folder, name, found.st_mtime_ns, found.st_size))
    profile = (config.profile_name, config.target_name, repr(config.credentials), config.threads)
    environment = {name: value for name, value in os.environ.items() if name != TEST}
    return (config.project_target_path, config.cli_vars, profile, environment, sorted(files))


class KnownProject:
    """The last project that was read, as it was before a command ran on it.

    Attributes:
        read: dbt's own function, which reads a project.
    """

    def __init__(self, read: Callable[..., Any]) -> None:
        self.read = read
        self.state: tuple[Any, ...] | None = None
        self.manifest: Any = None
        self.nodes: Any = None

    def manifest_of(self, config: Any, *more: Any) -> Any:
        """dbt's `parse_manifest`, whose last argument are catalogs, which a project seldom has."""
        state = state_of(config)
        if state != self.state or any(more[-1]) or not get_flags().PARTIAL_PARSE:
            self.state = None
            self.manifest = self.read(config, *more)
            # Commands note in the nodes what they compile.
            self.nodes = copy.deepcopy((self.manifest.nodes, self.manifest.flat_graph))
            self.state = state
            return self.manifest
        register_adapter(config, get_mp_context())
        adapter = get_adapter(config)
        adapter.set_macro_context_generator(generate_runtime_macro_context)
        adapter.set_macro_resolver(self.manifest)
        self.manifest.nodes, self.manifest.flat_graph = copy.deepcopy(self.nodes)
        header = generate_query_header_context(adapter.config, self.manifest)
        adapter.connections.set_query_header(header)
        return self.manifest


@pytest.fixture(scope="session", autouse=True)
def known_project() -> Iterator[None]:
    """Projects are read when they have changed, and `manifest.json` is written then."""
    write = runnable.write_manifest

    def write_once(manifest: Any, target: str, *more: Any) -> None:
        if not Path(target, MANIFEST_FILE_NAME).exists():
            write(manifest, target, *more)

    with pytest.MonkeyPatch.context() as patch:
        known = KnownProject(requires.parse_manifest)
        patch.setattr(requires, "parse_manifest", known.manifest_of)
        patch.setattr(runnable, "write_manifest", write_once)
        yield


@pytest.fixture(scope="class")
def package(project: Any) -> None:
    """The package, where `dbt deps` links it."""
    folder = Path(project.project_root, "dbt_packages")
    folder.mkdir()
    (folder / "cdc").symlink_to(ROOT)
