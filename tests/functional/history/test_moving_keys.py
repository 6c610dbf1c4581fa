"""Histories that follow their rows through key changes, in any batching and order."""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Iterable
from typing import Any

import pytest
from dbt.tests.util import run_dbt

from tests.functional.history.tables import append, rows
from tests.functional.keys.oracle import Event, entities

SOURCES = """
version: 2
sources:
  - name: app
    schema: "{{ target.schema }}"
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
        columns:
          - {name: scenario, data_type: int}
          - {name: id, data_type: string}
          - {name: a, data_type: string}
          - {name: b, data_type: string}
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

BATCHES = 4
SCENARIOS = 400
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


def expected(events: Iterable[Event]) -> dict[Any, list[tuple[Any, ...]]]:
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
            values = {"id": event.key, "a": f"{event.tx}", "b": event.note or (row or {}).get("b")}
            created = row["created"] if row else place
            if row is None or any(row[name] != value for name, value in values.items()):
                if row is not None:
                    versions[-1]["end"] = place
                versions.append(values | {"seq": place, "end": None, "created": created})
            row = values | {"created": created}
        if versions:
            scenario = own_deeds[0][2].scenario
            found[entity] = [(scenario, *version.values()) for version in versions]
    return found


@pytest.mark.soak
class TestMovingKeys:
    @pytest.fixture(scope="class")
    def models(self) -> dict[str, str]:
        return {
            "sources.yml": SOURCES,
            "stg_changes.sql": "{{ cdc.events(source('app', 'changes')) }}",
            "changes_keys.py": KEYS,
            "changes_final.sql": FINAL,
            "changes_audit.sql": AUDIT,
        }

    @pytest.fixture(scope="class")
    def snapshots(self) -> dict[str, str]:
        return {"snapshots.yml": SNAPSHOTS}

    def put(self, project: Any, spark: Any, batch: int, events: list[Event]) -> None:
        def pairs(event: Event) -> dict[str, str]:
            named = {"scenario": str(event.scenario), "id": event.key, "a": str(event.tx)}
            return named | ({"b": event.note} if event.note else {})

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

    def check(self, project: Any, events: list[Event]) -> None:
        found: dict[str, list[tuple[Any, ...]]] = defaultdict(list)
        for entity, *version in rows(
            project,
            "select _entity_id, scenario, id, a, b, _seq, _seq_end, _cdc_created_at"
            " from {s}.changes_history order by _seq",
        ):
            found[entity].append(
                tuple(tuple(v.values()) if isinstance(v, dict) else v for v in version)
            )
        histories = expected(events)
        assert sorted(map(str, found.values())) == sorted(map(str, histories.values()))
        living = {v[:4] for versions in histories.values() for v in versions if v[5] is None}
        current = rows(project, "select scenario, id, a, b from {s}.changes_final")
        assert len(current) == len(living)
        assert {tuple(row) for row in current} == living
        [(lost,)] = rows(
            project,
            "select events_read - events_applied - events_duplicate - events_quarantined"
            " from {s}.changes_audit",
        )
        assert lost == 0

    def test_any_batching_any_order(self, project: Any, spark: Any) -> None:
        run_dbt(["deps"])
        run_dbt(["parse"])  # deps forgets the adapter
        draw = random.Random(20261121)
        arrivals = [
            (event, draw.randrange(BATCHES))
            for number in range(SCENARIOS)
            for event in world(number, draw)
        ]
        arrivals += [
            (event, draw.randrange(BATCHES)) for event, _ in draw.sample(arrivals, SCENARIOS // 3)
        ]
        arrivals.append((Event(None, "T", None, None, 3, 5), 2))
        seen: list[Event] = []
        for batch in range(BATCHES):
            arriving = [event for event, at in arrivals if at == batch]
            self.put(project, spark, batch, arriving)
            seen += arriving
            run_dbt(["build"])
            self.check(project, seen)
        version = f"describe history {project.test_schema}.changes_final limit 1"
        before = project.run_sql(version, fetch="one")[0]
        self.put(project, spark, BATCHES, seen[:100])
        run_dbt(["build"])
        assert project.run_sql(version, fetch="one")[0] == before
        run_dbt(["build", "--full-refresh", "--select", "changes_keys"])
        run_dbt(["build"])
        self.check(project, seen)
        run_dbt(["build", "--full-refresh"])
        self.check(project, seen)
