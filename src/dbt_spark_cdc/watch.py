"""`cdc watch`: builds what has new data, again and again, in one warm Spark session."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import click
from dbt.contracts.graph.manifest import Manifest
from dbt_common.exceptions import DbtBaseException

from dbt_spark_cdc import project as projects
from dbt_spark_cdc.invocation import Outcome, run_dbt, summary
from dbt_spark_cdc.project import BadProject, declaration_of, load_credentials, profiles_folder

if TYPE_CHECKING:
    from dbt.adapters.sparkcdc.tables.places import Place

# What the files of a project are called; others do not change what dbt builds.
PROJECT_FILES = frozenset([".sql", ".yml", ".yaml", ".py", ".csv", ".md"])
TESTS = ("test.", "unit_test.")
WRITTEN_BY_DBT = frozenset(["target", "logs", "warehouse"])
LONGEST_PAUSE = 60.0

Inputs = Mapping[str, str | None]


class CannotWatch(Exception):
    """The project cannot be watched; the message says why and what to do."""


class InputsUnknown(Exception):
    """The source tables could not be looked at.

    Attributes:
        outcome: The dbt command that failed.
    """

    def __init__(self, outcome: Outcome) -> None:
        super().__init__(outcome.error)
        self.outcome = outcome


class Project(Protocol):
    """What the loop needs of a dbt project."""

    def inputs(self) -> Inputs:
        """Returns what identifies the present state of each source table, by dbt selector.

        Raises:
            InputsUnknown: A dbt command that has to run before failed.
        """

    def build(self, selectors: Sequence[str]) -> Outcome:
        """Builds what the selectors name; everything where there is none.

        Args:
            selectors: Selectors of dbt.
        """


@dataclass(frozen=True)
class Pace:
    """How often the loop looks and builds.

    Attributes:
        interval: Seconds until the next look at the source tables where one found nothing new.
            After a build there may be more already, and the next look follows at once.
        full_every: Seconds after which everything is built, with or without new data.
        most_failures: Builds that may fail in a row before the loop gives up.
        at_once: Source tables with new data that one build takes on, those first whose last build
            is the longest ago; 0: all of them. The others follow after the next look.
    """

    interval: float = 1.0
    full_every: float = 3600.0
    most_failures: int = 5
    at_once: int = 0


@dataclass
class Watch:
    """The loop.

    Attributes:
        project: What is built.
        pace: How often.
        report: Gets what each build came to: the sources that had new data, the outcome, seconds.
        pause: Waits for so many seconds; returns True where the loop has to end.
        clock: The present time in seconds.
    """

    project: Project
    pace: Pace
    report: Callable[[Sequence[str], Outcome, float], None]
    pause: Callable[[float], bool]
    clock: Callable[[], float] = time.monotonic
    _built: dict[str, str | None] = field(default_factory=dict)

    def run(self) -> bool:
        """Builds until it is asked to stop.

        Returns:
            False where too many builds failed in a row.
        """
        failures, full_at = 0, self.clock()
        inputs: Inputs = {}
        while True:
            began = self.clock()
            is_full = began >= full_at
            changed: list[str] = []
            others: list[str] = []
            outcome = None
            try:
                # Before the build: what arrives while it runs is new to the next one.
                inputs = self.project.inputs()
                # After a failure all are built: what fails must not keep the others waiting.
                most = None if failures else self.pace.at_once or None
                found = self._changed(inputs)
                changed = found[:most]
                others = [] if is_full else found[len(changed) :]
                if changed or is_full:
                    outcome = self.project.build([] if is_full else changed)
            except InputsUnknown as exc:
                outcome = exc.outcome
            if outcome is not None:
                self.report([] if is_full else changed, outcome, self.clock() - began)
            if outcome is not None and not outcome.ok:
                failures += 1
            elif outcome is not None:
                failures = 0
                for name in inputs if is_full else changed:
                    # The newest build last: the order of the names is that of their builds.
                    self._built.pop(name, None)
                    self._built[name] = inputs[name]
                full_at = began + self.pace.full_every if is_full else full_at
            if failures >= self.pace.most_failures:
                return False
            wait = min(self.pace.interval * 2**failures, max(LONGEST_PAUSE, self.pace.interval))
            # A table whose state nobody knows is built each time, new data or not.
            has_known = None not in inputs.values() or any(inputs[name] for name in others)
            is_busy = outcome is not None and outcome.ok and has_known
            if self.pause(0.0 if is_busy else wait):
                return True

    def _changed(self, inputs: Inputs) -> list[str]:
        """The sources with new data, or whose state only a query tells, oldest build first."""
        changed = [
            name
            for name, state in inputs.items()
            if state is None or self._built.get(name) != state
        ]
        places = {name: place for place, name in enumerate(self._built)}
        return sorted(changed, key=lambda name: places.get(name, -1))


class DbtProject:
    """A dbt project on the embedded Spark, parsed once and again when its files change."""

    def __init__(
        self,
        folder: Path,
        profiles: Path | None,
        target: str | None,
        select: Sequence[str],
        first: Sequence[str],
        variables: str | None,
    ) -> None:
        """Parses the project and connects to its Spark.

        Args:
            folder: Folder of the project.
            profiles: Folder of profiles.yml; None: where dbt looks.
            target: Target of the profile; None: its default.
            select: dbt selectors; nothing else is built.
            first: dbt selectors of nodes that are built before each look, such as landing models.
            variables: dbt's `--vars`.

        Raises:
            CannotWatch: The profile cannot be read, or there is no Spark.
            InputsUnknown: The project cannot be parsed, or a selector names nothing in it.
        """
        # As dbt takes them: an option may name several, divided by spaces.
        self.select = [one for given in select for one in given.split()]
        self.folder, self.first = folder, list(first)
        self.profiles, self.target = profiles_folder(folder, profiles), target
        self.variables = ["--vars", variables] if variables else []
        self.place = ["--project-dir", str(folder), "--profiles-dir", str(self.profiles)]
        self.place += ["--target", target] if target else []
        self.place += self.variables
        self.spark = _session(folder, profiles, target)
        self.folders: dict[str, tuple[str, Place] | None] = {}
        self.selectors: dict[str, str] = {}
        self.manifest: Manifest | None = None
        self.watched: Collection[str] = ()
        self.parsed: object = None
        self._parse()

    def inputs(self) -> Inputs:
        """Returns the present state of the declared source tables that the selected nodes read.

        It is None where only Spark knows.

        Raises:
            InputsUnknown: A dbt command that has to run before failed.
        """
        if self.first:
            outcome = run_dbt(["build", *self.place, "--select", *self.first], None, self._parse())
            if not outcome.ok:
                raise InputsUnknown(outcome)
        found = {}
        for name, source in self._parse().sources.items():
            if name in self.watched and declaration_of(source.to_dict()):
                shown = f"source:{source.source_name}.{source.name}"
                self.selectors[shown] = _selector(source.source_name, source.name)
                found[shown] = self._state(source.relation_name or "")
        return found

    def build(self, selectors: Sequence[str]) -> Outcome:
        """Builds what reads some source tables; everything where none is named.

        Args:
            selectors: The source tables, as `inputs` names them; or selectors of dbt.
        """
        wanted = [f"{self.selectors.get(name, name)}+" for name in selectors]
        if wanted and self.select:
            wanted = [f"{name},{kept}" for name in wanted for kept in self.select]
        chosen = wanted or self.select
        selected = ["--select", *chosen] if chosen else []
        return run_dbt(["build", *self.place, *selected], None, self._parse())

    def _parse(self) -> Manifest:
        """The project as dbt reads it; once, as long as its files stay as they are."""
        files = sorted(_project_files(self.folder))
        if self.manifest is None or files != self.parsed:
            try:
                manifest = projects.dbt_result(
                    ["parse", *self.variables], self.folder, self.profiles, self.target
                )
            except BadProject as exc:
                said = f"The project cannot be parsed: {exc}"
                raise InputsUnknown(Outcome([], said, [])) from exc
            if self.first:
                self._selected("--first", self.first, manifest)
            self.watched = self._sources_above(manifest)
            self.manifest, self.parsed = manifest, files
            self.folders.clear()
        return self.manifest

    def _sources_above(self, manifest: Manifest) -> Collection[str]:
        """The ids of the sources that the selected nodes are made of; all without a selection.

        The others would take the turns of these, and nothing is built of them.
        """
        if not self.select:
            return manifest.sources
        selected = self._selected("--select", self.select, manifest)
        # dbt selects a test with any table that it reads, and the others need not be built here.
        waiting = [name for name in selected if not name.startswith(TESTS)] or selected
        above: set[str] = set()
        while waiting:
            if (name := waiting.pop()) not in above:
                above.add(name)
                waiting += getattr(manifest.nodes.get(name), "depends_on_nodes", ())
        return above & manifest.sources.keys()

    def _selected(self, option: str, selectors: Sequence[str], manifest: Manifest) -> list[str]:
        """The ids of the nodes that selectors name.

        Raises:
            InputsUnknown: dbt refuses a selector, or it names nothing.
        """
        command = ["--quiet", "ls", *self.place, "--output", "json", "--output-keys", "unique_id"]
        found: list[str] = []
        # One by one: beside others, dbt does not say of which one nothing came.
        for selector in selectors:
            listed = run_dbt([*command, "--select", selector], None, manifest)
            if not listed.ok:
                raise InputsUnknown(listed)
            if not listed.result:
                said = f"`{option} {selector}` matches no node of this project. `dbt ls`"
                raise InputsUnknown(Outcome([], f"{said} lists the nodes.", listed.warnings))
            found += [json.loads(line)["unique_id"] for line in listed.result]
        return found

    def _state(self, relation: str) -> str | None:
        """What identifies the state of a table: its last commit, or the files of its folder."""
        from dbt.adapters.sparkcdc.delta.log import newest_commits

        if self.folders.get(relation) is None:
            self.folders[relation] = self._place_of(relation)
        place = self.folders[relation]
        if place is None:
            return None
        provider, folder = place
        if provider == "delta":
            commits = newest_commits(folder, 1)
            if not commits:
                self.folders[relation] = None  # dropped, or made elsewhere
            return commits[0]["id"] if commits else None
        return _listing(folder) if isinstance(folder, Path) else None

    def _place_of(self, relation: str) -> tuple[str, Place] | None:
        """The provider of a table and where its files are; None where only Spark knows."""
        from dbt.adapters.sparkcdc.tables.places import place_of
        from pyspark.errors import PySparkException

        try:
            rows = self.spark.sql(f"describe table extended {relation}").collect()
        except PySparkException:  # not there yet
            return None
        known = {str(row[0]): str(row[1]) for row in rows}
        place = place_of(self.spark, known.get("Location", ""))
        provider = known.get("Provider", "").lower()
        files = ("parquet", "json", "csv", "orc", "text")
        readable = provider == "delta" or (provider in files and isinstance(place, Path))
        return (provider, place) if place is not None and readable else None


def _selector(source: str, table: str) -> str:
    """The dbt selector of a source table: `?` takes the place of what selectors give a meaning.

    Such are spaces, commas and dots. A table whose name differs there alone is built as well.
    """
    return "source:" + ".".join(re.sub(r"[^\w-]", "?", name) for name in (source, table))


def _session(folder: Path, profiles: Path | None, target: str | None) -> Any:
    from dbt.adapters.sparkcdc.credentials import SparkCdcCredentials
    from dbt.adapters.sparkcdc.session.opening import open_session

    try:
        credentials = load_credentials(folder, profiles, target)
        if not isinstance(credentials, SparkCdcCredentials):
            raise CannotWatch(
                f"The profile is of type {credentials.type}. Only type sparkcdc keeps a session: "
                "add such a target and name it with --target."
            )
        credentials.anchor(folder)
        return open_session(credentials)
    except (BadProject, DbtBaseException) as exc:
        raise CannotWatch(str(exc).strip()) from exc


def _project_files(folder: Path) -> Iterator[tuple[str, int]]:
    """The files that dbt reads, with their times; without those that go meanwhile."""
    try:
        entries = list(folder.iterdir())
    except (FileNotFoundError, NotADirectoryError):
        return
    for path in entries:
        # Environments and caches, also those of a package that is a folder of this machine.
        if path.name in WRITTEN_BY_DBT or path.name.startswith("."):
            continue
        if path.is_dir():
            yield from _project_files(path)
        elif path.suffix in PROJECT_FILES:
            with suppress(FileNotFoundError):
                yield str(path), path.stat().st_mtime_ns


def _listing(folder: Path) -> str | None:
    """The files of a folder as one text: name, size and time of each."""
    try:
        files = sorted(
            (str(path.relative_to(folder)), stat.st_size, stat.st_mtime_ns)
            for path in folder.rglob("*")
            if path.is_file() and not path.name.startswith(("_", ".")) and (stat := path.stat())
        )
    except OSError:  # a file went while the folder was read
        return None
    return json.dumps(files)


def printed(as_json: bool) -> Callable[[Sequence[str], Outcome, float], None]:
    """Returns what prints a line for each build, and below it what failed.

    Args:
        as_json: One JSON object a build instead: `at`, `sources`, `seconds`, `nodes`, `failed`,
            `error`.
    """

    def show(sources: Sequence[str], outcome: Outcome, seconds: float) -> None:
        names = [name.removeprefix("source:") for name in sources]
        failed = {result.node.name: str(result.message or "").strip() for result in outcome.failed}
        now = datetime.now(timezone.utc)
        if as_json:
            line = {
                "at": now.isoformat(timespec="milliseconds"),
                "sources": names,
                "seconds": round(seconds, 3),
                "nodes": len(outcome.results),
                "failed": failed,
                "error": outcome.error,
            }
            click.echo(json.dumps(line))
            return
        what = ", ".join(names) or "everything"
        if outcome.ok:
            outcome_text = f"{summary(outcome.results) or 'nothing to build'} ok"
        else:
            outcome_text = outcome.error or f"{len(failed)} of {len(outcome.results)} failed"
        click.echo(f"{now:%H:%M:%S} {what}: {outcome_text} in {seconds:.1f} s")
        for name, message in failed.items():
            click.echo(f"  {name}\n    " + message.replace("\n", "\n    "))

    return show
