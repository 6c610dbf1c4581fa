"""The peer of `cdc watch`: `python -m bench.live.foreach_batch` merges landed files as they come.

One Structured Streaming query reads the folder of each table as text. Each micro-batch is parsed,
reduced to the latest event of each key, and merged. The session has the same settings as dbt's.
"""

from __future__ import annotations

import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from bench.live.load import SCHEMA
from bench.live.systems import COLUMNS, SMALL
from bench.session import session_of
from bench.systems.pyspark_merge import PLAIN

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming import StreamingQuery

FIELDS = "array<struct<name: string, value: string>>"
EVENT = f"action string, timestamp string, lsn string, columns {FIELDS}, identity {FIELDS}"
# A position is two hexadecimal numbers of any length, which sort as text once they are padded.
LATEST = """
    with parsed as (
        select from_json(value, '{event}') as event from {lines}
    ),
    fields as (
        select
            event.action,
            event.timestamp,
            lpad(split_part(event.lsn, '/', 1), 8, '0') as segment,
            lpad(split_part(event.lsn, '/', 2), 8, '0') as place,
            map_from_arrays(event.columns.name, event.columns.value) as after,
            map_from_arrays(event.identity.name, event.identity.value) as before
        from parsed
    ),
    ranked as (
        select
            *,
            row_number() over (
                partition by coalesce(after['id'], before['id'])
                order by timestamp desc, segment desc, place desc
            ) as latest
        from fields
    )
    select action, cast(before['id'] as bigint) as old_id, {columns} from ranked where latest = 1
"""
MERGE = """
    merge into {table} as t using ({latest}) as s on t.id = coalesce(s.id, s.old_id)
    when matched and s.action = 'D' then delete
    when matched then update set {updates}
    when not matched and s.action <> 'D' then insert ({names}) values ({values})
"""


def start(spark: SparkSession, folder: Path, landing: Path, name: str) -> StreamingQuery:
    """Creates a final table and starts the query that fills it.

    Args:
        spark: A session.
        folder: For the query's checkpoint.
        landing: The landing folder.
        name: Of the table and of its folder.
    """
    table = f"{SCHEMA}.{name}"
    columns = ", ".join(f"{column} {kind}" for column, kind in COLUMNS.items())
    spark.sql(f"create table if not exists {table} ({columns}) using delta {PLAIN}")
    lines = f"arrived_{name}"
    typed = ", ".join(
        f"cast(after['{column}'] as {kind}) as {column}" for column, kind in COLUMNS.items()
    )
    merge = MERGE.format(
        table=table,
        latest=LATEST.format(event=EVENT, lines=lines, columns=typed),
        updates=", ".join(f"{column} = s.{column}" for column in COLUMNS),
        names=", ".join(COLUMNS),
        values=", ".join(f"s.{column}" for column in COLUMNS),
    )

    def write(arrived: DataFrame, _: int) -> None:
        arrived.createOrReplaceTempView(lines)
        arrived.sparkSession.sql(merge)

    return (
        spark.readStream.text(str(landing / name))
        .writeStream.option("checkpointLocation", str(folder / "checkpoints" / name))
        .foreachBatch(write)
        .start()
    )


@click.command()
@click.option("--folder", required=True, type=click.Path(path_type=Path))
@click.option("--landing", required=True, type=click.Path(path_type=Path))
@click.option("--tables", required=True, help="Names of tables, with commas between them.")
def main(folder: Path, landing: Path, tables: str) -> None:
    """Merges what is landed, until SIGTERM."""
    # What ends the session runs at the end of Python.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    spark = session_of(folder, SCHEMA, parameters=SMALL)
    spark.sql(f"create schema if not exists {SCHEMA}")
    for name in tables.split(","):
        start(spark, folder, landing, name)
    spark.streams.awaitAnyTermination()


if __name__ == "__main__":
    main(prog_name="python -m bench.live.foreach_batch")
