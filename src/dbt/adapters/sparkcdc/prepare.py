"""`python -m dbt.adapters.sparkcdc.prepare`: what is done once, so that each start is short."""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from dbt.adapters.sparkcdc import archive, jars, session
from dbt.adapters.sparkcdc.credentials import SparkCdcCredentials
from dbt.adapters.sparkcdc.java import Java, find_java
from dbt_common.exceptions import DbtRuntimeError

# What dbt does in a usual run, so that the classes it needs are in the archive.
REHEARSAL = """
create schema if not exists warm
create or replace table warm.t using delta partitioned by (g) as \
select id, id % 2 as g, cast(id as string) as v, current_timestamp() as at from range(100)
show table extended in warm like '*'
describe extended warm.t
show tblproperties warm.t
create or replace temporary view changed as select id, g, upper(v) as v, at from warm.t
create or replace view warm.v as select * from warm.t
drop view if exists warm.v
merge into warm.t as d using changed as s on s.id <=> d.id and s.id > 5 \
when matched and d.v is null then delete when matched then update set * \
when not matched then insert *
merge into warm.t as d using (select id + 500 as id, g, v, at from changed) as s on s.id = d.id \
when matched then update set v = s.v when not matched then insert *
insert into warm.t select id + 1000, g, v, at from warm.t limit 3
alter table warm.t add columns (w string)
create or replace table warm.j using delta as select id, from_json(concat('{"a": ', id, '}'), \
'a bigint') as j, md5(v) as h, row_number() over (partition by g order by at, id) as n from warm.t
""".strip().splitlines()
QUERIES = (
    "select g, count(*), max(at) from warm.t group by g order by g",
    "select * from warm.t t join warm.j j using (id) left anti join changed c on c.id = t.id",
    "select * from (select *, lead(at) over (partition by id order by at) as u from warm.t) "
    "where u is null union all select *, null from warm.t limit 5",
    "select explode(array(1, 2)), named_struct('a', 1)",
    "describe history warm.t",
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Fetches the jars and makes the class archive; what is there already is left alone.

    Args:
        arguments: Command line; further Maven coordinates that profiles name.

    Returns:
        Exit status.
    """
    parser = argparse.ArgumentParser(
        prog="python -m dbt.adapters.sparkcdc.prepare", description=__doc__
    )
    parser.add_argument(
        "packages", nargs="*", help="Maven coordinates beside Delta's, as in spark.jars.packages"
    )
    extra = ",".join(parser.parse_args(arguments).packages)
    try:
        prepare({"spark.jars.packages": extra} if extra else {})
    except DbtRuntimeError as exc:
        print(exc.msg, file=sys.stderr)
        return 1
    return 0


def prepare(parameters: dict[str, str]) -> None:
    """Makes the cache complete for these Spark settings.

    Args:
        parameters: Spark settings as in a profile.

    Raises:
        DbtRuntimeError: There is no Java, or the jars cannot be had.
    """
    java = find_java()
    os.environ["JAVA_HOME"] = str(java.home)
    log = jars.cache_folder() / "prepare.log"
    wanted = jars.packages(parameters)
    found = jars.cached_jars(wanted)
    if not found:
        print(f"Fetching the jars of {', '.join(wanted)}", flush=True)
        found = jars.fetch_jars(wanted, lambda packages: session.resolve(packages, parameters, log))
    target = archive.archive_file(java, found)
    if not target.is_file():
        print("Making a class archive that halves Spark's start (once, about a minute)", flush=True)
        began = time.monotonic()
        _rehearse(java, parameters, target, log)
        print(f"Done in {time.monotonic() - began:.0f} s: {target}", flush=True)


def _rehearse(java: Java, parameters: dict[str, str], target: Path, log: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target.parent) as scratch:
        fresh = Path(scratch) / "classes.jsa"
        creds = SparkCdcCredentials(
            schema="warm",
            warehouse=str(Path(scratch) / "warehouse"),
            spark_log=str(log),
            server_side_parameters=parameters
            | {"spark.driver.extraJavaOptions": " ".join(archive.make(fresh))},
        )
        spark = session.open_session(creds)
        for statement in REHEARSAL:
            spark.sql(statement)
        for query in QUERIES:
            spark.sql(query).collect()
        spark.createDataFrame([(1, "a")], "id bigint, v string").collect()
        lines = Path(scratch) / "lines"
        spark.sql("select '{\"a\": 1}' as value").write.text(str(lines))
        stream = spark.readStream.text(str(lines)).writeStream.trigger(availableNow=True)
        stream.option("checkpointLocation", f"{scratch}/checkpoint").toTable(
            "warm.s"
        ).awaitTermination()
        session.stop()  # the JVM writes the archive when it ends
        if fresh.is_file():
            fresh.replace(target)
        else:
            raise DbtRuntimeError(
                f"Java {java.version} made no class archive; its words are in {log}."
            )


if __name__ == "__main__":
    sys.exit(main())
