"""What steps tell of their rows without a query, and the conditions that list them."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from dbt.adapters.sparkcdc.nodes import steps
from dbt_common.exceptions import DbtRuntimeError

EVENTS = pa.table(
    {
        "id": pa.array([3, 1, None, 1], pa.int64()),
        "_op": ["I", "U", "T", "M"],
        "_event_id": [10, 11, 12, 13],
        "_unset": [[], ["a"], [], []],
    }
)


def test_events_are_counted() -> None:
    assert steps.event_facts(EVENTS, "id", "L") == {
        "good": 3,
        "truncates": 1,
        "truncate_events": 1,
        "partial": True,
        "relabeled": 0,
        "bounds": {"key": "`id`", "low": "1L", "high": "3L", "listed": ["1L", "3L"]},
    }


def test_events_that_changed_their_row_are_not_new() -> None:
    former = pa.array([[], [5], [], []], pa.list_(pa.int64()))
    rows = EVENTS.append_column("_former_entity_ids", former)
    facts = steps.event_facts(rows, "id", "L")
    assert (facts["good"], facts["relabeled"]) == (2, 1)


def test_keys_with_one_event_each() -> None:
    assert not steps.has_single_events(EVENTS, {"id": "bigint"})
    assert steps.has_single_events(EVENTS, {"id": "bigint", "_op": "string"})
    # NULL is a key like others, and the same one twice.
    assert steps.has_single_events(EVENTS.slice(1, 2), {"id": "bigint"})
    assert not steps.has_single_events(pa.table({"id": [None, None]}), {"id": "int"})
    rows = pa.table({"._seq": [1, 1], "_seq": [1, 2], "a.b": [1, 2]})
    assert not steps.has_single_events(rows, {"._seq": "bigint"})
    assert steps.has_single_events(rows, {"a.b": "bigint"})


@pytest.mark.parametrize("kind", ["double", "string collate UTF8_LCASE", "char(3)"])
def test_keys_that_are_the_same_as_other_values(kind: str) -> None:
    assert not steps.has_single_events(EVENTS.slice(0, 2), {"id": kind})


@pytest.mark.parametrize(
    ("values", "end"),
    [
        ([], "L"),
        ([None], "L"),
        (["a"], None),
        (["x" * 101, "a"], "'"),
    ],
)
def test_keys_without_bounds(values: list[Any], end: str | None) -> None:
    kind = pa.string() if end != "L" else pa.int64()
    assert steps.key_bounds(pa.chunked_array([pa.array(values, kind)]), "id", end) is None


def test_bytes_that_are_no_text_have_no_literal() -> None:
    raw = pa.array([b"a", b"\xff"], pa.binary())
    keys = pa.chunked_array([pa.StringArray.from_buffers(2, *raw.buffers()[1:])])
    assert steps.key_bounds(keys, "id", "'") is None
    rows = pa.Table.from_arrays([keys], ["id"])
    assert steps.listing(rows, [("id", "'")]) is None


def test_texts_are_ordered_by_their_bytes_and_escaped() -> None:
    keys = pa.chunked_array([pa.array(["ä", "z", "it's", "${HOME}"])])
    bounds = steps.key_bounds(keys, "a`b", "'")
    assert bounds is not None
    assert bounds["key"] == "`a``b`"
    assert (bounds["low"], bounds["high"]) == (r"'\u0024{HOME}'", "'ä'")
    assert r"'it\'s'" in bounds["listed"]


def test_changes_are_counted() -> None:
    effect = pa.struct([pa.field("inserted", pa.int64(), nullable=False)])
    rows = pa.table(
        {
            "kind": ["insert", "insert", "update"],
            "_effects": pa.array([{"inserted": 2}, None, {"inserted": 1}], effect),
        }
    )
    assert steps.change_facts(rows, "kind") == {
        "kinds": {"insert": 2, "update": 1},
        "effects": {"inserted": 3},
    }


def test_current_changes_are_counted() -> None:
    rows = pa.table({"_current_op": ["U", None, "D"], "_is_known": [False, True, True]})
    assert steps.current_facts(rows) == {"changed": 2, "touched": 1}


def test_keys_of_one_column_are_listed() -> None:
    rows = pa.table({"id": [3, 1]})
    assert steps.listing(rows, [("id", "L")]) == "`id` between 1L and 3L and `id` in (3L, 1L)"


def test_keys_of_several_columns_are_grouped_by_the_one_with_the_fewest_values() -> None:
    rows = pa.table({"id": [1, 2, 3], "kind": ["a", "b", "a"]})
    assert steps.listing(rows, [("id", "L"), ("kind", "'")]) == (
        "`id` between 1L and 3L and ((`kind` = 'a' and `id` in (1L, 3L)) or"
        " (`kind` = 'b' and `id` in (2L)))"
    )


def test_keys_that_cannot_be_listed() -> None:
    keys = [("id", "L"), ("part", "L")]
    many = list(range(steps.MOST_GROUPS + 1))
    assert steps.listing(pa.table({"id": many, "part": many}), keys) is None
    assert steps.listing(pa.table({"id": [1, None], "part": [1, 1]}), keys) is None
    assert steps.listing(pa.table({"id": [1.5]}), [("id", None)]) is None
    assert steps.listing(pa.table({"id": range(steps.MOST_LISTED + 1)}), [("id", "L")]) is None


@pytest.mark.parametrize("name", ["true", "NULL", "from", "Not"])
def test_names_that_a_condition_cannot_have(name: str) -> None:
    rows = pa.table({name: [1], "id": [1]})
    assert steps.listing(rows, [("id", "L"), (name, "L")]) is None
    assert steps.key_bounds(rows[name], name, "L") is None
    with pytest.raises(DbtRuntimeError, match=f"a column named `{name}`"):
        steps.partition_condition(rows.select([name]))


@pytest.mark.parametrize("name", ["true_", "user", "1e5", "a b"])
def test_names_that_a_condition_can_have(name: str) -> None:
    assert steps.listing(pa.table({name: [1]}), [(name, "L")]) is not None


def test_partitions() -> None:
    rows = pa.table({"area": ["a'b", None], "year": [1, 2]})
    assert steps.partition_condition(rows) == (
        r"((`area` = 'a\'b' and `year` = 1) or (`area` is null and `year` = 2))"
    )
    assert steps.partition_condition(rows.slice(0, 0)) == "(false)"


def test_rows_of_a_server_are_copied_as_they_are() -> None:
    """Java writes lists inside lists without offsets; counting the bytes of such rows crashes."""
    nothing = pa.py_buffer(b"")
    texts = pa.Array.from_buffers(pa.string(), 0, [None, nothing, nothing])
    inner = pa.Array.from_buffers(pa.list_(pa.string()), 0, [None, nothing], children=[texts])
    offsets = pa.py_buffer(b"\0\0\0\0" * 3)
    kind = pa.list_(pa.list_(pa.string()))
    column = pa.Array.from_buffers(kind, 2, [None, offsets], children=[inner])
    rows = steps.with_all_buffers(pa.table({"events": column, "id": [1, 2]}))
    assert rows.to_pylist() == [{"events": [], "id": 1}, {"events": [], "id": 2}]
    nested = rows["events"].chunk(0).values
    assert all(part.buffers()[1].size >= 4 for part in (nested, nested.values))
    empty = rows.slice(0, 0)
    assert steps.with_all_buffers(empty).schema == empty.schema
