"""The files of a new dbt project beside those of its tables: settings, profile, landing, CI."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import NamedTuple

from dbt_spark_cdc.generate.config_table import Column, TableConfig
from dbt_spark_cdc.generate.project_files import (
    SHARE_TEST,
    Layout,
    files_of,
    quarantine_sql,
    snapshot_yaml,
    source_yaml,
)
from dbt_spark_cdc.generate.yaml_text import inline

LANDING = "landing"
RAW_SCHEMA = "{{ target.schema }}_raw"
RAW_TABLE = "landed"
# Where a runner of CI finds the package that this machine has in a folder.
PACKAGE_VARIABLE = "CDC_PACKAGE"


class NewFile(NamedTuple):
    """A file to be written.

    Attributes:
        path: Below the project's folder.
        text: What it holds.
    """

    path: PurePosixPath
    text: str


class Package(NamedTuple):
    """Where `dbt deps` takes the package from.

    Attributes:
        address: A folder, the address of a git repository, or that of an archive on a web server.
        revision: Tag or commit of the repository; empty for a folder and an archive.
    """

    address: str
    revision: str = ""

    @property
    def is_archive(self) -> bool:
        """Whether it is an archive on a web server."""
        return self.address.startswith(("http://", "https://")) and not self.revision


@dataclass(frozen=True)
class FileTable:
    """A Spark table over the files of a folder.

    Attributes:
        kind: `csv`, `json` or `parquet`.
        columns: Its columns; empty: those that the files state.
        reader: Options of Spark's reader.
    """

    kind: str
    columns: tuple[Column, ...]
    reader: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class NewTable:
    """A table of the new project.

    Attributes:
        config: Its declaration.
        notes: What the declaration rests on.
        folder: Its folder below the landing folder; empty where the raw table is there already.
        files: The Spark table over that folder; None where the landing model reads it.
        raw_columns: Columns of the raw table, each with the type that puts its texts in order;
            empty: they are in order as they are. No columns: the raw table is not known.
    """

    config: TableConfig
    notes: tuple[str, ...]
    folder: str = ""
    files: FileTable | None = None
    raw_columns: Mapping[str, str] = field(default_factory=dict)

    @property
    def is_landed(self) -> bool:
        """Whether the landing model loads its events."""
        return bool(self.folder) and self.files is None

    @property
    def title(self) -> str:
        """Its name with that of its source."""
        return f"{self.config.system}.{self.config.table}"

    @property
    def quarantine(self) -> str:
        """Name of the view on its bad events."""
        return f"{self.config.table}_quarantine"

    @property
    def models(self) -> list[str]:
        """Names of its models and snapshot: dbt has one name space for all."""
        config = self.config
        return [config.staging, config.versions, config.table, self.quarantine]


@dataclass(frozen=True)
class Shape:
    """What the project is called and where its tables and package are.

    Attributes:
        name: Name of the project and its profile.
        schema: Schema that dbt builds in.
        warehouse: Folder of the tables, relative to the project or absolute.
        package: Where the dbt package is.
        version: Of this wheel.
    """

    name: str
    schema: str
    warehouse: str
    package: Package
    version: str


def project_files(shape: Shape, tables: Sequence[NewTable]) -> Iterator[NewFile]:
    """Yields the files of a new project.

    Args:
        shape: Names and places.
        tables: Its tables.
    """
    landed = any(table.is_landed for table in tables)
    in_files = [table for table in tables if table.files]
    yield _file("dbt_project.yml", _dbt_project(shape, bool(in_files)))
    yield _file("packages.yml", _packages(shape.package))
    yield _file("profiles.yml", _profiles(shape))
    yield _file("selectors.yml", _selectors(tables))
    yield _file(".gitignore", _GITIGNORE)
    yield _file(".github/workflows/dbt.yml", _workflow(shape, tables))
    yield _file("README.md", _readme(shape, tables))
    if landed:
        yield _file("models/landing/landing.py", _LANDING_MODEL)
        yield _file("models/landing/landing.yml", _landing_yaml())
    if in_files:
        yield _file("macros/file_tables.sql", _file_tables(in_files))
    for folder in dict.fromkeys(table.folder for table in tables if table.folder):
        yield _file(f"{LANDING}/{folder}/.gitkeep", "")
    for table in tables:
        yield from _table_files(table)


def _file(path: str, text: str) -> NewFile:
    return NewFile(PurePosixPath(path), text)


def _table_files(table: NewTable) -> Iterator[NewFile]:
    config = table.config
    key = {"arguments": {"unique_key": config.unique_key}}
    for file in files_of(config, Layout()):
        body = file.body
        if file.defines.startswith("snapshot."):
            body = snapshot_yaml(config, [SHARE_TEST, {"cdc.no_overlap": key}])
        elif file.defines.startswith("source."):
            # `cdc status` looks there for files that no build has read.
            location = f"{{{{ env_var('CDC_LANDING', '{LANDING}') }}}}/{table.folder}"
            body = source_yaml(config, location if table.files else "")
            body = "".join(f"# {line}\n" for line in table.notes) + body
        yield NewFile(file.path, body)
    yield _file(f"models/quarantine/{table.quarantine}.sql", quarantine_sql(config))
    yield _file(
        f"models/final/{config.table}.yml",
        "version: 2\n\nmodels:\n"
        f"  - name: {config.table}\n"
        f"    description: The current row of each key of {config.table}.\n"
        f"    data_tests: {inline([{'cdc.one_current_row': key}])}\n"
        f"  - name: {table.quarantine}\n"
        f"    description: Events of {config.table} that cannot be applied, with the reason.\n",
    )


def _dbt_project(shape: Shape, in_files: bool) -> str:
    start = ['  - "{{ cdc.validate() }}"']
    if in_files:
        start.insert(0, '  - "{{ file_tables() }}"')
    hooks = "\n".join(start)
    return f"""\
name: {shape.name}
version: 0.1.0
config-version: 2
require-dbt-version: [">=1.11.0", "<1.12.0"]
profile: {shape.name}
clean-targets: [target, logs, dbt_packages]

dispatch:
  - macro_namespace: dbt
    search_order: [{shape.name}, cdc, dbt]

on-run-start:
{hooks}
on-run-end: "{{{{ cdc.record_run(results) }}}}"

models:
  {shape.name}:
    +file_format: delta
    staging:
      +materialized: view
    quarantine:
      +materialized: view

snapshots:
  {shape.name}:
    +file_format: delta
"""


def _packages(package: Package) -> str:
    if package.revision:
        return f"packages:\n  - git: {inline(package.address)}\n    revision: {package.revision}\n"
    if package.is_archive:
        return f"packages:\n  - tarball: {inline(package.address)}\n    name: cdc\n"
    local = f"{{{{ env_var('{PACKAGE_VARIABLE}', '{package.address}') }}}}"
    return f"packages:\n  - local: {inline(local)}\n"


def _profiles(shape: Shape) -> str:
    return f"""\
# No credentials stand here: env_var() takes them from the environment.
{shape.name}:
  target: "{{{{ env_var('DBT_TARGET', 'local') }}}}"
  outputs:
    # Spark inside dbt's own process; tables and metastore in one folder.
    local:
      type: sparkcdc
      schema: {shape.schema}
      warehouse: "{{{{ env_var('CDC_WAREHOUSE', '{shape.warehouse}') }}}}"
      threads: 4
      # For tables of some thousand rows, whose queries take longer to plan and compile than to run.
      # Take these settings away for large tables.
      server_side_parameters:
        spark.sql.shuffle.partitions: 1
        spark.sql.codegen.wholeStage: false
        spark.sql.codegen.factoryMode: NO_CODEGEN
        spark.sql.adaptive.enabled: false
    # A Spark Connect server: sc://host:port, and a token behind it if the server asks for one.
    server:
      type: sparkcdc
      schema: {shape.schema}
      remote: "{{{{ env_var('CDC_REMOTE') }}}}"
      threads: 4
"""


def _selectors(tables: Sequence[NewTable]) -> str:
    lines = ["selectors:"]
    for table in tables:
        lines += [
            f"  - name: {table.config.table}",
            f"    description: {table.config.table} with all that it is made of.",
            "    definition:",
            "      union:",
            f"        - {{method: fqn, value: {table.config.table}, parents: true}}",
            f"        - {{method: fqn, value: {table.quarantine}, parents: true}}",
        ]
    lines += [
        "  - name: histories_and_tables",
        "    description: Every history and final table, without the quarantine views.",
        "    definition:",
        "      union:",
        "        - {method: path, value: snapshots, parents: true}",
        "        - {method: path, value: models/final, parents: true}",
    ]
    return "\n".join(lines) + "\n"


_GITIGNORE = f"""\
# what dbt and Spark write
target/
logs/
dbt_packages/
/warehouse/
metastore_db/
spark-warehouse/
derby.log
.user.yml
.venv/

# change events: they may hold personal data
/{LANDING}/*/*
!/{LANDING}/*/.gitkeep
"""

_LANDING_MODEL = '''\
"""Loads new change files into the raw table, each exactly once."""

from dbt_spark_cdc.landing import land


def model(dbt, session):
    dbt.config(
        materialized="incremental",
        incremental_strategy="append",
        on_schema_change="append_new_columns",
        file_format="delta",
    )
    return land(dbt, session, dbt.config.get("landing_folder"), dbt.config.get("raw_table"))
'''


def _landing_yaml() -> str:
    return f"""\
version: 2

models:
  - name: {LANDING}
    description: A row for each change file that was landed.
    config:
      # A folder with a folder for each table, or the address of one.
      landing_folder: "{{{{ env_var('CDC_LANDING', '{LANDING}') }}}}"
      raw_table: "{RAW_SCHEMA}.{RAW_TABLE}"
"""


def _file_tables(tables: Sequence[NewTable]) -> str:
    lines = [
        "{#- Tables over the change files, for the sources. Each run lists the files again. -#}",
        "{% macro file_tables() %}",
        "{%- set root = adapter.config.project_root -%}",
        f'{{%- set landing = env_var("CDC_LANDING", "{LANDING}") -%}}',
        '{%- if not landing.startswith("/") and "://" not in landing -%}',
        '{%- set landing = root ~ "/" ~ landing -%}',
        "{%- endif -%}",
        '{%- if execute and flags.WHICH in ["build", "run", "snapshot", "test"] -%}',
        '{%- do run_query("create schema if not exists " ~ target.schema ~ "_raw") -%}',
    ]
    for table in tables:
        assert table.files is not None
        columns = ", ".join(f"`{c.name}` {c.data_type}" for c in table.files.columns)
        options = ", ".join(f"{name} '{_escaped(value)}'" for name, value in table.files.reader)
        relation = f"{{{{ target.schema }}}}_raw.{table.config.raw_table}"
        lines += [
            # Created in each run, so that it follows the folder; the files stay.
            "{%- call statement() -%}",
            f"drop table if exists {relation}",
            "{%- endcall -%}",
            "{%- call statement() -%}",
            f"create table {relation}",
            *([f"({columns})"] if columns else []),
            f"using {table.files.kind}",
            *([f"options ({options})"] if options else []),
            f"location '{{{{ landing }}}}/{table.folder}'",
            "{%- endcall -%}",
        ]
    lines += ["{%- endif -%}", "{% endmacro %}"]
    return "\n".join(lines) + "\n"


def _escaped(text: str) -> str:
    """Text inside quotes of Spark SQL, in a file that Jinja renders."""
    return text.replace("\\", "\\\\").replace("'", "\\'").replace("\t", "\\t")


def _workflow(shape: Shape, tables: Sequence[NewTable]) -> str:
    if shape.package.revision:
        address, revision = shape.package
        if address.startswith("git@"):  # pip takes addresses of this form only with their scheme
            address = "ssh://" + address.replace(":", "/", 1)
        install = [f'      - run: pip install "dbt-spark-cdc @ git+{address}@{revision}"']
        environment: list[str] = []
    elif shape.package.is_archive:
        install = [f"      - run: pip install dbt-spark-cdc=={shape.version}"]
        environment = []
    else:
        environment = [
            "    env:",
            f"      {PACKAGE_VARIABLE}: ${{{{ github.workspace }}}}/.cdc",
        ]
        install = [
            "      # packages.yml names a folder that no runner has. Set the variable",
            "      # CDC_PACKAGE_ADDRESS of the repository to the package's git address.",
            '      - run: git clone --depth 1 "${{ vars.CDC_PACKAGE_ADDRESS }}" "$CDC_PACKAGE"',
            '      - run: pip install "$CDC_PACKAGE"',
        ]
    # A warehouse of another machine is not there: then dbt reads the project, and Spark nothing.
    builds = all(table.folder and not (table.files and not table.files.columns) for table in tables)
    last = "dbt build" if builds else "cdc doctor"
    lines = [
        "name: dbt",
        "on:",
        "  push: {branches: [main]}",
        "  pull_request:",
        "jobs:",
        "  dbt:",
        "    runs-on: ubuntu-latest",
        "    timeout-minutes: 30",
        *environment,
        "    steps:",
        "      - uses: actions/checkout@v4",
        '      - {uses: actions/setup-python@v5, with: {python-version: "3.11"}}',
        '      - {uses: actions/setup-java@v4, with: {distribution: temurin, java-version: "17"}}',
        *install,
        "      - run: dbt deps",
        "      - run: dbt parse",
        f"      - run: {last}",
    ]
    return "\n".join(lines) + "\n"


def _readme(shape: Shape, tables: Sequence[NewTable]) -> str:
    first = tables[0].config
    rows = "\n".join(
        f"| `{table.config.table}` | `{table.config.versions}` | `{table.quarantine}` |"
        f" {table.config.declaration['format']} |"
        for table in tables
    )
    fed = (
        f"Put change files into `{LANDING}/<table>/`, or set `CDC_LANDING` to a folder that has a\n"
        "folder for each table. New events come in new files; do not change a file.\n"
        if any(table.folder for table in tables)
        else "The events are in tables that something else writes: `models/sources/` names them.\n"
    )
    if any(table.is_landed for table in tables):
        fed += "The landing model loads each file into a raw table once.\n"
    if in_files := [table.config.table for table in tables if table.files]:
        which = ", ".join(f"`{name}`" for name in in_files)
        fed += (
            f"Every build reads all files of {which}. If that takes too long, load them into a\n"
            "raw table with an `arrival`, so that a build reads only new rows: see\n"
            "docs/declaration.md of dbt-spark-cdc.\n"
        )
    return f"""\
# {shape.name}

Turns change events into current tables and their histories, with dbt-spark-cdc.

    dbt deps
    dbt build

Then look at a table:

    dbt show --inline "select * from {{{{ ref('{first.versions}') }}}}"

| current rows | every version | bad events | format |
|---|---|---|---|
{rows}

{fed}
`models/sources/` declares the events: keys, order, columns and types. Comments there say what was
guessed; check that first. `dbt build --selector <table>` builds one table with all that it reads,
and `cdc status` shows where each table stands.
"""
