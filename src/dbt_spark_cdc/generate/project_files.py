"""The files of a table: source, staging model, keys where they change, history, final model."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import PurePosixPath
from typing import Any, NamedTuple

from dbt_spark_cdc.generate.config_table import TableConfig
from dbt_spark_cdc.generate.yaml_text import inline

LONGEST_LINE = 132
# Events that are quarantined are no failure by themselves; that most of them are is one.
SHARE_TEST = {"cdc.quarantined_share": {"arguments": {"max_share": 0.1}}}


class Layout(NamedTuple):
    """Folders of the project that files are written to."""

    models: str = "models"
    snapshots: str = "snapshots"


class ProjectFile(NamedTuple):
    """A file of the project.

    Attributes:
        path: Below the project's folder.
        body: Its text.
        defines: What it gives the project, as dbt would name it: `source.shop.orders`.
        table: The table it belongs to.
    """

    path: PurePosixPath
    body: str
    defines: str
    table: str


def files_of(config: TableConfig, layout: Layout) -> Iterator[ProjectFile]:
    """Yields the files of a table, in the order of the data.

    Args:
        config: Row of the CONFIG table.
        layout: Folders to write to.
    """
    models, snapshots = PurePosixPath(layout.models), PurePosixPath(layout.snapshots)
    table = config.table
    yield ProjectFile(
        models / "sources" / f"{config.system}__{table}.yml",
        source_yaml(config),
        f"source.{config.system}.{table}",
        table,
    )
    yield ProjectFile(
        models / "staging" / f"{config.staging}.sql",
        staging_sql(config),
        f"model.{config.staging}",
        table,
    )
    if config.keys_model:
        yield ProjectFile(
            models / "keys" / f"{config.keys_model}.py",
            keys_model(config),
            f"model.{config.keys_model}",
            table,
        )
    if config.history:
        yield ProjectFile(
            snapshots / f"{config.versions}.yml",
            snapshot_yaml(config),
            f"snapshot.{config.versions}",
            table,
        )
    yield ProjectFile(models / "final" / f"{table}.sql", final_sql(config), f"model.{table}", table)


def source_yaml(config: TableConfig, location: str = "") -> str:
    """Returns the declaration of the source table.

    Args:
        config: Row of the CONFIG table.
        location: Folder of the files that the table shows; empty where it stores its rows.
    """
    lines = ["version: 2", "", "sources:", f"  - name: {inline(config.system)}"]
    if config.schema:
        lines.append(f"    schema: {inline(config.schema)}")
    lines += ["    tables:", *(f"      {line}" for line in table_lines(config, location))]
    return "\n".join(lines) + "\n"


def table_lines(config: TableConfig, location: str = "") -> list[str]:
    """Returns the lines of one table below `tables:`.

    Args:
        config: Row of the CONFIG table.
        location: Folder of the files that the table shows; empty where it stores its rows.
    """
    lines = [f"- name: {inline(config.table)}"]
    if config.raw_table != config.table:
        lines.append(f"  identifier: {inline(config.raw_table)}")
    if config.description:
        lines.append(f"  description: {inline(config.description)}")
    if location:
        lines.append(f"  external: {inline({'location': location})}")
    lines.append("  config:")
    if config.tags:
        lines.append(f"    tags: {inline(config.tags)}")
    lines += [f"    {name}: {inline(value)}" for name, value in config.freshness.items()]
    lines += ["    meta:", "      cdc:"]
    lines += [f"        {name}: {inline(value)}" for name, value in config.declaration.items()]
    if not config.history:  # else the history has it, which dbt builds first
        lines += ["  data_tests:", f"    - {inline(SHARE_TEST)}"]
    lines.append("  columns:")
    for column in config.columns:
        entry = {"name": column.name, "data_type": column.data_type}
        if column.description:
            entry["description"] = column.description
        lines.append(f"    - {inline(entry)}")
    return lines


def staging_sql(config: TableConfig) -> str:
    """Returns the model that decodes the events.

    Args:
        config: Row of the CONFIG table.
    """
    lines = _depends_on(config)
    if config.tags:
        lines.append(_config({"tags": list(config.tags)}))
    lines.append(f"{{{{ cdc.events(source('{config.system}', '{config.table}')) }}}}")
    return "\n".join(lines) + "\n"


def keys_model(config: TableConfig) -> str:
    """Returns the Python model that follows rows through changes of their key.

    Args:
        config: Row of the CONFIG table.
    """
    settings = _merged(config, "_event_id")
    lines = [f"        {name}={json.dumps(value)}," for name, value in settings.items()]
    return (
        "from dbt_spark_cdc.keys import resolve_keys\n\n\n"
        "def model(dbt, session):\n    dbt.config(\n" + "\n".join(lines) + "\n    )\n"
        f'    return resolve_keys(dbt, session, dbt.ref("{config.staging}"))\n'
    )


def snapshot_yaml(config: TableConfig, tests: Sequence[Mapping[str, Any]] = (SHARE_TEST,)) -> str:
    """Returns the snapshot that keeps every version.

    Args:
        config: Row of the CONFIG table.
        tests: Its data tests.
    """
    settings: dict[str, Any] = {
        "strategy": "cdc.scd2",
        "unique_key": config.unique_key,
        "file_format": "delta",
    }
    if config.tags:
        settings["tags"] = list(config.tags)
    return (
        "version: 2\n\nsnapshots:\n"
        f"  - name: {config.versions}\n"
        f"    description: Every version of {config.table}.\n"
        f"    relation: ref('{config.keys_model or config.staging}')\n"
        f"    config: {inline(settings)}\n"
        f"    data_tests: {inline(list(tests))}\n"
    )


def final_sql(config: TableConfig) -> str:
    """Returns the model that holds the current rows.

    Args:
        config: Row of the CONFIG table.
    """
    settings = _merged(config, config.unique_key)
    if config.partition:
        settings["partition_by"] = [config.partition]
    read = config.versions if config.history else config.staging
    return f"{_config(settings)}\n{{{{ cdc.current(ref('{read}')) }}}}\n"


def quarantine_sql(config: TableConfig) -> str:
    """Returns the view on the bad events.

    Args:
        config: Row of the CONFIG table.
    """
    body = f"{{{{ cdc.quarantine(source('{config.system}', '{config.table}')) }}}}"
    return "\n".join([*_depends_on(config), body]) + "\n"


def _depends_on(config: TableConfig) -> list[str]:
    """The models that write the raw table, which dbt cannot know."""
    return [f"-- depends_on: {{{{ ref('{model}') }}}}" for model in config.depends_on]


def _merged(config: TableConfig, key: str | Sequence[str]) -> dict[str, Any]:
    """Settings of a model that is merged into by a key."""
    settings: dict[str, Any] = {
        "materialized": "incremental",
        "incremental_strategy": "merge",
        "unique_key": key,
        "file_format": "delta",
    }
    if config.tags:
        settings["tags"] = list(config.tags)
    return settings


def _config(settings: Mapping[str, Any]) -> str:
    """dbt's config line, broken where it is too long."""
    words = [f"{name}={_literal(value)}" for name, value in settings.items()]
    line = f"{{{{ config({', '.join(words)}) }}}}"
    if len(line) <= LONGEST_LINE:
        return line
    inner = "".join(f"    {word},\n" for word in words)
    return f"{{{{ config(\n{inner}) }}}}"


def _literal(value: str | Sequence[str]) -> str:
    return repr(value) if isinstance(value, str) else "[" + ", ".join(map(repr, value)) + "]"
