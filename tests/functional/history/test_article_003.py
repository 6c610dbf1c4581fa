"""The batchings of article 003, each the downfall of one of its merges; its bootstrap, too."""

from __future__ import annotations

from typing import Any

from dbt.tests.util import run_dbt

from tests.functional.history.changes import Changes
from tests.functional.oracle import Event

A, B = 1, 2
ONE = [(A, 0, "I", "inserted")]
TWO = [(A, 1, "U", "updated"), (B, 2, "I", "inserted")]
THREE = [(A, 3, "U", "updated 2nd time"), (B, 4, "D", None)]

# What becomes of the article's versions 1 and 2 with each of these is said beside it.
BATCHINGS = {
    1: [ONE, TWO, THREE],
    2: [ONE + ONE, TWO, THREE],  # version 1: two rows of A
    3: [ONE, TWO + THREE],  # version 1: "multiple source rows matched"
    4: [ONE + TWO + THREE],  # version 1: A as inserted, B alive
    5: [THREE, TWO, ONE],  # version 2: B alive
    6: [ONE, TWO, THREE, TWO],  # version 2: B alive
    7: [TWO, ONE, THREE, ONE + TWO],
}

# A snapshot of the source at position 100, as insert events, while changes already flow.
SNAPSHOT = [(A, 100, "I", "at 100"), (B, 100, "I", "at 100"), (3, 100, "I", "at 100")]
BEFORE = [(A, 90, "U", "at 90"), (4, 95, "D", None)]
AFTER = [(B, 110, "U", "at 110"), (3, 120, "D", None), (5, 130, "I", "at 130")]
BOOTSTRAPS = {
    11: [SNAPSHOT, BEFORE + AFTER],
    12: [AFTER, SNAPSHOT, BEFORE],
    13: [BEFORE + AFTER, [], SNAPSHOT, SNAPSHOT],
}


class TestArticle003(Changes):
    def test_no_batching_matters(self, project: Any, changes: None) -> None:
        every = BATCHINGS | BOOTSTRAPS
        arrived: list[Event] = []
        for batch in range(4):
            new = [
                Event(scenario, key, seq, op, value, value)
                for scenario, batches in every.items()
                for key, seq, op, value in (batches[batch] if batch < len(batches) else [])
            ]
            self.put(project, batch + 1, new)
            arrived += new
            run_dbt(["build"])
            self.check(project, arrived)
        for table in ["changes_final", "alone_final where _cdc_deleted_at is null"]:
            query = "select scenario, id, a, _cdc_seq, _cdc_created_at from {}.{}"
            found = project.run_sql(query.format(project.test_schema, table), fetch="all")
            rows: dict[int, set[tuple[Any, ...]]] = {}
            for scenario, *row in found:
                rows.setdefault(scenario, set()).add(tuple(row))
            for scenario in BATCHINGS:
                assert rows[scenario] == {(A, "updated 2nd time", 3, 0)}
            for scenario in BOOTSTRAPS:
                assert rows[scenario] == {
                    (A, "at 100", 100, 90),
                    (B, "at 110", 110, 100),
                    (5, "at 130", 130, 130),
                }
