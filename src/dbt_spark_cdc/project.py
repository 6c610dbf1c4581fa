"""A dbt project as its artifacts and its profile describe it: tables, sources, the last run."""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timezone
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import yaml

if TYPE_CHECKING:
    from dbt.adapters.contracts.connection import Credentials
    from dbt.adapters.sparkcdc.credentials import SparkCdcCredentials

Node = Mapping[str, Any]

# Commands whose results say how tables were built; `show` and `compile` write the same file.
BUILDING = frozenset(["build", "run", "snapshot", "test", "seed", "retry", "run-operation"])
# What a model is to the package, by the macro that its body calls.
KINDS = {"events": "staging", "current": "final", "changelog": "changelog"}
# The key in a model's `meta` for its chart in the report.
CHART = "cdc_chart"
FAILED = frozenset(["error", "fail", "runtime error", "partial success"])
# What to do in a folder without a project.
NAME_IT = "Name its folder: --project-dir"


class BadProject(Exception):
    """A project or profile that cannot be used; the message says what to do."""


class NoProject(BadProject):
    """The folder holds no dbt project.

    Attributes:
        what: The message without what to do.
    """

    def __init__(self, root: Path) -> None:
        self.what = f"There is no dbt_project.yml in {root}."
        super().__init__(f"{self.what} {NAME_IT}")


@dataclass(frozen=True)
class CdcTable:
    """A table that the package keeps, from its source to its final table.

    Attributes:
        name: The final table, or the history where there is none.
        source: The declared source table.
        staging: The model that decodes the events.
        resolver: The model that follows changing keys.
        history: The snapshot.
        final: The final model.
    """

    name: str
    source: Node | None
    staging: Node | None
    resolver: Node | None
    history: Node | None
    final: Node | None

    @property
    def source_name(self) -> str:
        """The source table as the declaration names it, `<source>.<table>`."""
        return f"{self.source['source_name']}.{self.source['name']}" if self.source else ""

    @property
    def nodes(self) -> list[Node]:
        """The nodes that store rows, in the order that data flows."""
        return [node for node in (self.resolver, self.history, self.final) if node]

    @property
    def reader(self) -> Node:
        """The node that counts events and notes how far it has read them."""
        node = self.history or self.final
        assert node is not None
        return node

    @property
    def declaration(self) -> dict[str, Any]:
        """The options of `meta.cdc`, the source's defaults included."""
        return declaration_of(self.source) if self.source else {}


@dataclass(frozen=True)
class Result:
    """What dbt reported of a node.

    Attributes:
        node: Its unique id.
        status: dbt's word, such as `success` or `error`.
        message: What it said.
        seconds: What the node took.
        finished: When it was done.
    """

    node: str
    status: str
    message: str
    seconds: float
    finished: datetime | None

    @property
    def failed(self) -> bool:
        """Whether it did not come to a good end."""
        return self.status in FAILED


@dataclass
class LastRun:
    """The dbt command that wrote target/run_results.json.

    Attributes:
        command: For instance `build`.
        invocation: dbt's id of the run.
        started: When.
        seconds: How long it took.
        results: What it reported, by node.
    """

    command: str
    invocation: str
    started: datetime | None
    seconds: float
    results: dict[str, Result] = field(default_factory=dict)


@dataclass
class Project:
    """A dbt project.

    Attributes:
        root: Its folder.
        target_path: The folder of its artifacts.
        manifest: dbt's manifest.
        credentials: The profile's, where Spark runs inside dbt's process; None elsewhere.
        elsewhere: Why there are none.
        last_run: What dbt did last; None where nothing says so.
    """

    root: Path
    target_path: Path
    manifest: Mapping[str, Any]
    credentials: SparkCdcCredentials | None
    elsewhere: str
    last_run: LastRun | None

    @property
    def name(self) -> str:
        """The project's name."""
        return str(self.manifest["metadata"].get("project_name") or self.root.name)

    def node(self, unique_id: str) -> Node:
        """Returns a node or source of the manifest; nothing for one that is not there.

        Args:
            unique_id: dbt's id.
        """
        for kind in ("nodes", "sources"):
            if unique_id in self.manifest[kind]:
                return self.manifest[kind][unique_id]
        return {}

    def folder(self, node: Node) -> Path | None:
        """Returns where Spark puts the table of a node or source, whether or not it is there.

        Args:
            node: A node of the manifest.

        Returns:
            None where the files are not on a disk of this machine.
        """
        if self.credentials is None:
            return None
        # Hive's catalog writes all names in lower case.
        schema = str(node["schema"]).lower()
        table = str(node.get("alias") or node.get("identifier")).lower()
        root = (node.get("config") or {}).get("location_root")
        if root and urlsplit(root).scheme:
            from dbt.adapters.sparkcdc.tables.places import local_folder

            local = local_folder(root)
            return local and local / table
        warehouse = self.credentials.warehouse_folder
        if warehouse is None:
            return None
        schema_folder = warehouse if schema == "default" else warehouse / f"{schema}.db"
        return schema_folder / root / table if root else schema_folder / table

    def external_folder(self, node: Node) -> Path | None:
        """Returns the folder of the files that a source table shows, as its `location` names it.

        Args:
            node: A source of the manifest.

        Returns:
            None where it names none, or one that is not on a disk of this machine.
        """
        location = (node.get("external") or {}).get("location")
        if not location:
            return None
        if urlsplit(location).scheme:
            from dbt.adapters.sparkcdc.tables.places import local_folder

            return local_folder(location)
        return self.root / location

    def ledger(self) -> Path | None:
        """Returns the folder of the ledger `cdc_runs`, whether or not it is there."""
        if self.credentials is None:
            return None
        return self.folder({"schema": self.credentials.schema, "alias": "cdc_runs"})

    @property
    def ledger_name(self) -> str:
        """The ledger's name in SQL."""
        return f"{self.credentials.schema}.cdc_runs" if self.credentials else "cdc_runs"

    def tables(self) -> list[CdcTable]:
        """Returns the tables that the package keeps, by name."""
        finals = [node for node in self._nodes() if kind_of(node) == "final"]
        histories = {n["unique_id"]: n for n in self._nodes() if kind_of(n) == "history"}
        found = []
        for final in finals:
            above = [self.node(unique_id) for unique_id in final["depends_on"]["nodes"]]
            history = next((node for node in above if kind_of(node) == "history"), None)
            histories.pop((history or final)["unique_id"], None)
            found.append(self._table(history, final))
        found += [self._table(history, None) for history in histories.values()]
        return sorted(found, key=lambda table: table.name)

    def table(self, name: str) -> CdcTable:
        """Returns a table by the name of its final table, its history or its source table.

        Args:
            name: The name.

        Raises:
            BadProject: No table has this name, or several; the message lists near ones.
        """
        names: dict[str, dict[str, CdcTable]] = {}
        for table in self.tables():
            own = [node["name"] for node in table.nodes]
            own += [f"{node['schema']}.{node['alias']}" for node in table.nodes]
            if table.source:
                own += [table.source_name, table.source["name"]]
            for known in own:
                names.setdefault(known.lower(), {})[table.name] = table
        found = names.get(name.lower(), {})
        if name in found:
            return found[name]
        if len(found) == 1:
            return next(iter(found.values()))
        if found:
            several = ", ".join(sorted(found))
            raise BadProject(f"{name} is read by several tables: {several}. Name one of them.")
        near = get_close_matches(name.lower(), [n for n in names if ("." in n) == ("." in name)])
        known = sorted({table.name for table in self.tables()})
        if not known:
            raise BadProject(
                f"The project {self.name} has no table of this package: no snapshot with "
                "`strategy: cdc.scd2` and no model on `cdc.current`. `cdc init` writes a project "
                "with them, `cdc generate` adds those of a control table."
            )
        hint = (
            f"Did you mean {' or '.join(near)}?"
            if near
            else f"Its tables are {', '.join(known[:20])}{', ...' if len(known) > 20 else ''}."
        )
        raise BadProject(f"No table of this project is called {name}. {hint}")

    def quarantine(self, table: CdcTable) -> Node | None:
        """Returns the quarantine model of a table's source; None where there is none.

        Args:
            table: A table.
        """
        for node in self._nodes():
            reads = (node.get("depends_on") or {}).get("nodes", [])
            if (
                uses(node, "macro.cdc.quarantine")
                and (table.source or {}).get("unique_id") in reads
            ):
                return node
        return None

    def audits(self) -> list[Node]:
        """Returns the models on `cdc.audit` that are tables."""
        return [
            node
            for node in self._nodes()
            if uses(node, "macro.cdc.audit") and node["config"]["materialized"] == "table"
        ]

    def charted(self) -> list[Node]:
        """Returns the models that ask the report for a chart, by name."""
        return sorted(
            (node for node in self._nodes() if CHART in meta_of(node)),
            key=lambda node: str(node["name"]),
        )

    def failed_tests(self, table: CdcTable) -> list[Result]:
        """Returns the tests of a table's nodes that failed in the last run.

        Args:
            table: A table.
        """
        ids = {node["unique_id"] for node in table.nodes}
        return [
            result
            for result in (self.last_run.results.values() if self.last_run else [])
            if result.failed
            and result.node.startswith("test.")
            and ids & set((self.node(result.node).get("depends_on") or {}).get("nodes", []))
        ]

    def _nodes(self) -> Iterator[Node]:
        for node in self.manifest["nodes"].values():
            if node["resource_type"] in ("model", "snapshot"):
                yield node

    def _table(self, history: Node | None, final: Node | None) -> CdcTable:
        above = self._ancestors(history or final or {})
        source = next((n for n in above if n["resource_type"] == "source"), None)
        return CdcTable(
            name=(final or history or {})["name"],
            source=source,
            staging=next((n for n in above if kind_of(n) == "staging"), None),
            resolver=next((n for n in above if kind_of(n) == "resolver"), None),
            history=history,
            final=final,
        )

    def _ancestors(self, node: Node) -> list[Node]:
        """The nodes above one, up to the source that is declared for this package."""
        found: list[Node] = []
        for unique_id in (node.get("depends_on") or {}).get("nodes", []):
            above = self.node(unique_id)
            if not above:
                continue
            if above["resource_type"] == "source":
                if declaration_of(above):
                    return [above]
            elif above["resource_type"] in ("model", "snapshot"):
                further = [above, *self._ancestors(above)]
                if further[-1]["resource_type"] == "source":
                    return further
                found = found or further
        return found


def meta_of(node: Node) -> Mapping[str, Any]:
    """Returns the `meta` of a node or source.

    Args:
        node: A node of the manifest.
    """
    return (node.get("config") or {}).get("meta") or node.get("meta") or {}


def declaration_of(source: Node) -> dict[str, Any]:
    """Returns the options that a source table has in `meta.cdc`, its source's defaults included.

    Args:
        source: A source of the manifest.
    """
    shared = (source.get("source_meta") or {}).get("cdc") or {}
    own = meta_of(source).get("cdc") or {}
    return {**shared, **own}


def open_project(
    folder: Path, profiles: Path | None = None, target: str | None = None, parse: bool = True
) -> Project:
    """Reads a project's profile and artifacts.

    Args:
        folder: Folder of dbt_project.yml.
        profiles: Folder of profiles.yml; None: where dbt looks.
        target: Target of the profile; None: its default.
        parse: Whether to let dbt parse the project where it has no manifest, or is asked for a
            target, for whose schemas the manifest may not have been written.

    Raises:
        BadProject: Something of it is missing or wrong.
    """
    root = folder.resolve()
    target_path = target_folder(root)
    credentials = load_credentials(root, profiles, target)
    last_run = read_last_run(target_path / "run_results.json", target)
    if parse and (target or not (target_path / "manifest.json").exists()):
        dbt_result(["parse"], root, profiles, target)
    manifest = read_artifact(target_path / "manifest.json")
    if not manifest:
        raise BadProject(
            f"{target_path / 'manifest.json'} is missing or damaged: run `dbt parse` in {root}."
        )
    local, elsewhere = _local(credentials)
    if local:
        local.anchor(root)
    return Project(root, target_path, manifest, local, elsewhere, last_run)


def target_folder(root: Path) -> Path:
    """Returns the folder where dbt leaves the artifacts of a project.

    Args:
        root: Folder of dbt_project.yml.

    Raises:
        BadProject: There is no such file, or it is none of a project.
    """
    settings = project_settings(root)
    return root / (os.environ.get("DBT_TARGET_PATH") or settings.get("target-path", "target"))


def table_names(folder: Path) -> list[str]:
    """Returns the names of a project's tables, for shells that complete words.

    Args:
        folder: Folder of the dbt project.
    """
    manifest = read_artifact(folder / "target" / "manifest.json")
    if not manifest:
        return []
    known = Project(folder, folder / "target", manifest, None, "", None)
    return [table.name for table in known.tables()]


def project_settings(root: Path) -> dict[str, Any]:
    """Returns what dbt_project.yml says.

    Args:
        root: The project's folder.

    Raises:
        NoProject: There is no such file.
        BadProject: It is no YAML.
    """
    path = root / "dbt_project.yml"
    try:
        settings = yaml.safe_load(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise NoProject(root) from None
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as exc:
        raise BadProject(
            f"{path} cannot be read: {exc}\nIt has to be YAML in UTF-8 that this user may read."
        ) from exc
    return settings if isinstance(settings, dict) else {}


def profiles_folder(root: Path, profiles: Path | None) -> Path:
    """Returns the folder of profiles.yml that dbt uses when it is started in the project's folder.

    Args:
        root: The project's folder.
        profiles: A folder that was asked for.
    """
    if profiles:
        return profiles.resolve()
    if named := os.environ.get("DBT_PROFILES_DIR"):
        return Path(named)
    return root if (root / "profiles.yml").exists() else Path.home() / ".dbt"


def load_credentials(root: Path, profiles: Path | None, target: str | None) -> Credentials:
    """Returns the connection settings that dbt would use.

    Args:
        root: The project's folder.
        profiles: Folder of profiles.yml; None: where dbt looks.
        target: Target of the profile; None: its default.

    Raises:
        BadProject: There is no project, or its profile cannot be read; the message is dbt's then.
    """
    project_settings(root)  # dbt would blame packages.yml
    from dbt.config.runtime import load_profile
    from dbt.flags import set_from_args
    from dbt_common.context import set_invocation_context
    from dbt_common.exceptions import DbtBaseException

    set_invocation_context(os.environ)  # for env_var() in the profile
    folder = str(profiles_folder(root, profiles))
    set_from_args(argparse.Namespace(PROFILES_DIR=folder, PROJECT_DIR=str(root)), None)
    try:
        return load_profile(str(root), {}, target_override=target).credentials
    except DbtBaseException as exc:
        raise BadProject(
            f"The profile cannot be read: {str(exc).strip()}\nCorrect {folder}/profiles.yml, or "
            "name another folder with --profiles-dir."
        ) from exc


def dbt_result(arguments: list[str], root: Path, profiles: Path | None, target: str | None) -> Any:
    """Runs one dbt command in this process and returns what it came to.

    Args:
        arguments: dbt's own, without global flags except in front of the command.
        root: The project's folder.
        profiles: Folder of profiles.yml; None: where dbt looks.
        target: Target of the profile; None: its default.

    Returns:
        dbt's result: the results of nodes, or the manifest of `parse`.

    Raises:
        BadProject: It failed; the message is dbt's.
    """
    # Importing dbt takes seconds, and most commands do without it.
    from dbt_spark_cdc.invocation import run_dbt

    place = ["--project-dir", str(root), "--profiles-dir", str(profiles_folder(root, profiles))]
    outcome = run_dbt(["--quiet", *arguments, *place, *(["--target", target] if target else [])])
    if outcome.error:
        raise BadProject(outcome.error)
    if outcome.failed:
        first = outcome.failed[0]
        raise BadProject(str(first.message or first.status).strip())
    return outcome.result


def read_last_run(path: Path, target: str | None) -> LastRun | None:
    """Reads what dbt did last.

    Args:
        path: target/run_results.json.
        target: The target of interest; None: the profile's default.

    Returns:
        None where there is no such file, or another command or target wrote it.
    """
    found = read_artifact(path)
    arguments = found.get("args") or {}
    if arguments.get("which") not in BUILDING or arguments.get("target") not in (None, target):
        return None
    metadata = found.get("metadata") or {}
    results = {}
    for result in found.get("results") or []:
        ends = [step.get("completed_at") for step in result.get("timing") or []]
        results[result["unique_id"]] = Result(
            node=result["unique_id"],
            status=str(result.get("status")),
            message=str(result.get("message") or "").strip(),
            seconds=float(result.get("execution_time") or 0),
            finished=instant(ends[-1]) if ends else None,
        )
    return LastRun(
        command=str(arguments["which"]),
        invocation=str(metadata.get("invocation_id") or ""),
        started=instant(metadata.get("invocation_started_at")),
        seconds=float(found.get("elapsed_time") or 0),
        results=results,
    )


def _local(credentials: Credentials) -> tuple[SparkCdcCredentials | None, str]:
    from dbt.adapters.sparkcdc.credentials import SparkCdcCredentials

    if not isinstance(credentials, SparkCdcCredentials):
        return None, f"the target is of type {credentials.type}"
    if credentials.remote:
        return None, f"the target is the Spark Connect server {credentials.remote}"
    if credentials.warehouse_folder is None:
        return None, f"the warehouse is in an object store, {credentials.warehouse}"
    return credentials, ""


def uses(node: Node, macro: str) -> bool:
    """Returns whether a node's SQL calls a macro.

    Args:
        node: A node of the manifest.
        macro: dbt's unique id of the macro.
    """
    return macro in (node.get("depends_on") or {}).get("macros", [])


def kind_of(node: Node) -> str | None:
    """Returns what a node is to the package, as the macro `_kind_of` tells.

    Args:
        node: A node of the manifest.

    Returns:
        `staging`, `resolver`, `history`, `final` or `changelog`; None for all other nodes.
    """
    config = node.get("config") or {}
    if config.get("strategy") == "cdc.scd2":
        return "history"
    if node.get("language") == "python" and config.get("unique_key") == "_event_id":
        return "resolver"
    if node.get("resource_type") == "model":
        for macro, kind in KINDS.items():
            if uses(node, f"macro.cdc.{macro}"):
                return kind
    return None


def instant(text: Any) -> datetime | None:
    """Returns a moment that ISO 8601 names, in UTC where it names no zone; None for other text.

    Args:
        text: The text.
    """
    try:
        found = datetime.fromisoformat(str(text).replace("Z", "+00:00"))
    except ValueError:
        return None
    return found if found.tzinfo else found.replace(tzinfo=timezone.utc)


def read_artifact(path: Path) -> dict[str, Any]:
    """Returns what a JSON file of dbt's holds; nothing where it is missing or damaged.

    Args:
        path: The file.
    """
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}
