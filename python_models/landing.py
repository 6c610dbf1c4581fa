"""Takes new change files exactly once into the append-only raw table.

Every file below the landing folder, `<table>/<file>.jsonl[.gz]`, becomes rows of the raw table: one
a line, with its table, file, row number and batch. The checkpoint of the stream lies inside the raw
table's own folder, so the two cannot part. What cannot be read stays, its reason in `_problem`.
"""

import zlib
from collections.abc import Iterator
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import functions as F

ROWS_A_CHUNK = 10_000
NAMES = "_table string, _file string"
FILES = "path string, modificationTime timestamp, length bigint, content binary"
LINES = "_table string, value string, _file string, _row bigint, _batch bigint, _problem string"
ARROW_LINES = pa.schema(
    [
        ("_table", pa.string()),
        ("value", pa.string()),
        ("_file", pa.string()),
        ("_row", pa.int64()),
        ("_batch", pa.int64()),
        ("_problem", pa.string()),
    ]
)


def decompress(name: str, content: bytes) -> tuple[bytes, str | None]:
    """Unpacks a file as far as it can be read.

    Args:
        name: File name; `.gz` marks gzip.
        content: The file's bytes.

    Returns:
        The readable bytes, and what is wrong with the file or None.
    """
    if not name.endswith(".gz"):
        return content, None
    unpacked = bytearray()
    while content:  # a gzip file may hold several members
        member = zlib.decompressobj(wbits=31)
        try:
            unpacked += member.decompress(content)
        except zlib.error as error:
            return bytes(unpacked), f"damaged gzip file ({error})"
        if not member.eof:
            return bytes(unpacked), "gzip file is cut off"
        content = member.unused_data
    return bytes(unpacked), None


def read_lines(name: str, content: bytes) -> Iterator[tuple[str | None, int, str | None]]:
    """Splits a change file into lines.

    Args:
        name: File name; `.gz` marks gzip.
        content: The file's bytes.

    Yields:
        Line, row number from 1, and what is wrong with the line or None. Row 0 stands for the file.
    """
    unpacked, problem = decompress(name, content)
    if problem is None and not unpacked.strip():
        problem = "empty file"
    lines = unpacked.split(b"\n")
    rest = lines.pop() if problem else b""  # of a cut file the last line is half
    for row, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            yield line.decode("utf-8"), row, None
        except UnicodeDecodeError:
            yield line.decode("utf-8", errors="replace"), row, "line is not valid UTF-8"
    if problem:
        yield rest.decode("utf-8", errors="replace") or None, 0, problem


def split_files(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Turns files (path, content) into lines; runs on the executors."""
    context = TaskContext.get()
    batch_id = int((context and context.getLocalProperty("streaming.sql.batchId")) or 0)
    for files in batches:
        for path, content in zip(
            files.column("path").to_pylist(), files.column("content").to_pylist(), strict=True
        ):
            table, name = path.split("/")[-2:]
            rows = []
            for value, row, problem in read_lines(name, content):
                rows.append((table, value, f"{table}/{name}", row, batch_id, problem))
                if len(rows) == ROWS_A_CHUNK:
                    yield as_arrow(rows)
                    rows = []
            if rows:
                yield as_arrow(rows)


def as_arrow(rows: list[tuple]) -> pa.RecordBatch:
    """Rows in the order of ARROW_LINES as one record batch."""
    columns = zip(*rows, strict=True)
    arrays = [
        pa.array(column, field.type) for column, field in zip(columns, ARROW_LINES, strict=True)
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=ARROW_LINES)


def names_below(session: Any, folder: str) -> list[str]:
    """Returns the files below the landing folder as the raw table names them: `<table>/<file>`."""
    files = session.read.format("binaryFile").load(f"{folder}/*/").inputFiles()
    return [unquote("/".join(file.split("/")[-2:])) for file in files]


def model(dbt: Any, session: Any) -> Any:
    """Lands what is new; the model's own table is the log of landed files."""
    dbt.config(materialized="incremental", incremental_strategy="append", file_format="delta")
    folder = dbt.config.get("landing_folder")
    raw = dbt.config.get("raw_table")

    session.sql(f"create schema if not exists {raw.split('.')[0]}")
    session.sql(
        f"create table if not exists {raw} (value string, _file string, _row bigint,"
        " _landed_at timestamp, _batch bigint, _problem string, _table string) using delta"
        " partitioned by (_table) tblproperties"
        " ('delta.appendOnly' = 'true', 'delta.enableDeletionVectors' = 'false')"
    )
    known = session.table(str(dbt.this)).collect() if dbt.is_incremental else []
    unknown = set(names_below(session, folder)) - {row["_file"] for row in known}
    if known and not unknown:
        return session.table(str(dbt.this)).limit(0)

    location = session.sql(f"describe detail {raw}").first()["location"]
    files = session.readStream.format("binaryFile").schema(FILES).load(f"{folder}/*/")
    lines = files.select("path", "content").mapInArrow(split_files, LINES)
    (
        lines.withColumn("_landed_at", F.current_timestamp())
        .writeStream.format("delta")
        .trigger(availableNow=True)
        .option("checkpointLocation", f"{location}/_landing_checkpoint")
        .toTable(raw)
        .awaitTermination()
    )

    # From what this table knows, not from what the raw table held: a run may have died in between.
    last = max((row["_batch"] for row in known if row["_batch"] is not None), default=-1)
    new = session.table(raw).where(F.col("_batch") > last)
    landed = new.groupBy("_table", "_file", "_batch").agg(
        F.min("_landed_at").alias("_landed_at"),
        F.count_if(F.col("_problem").isNull()).alias("lines"),
        F.count_if(F.col("_problem").isNotNull()).alias("unreadable"),
        F.first("_problem", ignorenulls=True).alias("problem"),
    )
    # Spark passes over files of no bytes, so no row of the raw table tells of them.
    empty = unknown - {row["_file"] for row in landed.select("_file").distinct().collect()}
    if not empty:
        return landed
    return landed.unionByName(
        session.createDataFrame([(name.split("/")[0], name) for name in empty], NAMES).selectExpr(
            "*",
            "cast(null as bigint) as _batch",
            "current_timestamp() as _landed_at",
            "0L as lines",
            "1L as unreadable",
            "'empty file' as problem",
        )
    )
