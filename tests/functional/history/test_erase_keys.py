"""Erasure where keys change: a row of the source goes, and other rows keep the keys it had."""

from __future__ import annotations

import json
import random
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from dbt.adapters.sparkcdc.impl import SparkCdcAdapter
from dbt.tests.util import run_dbt, run_dbt_and_capture
from dbt_common.exceptions import DbtRuntimeError

from tests.functional.history import test_erase, test_moving_keys
from tests.functional.history.tables import FINAL, append, histories, rows
from tests.functional.keys.oracle import Event, entities

pytestmark = pytest.mark.extended

SOURCES = """
version: 2
sources:
  - name: app
    schema: "{{ target.schema }}"
    tables:
      - name: people
        config:
          meta:
            cdc: {format: change_event, keys: [id], sequence_by: seq, event_time: at,
                  key_changes: true, arrival: batch}
        columns:
          - {name: id, data_type: bigint}
          - {name: email, data_type: string}
"""
KEYS = """
from dbt_spark_cdc.keys import resolve_keys


def model(dbt, session):
    dbt.config(
        materialized="incremental", incremental_strategy="merge", unique_key="_event_id",
        file_format="delta",
    )
    return resolve_keys(dbt, session, dbt.ref("stg_people"))
"""
CHANGES = """
{{ config(materialized='incremental', incremental_strategy='merge', file_format='delta') }}
{{ cdc.changelog(ref('people_final')) }}
"""
TABLES = [
    "people",
    "people_keys",
    "people_history",
    "people_history_tombstones",
    "people_final",
    "people_changes",
]
COLUMNS = (
    "changeType string, seq bigint, at timestamp, columnNames array<string>,"
    " columnValues array<string>, oldKeyNames array<string>, oldKeyValues array<string>, batch int"
)


class Change(NamedTuple):
    """A change of the source; an update with `old` moves the row from that key."""

    seq: int
    op: str
    key: int
    email: str = ""
    old: int | None = None
    day: int | None = None


SEVEN = [
    Change(10, "I", 7, "seven@example.com"),
    Change(12, "U", 7, "seven.two@example.com"),
    Change(20, "U", 17, "seven.moved@example.com", old=7),
    Change(22, "U", 17, "seven.there@example.com"),
    # A swap: both keys change in one transaction.
    Change(50, "U", 40, "seven.swapped@example.com", old=17, day=50),
    Change(55, "U", 40, "seven.now@example.com"),
]
OTHERS = [
    Change(1, "I", 7, "before@example.com"),
    Change(5, "D", 7),
    Change(30, "I", 7, "after@example.com"),
    Change(32, "U", 7, "after.two@example.com"),
    Change(2, "I", 17, "mover@example.com"),
    Change(15, "U", 18, "mover.two@example.com", old=17),
    Change(40, "I", 40, "swapper@example.com"),
    Change(51, "U", 17, "swapper.two@example.com", old=40, day=50),
    Change(56, "U", 17, "swapper.three@example.com"),
    # A row that takes the key of another one, whose end nobody saw.
    Change(2, "I", 60, "taker@example.com"),
    Change(2, "I", 61, "taken@example.com"),
    Change(9, "U", 61, "taker.two@example.com", old=60),
    Change(3, "D", 99),
]


class TestEraseKeys(test_erase.TestErase):
    @pytest.fixture(scope="class")
    def models(self) -> dict[str, str]:
        return {
            "sources.yml": SOURCES,
            "stg_people.sql": "{{ cdc.events(source('app', 'people')) }}",
            "people_keys.py": KEYS,
            "people_final.sql": FINAL.format(read="people_history"),
            "people_changes.sql": CHANGES,
            "people_audit.sql": "{{ cdc.audit(ref('people_history'), ref('people_final')) }}",
        }

    @pytest.fixture(scope="class")
    def snapshots(self) -> dict[str, str]:
        return histories(people_history="people_keys")

    @pytest.fixture(autouse=True)
    def hold(self, spark: Any) -> None:
        self.spark = spark

    def change(self, batch: int, *changes: Change) -> None:
        arriving = []
        names = {"I": "insert", "U": "update", "D": "delete"}
        for seq, op, key, email, old, day in changes:
            image = {"id": str(key), "email": email} if op != "D" else {}
            gone = key if op == "D" else old
            arriving.append(
                (
                    names[op],
                    seq,
                    datetime(2026, 1, 1) + timedelta(minutes=day or seq),
                    list(image),
                    list(image.values()),
                    None if gone is None else ["id"],
                    None if gone is None else [str(gone)],
                    batch,
                )
            )
        append(self.spark, f"{self.project.test_schema}.people", arriving, COLUMNS)

    def values(self, table: str = "people_history") -> list[tuple[Any, ...]]:
        """The rows of others without names: keys, values, positions, times."""
        version = "_seq, _seq_end, dbt_valid_from, dbt_valid_to" if "history" in table else "id"
        return self.rows(
            f"select id, email, {version}, _cdc_created_at, _cdc_seq from {{s}}.{table}"
            " where not startswith(email, 'seven') order by all"
        )

    def whole(self) -> list[Any]:
        """The same with all columns."""
        return [
            self.rows(
                f"select * from {{s}}.{table} where not startswith(email, 'seven') order by all"
            )
            for table in ("people_history", "people_final", "people_changes")
        ]

    def seven(self) -> set[str]:
        names = ("people_keys", "people_history", "people_final", "people_changes")
        return {
            table
            for table in names
            if self.rows(f"select 1 from {{s}}.{table} where startswith(email, 'seven') limit 1")
        }

    @pytest.mark.usefixtures("package")
    def test_one_after_the_other(self, project: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        self.what_is_not_clear_is_refused()
        self.a_crash_leaves_nothing_behind(monkeypatch)
        self.only_events_of_the_row_stay_away()
        self.a_row_that_moves_on_is_found()
        self.a_key_may_be_used_again()

    def what_is_not_clear_is_refused(self) -> None:
        plain = [Change(1, "I", key, f"p{key}@example.com") for key in range(101, 131)]
        first = [change for change in (*SEVEN, *OTHERS) if change.seq < 20]
        self.change(1, *plain, *first)
        run_dbt(["build", "--exclude", "people_audit"])
        self.change(2, *(c for c in (*SEVEN, *OTHERS) if c.seq >= 20))
        erase: dict[str, Any] = {
            "table": "people_final",
            "where": "email like 'seven%'",
            "dry_run": False,
        }
        assert "has not read 9 events" in self.operate(passes=False, **erase)
        run_dbt(["build"])
        assert self.holding("seven", TABLES) == set(TABLES) - {"people_history_tombstones"}
        refused: list[tuple[dict[str, Any], str]] = [
            ({"keys": [7]}, "key 1 of `keys` has belonged to 3 rows"),
            ({"where": "email like 'taker%'"}, "ended another row by taking its key"),
        ]
        for args, message in refused:
            assert message in self.operate(passes=False, table="app.people", dry_run=False, **args)
        before = self.whole()
        said = self.operate(table="people_final", where="email like 'seven%'")
        assert "1 row of the source, with all keys that it had, would be erased" in said
        assert "people_keys: 6 rows" in said and "people: 6 raw events" in said
        assert self.whole() == before
        assert not self.rows("show tables in {s} like 'cdc_erased*'")

    def a_crash_leaves_nothing_behind(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.before, before = self.values(), self.whole()
        kept = SparkCdcAdapter.forget_past

        def dies(adapter: Any, table: str, *args: Any) -> Any:
            if table.replace("`", "").endswith("history"):
                raise DbtRuntimeError("killed here")
            return kept(adapter, table, *args)

        args: dict[str, Any] = {"table": "people_final", "where": "email like 'seven%'"}
        args["dry_run"] = False
        with monkeypatch.context() as patched:
            patched.setattr(SparkCdcAdapter, "forget_past", dies)
            assert "killed here" in self.operate(passes=False, **args)
        assert "people_history" in self.holding("seven", TABLES)
        # The next call finishes it, whatever it is called with.
        said = self.operate(table="app.people", dry_run=False)
        assert self.holding("seven", TABLES) == set()
        assert self.whole() == before
        assert self.seven() == set()
        assert "seven" not in said
        certificate = self.rows(
            "select role, sum(rows_removed) > 0, max(files_holding)"
            " from {s}.cdc_erasure_certificates group by role order by role"
        )
        roles = ["changelog", "final", "history", "keys", "raw", "tombstones"]
        assert [(row[0], row[2]) for row in certificate] == [(role, 0) for role in roles]
        [file] = Path(self.project.project_root).glob("target/cdc_erasure_*.json")
        assert "seven" not in file.read_text()
        assert self.rows("select distinct is_done from {s}.cdc_erased_ranges__app__people") == [
            (True,)
        ]
        self.audit_holds()

    def only_events_of_the_row_stay_away(self) -> None:
        # Repeated and late events of the person, and of others at the same keys.
        self.change(3, *SEVEN)
        self.change(
            3,
            Change(14, "U", 7, "seven.late@example.com"),
            Change(25, "U", 17, "seven.later@example.com"),
            Change(60, "U", 40, "seven.new@example.com"),
            Change(3, "U", 7, "before.late@example.com"),
            Change(65, "U", 7, "after.three@example.com"),
            Change(66, "U", 17, "swapper.four@example.com"),
            Change(45, "U", 40, "swapper.late@example.com"),
        )
        # The staging view is the one that the erasure left.
        run_dbt(["build", "--exclude", "stg_people"])
        assert self.seven() == set()
        found = self.rows(
            "select id, email from {s}.people_final where id in (7, 17, 40) order by id"
        )
        assert found == [(7, "after.three@example.com"), (17, "swapper.four@example.com")]
        late = self.rows(
            "select id, email, _seq, _seq_end from {s}.people_history"
            " where email like '%.late@%' order by id"
        )
        assert late == [
            (7, "before.late@example.com", 3, 5),
            (40, "swapper.late@example.com", 45, 51),
        ]
        known = set(self.before)
        assert len(known - set(self.values())) == 4  # those that ended, or were split
        self.audit_holds()
        values, current = self.values(), self.values("people_final")
        run_dbt(["build", "--full-refresh", "--exclude", "people_changes"])
        assert self.seven() == set()
        assert self.values() == values
        assert self.values("people_final") == current
        self.audit_holds()

    def a_row_that_moves_on_is_found(self) -> None:
        self.change(
            4,
            Change(70, "U", 50, "seven.gone@example.com", old=40),
            Change(71, "U", 50, "seven.back@example.com"),
            Change(72, "U", 51, "seven.again@example.com", old=50),
            Change(68, "U", 102, "seven.onto@example.com", old=40),
        )
        run_dbt(["build", "--exclude", "people_audit"])
        # Nothing tells decoding that key 50 was the person's.
        assert "people_final" in self.seven()
        # The next call looks for such moves. This one also lists a key that no row had.
        said = self.operate(table="app.people", keys=[4711], dry_run=False)
        assert "1 row of the source, with all keys that it had, is erased" in said
        assert "1 event has moved an erased row to a key that another row had then" in said
        assert self.holding("seven", TABLES) == set()
        since = "2026-01-01 01:40:00"
        self.operate("cdc_allow_return", table="app.people", keys=[51], since=since, dry_run=False)
        self.change(
            5,
            Change(73, "U", 51, "seven.last@example.com"),
            Change(110, "I", 51, "another@example.com"),
            Change(80, "I", 50, "fifty@example.com"),
            Change(110, "I", 4711, "seven.unseen@example.com"),
        )
        run_dbt(["build", "--exclude", "people_audit"])
        assert self.seven() == set()
        found = self.rows("select id, email from {s}.people_history where id in (50, 51, 4711)")
        assert sorted(found) == [(50, "fifty@example.com"), (51, "another@example.com")]

    def a_key_may_be_used_again(self) -> None:
        """A new row of an old key is erased by itself."""
        current = self.values("people_final")
        self.operate(table="people_final", where="id = 51", dry_run=False)
        assert self.holding("seven", TABLES) == set()
        assert self.holding("another@example.com", TABLES) == set()
        assert self.values("people_final") == [row for row in current if row[0] != 51]


@pytest.mark.soak
class TestEraseRandomRows(test_moving_keys.TestMovingKeys):
    """One row of each of many random worlds goes; the oracle folds what stays."""

    def test_any_batching_any_order(self, project: Any, spark: Any) -> None:
        run_dbt(["deps"])
        run_dbt(["parse"])  # deps forgets the adapter
        draw = random.Random(20261125)
        number = test_moving_keys.SCENARIOS
        worlds = [event for n in range(number) for event in test_moving_keys.world(n, draw)]
        late = draw.sample(worlds, number // 2)
        known = [event for event in worlds if event not in late]
        known.append(Event(None, "T", None, None, 3, 5))
        self.put(project, spark, 0, known)
        run_dbt(["build"])
        labels = entities(known)
        takers = {own for own, ended in labels.values() if ended is not None}
        erased: dict[Any, Any] = {}
        for event in draw.sample(known, len(known)):
            own = labels[event.event_id][0]
            if event.scenario is not None and own not in takers and draw.random() < 0.7:
                erased.setdefault(event.scenario, own)
        gone = [event for event in known if labels[event.event_id][0] in erased.values()]
        one_of = {event.scenario: f"'{event.scenario} {event.tx} {event.n}'" for event in gone}
        where = f"concat_ws(' ', scenario, _seq.tx, _seq.n) in ({', '.join(one_of.values())})"
        args = {"table": "app.changes", "where": where, "dry_run": False}
        result, said = run_dbt_and_capture(
            ["run-operation", "cdc_erase", "--args", json.dumps(args)],
            expect_pass=None,  # type: ignore[arg-type]
        )
        assert all(part.status == "success" for part in result), said[-3000:]
        assert f"{len(erased)} rows of the source" in said
        stays = [event for event in known if event not in gone]
        self.check(project, stays, 0)
        self.put(project, spark, 1, gone)
        run_dbt(["build"])
        self.check(project, stays, 0)
        run_dbt(["build", "--full-refresh"])
        self.check(project, stays, 0)
        # Whatever late events belong to, it is the same at once and from the beginning.
        self.put(project, spark, 2, late)
        run_dbt(["build"])
        versions = (
            "select * except (_entity_id, dbt_scd_id, dbt_updated_at, _events)"
            " from {s}.changes_history order by all"
        )
        found = rows(project, versions)
        decoded = rows(project, "select count(*) from {s}.stg_changes")
        assert (len(stays),) < decoded[0] < (len(stays) + len(late),)
        run_dbt(["build", "--full-refresh"])
        assert rows(project, versions) == found
