"""Tables whose whole lives are drawn: whatever people do, a green build leaves the right rows.

Many tables live in one project, each with a life of its own: a declaration, batches of events, and
between two builds what people do to declarations and tables. `make soak MINUTES=n` lives as many
lives as time allows. A failure says the seed: `SEED=<n>` lives that life again, and `TABLES=<n>`
beside it that table's alone.
"""

from __future__ import annotations

import json
import os
import random
import re
import shutil
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest
from dbt.adapters.sparkcdc.impl import SparkCdcAdapter
from dbt.tests.util import run_dbt, write_file

from tests.functional.history.acts import act, copied
from tests.functional.history.lives import CATALOG, Saved, Table, normal, quoted

MINUTES = float(os.environ.get("MINUTES", "0"))
SEED = os.environ.get("SEED")
TABLES = [int(n) for n in os.environ.get("TABLES", "0,1,2,3,4,5,6,7").split(",")]
SHORTEST = 5  # minutes that a life takes
ROUNDS = 8
FEWEST_ROUNDS = 3
PART_ROWS = 6
ENOUGH = 8  # failures, after which no further life begins


class Life:
    """One project with all its tables.

    Attributes:
        tables: Those that were right so far, by number.
        wrong: What is wrong with tables, by number; the others live on without them.
        failures: The reports of tables that were wrong.
        has_left: Whether a table left the project since dbt read all of it.
    """

    def __init__(self, project: Any, spark: Any, seed: int, tell: Callable[[str], None]) -> None:
        self.project, self.spark, self.seed, self.tell = project, spark, seed, tell
        self.schema = project.test_schema
        self.wrong: dict[int, str] = {}
        self.failures: list[str] = []
        self.has_left = True  # those of the life before
        self.clear()
        self.tables = {number: Table(number, seed, self.sql) for number in TABLES}
        for table in self.tables.values():
            table.create_raw()

    def sql(self, statement: str) -> list[Any]:
        return self.spark.sql(statement.replace("{s}", self.schema)).collect()

    def clear(self) -> None:
        """Drops what the life before left."""
        self.sql(f"create schema if not exists {CATALOG}.{{s}}")
        for schema in (f"{CATALOG}.{{s}}", "{s}"):
            self.clear_schema(schema)
        for folder in ("models", "snapshots"):
            path = Path(self.project.project_root) / folder
            shutil.rmtree(path, ignore_errors=True)
            path.mkdir()

    def clear_schema(self, schema: str) -> None:
        for row in self.sql(f"show tables in {schema}"):
            kind = "view" if row.tableName.startswith("stg_") else "table"
            try:
                self.sql(f"drop {kind} if exists {schema}.`{row.tableName}`")
            except Exception:  # a final table that is a view
                self.sql(f"drop view if exists {schema}.`{row.tableName}`")

    def write_files(self) -> None:
        """The project as it is declared now."""
        tables = list(self.tables.values())
        source = {"name": "app", "schema": self.schema, "tables": [t.source() for t in tables]}
        snapshots = [table.snapshot() for table in tables if table.has_history]
        # YAML does not take the surrogate pairs that JSON writes for what is not ASCII.
        files = {
            f"{path}.yml": json.dumps({"version": 2, kind: declared}, ensure_ascii=False)
            for path, kind, declared in (
                ("models/sources", "sources", [source]),
                ("snapshots/snapshots", "snapshots", snapshots),
            )
        }
        for table in tables:
            files |= {f"models/{name}": text for name, text in table.models().items()}
        models = Path(self.project.project_root) / "models"
        for file in models.iterdir():  # those of tables that left
            if f"models/{file.name}" not in files:
                file.unlink()
        for name, text in files.items():
            write_file(text, self.project.project_root, *name.split("/"))

    def dbt(self, *arguments: str) -> dict[str, str]:
        """Runs dbt.

        Returns:
            What it says of nodes that failed; of a run that failed as a whole under `""`.
        """
        for table in self.tables.values():
            table.story.append("dbt " + " ".join(arguments)[:300])
        # dbt's partial parsing passes over a changed unique_key of a snapshot in YAML, and keeps
        # a snapshot whose file lists it no more.
        anew = self.has_left or any(table.key_names_changed for table in self.tables.values())
        first = ["--no-partial-parse"] if anew and arguments[0] != "retry" else []
        self.has_left &= not first
        try:
            results = run_dbt([*first, *arguments], expect_pass=None)
        except Exception as exc:
            return {"": str(exc)}
        return {
            result.node.name: str(result.message)
            for result in getattr(results, "results", results) or []
            if str(result.status) in ("error", "fail", "runtime error")
        }

    def arrive(self, table: Table) -> None:
        """The events of this round are appended to the raw table."""
        events = table.arriving()
        if not events:
            return
        table.batch += 1
        rows = [table.raw_row(event) for event in events]
        columns = table.raw_columns()
        # Bad events, which change nothing.
        for _ in range(table.draw.choice([0, 0, 0, 1])):
            bad = dict(zip(columns, rows[0], strict=True))
            rows.append(tuple((bad | {table.draw.choice(["op_", "seq_", "hi_"]): None}).values()))
        schema = ", ".join(f"{quoted(name)} {kind}" for name, kind in columns.items())
        frame = self.spark.createDataFrame(rows, schema).coalesce(1)
        frame.write.format("delta").mode("append").saveAsTable(f"{self.schema}.{table.raw_table}")
        table.raw += [(table.batch, event) for event in events]
        shown = ", ".join(f"{e.op}@{e.position}" for e in events)
        table.story.append(f"batch {table.batch} arrives: {shown}")

    # Builds.

    def round(self, number: int) -> None:
        """People do something, events arrive, and a build of some kind follows."""
        self.number = number
        kinds = {"build": 5, "empty": 1, "sample": 1, "parts": 2, "full refresh": 2}
        (kind,) = self.of_round("kind").choices(list(kinds), list(kinds.values()))
        for table in self.tables.values():
            table.round = number
            table.story.append(f"-- round {number}: {kind}")
            for which in range(table.draw.choice([0, 1, 1, 2]) if number else 0):
                act(table, may_be_refused=kind == "build" and not which)
            self.arrive(table)
        if not self.tables:
            return
        self.write_files()
        if kind == "empty":
            self.build("build", "--empty", empty=True)
        elif kind == "sample":
            self.build("build", "--sample", "1 day", empty=True)
        elif kind == "parts":
            self.build_parts()
        elif kind == "full refresh":
            self.full_refresh()
        self.build("build")

    def build(
        self,
        *arguments: str,
        empty: bool = False,
        full: bool = False,
        parts: dict[int, list[str]] | None = None,
        losing: dict[str, str] | None = None,
    ) -> None:
        """One build: what has to be refused is refused, and taken back.

        Args:
            arguments: Of dbt.
            empty: Whether it reads no events.
            full: Whether it is a full refresh.
            parts: The nodes of each table that it builds; all where there is none.
            losing: Histories whose rebuild is refused, with what must be said.
        """
        names = {number: self.final_names(table) for number, table in self.tables.items()}
        failed = self.dbt(*arguments)
        if "" in failed:
            self.wrong |= dict.fromkeys(self.tables, failed[""])
            self.bury()
            return
        refused: dict[int, list[str]] = {}
        rebuilt: dict[int, list[str]] = {}
        for number, table in self.tables.items():
            nodes = table.nodes if parts is None else parts.get(number, [])
            own = {node: failed[node] for node in table.nodes if node in failed}
            expected = {node: says for node, says in (losing or {}).items() if node in nodes}
            if expected:
                # Its columns follow the declaration, rebuilt or not.
                table.rename_columns()
            expected |= table.refusal.says if table.refusal else {}
            left = min((nodes.index(node) for node in own if node in nodes), default=len(nodes))
            self.built(table, nodes[:left], full, empty, "--sample" in arguments)
            is_compared = table.final in nodes and not (full or empty or expected)
            if is_compared and table.is_refused_for(names[number]):
                expected[table.final] = "has the column .*, which its history .* does not have"
                rebuilt[number] = [table.final]
            for node in own.keys() | expected.keys():
                if node not in own:
                    self.wrong[number] = f"{node} was not refused: {expected[node]}"
                elif node not in expected or not re.search(expected[node], own[node], re.S):
                    self.wrong[number] = f"{node}: {own[node]}"
            if number in self.wrong:
                continue
            if own:
                table.story.append(f"refused: {', '.join(own)}")
            if table.refusal:
                table.refusal.take_back()
                table.refusal = None
                refused[number] = nodes[left:]
        self.check()
        if self.wrong or refused:
            was_wrong = bool(self.wrong)
            self.bury()
            self.write_files()
        if rebuilt.keys() & self.tables.keys():
            self.build(
                "build",
                "--full-refresh",
                "--select",
                *self.finals(rebuilt),
                parts=rebuilt,
                full=True,
            )
        if refused:
            # `dbt retry` builds again what failed and what was skipped for it: a staging model that
            # was built of the refused declaration stays.
            is_stale = any(len(nodes) < len(self.tables[n].nodes) for n, nodes in refused.items())
            again = "retry"
            if was_wrong or is_stale or self.of_round("again").random() < 0.5:
                again = "build"
            self.build(again, parts=None if again == "build" else refused)

    def final_names(self, table: Table) -> list[str]:
        """The columns of a final table that is behind a history."""
        if not table.final_exists or not table.has_history or table.is_view:
            return []
        return [row[0] for row in self.sql(f"show columns in {table.at(table.final)}")]

    def finals(self, numbers: Iterable[int]) -> list[str]:
        return [self.tables[number].final for number in numbers if number in self.tables]

    def of_round(self, purpose: str) -> random.Random:
        """What is drawn for all tables: the same, whichever of them take part."""
        return random.Random(f"{self.seed}-{self.number}-{purpose}")

    def built(
        self, table: Table, nodes: list[str], full: bool, empty: bool, is_sample: bool
    ) -> None:
        """What a build makes of the nodes that were green."""
        if table.staging in nodes:
            table.key_names_changed = False
        if table.memory in nodes:
            table.build_memory(full, empty, is_sample)
        if table.final in nodes and not empty:
            table.build_final()
        elif table.final in nodes:
            table.final_exists, table.current = True, None
        if nodes == table.nodes and not empty:
            name = table.at(table.memory)
            newest = (
                self.sql(f"select snapshot_id from {name}.refs where name = 'main'")[0][0]
                if table.is_lake(table.memory)
                else self.sql(f"describe history {name} limit 1")[0]["version"]
            )
            table.saved.append(Saved(newest, copied(table.known), list(table.columns)))

    def build_parts(self) -> None:
        """Of some tables the history alone is built, of some the final table alone."""
        parts: dict[int, list[str]] = {}
        for number, table in self.tables.items():
            staged = [table.staging] if table.round else table.nodes
            ways = [table.nodes, [*staged, table.memory], [], staged]
            can_stay = table.exists and table.versions is not None and table.refusal is None
            if table.has_history and can_stay:
                ways.append([table.final])
            parts[number] = table.draw.choice(ways)
        selected = sorted({node for nodes in parts.values() for node in nodes})
        if selected:
            self.build("build", "--select", *selected, parts=parts)

    def full_refresh(self) -> None:
        """Some nodes are built anew; a history that would lose versions only when asked to."""
        parts: dict[int, list[str]] = {}
        losing = {}
        for number, table in self.tables.items():
            ways = [[], table.nodes, [table.staging, table.memory]]
            if table.has_history and table.exists and table.refusal is None:
                ways.append([table.final])
            parts[number] = table.draw.choice(ways) if table.round else []
            is_rebuilt = table.exists and table.has_history and table.memory in parts[number]
            if is_rebuilt and table.refusal is None and table.would_lose():
                losing[table.memory] = "would remove .*cdc_rebuild"
        selected = sorted({node for nodes in parts.values() for node in nodes})
        if not selected:
            return
        command = ["build", "--full-refresh", "--select"]
        self.build(*command, *selected, full=True, parts=parts, losing=losing)
        rebuilt = {n: [t.memory] for n, t in self.tables.items() if t.memory in losing}
        if rebuilt:
            named = [table.memory for n, table in self.tables.items() if n in rebuilt]
            rebuild = json.dumps({"cdc_rebuild": named})
            self.build(*command, *named, "--vars", rebuild, full=True, parts=rebuilt)

    # Rows.

    def check(self) -> None:
        """Tables whose rows are known hold them."""
        for number, table in self.tables.items():
            if number in self.wrong:
                continue
            names = [table.final, *([table.history] if table.has_history else [])]
            for name in names:
                expected = table.expected(name)
                if expected is None:
                    continue
                try:
                    found = [tuple(map(normal, row)) for row in self.sql(table.query(name))]
                except Exception as exc:
                    self.wrong[number] = f"{name} cannot be read: {str(exc)[:500]}"
                    continue
                wanted = [tuple(map(normal, row)) for row in expected]
                if Counter(found) != Counter(wanted):
                    self.wrong[number] = "\n".join(
                        [f"{name}:"]
                        + [f"  missing {row}" for row in (Counter(wanted) - Counter(found))]
                        + [f"  surplus {row}" for row in (Counter(found) - Counter(wanted))]
                    )

    def bury(self) -> None:
        """Tables that are wrong leave the project, each with a report of what happened."""
        for number, problem in self.wrong.items():
            table = self.tables.pop(number)
            self.has_left = True
            happened = "\n  ".join(table.story)
            declared = json.dumps(table.source(), ensure_ascii=False)
            self.failures.append(
                f"SEED={self.seed} TABLES={number}: {table.name}\n  {happened}\n"
                f"declared now: {declared}\n{problem[:3000]}"
            )
            self.tell(self.failures[-1])
        self.wrong = {}


@pytest.mark.soak
@pytest.mark.skipif(
    MINUTES < SHORTEST and not SEED, reason=f"a life takes minutes: make soak MINUTES={SHORTEST}"
)
class TestAnyLife:
    @pytest.fixture(scope="class")
    def dbt_profile_target(self, dbt_profile_target: dict[str, Any]) -> dict[str, Any]:
        return dbt_profile_target | {"threads": 4, "iceberg_catalog": CATALOG}

    def test_soak(
        self,
        project: Any,
        package: None,
        spark: Any,
        capsys: pytest.CaptureFixture[str],
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        end = time.monotonic() + MINUTES * 60
        first = int(SEED) if SEED else time.time_ns() // 1_000_000_000
        failures: list[str] = []
        lives = rounds = 0

        def tell(text: str) -> None:
            # With several processes only this one of their outputs arrives.
            with capsys.disabled():
                print(text, file=sys.stderr, flush=True)

        # Every other life loads in parts.
        monkeypatch.setattr(
            SparkCdcAdapter, "rows_at_once", lambda _: PART_ROWS if (first + lives) % 2 else None
        )
        while not lives or (time.monotonic() < end and not SEED and len(failures) < ENOUGH):
            tell(f"SEED={first + lives} begins")
            life = Life(project, spark, first + lives, tell)
            for number in range(ROUNDS):
                if number >= FEWEST_ROUNDS and time.monotonic() > end and not SEED:
                    break
                life.round(number)
                rounds += 1
            lives += 1
            failures += life.failures
            tell(
                f"{lives} lives of {len(TABLES)} tables, {rounds} rounds, seeds from {first}:"
                f" {len(failures)} tables wrong"
            )
        assert not failures, "\n\n".join(failures)
