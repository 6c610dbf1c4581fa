"""The code of the documentation, run: one project holds the files of all pages, in one warehouse.

`FILES` and `QUERIES` say where each piece of code of a page goes, and `NOT_RUN` why a piece does
not go anywhere; `tests/unit/test_docs_code.py` holds them against the pages, so that new code has
to be run here, or excused. Commands are found on the pages.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import pytest
import yaml
from click.testing import CliRunner
from dbt.cli.main import dbtRunner
from dbt.tests.util import run_dbt

from dbt_spark_cdc.cli import main
from tests.functional.history.tables import rows
from tests.pages import ROOT, WORD_FOR_WORD, codes, commands

CODES = {code.key: code for code in codes()}
SCHEMAS = ("shop", "shop_raw", "cdc_data", "crm", "crm_export")


class At(NamedTuple):
    """Where the project has a piece of code.

    Attributes:
        file: The file. Pieces of YAML and `GIVEN` are merged where they share one.
        under: For a part of a source: the source, and the table if the piece has its options only.
        changed: What is replaced in the text. Pages use the same names over and over, a project
            cannot; `FOLDER` and `{s}` stand for a folder of the test and its schema.
    """

    file: str
    under: tuple[str, ...] = ()
    changed: Mapping[str, str] = MappingProxyType({})


SOURCES = "models/sources/sources.yml"
CHANGES, MIGRATED = "docs/changes_out.md", "docs/migration.md"
DECLARED, FINAL = "docs/declaration.md", "docs/final_tables.md"
FILES = {
    "README.md: dbt_project.yml": At("dbt_project.yml", changed={"<your project>": "test"}),
    "README.md: sources:": At(SOURCES),
    "README.md: models/staging/stg_shop__customers.sql": At("models/stg_shop__customers.sql"),
    "README.md: snapshots/shop.yml": At("snapshots/shop.yml"),
    "README.md: models/final/customers.sql": At("models/customers.sql"),
    "docs/adapter.md: def model(dbt, session):": At(
        "models/large_visits.py", changed={'"orders"': '"visits"'}
    ),
    f"{CHANGES}: models/feeds/customers_changes.sql": At("models/customers_changes.sql"),
    f"{CHANGES}: models/feeds/customers_events.sql": At("models/customers_events.sql"),
    f"{CHANGES}: models/feeds/customers_exported.py": At("models/customers_exported.py"),
    f"{CHANGES}: models/feeds/feeds.yml": At(
        "models/feeds.yml", changed={"/exports/shop": "FOLDER"}
    ),
    f"{CHANGES}: - name: customers_changes": At(SOURCES, ("feeds",)),
    f"{CHANGES}: - name: customers": At(SOURCES, ("landed",)),
    "docs/bootstrap.md: models/sources/crm.yml": At(SOURCES),
    "docs/cli.md: models:": At("models/marts.yml"),
    f"{DECLARED}: sources:": At(
        SOURCES, changed={"name: shop": "name: shop_raw", "name: customers": "name: clients"}
    ),
    f"{DECLARED}: config: {{meta: {{cdc: {{format: debezium, keys: [customer_id],": At(
        SOURCES, ("messages", "masked")
    ),
    f"{FINAL}: models/final/stock.sql": At("models/stock.sql"),
    f"{FINAL}: models/final/customers.sql": At("models/customers_view.sql"),
    f"{FINAL}: {{{{ config(": At("models/visits.sql", changed={"orders_history": "visits_history"}),
    f"{FINAL}: {{{{ config( (2)": At(
        "models/visits_parquet.sql", changed={"customers_history": "visits_history"}
    ),
    f"{DECLARED}: config: {{meta: {{cdc: {{renames: {{mail: email, customer_id: [c": At(
        SOURCES, ("shop", "renamed")
    ),
    f"{DECLARED}: {{{{ cdc.schema_drift(source('shop', 'customers')) }}}}": At(
        "models/customers_schema_drift.sql"
    ),
    "docs/formats/canal.md: config: {meta: {cdc: {format: canal, keys: [id], sequence_by": At(
        SOURCES, ("messages", "canal")
    ),
    "docs/formats/change_event.md: config: {meta: {cdc: {format: change_event, payload: event,": At(
        SOURCES, ("messages", "change_event")
    ),
    "docs/formats/debezium.md: config:": At(SOURCES, ("messages", "debezium")),
    "docs/formats/debezium.md: config: {meta: {cdc: {format: debezium, keys: [_id], source_": At(
        SOURCES, ("messages", "documents")
    ),
    "docs/formats/delta_cdf.md: config: {meta: {cdc: {format: delta_cdf, keys: [id], arrival": At(
        SOURCES, ("messages", "delta_cdf")
    ),
    "docs/formats/dms.md: config: {meta: {cdc: {format: dms, payload: value, keys: [id": At(
        SOURCES, ("messages", "dms")
    ),
    "docs/formats/dms.md: config: {meta: {cdc: {format: dms, keys: [employee_id], sequ": At(
        SOURCES, ("messages", "dms_files")
    ),
    "docs/formats/flagged.md: config: {meta: {cdc: {format: flagged, keys: [id], operation": At(
        SOURCES, ("messages", "flagged")
    ),
    "docs/formats/goldengate.md: config: {meta: {cdc: {format: goldengate, keys: [ID], source": At(
        SOURCES, ("messages", "goldengate")
    ),
    "docs/formats/maxwell.md: config: {meta: {cdc: {format: maxwell, keys: [id], source_ta": At(
        SOURCES, ("messages", "maxwell")
    ),
    "docs/formats/wal2json_v1.md: config: {meta: {cdc: {format: wal2json_v1, keys: [id], sourc": At(
        SOURCES, ("messages", "wal2json_v1")
    ),
    "docs/formats/wal2json_v2.md: config: {meta: {cdc: {format: wal2json_v2, landed: true, key": At(
        SOURCES, ("landed", "addresses")
    ),
    "docs/keys.md: python_models/customers_keys.py": At(
        "models/addresses_keys.py", changed={"stg_shop__customers": "stg_landed__addresses"}
    ),
    "docs/landing.md: from dbt_spark_cdc.landing import land": At("models/landing.py"),
    "docs/landing.md: landing.yml": At(
        "models/landing.yml",
        changed={"landing/shop": "FOLDER", '"{{ target.schema }}_raw.shop"': "shop_raw.shop"},
    ),
    f"{MIGRATED}: snapshots/shop.yml": At(
        "snapshots/old.yml", changed={"source('shop', 'customers')": "source('old', 'customers')"}
    ),
    f"{MIGRATED}: models/sources/shop.yml": At(
        SOURCES, changed={"name: shop": "name: migrated", "customer_events": "customers_all"}
    ),
    f"{MIGRATED}: models/staging/stg_shop__customers.sql": At(
        "models/stg_migrated__customers.sql", changed={"'shop'": "'migrated'"}
    ),
    f"{MIGRATED}: snapshots/shop.yml (2)": At(
        "snapshots/migrated.yml",
        changed={"customers_history": "migrated_history", "stg_shop__": "stg_migrated__"},
    ),
    f"{MIGRATED}: models/sources/cdc_data.yml": At(SOURCES),
    f"{MIGRATED}: models/staging/stg_cdc_data__users.sql": At("models/stg_cdc_data__users.sql"),
    f"{MIGRATED}: models/final/users.sql": At("models/users.sql"),
    f"{MIGRATED}: models/customers.sql": At(
        "models/recipe.sql", changed={"source('shop'": "source('recipe'"}
    ),
    f"{MIGRATED}: sources:": At(SOURCES, changed={"name: shop": "name: recipe"}),
    f"{MIGRATED}: models/customers.sql (2)": At(
        "models/recipe_replaced.sql", changed={"customers_history": "recipe_history"}
    ),
    'docs/operations.md: on-run-end: "{{ cdc.record_run(results) }}"': At("dbt_project.yml"),
    "docs/quarantine.md: models/audit/quarantine/customers_quarantine.sql": At(
        "models/customers_quarantine.sql"
    ),
    "docs/scheduling.md: models/sources/shop.yml": At(
        SOURCES, changed={"name: shop": "name: shop_raw"}
    ),
    "docs/testing.md: models/final/customers.yml": At("models/customers.yml"),
    "docs/testing.md: snapshots/shop.yml": At("snapshots/shop.yml"),
    "docs/testing.md: models/audit/cdc_audit.sql": At("models/cdc_audit.sql"),
    "docs/testing.md: unit_tests:": At("models/unit_tests.yml"),
}

# Statements and queries, with what is replaced in them.
VIEW = f"{MIGRATED}: create view shop_raw.customers_all as"
QUERIES: dict[str, dict[str, str]] = {
    f"{CHANGES}: select * from ({{{{ cdc.changelog(ref('customers'), from_versi": {
        "from_version=12, to_version=20": "from_version=0, to_version=0"
    },
    f"{CHANGES}: select * from ({{{{ cdc.as_of(ref('customers_history'), '2026-": {
        "customers_history": "migrated_history"  # of events with a time
    },
    f"{FINAL}: select * from {{{{ ref('stock') }}}} where _cdc_deleted_at is nu": {},
    "docs/operations.md: select node, sum(events_quarantined), max(watermark_after) f": {
        "cdc_runs": "{{ target.schema }}.cdc_runs"
    },
}

# The operations and queries of the pages, in the order in which they run; `RUN` is a run to undo.
ORDER = [
    "source",
    "show",
    "cdc_bootstrap",
    "cdc_upgrade",
    "cdc_optimize",
    "cdc_vacuum",
    "cdc_replay",
    "cdc_amend",
    "cdc_compact",
    "cdc_erase",
    "cdc_allow_return",
    "cdc_rewind",
]
REPLACED = {
    "5a6b..": "RUN",
    "<run_id>": "RUN",
    "email = 'ann@example.com'": "name = 'Anna'",
    "country = 'XX'": "name = 'Nobody'",
    "set: {country": "set: {name",
    # Most histories of this project have no event time, and versions without one have no age.
    "{older_than_days": "{table: migrated_history, older_than_days",
    "source:shop": "source:shop_raw",
}
# Commands that need no more than the project, as far as they print once and end.
PRINTING = {"doctor", "explain", "metrics", "report", "status"}

TAKEN = "tests/functional/history/test_bootstrap.py takes such snapshots"
ICEBERG = "tests/functional/history/test_iceberg.py builds such tables"
NOT_RUN = {
    "README.md: packages.yml": "a placeholder for the address; the tests install the folder",
    "README.md: my_profile:": "the profile of the tests, whose tables are elsewhere",
    "CONTRIBUTING.md: packages.yml": "tests/functional/test_integration_project.py installs one",
    "docs/adapter.md: profiles.yml": "the profile of the tests, whose tables are elsewhere",
    "docs/cluster.md: profiles.yml": "servers elsewhere; tests/e2e/test_cluster.py has its own",
    "docs/object_stores.md: profiles.yml": "tests/e2e/test_object_store.py has a store",
    "docs/object_stores.md: profiles.yml (2)": "stores elsewhere, of which the page says so",
    "docs/batch.md: create or replace view stg_shop__customers as with raw_event": (
        "shortened; tests/rendered/sql has the whole statements"
    ),
    "docs/iceberg.md: profiles.yml": ICEBERG,
    "docs/iceberg.md: snapshots/customers_history.yml": ICEBERG,
    "docs/iceberg.md: models/customers.sql": ICEBERG,
    "docs/iceberg.md: iceberg_catalog: lake": "a catalog elsewhere",
    "docs/bootstrap.md: bootstrap:": TAKEN,
    "docs/bootstrap.md: bootstrap: (2)": TAKEN,
    "docs/bootstrap.md: bootstrap: (3)": TAKEN,
    "docs/bootstrap.md: server_side_parameters:": "needs a database with a password",
    "docs/bootstrap.md: select least(min(xact_start), clock_timestamp()) - interval": (
        "PostgreSQL's; tests/e2e/test_bootstrap.py exports at this position"
    ),
    "docs/capture.md: create role cdc_capture with login replication;": (
        "PostgreSQL's; tests/e2e/test_capture.py makes this role"
    ),
    f"{CHANGES}: from dbt_spark_cdc.export import to_kafka": "tests/e2e/test_kafka.py has a broker",
    f"{CHANGES}: server_side_parameters:": "tests/e2e/test_kafka.py has a broker",
    f'{CHANGES}: key    {{"customer_id":7}}': "tests/functional/history/test_export.py reads them",
    "docs/kafka.md: models/messages.py": "tests/e2e/test_topics.py has a broker",
    "docs/kafka.md: models/messages.yml": "tests/e2e/test_topics.py has a broker",
    "docs/kafka.md: server_side_parameters:": "tests/e2e/test_topics.py has a broker",
    "docs/kafka.md: models/messages.yml (2)": "tests/e2e/test_registry.py has a registry",
    "docs/kafka.md: profiles.yml": "tests/e2e/test_registry.py has a registry",
    "docs/kafka.md: sources:": "tests/e2e/test_topics.py declares such tables",
    "docs/kafka.md: - name: items": "tests/e2e/test_topics.py declares such tables",
    **{
        f"docs/debezium.md: {code}": "tests/e2e/test_debezium.py runs it on a server"
        for code in (
            "create role debezium with login replication password '...';",
            "{",
            "{ (2)",
            "create user debezium identified by '...';",
            "insert into public.debezium_signal",
        )
    },
    "docs/debezium.md: sources:": "tests/e2e/test_debezium.py declares such tables",
    "docs/keys.md: known = spark.read.parquet(path)  # None before the first ru": (
        "tests/unit/keys does this with DataFrames"
    ),
    "docs/marts.md: from moments": "part of models/marts/segments_over_time.sql",
    "docs/metrics.md: cdc_alerts.yml": "rules of a Prometheus server",
    f"{MIGRATED}: CREATE FLOW users_cdc AS AUTO CDC INTO users": "Databricks' SQL, to compare",
    "docs/scheduling.md: dags/cdc.py": "needs Airflow and Cosmos",
    "docs/scheduling.md: dags/cdc_build.py": "needs Airflow",
    "docs/scheduling.md: definitions.py": "needs Dagster",
    "docs/scheduling.md: dagster.yaml": "needs Dagster",
    "docs/sqlfluff.md: sqlfluff_library/dbt_utils.py": "tests/unit/test_docs_code.py lints with it",
    "docs/sqlfluff.md: sqlfluff_library/cdc.py": "tests/unit/test_docs_code.py lints with it",
    "docs/describe.md: # employees.csv: flagged, likely": (
        "tests/unit/test_docs_code.py describes such a file"
    ),
}

FINAL = """
{{{{ config(materialized='incremental', incremental_strategy='merge', unique_key=['{key}']) }}}}
{{{{ cdc.current(ref('{read}')) }}}}
"""
HISTORIES = {
    "orders_history": ("stg_shop__orders", "order_id"),
    "visits_history": ("stg_shop__visits", "id"),
    "recipe_history": ("stg_recipe__customers", "customer_id"),
}
# Staging models that no page has; those of landed tables wait for the landing model.
STAGED = {
    "shop": ["orders", "visits", "stock", "renamed"],
    "recipe": ["customers"],
    "crm": ["accounts"],
    "feeds": ["customers_changes"],
    "shop_raw": ["clients"],
    "landed": ["addresses", "customers"],
}
WAITS = {"shop_raw": "landing", "landed": "landing"}

# What the pages leave to the reader: columns, and where the raw tables of this test are.
GIVEN_SOURCES = """
sources:
  - name: shop
    tables:
      - name: orders
        config: {meta: {cdc: {format: flagged, sequence_by: changed_at, operation: flag,
          keys: [order_id]}}}
        columns: [{name: order_id, data_type: bigint}, {name: amount, data_type: "decimal(6,2)"}]
      - name: stock
        config: {meta: {cdc: {format: flagged, keys: [sku, warehouse], sequence_by: changed_at,
          operation: flag, history: false}}}
        columns: [{name: sku, data_type: string}, {name: warehouse, data_type: string},
          {name: pieces, data_type: int}]
      - name: visits
        config: {meta: {cdc: {format: flagged, keys: [id], sequence_by: changed_at,
          operation: flag}}}
        columns: [{name: id, data_type: int}, {name: day, data_type: date},
          {name: region, data_type: string}]
      - name: renamed
        config: {meta: {cdc: {format: flagged, keys: [customer_id], sequence_by: changed_at,
          operation: flag}}}
        columns: [{name: customer_id, data_type: bigint}, {name: mail, data_type: string}]
  - name: feeds
    schema: "{{ target.schema }}"
    tables:
      - name: customers_changes
        columns: &customer [{name: customer_id, data_type: bigint}, {name: name, data_type: string}]
  - name: landed
    schema: shop_raw
    tables:
      - {name: customers, identifier: shop, columns: *customer}
      - name: addresses
        identifier: shop
        columns: [{name: customer_id, data_type: int}, {name: kind, data_type: string}]
  - name: old
    schema: "{{ target.schema }}"
    tables: [{name: customers, identifier: old_customers}]
  - name: migrated
    schema: shop_raw
    tables: [{name: customers, config: {meta: {cdc: {arrival: batch}}}}]
  - name: recipe
    schema: "{{ target.schema }}"
    tables: [{name: customers, identifier: recipe_customers}]
"""

# The events of the formats' pages: the columns, those of the raw table, and what goes beside the
# event.
KAFKA = "value string, key string, headers array<struct<key: string, value: string>>"
MESSAGES: dict[str, tuple[str, str, tuple[Any, ...]]] = {
    "canal": ("id bigint, description string", "value string, offset bigint", (7,)),
    "change_event": ("id string, name string", "event string", ()),
    "debezium": ("id int, name string, weight double", KAFKA, (None, [])),
    "documents": ("", KAFKA, (None, [])),
    "masked": ("customer_id bigint, email string, phone string", KAFKA, (None, [])),
    "delta_cdf": (
        "id int, name string",
        "id int, name string, _change_type string, _commit_version bigint,"
        " _commit_timestamp string",
        (),
    ),
    "dms": ("id int, fname string", "value string", ()),
    "dms_files": (
        "employee_id int, last_name string",
        "Op string, employee_id int, last_name string, first_name string, hired string,"
        " city string, change_seq string",
        (),
    ),
    "flagged": ("id int, value int", "flag string, id int, value int, cdc_timestamp string", ()),
    "goldengate": ("ID int, NAME string", "value string", ()),
    "maxwell": ("id int, description string", "value string", ()),
    "wal2json_v1": ("id int, name string", "value string", ()),
}
GOOD = {"delta_cdf": 2, "dms_files": 2}
MASKED = {
    "after": {"customer_id": 4711, "email": "ann@example.com", "phone": "555"},
    "source": {"connector": "postgresql", "lsn": 1, "ts_ms": 1596001099434},
    "op": "c",
}
CLIENT = {
    "action": "I",
    "timestamp": "2026-11-21 01:43:38.091038+00",
    "lsn": "0/1580AB8",
    "schema": "shop",
    "table": "clients",
    "columns": [
        {"name": "customer_id", "type": "integer", "value": 1},
        {"name": "name", "type": "text", "value": "Ann"},
    ],
}
# Raw tables as one statement each; only Delta's can be erased.
DAY = "timestamp '2026-01-0"
RAW = (
    f"shop.customers using delta as select * from values (1L, 'Ann', 'I', {DAY}1'),"
    f" (4711L, 'Bob', 'I', {DAY}2'), (1L, 'Anna', 'U', {DAY}3')"
    " as raw (customer_id, name, flag, changed_at)",
    "shop.orders using parquet as select * from values (17L, '10.00', 'I', 1),"
    " (17L, '12.00', 'U', 2), (18L, '1.00', 'I', 3) as raw (order_id, amount, flag, changed_at)",
    "shop.stock using parquet as select * from values ('nut', 'north', 3, 'I', 1),"
    " ('nut', 'south', 3, 'I', 2), ('nut', 'south', 3, 'D', 3)"
    " as raw (sku, warehouse, pieces, flag, changed_at)",
    "shop.visits using parquet as select * from values (101, date '2026-01-01', 'EU', 'I', 1),"
    " (7, date '2026-01-02', 'US', 'I', 2) as raw (id, day, region, flag, changed_at)",
    "shop.renamed using parquet as select * from values (1L, 'ann@example.com', 'I', 1)"
    " as raw (client_id, email, flag, changed_at)",
    f"shop_raw.customer_events using parquet as select * from values (1, 'Anna', 'U', {DAY}5', 1L)"
    " as raw (customer_id, name, op, changed_at, batch)",
    "cdc_data.users using parquet as select * from values (1, 'Ann', 'Rome', 'INSERT', 1),"
    " (1, 'Ann', null, 'UPDATE', 2), (2, 'Bob', 'Oslo', 'INSERT', 3), (2, null, null, 'DELETE', 4)"
    " as raw (userId, name, city, operation, sequenceNum)",
    f"{{s}}.old_customers using parquet as select * from values (1, 'Ann', {DAY}1')"
    " as raw (customer_id, name, changed_at)",
    f"crm.accounts using parquet as select * from values (1L, 'old', 'I', 4711, {DAY}1'),"
    f" (1L, 'Ann', 'U', 4712, {DAY}2')"
    " as raw (account_id, owner, op, change_number, changed_at)",
    "crm_export.accounts using parquet as select * from values (1L, 'old'), (2L, 'Bob')"
    " as export (account_id, owner)",
    "{s}.recipe_customers using parquet as select * from values"
    f" (1, 'Ann', 'I', {DAY}1', {DAY}2'), (1, 'Anna', 'U', {DAY}2', {DAY}2'),"
    f" (2, 'Bob', 'D', {DAY}2', {DAY}2')"
    " as raw (customer_id, name, op, changed_at, loaded_at)",
)


FIRST: dict[str, Any] = {
    "customers": [(1, "Anna"), (4711, "Bob")],
    "customers_view": [(1, "Anna"), (4711, "Bob")],
    "orders": [(17, "12.00"), (18, "1.00")],
    "recipe_replaced": [(1, "Anna")],
    "stg_shop__renamed": [(1, "ann@example.com")],
    "users where _cdc_deleted_at is null": [(1, "Ann")],
    "migrated_history": [(1, "Ann"), (1, "Anna")],
    "visits": [(7, "2026-01-02"), (101, "2026-01-01")],
    "visits_parquet": [(7, "2026-01-02"), (101, "2026-01-01")],
    "stg_crm__accounts": 3,
    **{f"stg_messages__{name}": GOOD.get(name, 1) for name in MESSAGES},
    "stg_landed__addresses": 1,
    "addresses_keys": 1,
    "large_visits": 2,
    "customers_exported": 1,
}
# After the erasure of 4711, of which the export still has the event.
SECOND: dict[str, Any] = {
    "customers": [(1, "Anna"), (2, "Cleo")],
    "copied_customers where _cdc_deleted_at is null": [(1, "Anna"), (4711, "Bob")],
    "customers_history where customer_id = 1": [(1, "Ann"), (1, "Anna"), (1, "Annie")],
    "customers_quarantine": 1,
    "customers_changes": 2,
}
REWOUND: dict[str, Any] = {"customers": [(1, "Anna")]}


def merged(one: Any, other: Any) -> Any:
    """Two YAML documents in one; things with a name are the same thing where they share it."""
    if isinstance(one, dict) and isinstance(other, dict):
        return {
            key: merged(one[key], other[key]) if key in one and key in other else value
            for key, value in {**one, **other}.items()
        }
    if isinstance(one, list) and all(isinstance(i, dict) and "name" in i for i in [*one, *other]):
        named = {item["name"]: item for item in one}
        for item in other:
            named[item["name"]] = merged(named.get(item["name"], item), item)
        return list(named.values())
    return other


def changed(text: str, changes: Mapping[str, str]) -> str:
    """A text with the names that the project has."""
    for old, new in changes.items():
        assert old in text, (old, text)
        text = text.replace(old, new)
    return text


def placed(at: At, text: str) -> Any:
    """A piece of YAML as a whole document."""
    part = yaml.safe_load(changed(text, at.changed))
    if at.under:
        source, *table = at.under
        tables = [{"name": table[0], **part}] if table else part
        part = {"sources": [{"name": source, "tables": tables}]}
    return part


def project_files() -> dict[str, str]:
    """The files of the project, `FOLDER` not yet filled in."""
    documents: dict[str, Any] = {SOURCES: yaml.safe_load(GIVEN_SOURCES)}
    messages = [
        {
            "name": name,
            "identifier": f"raw_{name}",
            "columns": [
                dict(zip(("name", "data_type"), column.split(), strict=True))
                for column in columns.split(", ")
                if column
            ],
        }
        for name, (columns, _, _) in MESSAGES.items()
    ]
    sent = {"name": "messages", "schema": "{{ target.schema }}", "tables": messages}
    documents[SOURCES]["sources"].append(sent)
    files = {
        "models/customers_truth.sql": (
            "select customer_id, max_by(name, changed_at) as name from {{ source('shop',"
            " 'customers') }} where customer_id is not null group by customer_id"
        ),
        "models/segments_over_time.sql": (
            "{{ config(materialized='table') }}\n"
            "select timestamp '2026-01-01' as as_of, 1 as customers, 'new' as segment"
        ),
        "models/orders.sql": FINAL.format(key="order_id", read="orders_history"),
        "models/copied_customers.sql": FINAL.format(
            key="customer_id", read="stg_landed__customers"
        ),
    }
    for source, tables in {**STAGED, "messages": list(MESSAGES)}.items():
        wait = f"-- depends_on: {{{{ ref('{WAITS[source]}') }}}}\n" if source in WAITS else ""
        for table in tables:
            files[f"models/stg_{source}__{table}.sql"] = (
                f"{wait}{{{{ cdc.events(source('{source}', '{table}')) }}}}"
            )
    documents["snapshots/given.yml"] = {
        "snapshots": [
            {
                "name": name,
                "relation": f"ref('{read}')",
                "config": {"strategy": "cdc.scd2", "unique_key": [key]},
            }
            for name, (read, key) in HISTORIES.items()
        ]
    }
    for key, at in FILES.items():
        if at.file.endswith(".yml"):
            part = placed(at, CODES[key].text)
            documents[at.file] = merged(documents.get(at.file, {}), part)
        else:
            assert at.file not in files, at.file
            files[at.file] = changed(CODES[key].text, at.changed)
    del documents["dbt_project.yml"]
    return files | {file: yaml.safe_dump(document) for file, document in documents.items()}


def examples(page: str, language: str = "json") -> list[str]:
    """The events of a page, each on one line."""
    found = [c for c in CODES.values() if c.page == f"docs/formats/{page}.md"]
    return [c.text for c in found if c.language == language]


def events_of(name: str) -> list[list[Any]]:
    """The rows of a raw table of `MESSAGES`, as the page shows them."""
    if name == "masked":
        return [[json.dumps(MASKED)]]
    if name == "delta_cdf":
        return [re.split(r"  +", line) for line in examples(name, "table")[0].split("\n")[1:-1]]
    if name == "flagged":
        return [line.split(",") for line in examples(name, "csv")[0].split("\n")[1:-1]]
    if name == "dms_files":
        lines = examples("dms", "csv")[0].split("\n")[:-1]
        return [[*line.split(","), f"{at:035d}"] for at, line in enumerate(lines)]
    page, at = ("debezium", 1) if name == "documents" else (name, 0)
    return [[one_line(examples(page)[at])]]


def written(types: str) -> str:
    """The types of a raw table whose numbers are still text, as they are in a file."""
    return types if types == KAFKA else re.sub(r"(?<!offset) (?:big)?int\b", " string", types)


def casts(types: str) -> list[str]:
    """The columns of a raw table in their types."""
    if types == KAFKA:
        return ["*"]
    columns = [column.partition(" ") for column in types.split(", ")]
    return [f"cast({name} as {kind}) as {name}" for name, _, kind in columns]


def one_line(event: str) -> str:
    """An event without its line breaks, and without the dots where the page leaves out a part."""
    return json.dumps(json.loads(event.replace(", ...", "")))


def operations(run: str = "") -> list[list[str]]:
    """The operations and queries that the pages run by dbt, in the order of `ORDER`.

    Args:
        run: The run that is undone.
    """
    found = [
        words[1:]
        for code in CODES.values()
        if code.language in ("console", "shell") and code.page not in WORD_FOR_WORD
        for words in commands(code.text, prompt=code.language == "console")
        if Path(words[0]).name == "dbt" and words[1] in ("run-operation", "show", "source")
    ]
    named = [["dbt", *(replaced(word).replace("RUN", run) for word in words)] for words in found]
    unique = [words for at, words in enumerate(named) if words not in named[:at]]
    return sorted(unique, key=lambda words: ORDER.index(words[1 + (words[1] == "run-operation")]))


def replaced(word: str) -> str:
    """A word of a command with the names that the project has."""
    for old, new in REPLACED.items():
        word = word.replace(old, new)
    return word


def printing() -> list[list[str]]:
    """The commands `cdc` of the pages that print something about the project."""
    found = [
        words[1:]
        for code in CODES.values()
        if code.language in ("console", "shell")
        for words in commands(code.text, prompt=code.language == "console")
        if words[0] == "cdc" and set(words[1:2]) & PRINTING and "--otlp" not in words
    ]
    return [words for at, words in enumerate(found) if words not in found[:at]]


@pytest.mark.soak
class TestCodeOfThePages:
    @pytest.fixture(scope="class")
    def packages(self) -> dict[str, Any]:
        return {"packages": [{"local": str(ROOT)}]}

    @pytest.fixture(scope="class")
    def project_config_update(self) -> dict[str, Any]:
        config: dict[str, Any] = {
            kind: {"+file_format": "delta"} for kind in ("models", "seeds", "snapshots")
        }
        for key, at in FILES.items():
            if at.file == "dbt_project.yml":
                config |= placed(at, CODES[key].text)
        return config

    @pytest.fixture(scope="class")
    def folder(self, tmp_path_factory: pytest.TempPathFactory) -> Path:
        """The landing folder, which the export writes to as well."""
        folder = tmp_path_factory.mktemp("landing")
        for table, event in (
            ("addresses", one_line(examples("wal2json_v2")[0])),
            ("clients", json.dumps(CLIENT)),
        ):
            (folder / table).mkdir()
            (folder / table / "1.jsonl").write_text(event + "\n")
        return folder

    @pytest.fixture
    def shop(self, project: Any, folder: Path, spark: Any) -> Any:
        """The project with its files and raw tables."""
        for file, text in project_files().items():
            target = Path(project.project_root) / file
            target.parent.mkdir(exist_ok=True, parents=True)
            target.write_text(text.replace("FOLDER", str(folder)))
        run_dbt(["deps"])
        run_dbt(["parse"])  # deps forgets the adapter
        schema = project.test_schema
        for name in SCHEMAS:
            spark.sql(f"drop schema if exists {name} cascade")
        for name in (*SCHEMAS, schema):
            spark.sql(f"create schema if not exists {name}")
        for table in RAW:
            spark.sql(f"create table {table.replace('{s}', schema)}")
        for name, (_, types, beside) in MESSAGES.items():
            frame = spark.createDataFrame(
                [[*row, *beside] for row in events_of(name)], written(types)
            )
            frame.selectExpr(*casts(types)).coalesce(1).write.format("parquet").saveAsTable(
                f"{schema}.raw_{name}"
            )
        yield project
        for name in SCHEMAS:
            spark.sql(f"drop schema if exists {name} cascade")

    def arrive(self, spark: Any) -> None:
        """A late change, one that is bad, and time for the changelog's reader."""
        spark.sql(
            "insert into shop.customers values (1, 'Annie', 'U', timestamp '2026-01-02'),"
            " (null, 'Eve', 'I', timestamp '2026-01-04'), (2, 'Cleo', 'I', timestamp '2026-01-05')"
        )

    def failing(self, project: Any, commands: list[list[str]]) -> dict[str, str]:
        """Runs commands of dbt or `cdc`; returns what those say that fail."""
        places = [
            "--project-dir",
            str(project.project_root),
            "--profiles-dir",
            str(project.profiles_dir),
        ]
        said = {}
        for program, *words in commands:
            if program == "cdc":
                ran = CliRunner().invoke(main, [*words, *places])
                failure = "" if ran.exit_code == 0 else f"{ran.output}{ran.exception}"
            else:
                result = dbtRunner().invoke(["--no-write-json", *words, *places])
                failure = "" if result.success else str(result.exception or result.result)
            if failure:
                said[" ".join(words)] = failure
        return said

    def found(self, project: Any, expected: Mapping[str, Any]) -> dict[str, Any]:
        """The first two columns of tables, or how many rows they have, as it is expected."""
        found: dict[str, Any] = {}
        for table, wanted in expected.items():
            if isinstance(wanted, int):
                found[table] = rows(project, f"select count(*) from {{s}}.{table}")[0][0]
            else:
                read = rows(project, f"select * from {{s}}.{table}")
                found[table] = sorted((row[0], str(row[1])) for row in read)
        return found

    def test_every_file_query_and_operation_does_what_its_page_says(
        self, shop: Any, folder: Path, spark: Any
    ) -> None:
        schema, later = shop.test_schema, "stg_feeds__customers_changes"
        run_dbt(["snapshot", "--select", "customers_snapshot"])
        view = CODES[VIEW].text
        spark.sql(changed(view, {"shop.customers_snapshot": f"{schema}.customers_snapshot"}))
        snapshots = [words for words in operations() if "cdc_bootstrap" in words]
        assert self.failing(shop, snapshots) == {}
        run_dbt(["build", "--exclude", later, "customers_snapshot"])
        assert self.found(shop, FIRST) == FIRST
        written = ("/var/lib/node_exporter", str(folder.parent))
        printed = [["cdc", *(word.replace(*written) for word in words)] for words in printing()]
        assert self.failing(shop, printed) == {}

        shown = [
            ["dbt", "show", "--inline", changed(CODES[key].text, changes)]
            for key, changes in QUERIES.items()
        ]
        commands = [words for words in operations() if "cdc_rewind" not in words]
        assert self.failing(shop, [*shown, *commands]) == {}
        assert rows(shop, "select count(*) from shop.customers where customer_id = 4711") == [(0,)]

        self.arrive(spark)
        run_dbt(["build", "--select", "landing+", "stg_shop__customers+", later])
        second = {**SECOND, later: SECOND["customers_changes"]}
        assert self.found(shop, second) == second
        query = "select run_id from {s}.cdc_runs where node = 'customers_history'"
        (run,) = rows(shop, f"{query} order by run_started_at desc limit 1")[0]
        rewinds = [words for words in operations(run) if "cdc_rewind" in words]
        assert len(rewinds) == 2 and self.failing(shop, rewinds) == {}
        assert self.found(shop, REWOUND) == REWOUND
