"""W12: keys that change, a first build and small batches after it."""

from __future__ import annotations

from bench import data
from bench.data import SCHEMA, STRIDE
from bench.results import Results
from bench.scales import Scale
from bench.session import Timing, Workshop
from bench.systems.article_000 import Article000
from bench.systems.base import drop_tables
from bench.systems.in_dbt import Keyed

NAMES = ("W12",)
RAW = "raw_moved"
# Of ten events nine insert rows and one updates; of ten updates one moves the row to another key.
INSERTED, MOVED = 9, 10

EVENTS = """
    select
        case when n < {rows} then 'insert' else 'update' end as changeType,
        cast(n as string) as timestamp,
        array('id', 'name', 'city') as columnNames,
        array(
            cast(2 * k + if(is_move, 1, 0) as string), concat('name ', n), concat('city ', k % 100)
        ) as columnValues,
        if(n < {rows}, null, array('id')) as oldKeyNames,
        if(n < {rows}, null, array(cast(2 * k as string))) as oldKeyValues,
        {batch}L as batch
    from (
        select
            id as n,
            if(id < {rows}, id, pmod((id - {rows}) * {stride}, {rows})) as k,
            id >= {rows} and (id - {rows}) % {moved} = 0 as is_move
        from range({first}, {last})
    )
"""
# Each row has one update at most: what it says is what is there, at the key that it says.
LIVING = """
    select columnValues[0] as id, columnValues[1] as name, columnValues[2] as city
    from (
        select *, row_number() over (
            partition by coalesce(oldKeyValues[0], columnValues[0])
            order by cast(timestamp as bigint) desc
        ) as latest
        from {raw}
    )
    where latest = 1
"""


def run(workshop: Workshop, scale: Scale, wanted: set[str], results: Results) -> None:
    """Measures the wanted workloads.

    Args:
        workshop: Where to work.
        scale: How large.
        wanted: Names of workloads.
        results: Gets what was measured.
    """
    count = scale.key_events
    rows = count * INSERTED // 10
    raw = f"{SCHEMA}.{RAW}"

    def arrive(batch: int, first: int, last: int) -> None:
        query = EVENTS.format(
            rows=rows, batch=batch, stride=STRIDE, moved=MOVED, first=first, last=last
        )
        workshop.spark.sql(query).write.format("delta").mode("append").saveAsTable(raw)

    first, batch = f"W12 first build, {count:,} events", f"W12 batch of {scale.changes:,}"
    arrive(0, 0, count)
    systems: list[Keyed | Article000] = [Keyed(workshop, RAW), Article000(workshop, raw)]
    for system in list(systems):
        try:
            results.add(first, system.name, [system.load()], rows=count)
        except Exception as exc:  # the other one goes on without it
            systems.remove(system)
            results.fail(first, system.name, exc)
    timings: dict[str, list[Timing]] = {system.name: [] for system in systems}
    for number in range(1 + scale.repeats):  # the first one warms up
        begin = count + number * scale.changes
        arrive(1 + number, begin, begin + scale.changes)
        for system in systems:
            timing = system.apply(1 + number)
            if number:
                timings[system.name].append(timing)
    living = workshop.spark.sql(LIVING.format(raw=raw))
    expected = data.fingerprint(living, Keyed.columns)
    for system in systems:
        results.add(batch, system.name, timings[system.name], changes=scale.changes)
        found = data.fingerprint(workshop.spark.table(system.current), Keyed.columns)
        results.judge([first, batch], system.name, found == expected)
        system.drop()
    drop_tables(workshop, [raw])
