"""Files of an export: complete under their names, in order, the same when written again."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from dbt_spark_cdc import export
from dbt_spark_cdc.export import Commit, Written

FIRST, SECOND = (f"{number:020}-00000.jsonl" for number in (3, 11))


def batches(*rows: tuple[str, str], size: int = 2) -> Iterator[pa.RecordBatch]:
    """Lines as Spark hands them to a task, in batches that know nothing of files."""
    for start in range(0, len(rows), size):
        names, values = zip(*rows[start : start + size], strict=True)
        yield pa.RecordBatch.from_arrays([pa.array(names), pa.array(values)], ["_file", "value"])


def write(folder: Path, *rows: tuple[str, str]) -> list[Written]:
    """Writes lines as a task does."""
    found = export._write_files(str(folder), batches(*rows))
    return [Written(**row) for batch in found for row in batch.to_pylist()]


ROWS = ((FIRST, '{"a":"é"}'), (FIRST, "{}"), (FIRST, "[]"), (SECOND, "{}"))


def test_a_file_appears_when_it_is_complete(tmp_path: Path) -> None:
    written = write(tmp_path, *ROWS)
    content = '{"a":"é"}\n{}\n[]\n'.encode()
    assert [(file.name, file.events) for file in written] == [(FIRST, 3), (SECOND, 1)]
    assert written[0].checksum == hashlib.sha256(content).hexdigest()
    assert written[0].bytes == len(content)
    assert all(file.name.startswith(".") for file in tmp_path.iterdir())
    export.publish(tmp_path, written)
    assert sorted(file.name for file in tmp_path.iterdir()) == [FIRST, SECOND]
    assert (tmp_path / FIRST).read_bytes() == content


def test_files_appear_in_order_and_are_replaced_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / FIRST).write_text("of a killed run\n")
    replaced: list[str] = []
    replace = os.replace

    def dying(source: Any, target: Any) -> None:
        if len(replaced) == 1:
            raise KeyboardInterrupt
        replaced.append(Path(target).name)
        replace(source, target)

    monkeypatch.setattr(os, "replace", dying)
    with pytest.raises(KeyboardInterrupt):
        export.publish(tmp_path, write(tmp_path, *ROWS))
    assert replaced == [FIRST]
    assert (tmp_path / FIRST).read_text() == '{"a":"é"}\n{}\n[]\n'
    assert not (tmp_path / SECOND).exists()


def test_a_task_that_fails_leaves_nothing(tmp_path: Path) -> None:
    def failing() -> Iterator[str]:
        yield "{}"
        raise OSError("No space left on device")

    with pytest.raises(OSError, match="No space"):
        export._write_partial(tmp_path, FIRST, failing())
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("name", "is_foreign"),
    [
        (f"{4:020}-00000.jsonl", False),  # before the checkpoint
        (f"{5:020}-00001.jsonl", False),  # of a killed run
        (f"{5:020}-00002.jsonl", True),  # a part that this commit does not have
        (f"{6:020}-00000.jsonl", True),  # a commit that the changelog does not have
        ("5.jsonl", False),
        ("notes.txt", False),
    ],
)
def test_files_of_another_export_are_known(name: str, is_foreign: bool) -> None:
    assert export.foreign_files([name], 4, {5: 2}) == ([name] if is_foreign else [])


def test_partial_files_of_killed_runs_are_removed(tmp_path: Path) -> None:
    write(tmp_path, *ROWS)
    (tmp_path / ".hidden").touch()
    export._prepare(None, tmp_path, 2, {3: 1, 11: 1})
    assert [file.name for file in tmp_path.iterdir()] == [".hidden"]


def test_no_secret_is_in_an_error_of_kafka() -> None:
    options = {
        "kafka.bootstrap.servers": "broker:9092",
        "kafka.sasl.jaas.config": 'login required password="pw";',
        "kafka.ssl.key.password": "hunter22",
        "kafka.acks": "all",
    }
    said = export._kafka_problem(
        ValueError('no login required password="pw"; with hunter22 and all'),
        "things",
        options,
        [Commit(3, None, 1), Commit(7, None, 1)],  # type: ignore[arg-type]
    )
    assert "Kafka at broker:9092 has not taken all events of versions 3 to 7" in said
    assert "no *** with *** and all" in said
    missing = ValueError("Failed to find data source: kafka. Deploy the application")
    assert "spark.jars.packages: org.apache.spark:spark-sql-kafka-0-10_2.13:" in (
        export._kafka_problem(missing, "things", options, [])
    )
