"""Each file is landed exactly once or reported, wherever a build dies."""

from __future__ import annotations

import bz2
import gzip
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from dbt.tests.util import run_dbt

from dbt_spark_cdc import landing
from dbt_spark_cdc.landing import raw_table
from dbt_spark_cdc.landing.folder import File, LocalFolder, SparkFolder
from dbt_spark_cdc.landing.plan import Plan
from dbt_spark_cdc.landing.raw_table import append

ROOT = Path(__file__).resolve().parents[2]
MODEL = (ROOT / "python_models" / "landing.py").read_text()
CONFIG = """
models:
  - name: landing
    config: {{landing_folder: '{folder}', raw_table: '{{{{ target.schema }}}}_raw.shop'}}
"""
WEEKS = 30 * 24 * 3600
KILLS = max(3, int(float(os.environ.get("MINUTES", "0"))))
SEED = int(os.environ.get("KILL_SEED", "20261121"))

# What a version that landed through Spark's file stream left: one file landed, one overlooked.
FORMER = (
    "create schema {s}_raw",
    "create table {s}_raw.shop (value string, _file string, _row bigint, _landed_at timestamp,"
    " _batch bigint, _problem string, _table string) using delta partitioned by (_table)"
    " tblproperties ('delta.appendOnly' = 'true', 'delta.enableDeletionVectors' = 'false')",
    "insert into {s}_raw.shop values ('old', 'orders/old.jsonl', 1, timestamp '2026-01-01', 0,"
    " null, 'orders')",
    "create table {s}.landing (_table string, _file string, _batch bigint, _landed_at timestamp,"
    " lines bigint, unreadable bigint, problem string) using delta",
    "insert into {s}.landing values"
    " ('orders', 'orders/old.jsonl', 0, timestamp '2026-01-01', 1, 0, null),"
    " ('orders', 'orders/overlooked.jsonl', null, timestamp '2026-01-01', 0, 1, 'empty file')",
)


def put(folder: Path, name: str, content: bytes | str, age: int = 0) -> Path:
    """Writes a file, last modified `age` seconds ago."""
    file = folder / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(content.encode() if isinstance(content, str) else content)
    if age:
        os.utime(file, (time.time() - age,) * 2)
    return file


class TestLanding:
    @pytest.fixture(scope="class")
    def folder(self, tmp_path_factory: pytest.TempPathFactory) -> Path:
        return tmp_path_factory.mktemp("landing")

    @pytest.fixture(scope="class")
    def models(self, folder: Path) -> dict[str, str]:
        return {"landing.py": MODEL, "landing.yml": CONFIG.format(folder=folder)}

    def test_each_file_once_or_reported(
        self, project: Any, folder: Path, spark: Any, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        raw, log = f"{project.test_schema}_raw.shop", f"{project.test_schema}.landing"

        def rows(sql: str) -> list[tuple[Any, ...]]:
            return [tuple(row) for row in project.run_sql(sql, fetch="all")]

        def lines() -> list[tuple[Any, ...]]:
            """The landed lines, each as often as it is there."""
            return sorted(rows(f"select _file, value from {raw} where _problem is null"))

        def logged(batch: str) -> dict[str, tuple[int, str | None]]:
            found = rows(f"select _file, lines, problem from {log} where _batch {batch}")
            assert len(found) == len({row[0] for row in found})
            return {row[0]: row[1:] for row in found}

        for statement in FORMER:
            project.run_sql(statement.format(s=project.test_schema))

        # First: all kinds of names and contents, and what the former version left.
        put(folder, "orders/old.jsonl", "old\n", WEEKS)
        put(folder, "orders/overlooked.jsonl", "overlooked\n", WEEKS)
        put(folder, "orders/a.jsonl", "a1\na2\n")
        put(folder, "orders/b.jsonl.gz", gzip.compress(b"b1\nb2\n"))
        put(folder, "orders/empty.jsonl", "")
        put(folder, "orders/_temporary.jsonl", "no\n")
        put(folder, "_hidden/a.jsonl", "no\n")
        put(folder, "customers/odd [x]{1}*?%20\u00e9+.jsonl", "odd1\n")
        put(folder, "customers/2026-01-01T12:00:00.jsonl", "colon\n", WEEKS)
        run_dbt(["run"])
        assert rows(f"show tables in {project.test_schema} like 'landing__*'") == []
        odd = "customers/odd [x]{1}*?%20\u00e9+.jsonl"
        first = [
            ("customers/2026-01-01T12:00:00.jsonl", "colon"),
            (odd, "odd1"),
            ("orders/a.jsonl", "a1"),
            ("orders/a.jsonl", "a2"),
            ("orders/b.jsonl.gz", "b1"),
            ("orders/b.jsonl.gz", "b2"),
            ("orders/old.jsonl", "old"),
            ("orders/overlooked.jsonl", "overlooked"),
        ]
        assert lines() == first
        assert logged("= 1")["orders/empty.jsonl"] == (0, "empty file")
        assert logged("= 1")["orders/b.jsonl.gz"] == (2, None)

        # Then: late, copied with its time, replaced, renamed, touched, filled, moved elsewhere.
        put(folder, "orders/late.jsonl", "late\n", WEEKS)
        shutil.copy2(folder / "orders/a.jsonl", folder / "orders/copy.jsonl")
        put(folder, "orders/b.jsonl.gz", gzip.compress(b"b1\nb2\nb3\n"))
        put(folder, odd, "odd2\n", 60)
        (folder / "customers/2026-01-01T12:00:00.jsonl").rename(folder / "customers/renamed.jsonl")
        os.utime(folder / "orders/a.jsonl", (1, 1))
        put(folder, "orders/empty.jsonl", "filled\n", WEEKS)
        run_dbt(["run"])
        second = [
            ("orders/copy.jsonl", "a1"),
            ("orders/copy.jsonl", "a2"),
            ("orders/empty.jsonl", "filled"),
            ("orders/late.jsonl", "late"),
        ]
        assert lines() == sorted(first + second)
        found = logged("= 2")
        assert {name: number for name, (number, problem) in found.items() if not problem} == {
            "orders/copy.jsonl": 2,
            "orders/empty.jsonl": 1,
            "orders/late.jsonl": 1,
        }
        for name, was in (("orders/b.jsonl.gz", " bytes: send"), (odd, "before other content")):
            number, problem = found[name]
            assert number == 0
            assert problem and problem.startswith("replaced after it was landed") and was in problem
        # The quarantine shows it too; what was only renamed or touched stands in the log alone.
        assert len(rows(f"select 1 from {raw} where _batch = 2 and _row = 0")) == 2
        notes = logged("is null and modified_at is not null")
        assert notes.pop("orders/a.jsonl") == (0, None)
        [(name, (_, problem))] = notes.items()
        assert name == "customers/renamed.jsonl"
        assert problem and "customers/2026-01-01T12:00:00.jsonl" in problem

        # Nothing new: no commit in the raw table, no row in the log.
        def state() -> tuple[Any, ...]:
            newest = rows(f"describe history {raw} limit 1")[0][0]
            return newest, rows(f"select count(*) from {log}")

        before = state()
        run_dbt(["run"])
        assert state() == before

        # A build that died after its commit: the next one logs what it had landed.
        put(folder, "orders/c.jsonl", "c\n", WEEKS)
        run_dbt(["run"])
        project.run_sql(f"delete from {log} where _batch = 3")
        put(folder, "orders/d.jsonl", "\ufeffd\n")
        put(folder, "orders/e.jsonl.bz2", bz2.compress(b"e\n"))
        run_dbt(["run"])
        after = logged("in (3, 4)")
        unread, problem = after.pop("orders/e.jsonl.bz2")
        assert after == {"orders/c.jsonl": (1, None), "orders/d.jsonl": (1, None)}
        assert unread == 0 and str(problem).startswith("landing does not unpack files that end")
        third = [("orders/c.jsonl", "c"), ("orders/d.jsonl", "d")]
        assert lines() == sorted(first + second + third)

        # A second landing of the same batch, which began before the first one ended: ignored.
        source = LocalFolder(spark, folder)
        late = [file for file in source.files() if file.name == "orders/late.jsonl"]
        append(spark, raw, 4, source, Plan(late, [], []))
        assert lines() == sorted(first + second + third)

        # The log rebuilt from the raw table: nothing is landed again.
        before = rows(f"describe history {raw} limit 1")[0][0]
        run_dbt(["run", "--full-refresh"])
        run_dbt(["run"])
        assert rows(f"describe history {raw} limit 1")[0][0] == before
        assert lines() == sorted(first + second + third)

        # What only Spark can reach is listed and read alike.
        remote = SparkFolder(spark, str(folder))
        assert sorted(f[:3] for f in remote.files()) == sorted(f[:3] for f in source.files())
        names = {odd, "orders/a.jsonl", "orders/b.jsonl.gz"}
        same = []
        for place in (source, remote):
            some = [file for file in place.files() if file.name in names]
            assert len(some) == 3
            same.append(Counter(map(tuple, place.lines(some).collect())))
            same.append({file.name: place.checksum(file) for file in some})
        assert same[:2] == same[2:]
        assert sum(same[0].values()) == 6

        # The raw table is dropped: all that is there is landed again, under batches that go on.
        project.run_sql(f"drop table {raw}")
        run_dbt(["run"])
        run_dbt(["run"])
        assert Counter(name for name, _ in lines()) == {
            "customers/renamed.jsonl": 1,
            odd: 1,
            "orders/a.jsonl": 2,
            "orders/b.jsonl.gz": 3,
            "orders/c.jsonl": 1,
            "orders/copy.jsonl": 2,
            "orders/d.jsonl": 1,
            "orders/empty.jsonl": 1,
            "orders/late.jsonl": 1,
            "orders/old.jsonl": 1,
            "orders/overlooked.jsonl": 1,
        }
        assert rows(f"select min(_batch), max(_batch) from {raw}") == [(5, 5)]

        # Files are put together once in so many batches, and never those of the batch itself.
        monkeypatch.setattr(raw_table, "BATCHES_A_COMPACTION", 1)
        put(folder, "orders/f.jsonl", "f\n")
        run_dbt(["run"])
        unpacked = rows(f"describe history {raw} limit 1")[0][0]
        put(folder, "orders/g.jsonl", "g\n")
        run_dbt(["run"])
        operations = [row[4] for row in rows(f"describe history {raw} limit 2")]
        assert operations == ["WRITE", "OPTIMIZE"]
        places = rows(
            f"select distinct _batch, _metadata.file_path from {raw} where _table='orders'"
        )
        assert len({place for batch, place in places if batch < 7}) == 1
        assert len({place for _, place in places}) == 2
        assert len(spark.table(log).inputFiles()) == 2
        landed = lines()
        assert len(landed) == 17
        monkeypatch.undo()
        assert logged("= 7") == {"orders/g.jsonl": (1, None)}

        # A file that is gone before it is read: the batch has no rows, and its number is taken.
        files = LocalFolder.files
        gone = File("orders/gone.jsonl", 5, 0, str(folder / "orders/gone.jsonl"))
        listed = iter([[gone]])
        with monkeypatch.context() as patch:
            patch.setattr(LocalFolder, "files", lambda self: [*files(self), *next(listed, [])])
            run_dbt(["run"])
        assert lines() == landed
        # The next landing finds its number taken, and so does another one, which is faster.
        put(folder, gone.name, "back\n")

        def beside(*asked: Any) -> int:
            back = [file for file in source.files() if file.name == gone.name]
            append(spark, raw, raw_table.last_written(*asked) + 1, source, Plan(back, [], []))
            return raw_table.last_written(*asked)

        with monkeypatch.context() as patch:
            patch.setattr(landing, "last_written", beside)
            run_dbt(["run"])
        assert lines() == sorted([*landed, (gone.name, "back")])
        assert logged("> 7") == {gone.name: (1, None)}

        # Restored by hand, its log dropped: Delta ignores a batch that it has written before.
        project.run_sql(f"restore table {raw} to version as of {unpacked}")
        project.run_sql(f"drop table {log}")
        run_dbt(["run"])
        assert lines() == sorted([*landed, (gone.name, "back")])


PROJECT = "{name: killed, version: 1.0.0, config-version: 2, profile: killed}"
PROFILE = """
killed:
  target: local
  outputs:
    local: {type: sparkcdc, schema: app, threads: 1, quick_start: true}
"""


@pytest.mark.soak
def test_killed_at_any_moment(tmp_path: Path, spark: Any) -> None:
    folder = tmp_path / "landing"
    for name, text in {
        "dbt_project.yml": PROJECT,
        "profiles.yml": PROFILE,
        "models/landing.py": MODEL,
        "models/landing.yml": CONFIG.format(folder=folder),
    }.items():
        put(tmp_path, name, text)
    expected = []

    def build(kill_after: float | None = None) -> float:
        with subprocess.Popen(
            [sys.executable, "-c", "from dbt.cli.main import cli; cli()", "run"],
            cwd=tmp_path,
            env=os.environ | {"DBT_PROFILES_DIR": str(tmp_path)},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,  # a process group, which the JVM belongs to
        ) as process:
            assert process.stdout is not None
            for line in process.stdout:
                if " START " in line:
                    break
            began = time.monotonic()
            if kill_after is not None:
                time.sleep(kill_after)
                os.killpg(process.pid, signal.SIGKILL)
            output = process.communicate()[0]
        assert kill_after is not None or process.returncode == 0, output
        return time.monotonic() - began

    def arrive(batch: int) -> None:
        for number in range(3):
            name = f"orders/{batch}_{number}.jsonl"
            put(folder, name, f"{name}\n" * 2, number * WEEKS)
            expected.extend([(name, 1), (name, 2)])

    arrive(0)
    seconds = build()
    moments = random.Random(SEED)
    for kill in range(1, KILLS + 1):
        arrive(kill)
        build(kill_after=moments.random() * seconds)
        if kill % 2 and kill < KILLS:  # the next build is killed as well
            continue
        build()
        for table, columns in (("app_raw.db/shop", "_file, _row"), ("app.db/landing", "_file, 0")):
            path = tmp_path / "warehouse" / table
            found = spark.sql(f"select {columns} from delta.`{path}`").collect()
            wanted = expected if "_row" in columns else [(n, 0) for n, r in expected if r == 1]
            assert sorted(map(tuple, found)) == sorted(wanted)
