"""`cdc doctor`: what keeps a project from running on this machine, and what to do about it."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import socket
import sys
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from datetime import timedelta
from importlib.metadata import PackageNotFoundError, requires, version
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import yaml
from dbt.adapters.sparkcdc.jvm import jars, metastore
from dbt.adapters.sparkcdc.jvm.java import find_java
from dbt.adapters.sparkcdc.jvm.settings import driver_memory, machine_memory
from dbt_common.exceptions import DbtRuntimeError
from packaging.requirements import Requirement
from rich.console import Console
from rich.markup import escape

from dbt_spark_cdc.observe.delta_table import UnreadableLog, read_table
from dbt_spark_cdc.observe.status import present
from dbt_spark_cdc.project import (
    NAME_IT,
    BadProject,
    NoProject,
    dbt_result,
    load_credentials,
    profiles_folder,
    project_settings,
)

if TYPE_CHECKING:
    from dbt.adapters.contracts.connection import Credentials
    from dbt.adapters.sparkcdc.credentials import SparkCdcCredentials

GIB = 1024**3
LITTLE_DISK, TOO_LITTLE_DISK = 5 * GIB, GIB
LITTLE_MEMORY = 2 * GIB
CLOCKS_DIFFER = timedelta(minutes=1)
CONNECT_SECONDS = 3.0
CONNECT_PORT = 15002

OK, WARNING, PROBLEM, SKIPPED = "ok", "warning", "problem", "skipped"
_COLOURS = {OK: "green", WARNING: "yellow", PROBLEM: "red", SKIPPED: "dim"}
_UNITS = {"": 1, "b": 1, "k": 1024, "m": 1024**2, "g": GIB, "t": 1024 * GIB}


@dataclass(frozen=True)
class Check:
    """What was looked at.

    Attributes:
        name: What.
        status: `ok`, `warning`, `problem` or `skipped`.
        finding: What was found.
        remedy: What to do; empty where there is nothing to do.
    """

    name: str
    status: str
    finding: str
    remedy: str = ""

    def as_json(self) -> dict[str, str]:
        """Returns the check as `--json` prints it."""
        return asdict(self)


def examine(folder: Path, profiles: Path | None, target: str | None) -> Iterator[Check]:
    """Looks at machine, installation, profile and project, one after another.

    Args:
        folder: Folder of the dbt project.
        profiles: Folder of profiles.yml; None: where dbt looks.
        target: Target of the profile; None: its default.
    """
    root = folder.resolve()
    yield from _versions()
    yield _profile(root, profiles, target)
    credentials = None
    with contextlib.suppress(BadProject):  # the check of the profile has reported it
        credentials = load_credentials(root, profiles, target)
    local = _local(credentials)
    if credentials is None or local:
        yield _java()
        yield _jars(local.server_side_parameters if local else {})
        yield _memory(local.server_side_parameters if local else {})
    if local:
        local.anchor(root)
        yield from _paths(local)
        yield _metastore(local)
        yield from _time(local)
    elif remote := getattr(credentials, "remote", None):
        yield _server(str(remote))
    yield from _disk(local)
    yield from _declarations(root, profiles, target)


def show(console: Console, check: Check) -> None:
    """Prints a check.

    Args:
        console: Where to print.
        check: The check.
    """
    status = f"[{_COLOURS[check.status]}]{check.status:8}[/]"
    console.print(f"{status} {check.name}: {escape(check.finding)}", soft_wrap=True)
    for line in check.remedy.splitlines():
        console.print(f"         {escape(line)}", soft_wrap=True)


def _versions() -> Iterator[Check]:
    """Python, and what the wheel needs beside it."""
    try:
        needed = requires("dbt-spark-cdc") or []
        own = version("dbt-spark-cdc")
    except PackageNotFoundError:
        yield Check(
            "versions", PROBLEM, "dbt-spark-cdc is not installed", "pip install dbt-spark-cdc"
        )
        return
    wrong = []
    shown = [f"dbt-spark-cdc {own}", f"Python {'.'.join(map(str, sys.version_info[:3]))}"]
    for requirement in map(Requirement, needed):
        if requirement.marker and not requirement.marker.evaluate({"extra": ""}):
            continue
        try:
            found = version(requirement.name)
        except PackageNotFoundError:
            wrong.append(f"{requirement.name} is missing")
            continue
        if not requirement.specifier.contains(found, prereleases=True):
            wrong.append(f"{requirement.name} {found} is not {requirement.specifier}")
        elif requirement.name in ("dbt-core", "dbt-spark", "pyspark", "delta-spark"):
            shown.append(f"{requirement.name} {found}")
    if wrong:
        yield Check("versions", PROBLEM, "; ".join(wrong), "pip install --upgrade dbt-spark-cdc")
    else:
        yield Check("versions", OK, ", ".join(shown))


def _bad(name: str, exc: BadProject) -> Check:
    if isinstance(exc, NoProject):
        return Check(name, PROBLEM, exc.what, NAME_IT)
    return Check(name, PROBLEM, str(exc), "Correct it, and run `cdc doctor` again.")


def _profile(root: Path, profiles: Path | None, target: str | None) -> Check:
    try:
        credentials = load_credentials(root, profiles, target)
    except BadProject as exc:
        return _bad("profile", exc)
    place = profiles_folder(root, profiles) / "profiles.yml"
    if credentials.type == "sparkcdc":
        remote = getattr(credentials, "remote", None)
        where = f"Spark Connect at {remote}" if remote else "Spark inside dbt"
        return Check("profile", OK, f"{place}: sparkcdc, schema {credentials.schema}, {where}")
    finding = f"{place}: the target is of type {credentials.type}"
    if credentials.type == "spark":
        return Check(
            "profile",
            WARNING,
            f"{finding}: its Spark cannot be checked from here",
            "Python models (landing, changing keys) need `type: sparkcdc`.",
        )
    return Check(
        "profile",
        PROBLEM,
        f"{finding}, which is not a Spark adapter",
        "Make it `type: sparkcdc` with a `schema`, or name another with --target.",
    )


def _java() -> Check:
    try:
        java = find_java()
    except DbtRuntimeError as exc:
        finding, _, remedy = exc.msg.partition("\n")
        return Check("java", PROBLEM, finding, remedy)
    return Check("java", OK, f"Java {java.version} in {java.home}")


def _jars(parameters: Mapping[str, str]) -> Check:
    wanted = jars.packages(parameters)
    found = jars.cached_jars(wanted)
    if found:
        return Check("jars", OK, f"{len(found)} in {found[0].parent}")
    return Check(
        "jars", WARNING, f"{', '.join(wanted)} are not in the cache", jars.how_to_get(wanted)
    )


def _memory(parameters: Mapping[str, str]) -> Check:
    machine = machine_memory()
    asked = parameters.get("spark.driver.memory")
    driver = _bytes(asked) if asked else driver_memory()
    if driver is None:
        return Check(
            "memory",
            PROBLEM,
            f"spark.driver.memory is {asked}, which is not a size",
            "Write a number with a unit, such as 4g, or leave it out.",
        )
    finding = f"{_gib(driver)} for Java of {_gib(machine)} that this process may use"
    if driver >= machine:
        return Check(
            "memory",
            PROBLEM,
            finding,
            "Lower spark.driver.memory in the profile's server_side_parameters, or leave it out: "
            "the default is 2 GiB a core.",
        )
    if machine < LITTLE_MEMORY or driver > machine * 0.8:
        return Check(
            "memory",
            WARNING,
            finding,
            "Java needs half as much again beside its heap, and Python runs beside it: give the "
            "machine more memory, or Java less.",
        )
    return Check("memory", OK, finding)


def _paths(creds: SparkCdcCredentials) -> Iterator[Check]:
    folders: dict[str, Path] = {}
    if creds.warehouse_folder is None:
        yield Check("warehouse", SKIPPED, f"{creds.warehouse} is not on this machine")
    else:
        folders["warehouse"] = creds.warehouse_folder
    if creds.metastore:
        folders["metastore folder"] = Path(creds.metastore)
    folders["spark log"] = Path(creds.spark_log).parent
    for name, path in folders.items():
        there = _nearest(path)
        if not there.is_dir():
            yield Check(
                name,
                PROBLEM,
                f"{path}: {there} is not a folder",
                f"Name another folder in the profile, or move {there} away.",
            )
        elif not os.access(there, os.W_OK):
            yield Check(
                name,
                PROBLEM,
                f"{path}: {there} cannot be written",
                f"Let this user write there (`chown` or `chmod u+w {there}`), or name another "
                "folder in the profile.",
            )
        else:
            yield Check(name, OK, f"{path}{'' if path.exists() else ', to be made'}")


def _metastore(creds: SparkCdcCredentials) -> Check:
    folder = creds.metastore_folder
    if folder is None:
        return Check("metastore", SKIPPED, "the profile names a metastore of its own")
    if not (folder / "lock").exists():
        return Check("metastore", OK, "no process holds the warehouse")
    try:
        metastore.release(metastore.hold(folder, wait=0))
    except DbtRuntimeError as exc:
        finding, _, remedy = exc.msg.partition(": ")
        return Check("metastore", WARNING, finding, remedy[:1].upper() + remedy[1:])
    except OSError as exc:
        return Check(
            "metastore",
            PROBLEM,
            f"{exc.filename} cannot be opened: {exc.strerror}",
            "Let this user write the folder; it may have been made by another one.",
        )
    return Check("metastore", OK, "no process holds the warehouse")


def _time(creds: SparkCdcCredentials) -> Iterator[Check]:
    parameters = creds.server_side_parameters
    session = parameters.get("spark.sql.session.timeZone", "UTC")
    options = parameters.get("spark.driver.extraJavaOptions", "")
    java = re.findall(r"-Duser\.timezone=(\S+)", options)
    if session.upper() not in ("UTC", "ETC/UTC", "Z", "+00:00"):
        yield Check(
            "time zone",
            WARNING,
            f"spark.sql.session.timeZone is {session}: times without a zone are read and shown "
            "as of there, and a table means something else under another setting",
            "Leave the setting out: the default is UTC.",
        )
    elif java and java[-1].upper() != "UTC":
        yield Check(
            "time zone",
            WARNING,
            f"Java runs in {java[-1]}: Delta then checks the state of small tables with every "
            "commit",
            "Take -Duser.timezone out of spark.driver.extraJavaOptions.",
        )
    else:
        yield Check("time zone", OK, f"{session} in Spark, on any machine")
    if creds.warehouse_folder is None:
        return
    try:
        ledger = read_table(
            creds.warehouse_folder / f"{str(creds.schema).lower()}.db" / "cdc_runs", commits=1
        )
    except UnreadableLog as exc:
        yield Check(
            "ledger",
            PROBLEM,
            str(exc),
            "Without its files, drop the table cdc_runs: the next build creates an empty one.",
        )
        return
    ahead = ledger.commits[0].at - present() if ledger and ledger.commits else timedelta()
    if ahead > CLOCKS_DIFFER:
        yield Check(
            "clock",
            WARNING,
            f"the last run is {ahead.total_seconds():.0f} s in the future of this machine's clock",
            "Set the clock (`timedatectl set-ntp true`): lag and freshness are wrong until then.",
        )
    else:
        yield Check("clock", OK, "not behind the last run")


def _server(remote: str) -> Check:
    parts = urlsplit(remote)
    address = (parts.hostname or "localhost", parts.port or CONNECT_PORT)
    try:
        socket.create_connection(address, CONNECT_SECONDS).close()
    except OSError as exc:
        return Check(
            "server",
            PROBLEM,
            f"{address[0]}:{address[1]} does not answer: {exc}",
            "Start the server (`start-connect-server.sh`), or correct `remote` in the profile.",
        )
    return Check("server", OK, f"{address[0]}:{address[1]} answers")


def _disk(creds: SparkCdcCredentials | None) -> Iterator[Check]:
    folders = {"cache": jars.cache_folder(), "scratch": _scratch(creds)}
    if creds and creds.warehouse_folder is not None:
        folders["warehouse"] = creds.warehouse_folder
    seen: dict[tuple[int, int], list[str]] = {}
    for name, folder in folders.items():
        there = _nearest(folder)
        usage = shutil.disk_usage(there)
        seen.setdefault((there.stat().st_dev, usage.free), []).append(f"{name} {folder}")
    for (_, free), names in seen.items():
        finding = f"{_gib(free)} free for {', '.join(names)}"
        remedy = "Free some space, or put warehouse, spark.local.dir or DBT_SPARK_CDC_CACHE on "
        remedy += "another disk. `dbt run-operation cdc_vacuum` removes what no table owns."
        if free < TOO_LITTLE_DISK:
            yield Check("disk", PROBLEM, finding, remedy)
        elif free < LITTLE_DISK:
            yield Check("disk", WARNING, finding, remedy)
        else:
            yield Check("disk", OK, finding)


def _declarations(root: Path, profiles: Path | None, target: str | None) -> Iterator[Check]:
    """What dbt and the package say of the project; no Spark is needed for it."""
    try:
        settings = project_settings(root)
        manifest = dbt_result(["parse"], root, profiles, target)
    except BadProject as exc:
        yield _bad("project", exc)
        return
    yield from _wiring(root, settings)
    if "macro.cdc.validate" in manifest.macros:
        yield _validated(manifest)


def _wiring(root: Path, settings: Mapping[str, Any]) -> Iterator[Check]:
    """Whether dbt asks the package: the dispatch, the hooks, the version."""
    if settings.get("name") == "cdc":
        yield Check("package", OK, "the project is the package itself")
        return
    installed = root / str(settings.get("packages-install-path", "dbt_packages")) / "cdc"
    try:
        package = yaml.safe_load((installed / "dbt_project.yml").read_text(encoding="utf-8"))
    except (OSError, yaml.YAMLError):
        yield Check(
            "package",
            PROBLEM,
            f"the dbt package cdc is not in {installed}",
            "Name it in packages.yml, and run `dbt deps`.",
        )
        return
    try:
        wheel = version("dbt-spark-cdc")
    except PackageNotFoundError:
        wheel = str(package.get("version"))
    if str(package.get("version")) != wheel:
        yield Check(
            "package",
            WARNING,
            f"the dbt package is {package.get('version')}, the Python package {wheel}",
            "Take both of one version: `revision` in packages.yml and `pip install`.",
        )
    else:
        yield Check("package", OK, f"cdc {wheel} in {installed}")
    orders = [
        entry.get("search_order") or []
        for entry in settings.get("dispatch") or []
        if entry.get("macro_namespace") == "dbt"
    ]
    order = orders[0] if orders else []
    if "cdc" not in order or ("dbt" in order and order.index("dbt") < order.index("cdc")):
        name = settings.get("name")
        yield Check(
            "dispatch",
            PROBLEM,
            "dbt does not ask the package for its merges and snapshots",
            "In dbt_project.yml:\n  dispatch:\n    - macro_namespace: dbt\n"
            f"      search_order: [{name}, cdc, dbt]",
        )
    else:
        yield Check("dispatch", OK, f"search_order {', '.join(map(str, order))}")
    for hook, macro, use in (
        ("on-run-start", "cdc.validate()", "declarations are checked before anything is written"),
        ("on-run-end", "cdc.record_run(results)", "runs are recorded for status and report"),
    ):
        if macro.partition("(")[0] in str(settings.get(hook) or ""):
            yield Check(hook, OK, macro)
        else:
            yield Check(
                hook,
                WARNING,
                f"{macro} is not called: with it {use}",
                f'In dbt_project.yml:\n  {hook}: "{{{{ {macro} }}}}"',
            )


def _validated(manifest: Any) -> Check:
    """`cdc.validate()` as dbt would run it, without a connection."""
    from dbt.adapters.factory import FACTORY
    from dbt_common.exceptions import DbtBaseException

    declared = sum(
        "cdc" in {**source.source_meta, **source.meta, **source.config.meta}
        for source in manifest.sources.values()
    )
    manifest.build_flat_graph()
    adapter: Any = next(iter(FACTORY.adapters.values()))
    try:
        adapter.execute_macro("validate", macro_resolver=manifest, project="cdc")
    except DbtBaseException as exc:
        return Check(
            "declarations",
            PROBLEM,
            str(exc).strip(),
            "Correct `meta.cdc` of the source tables, as each line of the finding says.",
        )
    if declared:
        tables = "1 source table" if declared == 1 else f"{declared} source tables"
        return Check("declarations", OK, f"no problems in {tables}")
    return Check(
        "declarations",
        WARNING,
        "no source table has `config.meta.cdc`",
        "Declare one: `cdc describe FILE` writes its declaration.",
    )


def _local(credentials: Credentials | None) -> SparkCdcCredentials | None:
    from dbt.adapters.sparkcdc.credentials import SparkCdcCredentials

    if isinstance(credentials, SparkCdcCredentials) and not credentials.remote:
        return credentials
    return None


def _scratch(creds: SparkCdcCredentials | None) -> Path:
    named = creds.server_side_parameters.get("spark.local.dir") if creds else None
    return Path(os.environ.get("SPARK_LOCAL_DIRS") or named or tempfile.gettempdir())


def _nearest(path: Path) -> Path:
    """The folder itself, or the nearest one above that is there."""
    return next(one for one in (path, *path.parents) if one.exists())


def _bytes(text: str) -> int | None:
    match = re.fullmatch(r"(\d+)([bkmgt]?)b?", text.strip().lower())
    # Without a unit Spark reads MiB.
    return int(match[1]) * _UNITS[match[2] or "m"] if match else None


def _gib(value: int) -> str:
    return f"{value / GIB:.1f} GiB"
