"""The committed change files: folded, they are the database's own rows; and all shapes occur."""

import json
from collections import Counter, defaultdict
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from capture import server, workload
from tests.changes import Event, Row, changes_key, fold, image, key, multiset, position, read

DATA = Path(__file__).parents[2] / "data"
REPORT = json.loads((DATA / "capture.json").read_text())
TABLES = sorted(REPORT["tables"])


@cache
def batches(table: str) -> list[list[Event]]:
    return [read(path) for path in sorted((DATA / table).glob("batch_*.jsonl.gz"))]


@cache
def events(table: str) -> list[Event]:
    return [event for batch in batches(table) for event in batch]


@cache
def truth(table: str) -> list[Row]:
    return read(DATA / "truth" / f"{table}.jsonl.gz")


@pytest.mark.parametrize("table", TABLES)
def test_events_in_file_order_give_the_truth(table: str) -> None:
    assert multiset(fold(events(table))) == multiset(truth(table))


@pytest.mark.parametrize("table", TABLES)
def test_events_by_commit_time_and_lsn_give_the_truth(table: str) -> None:
    """The lsn alone would not do: an insert may be logged before the delete that it waits for."""
    assert multiset(fold(sorted(events(table), key=position))) == multiset(truth(table))


@pytest.mark.parametrize("table", TABLES)
def test_counts_are_those_reported(table: str) -> None:
    counted = [dict(Counter(event["action"] for event in batch)) for batch in batches(table)]
    assert counted == list(REPORT["tables"][table]["batches"].values())
    assert len(counted) >= 4
    assert len(truth(table)) == REPORT["tables"][table]["rows"]


def test_size() -> None:
    assert len(TABLES) >= 8
    assert sum(len(events(table)) for table in TABLES) >= 20_000
    assert sum(path.stat().st_size for path in DATA.rglob("*") if path.is_file()) < 5_000_000


def test_batches_are_cut_between_transactions() -> None:
    seen: dict[str, set[int]] = defaultdict(set)
    for table in TABLES:
        for number, batch in enumerate(batches(table)):
            for event in batch:
                seen[event["xid"]].add(number)
    assert {len(numbers) for numbers in seen.values()} == {1}


def test_transactions_span_tables() -> None:
    tables: dict[str, set[str]] = defaultdict(set)
    for table in TABLES:
        for event in events(table):
            tables[event["xid"]].add(table)
    assert max(map(len, tables.values())) >= 5


def test_toasted_columns_are_left_out() -> None:
    left_out = {
        name
        for event in events("customers")
        if event["action"] == "U"
        for name in {"notes", "profile"} - image(event).keys()
    }
    assert left_out == {"notes", "profile"}
    assert any(len((row["notes"] or "").encode()) > 2000 for row in truth("customers"))


@pytest.mark.parametrize("table", ["addresses", "order_lines", "products", "stock"])
def test_keys_change_and_freed_keys_are_taken_again(table: str) -> None:
    changes = [event for event in events(table) if changes_key(event)]
    freed = {key(event, "identity") for event in changes}
    assert len(changes) >= 20
    assert freed & {key(event) for event in changes}


def test_products_swap_keys_and_show_the_whole_row_before() -> None:
    swapped = [event for event in events("products") if changes_key(event)]
    assert any(key(event) == ("SWAP",) for event in swapped)
    updates = [event for event in events("products") if event["action"] == "U"]
    assert all(image(event, "identity").keys() == image(event).keys() for event in updates)


@pytest.mark.parametrize("table", ["addresses", "customers", "orders", "payments", "stock"])
def test_deleted_keys_come_back(table: str) -> None:
    deleted: set[tuple[str | None, ...]] = set()
    back = 0
    for event in events(table):
        if event["action"] == "D":
            deleted.add(key(event, "identity"))
        elif event["action"] == "I":
            back += key(event) in deleted
    assert back >= 10


@pytest.mark.parametrize("table", ["addresses", "customers", "payments", "products", "stock"])
def test_keys_are_deleted_and_inserted_in_one_transaction(table: str) -> None:
    deleted = {(e["xid"], key(e, "identity")) for e in events(table) if e["action"] == "D"}
    assert any(e["action"] == "I" and (e["xid"], key(e)) in deleted for e in events(table))


def test_carts_are_truncated_alone_and_between_inserts() -> None:
    actions: dict[str, str] = defaultdict(str)
    for event in events("carts"):
        actions[event["xid"]] += event["action"]
    shapes = Counter(shape for shape in actions.values() if "T" in shape)
    assert shapes.keys() == {"T", "IITII"}
    assert min(shapes.values()) >= 4


def test_an_insert_is_logged_before_the_delete_that_it_follows() -> None:
    deleted: dict[tuple[str | None, ...], Event] = {}
    early = 0
    for event in events("stock"):
        if event["action"] == "D":
            deleted[key(event, "identity")] = event
        elif event["action"] == "I" and (before := deleted.get(key(event))):
            assert position(before) < position(event)
            early += position(event)[1:] < position(before)[1:]
    assert early >= 4


def test_one_key_changes_hundreds_of_times() -> None:
    updates = [event for event in events("stock") if event["action"] == "U"]
    assert max(Counter((event["xid"], key(event)) for event in updates).values()) >= 200
    transactions = {(event["xid"], key(event)) for event in updates}
    assert max(Counter(place for _, place in transactions).values()) >= 40


def test_events_have_no_key_and_repeat_themselves() -> None:
    assert {event["action"] for event in events("events")} == {"I"}
    assert all(event["pk"] == [] for event in events("events"))
    assert max(multiset(truth("events")).values()) >= 2


def test_rows_of_one_copy_share_a_position_but_differ() -> None:
    for table in ("events", "stock"):
        at = Counter(event["lsn"] for event in events(table))
        assert max(at.values()) >= 3
        assert len({json.dumps(event) for event in events(table)}) == len(events(table))


def test_what_was_rolled_back_is_not_there() -> None:
    for table in TABLES:
        for event in events(table):
            assert not {"never", "NEVER"} & set(image(event).values())


def test_some_updates_change_nothing() -> None:
    updates = [event for event in events("products") if event["action"] == "U"]
    assert any(image(event) == image(event, "identity") for event in updates)


@pytest.mark.parametrize(
    ("table", "column", "accepts"),
    [
        ("orders", "order_id", lambda v: int(v) > 2**53 and int(v) % 2 == 1),
        ("orders", "placed_at", lambda v: v.startswith("1850-")),
        ("orders", "local_time", lambda v: v is not None and v.startswith("2200-")),
        ("orders", "remark", lambda v: v == ""),
        ("orders", "remark", lambda v: v is None),
        ("orders", "remark", lambda v: v == "null"),
        ("payments", "amount", lambda v: v == "99999999999999.9999"),
        ("payments", "receipt", lambda v: v == ""),
        ("payments", "receipt", lambda v: v == "00ff5c2722"),
        ("products", "tags", lambda v: v == "{}"),
        ("products", "tags", lambda v: v is not None and '"quo\\"te"' in v),
        ("products", "active", lambda v: v == "false"),
        ("customers", "name", lambda v: "👩‍🚀" in v),
        ("customers", "name", lambda v: "\n" in v),
        ("customers", "name", lambda v: "\u2028" in v),
        ("customers", "name", lambda v: "مريم" in v),
        ("events", "score", lambda v: v == "5e-324"),
    ],
)
def test_awkward_values_occur(table: str, column: str, accepts: Callable[[Any], bool]) -> None:
    images = (image(event) for event in events(table))
    assert any(column in row and accepts(row[column]) for row in images)


def test_the_seed_decides_the_workload() -> None:
    assert workload.plan(7, 3000) == workload.plan(7, 3000)
    assert workload.plan(7, 3000) != workload.plan(8, 3000)


def test_a_plan_causes_as_many_events_as_asked() -> None:
    opening, days = workload.plan(7, 3000)
    assert 3000 <= sum(transaction.events for transaction in opening + days) < 3500


def test_the_output_plugin_is_allowed_where_the_server_asks_for_it() -> None:
    old = server.server_settings(Path("/tmp/socket"), {"wal_level": "replica"})
    assert "wal_level = logical" in old
    assert "output_plugin_libraries" not in old  # a server that does not know it would not start
    new = server.server_settings(
        Path("/tmp/socket"), {"output_plugin_libraries": "pgoutput, test_decoding"}
    )
    assert "output_plugin_libraries = 'pgoutput, test_decoding, wal2json'\n" in new
    assert new.startswith(old)
