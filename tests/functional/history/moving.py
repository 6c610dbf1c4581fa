"""A table whose rows move to other keys, and what its history has to be."""

from __future__ import annotations

import json
import random
from collections import defaultdict
from collections.abc import Callable, Iterable
from typing import Any, ClassVar, NamedTuple

import pytest
from dbt.tests.util import run_dbt

from tests.functional.history.tables import append, rows
from tests.functional.keys.oracle import Event, entities
from tests.functional.statements import recorded_statements

SOURCES = """
version: 2
sources:
  - name: app
    schema: "{{{{ target.schema }}}}"
    tables:
      - name: changes
        config:
          meta:
            cdc:
              format: change_event
              keys: [scenario, id]
              sequence_by: struct(tx, n)
              key_changes: true
              arrival: batch
              renames: {renames}
        columns: {columns}
"""

KEYS = """
from dbt_spark_cdc.keys import resolve_keys


def model(dbt, session):
    dbt.config(materialized="incremental", incremental_strategy="merge", unique_key="_event_id")
    return resolve_keys(dbt, session, dbt.ref("stg_changes"))
"""

SNAPSHOTS = """
version: 2
snapshots:
  - name: changes_history
    relation: ref('changes_keys')
    config: {strategy: cdc.scd2, unique_key: [scenario, id], file_format: delta}
    data_tests:
      - cdc.no_overlap: {arguments: {unique_key: _entity_id}}
"""

FINAL = """
{{ config(
    materialized='incremental', incremental_strategy='merge', unique_key=['scenario', 'id']
) }}
{{ cdc.current(ref('changes_history')) }}
"""

AUDIT = """
-- depends_on: {{ ref('changes_final') }}
{{ cdc.audit(ref('changes_history'), ref('changes_final')) }}
"""

NAMES = {"I": "insert", "U": "update", "M": "update", "D": "delete", "T": "truncate"}


def world(number: int, draw: random.Random) -> list[Event]:
    """Events of a few keys, each at a position of its own."""
    events = []
    places = draw.sample([(tx, n) for tx in range(1, 6) for n in range(3)], draw.randint(2, 12))
    for tx, n in places:
        op, key = draw.choice("IUUMMMMMD"), draw.randrange(4)
        old = f"k{(key + draw.randint(1, 3)) % 4}" if op == "M" else None
        note = draw.choice(("", "x", "y", "z"))  # without one, the event carries no value for b
        events.append(Event(number, op, f"k{key}", old, tx, n, note))
    return events


class Form(NamedTuple):
    """What the source's table looks like: types by column, former names by present ones."""

    columns: dict[str, str]
    renames: dict[str, str]

    def declared(self) -> str:
        columns = [{"name": name, "data_type": kind} for name, kind in self.columns.items()]
        return SOURCES.format(renames=json.dumps(self.renames), columns=json.dumps(columns))


def said(event: Event, form: int) -> dict[str, str]:
    """What an event says of the columns beside the key, by their first names."""
    values = {"a": f"{event.tx}"}
    values |= {"b": event.note} if event.note else {}
    return values | ({"c": f"c{event.n}"} if form > 0 and event.n > 0 else {})


def expected(
    events: Iterable[Event], form_of: Callable[[Event], int]
) -> dict[Any, list[tuple[Any, ...]]]:
    """Folds events to the versions of every row: whose event is whose is the other oracle's."""
    distinct = set(events)
    labels = entities(distinct)
    deeds: dict[Any, list[tuple[Any, ...]]] = defaultdict(list)
    for event in distinct:
        place = (event.tx, event.n)
        own, ended = labels[event.event_id]
        if own is not None:
            deeds[own].append((place, event.op == "D", event))
        if ended is not None:
            deeds[ended].append((place, True, event))
    truncates = [(e.tx, e.n) for e in distinct if e.op == "T"]
    found = {}
    for entity, own_deeds in deeds.items():
        versions: list[dict[str, Any]] = []
        row: dict[str, Any] | None = None
        ends = [(place, True, None) for place in truncates]
        for place, is_end, event in sorted(own_deeds + ends, key=lambda deed: deed[:2]):
            if is_end:
                if row is not None:
                    versions[-1]["end"] = place
                row = None
                continue
            values = {"a": None, "b": None, "c": None} | (row or {})
            values |= {"id": event.key} | said(event, form_of(event))
            created = row["created"] if row else place
            if row is None or any(row[name] != value for name, value in values.items()):
                if row is not None:
                    versions[-1]["end"] = place
                versions.append(values | {"seq": place, "end": None, "created": created})
            row = values | {"created": created}
        if versions:
            scenario = own_deeds[0][2].scenario
            names = ("id", "a", "b", "c", "seq", "end", "created")
            found[entity] = [(scenario, *(v[name] for name in names)) for v in versions]
    return found


@pytest.mark.usefixtures("package")
class MovingKeys:
    """A project whose table has rows that move; `check` compares its history and final table."""

    forms: ClassVar[list[Form]] = [
        Form({"scenario": "int", "id": "string", "a": "int", "b": "string"}, {})
    ]

    def form_of(self, event: Event) -> int:
        """The form that the table had when the event came to be."""
        return min(event.tx // 2, len(self.forms) - 1)

    @pytest.fixture(scope="class")
    def models(self) -> dict[str, str]:
        return {
            "sources.yml": self.forms[0].declared(),
            "stg_changes.sql": "{{ cdc.events(source('app', 'changes')) }}",
            "changes_keys.py": KEYS,
            "changes_final.sql": FINAL,
            "changes_audit.sql": AUDIT,
        }

    @pytest.fixture(scope="class")
    def snapshots(self) -> dict[str, str]:
        return {"snapshots.yml": SNAPSHOTS}

    def put(self, project: Any, spark: Any, batch: int, events: list[Event]) -> None:
        def pairs(event: Event) -> dict[str, str | None]:
            form = self.form_of(event)
            present = {former: name for name, former in self.forms[form].renames.items()}
            values = {present.get(name, name): value for name, value in said(event, form).items()}
            return {"scenario": str(event.scenario), "id": event.key} | values

        arriving = []
        for event in events:
            image = {} if event.op in "DT" else pairs(event)
            gone = {"M": event.old, "D": event.key}.get(event.op)
            old = {"scenario": str(event.scenario), "id": gone} if gone else None
            arriving.append(
                (
                    NAMES[event.op],
                    event.tx,
                    event.n,
                    list(image),
                    list(image.values()),
                    old and list(old),
                    old and list(old.values()),
                    batch,
                )
            )
        columns = (
            "changeType string, tx int, n int, columnNames array<string>,"
            " columnValues array<string>, oldKeyNames array<string>, oldKeyValues array<string>,"
            " batch int"
        )
        append(spark, f"{project.test_schema}.changes", arriving, columns)

    def check(self, project: Any, events: list[Event], form: int) -> None:
        a = next(name for name in ("aa", "a") if name in self.forms[form].columns)
        c = "c" if "c" in self.forms[form].columns else "null"
        columns = f"scenario, id, cast({a} as string), b, {c}"
        found: dict[str, list[tuple[Any, ...]]] = defaultdict(list)
        for entity, *version in rows(
            project,
            f"select _entity_id, {columns}, _seq, _seq_end, _cdc_created_at"
            " from {s}.changes_history order by _seq",
        ):
            found[entity].append(
                tuple(tuple(v.values()) if isinstance(v, dict) else v for v in version)
            )
        histories = expected(events, self.form_of)
        assert sorted(map(str, found.values())) == sorted(map(str, histories.values()))
        living = {v[:5] for versions in histories.values() for v in versions if v[6] is None}
        current = rows(project, f"select {columns} from {{s}}.changes_final")
        assert len(current) == len(living)
        assert {tuple(row) for row in current} == living
        [(lost,)] = rows(
            project,
            "select events_read - events_applied - events_duplicate - events_quarantined"
            " from {s}.changes_audit",
        )
        assert lost == 0

    def build(
        self, project: Any, spark: Any, batch: int, arriving: list[Event], seen: list[Event]
    ) -> str:
        """Lands a batch, builds and checks all that was seen; returns the SQL that Spark got."""
        self.put(project, spark, batch, arriving)
        seen += arriving
        with recorded_statements() as statements:
            run_dbt(["build"])
        self.check(project, seen, 0)
        return "\n".join(statements.of())
