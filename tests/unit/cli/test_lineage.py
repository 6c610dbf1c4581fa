"""`cdc lineage`: what declarations and SQL say of columns, without Spark."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from dbt_spark_cdc.cli import main
from dbt_spark_cdc.observe.lineage import Column, Origin, Table, trace, used_by

CDC = {
    "format": "maxwell",
    "keys": ["id"],
    "payload": "value",
    "renames": {"mail": ["email", "address"]},
    "mask": {"mail": "hash"},
    "sequence_by": "offset",
}
EVENTS = {"id": "int", "mail": "string"}
PACKAGE = {"_op": "string", "_seq": "bigint", "_ts": "timestamp", "_event_id": "bigint"}
KEPT = {
    "_seq": "bigint",
    "_seq_end": "bigint",
    "dbt_scd_id": "string",
    "dbt_valid_from": "timestamp",
}
MART = """
with people as (select * from s.people),
orders as (
    select person_id, sum(total) as ordered, count(*) as orders from s.orders group by person_id
)
select people.ID, upper(people.mail) as mail, orders.ordered, orders.orders, 1 as version
from people left join orders on people.id = orders.person_id
"""


def node(
    kind: str, name: str, *reads: str, macro: str = "", sql: str | None = None, **more: Any
) -> dict[str, dict[str, Any]]:
    found = {
        "resource_type": kind,
        "name": name,
        "schema": "s",
        "alias": name,
        "language": "sql",
        "compiled_code": sql,
        "config": {},
        "columns": {},
        "depends_on": {"nodes": list(reads), "macros": [f"macro.cdc.{macro}"] if macro else []},
        **more,
    }
    return {f"{kind}.p.{name}": found}


def artifacts(**queries: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """A declared table with its staging model, history and final table, and marts.

    Args:
        queries: SQL of further models, by name.
    """
    source = {
        "resource_type": "source",
        "source_name": "app",
        "name": "people",
        "schema": "raw",
        "identifier": "topic",
        "config": {"meta": {"cdc": CDC}},
        "columns": {name: {"data_type": kind} for name, kind in EVENTS.items()},
    }
    scd2 = {"strategy": "cdc.scd2", "unique_key": ["id"]}
    nodes = {
        # The model that lands the events is read by the staging model, too.
        **node("model", "landing", language="python"),
        **node("model", "stg", "model.p.landing", "source.p.app.people", macro="events"),
        **node("snapshot", "history", "model.p.stg", config=scd2),
        **node(
            "model",
            "people",
            "snapshot.p.history",
            macro="current",
            sql="select * except (_seq_end, dbt_scd_id, dbt_valid_from),"
            " dbt_valid_from as _cdc_updated_at from s.history where _seq_end is null",
        ),
        **node("seed", "orders"),
        **node("model", "bad_events", "source.p.app.people", macro="quarantine", sql="select 1"),
        **{
            key: one
            for name, sql in queries.items()
            for key, one in node("model", name, "model.p.people", "seed.p.orders", sql=sql).items()
        },
    }
    columns = {
        "model.p.stg": {**EVENTS, "_old_id": "int", **PACKAGE, "_arrived": "bigint", "_new": "int"},
        "snapshot.p.history": {**EVENTS, **KEPT},
        "model.p.people": {**EVENTS, "_seq": "bigint", "_cdc_updated_at": "timestamp"},
        "seed.p.orders": {"person_id": "int", "total": "decimal(9,2)"},
        "model.p.landing": {"value": "string"},
        "model.p.bad_events": {"_reason": "string"},
    }
    catalog = {
        "nodes": {key: {"columns": typed(kinds)} for key, kinds in columns.items()},
        "sources": {"source.p.app.people": {"columns": typed({"value": "string"})}},
    }
    return {"nodes": nodes, "sources": {"source.p.app.people": source}}, catalog


def typed(kinds: dict[str, str]) -> dict[str, dict[str, str]]:
    return {name: {"type": kind} for name, kind in kinds.items()}


def traced(name: str, **queries: str) -> Table:
    return next(table for table in trace(*artifacts(**queries)) if table.name == name)


def made(table: Table) -> dict[str, list[str]]:
    """What columns are made of, as text."""
    return {
        column.name: [f"{o.table.split('.', 2)[2]}.{o.column}" for o in column.origins]
        for column in table.columns
    }


def how(table: Table) -> dict[str, str]:
    return {column.name: column.how for column in table.columns if column.how}


def test_tables_come_in_the_order_that_data_flows() -> None:
    names = [table.name for table in trace(*artifacts(mart=MART))]
    assert names.index("app.people") < names.index("stg") < names.index("history")
    assert names.index("history") < names.index("people") < names.index("mart")


def test_a_declared_table_has_its_fields_and_its_raw_columns() -> None:
    table = traced("app.people")
    assert (table.kind, how(table)) == (
        "source",
        {
            "id": "field `id` of the events in `value`",
            "mail": "field `mail` of the events in `value`; formerly `email`, `address`",
            "value": "column of the raw table",
        },
    )


def test_a_staging_model_follows_its_declaration() -> None:
    table = traced("stg")
    assert table.kind == "staging"
    assert made(table) == {
        "id": ["app.people.id"],
        "mail": ["app.people.mail"],
        "_old_id": ["app.people.id"],
        "_op": [],
        "_seq": [],
        "_ts": [],
        "_event_id": ["app.people.id", "app.people.mail"],
        "_arrived": [],
        "_new": [],
    }
    assert how(table) == {
        "mail": "masked: hash",
        "_old_id": "the key before it changed",
        "_op": "as `maxwell` has it",
        "_seq": "`sequence_by: offset`",
        "_ts": "as `maxwell` has it",
        "_event_id": "hash of the whole event",
        "_arrived": "the batch that brought the event",
        "_new": "written by the package",
    }


def test_a_history_is_made_of_its_events() -> None:
    assert made(traced("history")) == {
        "id": ["stg.id"],
        "mail": ["stg.mail"],
        "_seq": ["stg._seq"],
        "_seq_end": ["stg._seq"],
        "dbt_scd_id": ["stg.id", "stg._seq"],
        "dbt_valid_from": ["stg._ts"],
    }


def test_a_final_table_renames_columns_of_its_history() -> None:
    table = traced("people")
    assert (table.kind, made(table)) == (
        "final",
        {
            "id": ["history.id"],
            "mail": ["history.mail"],
            "_seq": ["history._seq"],
            "_cdc_updated_at": ["history.dbt_valid_from"],
        },
    )


def test_sql_says_what_a_mart_is_made_of() -> None:
    table = traced("mart", mart=MART)
    assert made(table) == {
        "id": ["people.id"],
        "mail": ["people.mail"],
        "ordered": ["orders.total"],
        "orders": [],
        "version": [],
    }
    assert how(table) == {
        "mail": "UPPER(mail)",
        "ordered": "SUM(total)",
        "orders": "COUNT(*)",
        "version": "1",
    }


def test_a_union_has_the_origins_of_its_queries() -> None:
    sql = "select mail from s.people union all select cast(person_id as string) from s.orders"
    table = traced("both", both=sql)
    assert made(table) == {"mail": ["people.mail", "orders.person_id"]}
    assert how(table) == {"mail": "CAST(person_id AS STRING)"}


def columns_of(sql: str, *names: str) -> Table:
    """A model that the catalog has with these columns."""
    manifest, catalog = artifacts(odd=sql)
    catalog["nodes"]["model.p.odd"] = {"columns": typed(dict.fromkeys(names, "string"))}
    return next(table for table in trace(manifest, catalog) if table.name == "odd")


def test_a_table_outside_of_the_project_is_no_origin() -> None:
    table = columns_of(
        "select people.mail, other.* from s.people cross join elsewhere.other", "mail", "x"
    )
    assert made(table) == {"mail": ["people.mail"], "x": []}
    assert how(table) == {"x": "of a table that the project does not know"}
    assert how(columns_of("select mail from s.people", "gone")) == {"gone": "not in its query"}


def test_a_column_that_its_table_does_not_have_is_no_origin() -> None:
    assert made(columns_of("select people.former from s.people", "former")) == {"former": []}


@pytest.mark.parametrize(
    ("name", "sql", "reason"),
    [
        ("landing", "", "It is a Python model, which says nothing of its columns."),
        ("bad_events", "", "`cdc.quarantine` makes its rows of whole events."),
        ("odd", "select from from where", "Its SQL cannot be followed: "),
        ("odd", "drop table x", "Its SQL cannot be followed: "),
        ("odd", "", "dbt has not compiled it."),
    ],
)
def test_what_cannot_be_traced_says_why(name: str, sql: str, reason: str) -> None:
    table = traced(name, **({"odd": sql} if name == "odd" else {}))
    assert table.untraced.startswith(reason)
    assert all(not column.origins for column in table.columns)


def test_used_by_is_the_way_back() -> None:
    found = used_by(trace(*artifacts(mart=MART)))
    assert found[Origin("source.p.app.people", "mail")] == [
        Origin("model.p.stg", "mail"),
        Origin("model.p.stg", "_event_id"),
    ]
    assert found[Origin("model.p.people", "mail")] == [Origin("model.p.mart", "mail")]


def test_a_seed_has_no_origins() -> None:
    assert traced("orders").columns == (Column("person_id", "int"), Column("total", "decimal(9,2)"))


# The command.


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "target").mkdir()
    (tmp_path / "dbt_project.yml").write_text("name: p\n")
    names = ("manifest", "catalog")
    for name, artifact in zip(names, artifacts(mart=MART), strict=True):
        (tmp_path / "target" / f"{name}.json").write_text(json.dumps(artifact))
    return tmp_path


def run(folder: Path, *arguments: str, code: int = 0) -> str:
    ran = CliRunner().invoke(main, ["lineage", *arguments, "--project-dir", str(folder)])
    assert ran.exit_code == code, ran.output
    return ran.output


def test_one_table_is_shown(folder: Path) -> None:
    shown = run(folder, "mart")
    assert "people.mail" in shown and "UPPER(mail)" in shown
    assert "`cdc.quarantine` makes its rows" in run(folder, "bad_events")


def test_one_table_as_json(folder: Path) -> None:
    shown = json.loads(run(folder, "stg", "--json"))
    assert (shown["table"], shown["id"], shown["kind"]) == ("stg", "model.p.stg", "staging")
    assert shown["untraced"] is None
    assert shown["columns"][1] == {
        "name": "mail",
        "type": "string",
        "from": [{"table": "app.people", "id": "source.p.app.people", "column": "mail"}],
        "how": "masked: hash",
        "used_by": [{"table": "history", "id": "snapshot.p.history", "column": "mail"}],
    }


def test_all_tables_are_listed(folder: Path) -> None:
    assert run(folder).splitlines()[0] == "app.people (source), 3 columns"
    assert len(json.loads(run(folder, "--json"))) == len(run(folder).splitlines()) == 8


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("marts", "cdc: No table is called marts. Did you mean mart?"),
        ("zzzzz", "cdc: No table is called zzzzz. `cdc lineage` lists all tables."),
    ],
)
def test_unknown_tables(folder: Path, name: str, message: str) -> None:
    assert run(folder, name, code=2).strip() == message


def test_names_that_several_tables_have(folder: Path) -> None:
    path = folder / "target" / "manifest.json"
    manifest = json.loads(path.read_text())
    manifest["nodes"]["model.q.mart"] = manifest["nodes"]["model.p.mart"]
    path.write_text(json.dumps(manifest))
    said = run(folder, "mart", code=2)
    assert "Several tables are called mart: give one of model.p.mart, model.q.mart." in said
    assert "mart (model)" in run(folder, "model.q.mart")


def test_without_artifacts(folder: Path) -> None:
    (folder / "target" / "catalog.json").unlink()
    said = run(folder, "mart", code=2)
    assert "target has no catalog: run `dbt docs generate` in" in said
    (folder / "dbt_project.yml").unlink()
    assert "dbt_project.yml" in run(folder, "mart", code=2)
