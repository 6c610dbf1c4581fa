"""Commits to Iceberg tables as Flink makes them: rows, and deletes by position and by key."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from dbt.adapters.sparkcdc.iceberg import tables as iceberg

# Columns of a file of deletes by position have ids of their own.
# https://iceberg.apache.org/spec/#position-delete-files
FILE_PATH, POSITION = 2147483546, 2147483545


def commit(
    spark: Any,
    name: str,
    folder: Path,
    *,
    rows: pa.Table | None = None,
    deleted_places: Sequence[int] = (),
    deleted_keys: pa.Table | None = None,
) -> None:
    """Makes one commit to a table without partitions.

    Args:
        spark: The session.
        name: The table.
        folder: Its folder.
        rows: Rows of a new data file.
        deleted_places: Those of them that the same commit deletes, by their place in the file.
        deleted_keys: Deletes by key: the columns of the key, with a row for each key. They hold for
            rows of earlier commits.
    """
    table = iceberg.load(spark, name)
    delta = table.newRowDelta()
    if rows is not None:
        ids = {column: _field_id(table, column) for column in rows.column_names}
        data = _file(spark, table, "DataFiles.builder", _write(folder, rows, ids), rows)
        delta.addRows(data)
        if deleted_places:
            places = pa.table(
                {
                    "file_path": [str(data.location())] * len(deleted_places),
                    "pos": pa.array(deleted_places, pa.int64()),
                }
            )
            file = _write(folder, places, {"file_path": FILE_PATH, "pos": POSITION})
            kind = "FileMetadata.deleteFileBuilder"
            delta.addDeletes(_file(spark, table, kind, file, places, "ofPositionDeletes"))
    if deleted_keys is not None:
        ids = {column: _field_id(table, column) for column in deleted_keys.column_names}
        file = _write(folder, deleted_keys, ids)
        of = spark.sparkContext._gateway.new_array(spark._jvm.int, len(ids))
        for place, field in enumerate(ids.values()):
            of[place] = field
        kind = "FileMetadata.deleteFileBuilder"
        delta.addDeletes(_file(spark, table, kind, file, deleted_keys, "ofEqualityDeletes", of))
    delta.commit()


def _field_id(table: Any, column: str) -> int:
    return int(table.schema().findField(column).fieldId())


def _write(folder: Path, rows: pa.Table, ids: dict[str, int]) -> Path:
    file = folder / "data" / f"{uuid.uuid4()}.parquet"
    fields = [
        pa.field(one.name, one.type, metadata={"PARQUET:field_id": str(ids[one.name])})
        for one in rows.schema
    ]
    file.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(rows.cast(pa.schema(fields)), file)
    return file


def _file(
    spark: Any, table: Any, builder: str, file: Path, rows: pa.Table, kind: str = "", *ids: Any
) -> Any:
    owner, method = builder.split(".")
    made = getattr(getattr(spark._jvm, f"org.apache.iceberg.{owner}"), method)(table.spec())
    if kind:
        getattr(made, kind)(*ids)
    made.withPath(str(file)).withFormat("parquet")
    made.withFileSizeInBytes(file.stat().st_size).withRecordCount(rows.num_rows)
    return made.build()
