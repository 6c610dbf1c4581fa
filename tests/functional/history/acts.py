"""What people do between two builds to declarations and tables, and what it means for them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from tests.functional.history.lives import (
    CATALOG,
    REFUSED_NAMES,
    Column,
    Known,
    Refusal,
    Saved,
    Table,
    normal,
    quoted,
)


class Act(NamedTuple):
    """Something that can be done to a table.

    Attributes:
        weight: How often, beside the others.
        can: Whether it can be done now.
        do: Does it, and returns what was done.
    """

    weight: float
    can: Callable[[Table], bool]
    do: Callable[[Table], str]


def always(table: Table) -> bool:
    return True


# Declarations that change.


def add_column(table: Table) -> str:
    """The source gets a column, and the declaration too."""
    column = table.new_column(["text", "whole", "day"])
    add_to_raw(table, column.name, column.raw_kind)
    table.others.append(column)
    return f"column {column.name} added"


def add_to_raw(table: Table, name: str, kind: str) -> None:
    table.sql(f"alter table {{s}}.{table.raw_table} add columns ({quoted(name)} {kind})")


def late_columns(table: Table) -> list[Column]:
    """Columns that events carry and the declaration never had."""
    # What a partial event that was read before says of such a column is not told anywhere.
    if table.partial and (table.arrival or table.lost_events):
        return []
    return [column for column in table.others if not column.was_declared]


def declare_late(table: Table) -> str:
    column = table.draw.choice(late_columns(table))
    column.is_declared = column.was_declared = True
    return f"column {column.name} declared, which events carried before"


def wider_columns(table: Table) -> list[Column]:
    keys = [c for c in table.keys if c.family == "whole" and c.width == 0]
    return keys + [column for column in table.declared if column.can_widen(table.in_lake)]


def widen(table: Table) -> str:
    column = table.draw.choice(wider_columns(table))
    column.width += 1
    return f"column {column.name} widened to {column.kind}"


def rename(table: Table) -> str:
    column = table.draw.choice(table.keys + table.declared)
    former, name = column.name, table.new_name()
    add_to_raw(table, name, column.raw_kind)
    column.names.append(name)
    table.key_names_changed |= column in table.keys
    return f"column {former} renamed to {column.name}"


def droppable(table: Table) -> list[Column]:
    """Columns that the declaration can do without."""
    kept = {*table.declared[:1], *(table.tracked or ())}
    # NULL in a dropped column, and NULL that is no value, cannot be told apart.
    if table.partial == "nulls":
        return []
    return [column for column in table.declared if column not in kept]


def drop_column(table: Table) -> str:
    column = table.draw.choice(droppable(table))
    column.is_declared = False
    return f"column {column.name} no longer declared"


def write_arrival_otherwise(table: Table) -> str:
    table.arrival = table.draw.choice(
        [a for a in ("batch_", "batch_ * 10", "batch_ + 0", "BATCH_") if a != table.arrival]
    )
    table.reads_all = True
    return f"arrival is now {table.arrival}"


def write_expression_otherwise(table: Table) -> str:
    """The same meaning in other words."""
    table.operation = table.draw.choice(["op_", "upper(op_)", "lower(op_)"])
    table.where = table.draw.choice([None, "op_ is distinct from 'X'", "true"])
    if isinstance(table.sequence, str):
        table.sequence = table.draw.choice(["seq_", "seq_ + 0", "`seq_`"])
    return f"operation {table.operation}, where {table.where}, sequence_by {table.sequence}"


# Declarations that a build refuses.


def built(table: Table) -> bool:
    """Whether a refusal has something to compare with, and nothing else is refused now."""
    return table.exists and table.refusal is None and not table.key_names_changed


def refuse(table: Table, what: str, says: str, take_back: Callable[[], None]) -> str:
    table.refusal = Refusal(what, {table.memory: says}, take_back)
    return f"{what} (to be refused)"


def narrow(table: Table) -> str:
    column = next(c for c in table.declared if c in table.columns and c.width > 0)
    width, column.width = column.width, 0

    def take_back() -> None:
        column.width = width

    return refuse(table, f"{column.name} narrowed", "is now declared as", take_back)


def can_narrow(table: Table) -> bool:
    return built(table) and any(
        c.width > 0 for c in table.declared if c in table.columns and table.versions is not None
    )


def respell(table: Table) -> str:
    column = table.declared[0]
    table.spelled[column] = column.name.swapcase()
    return refuse(
        table, f"{column.name} spelled otherwise", "is now declared as", table.spelled.clear
    )


def can_respell(table: Table) -> bool:
    return (
        built(table)
        and table.tracked is None
        and not table.partial
        and any(
            len(c.names) == 1 and c.name.isascii() and c.name.swapcase() != c.name
            for c in table.declared[:1]
            if c in table.columns
        )
    )


def change_tracked(table: Table) -> str:
    before = table.tracked
    table.tracked = None if before else table.declared[:1]

    def take_back() -> None:
        table.tracked = before

    return refuse(table, "tracked columns changed", "was built with cdc.tracked", take_back)


def change_time(table: Table) -> str:
    table.has_time = not table.has_time

    def take_back() -> None:
        table.has_time = not table.has_time

    return refuse(table, "event time changed", "was built with(out)? an event time", take_back)


def change_sequence(table: Table) -> str:
    before = table.sequence
    table.sequence = "cast(seq_ as string)"

    def take_back() -> None:
        table.sequence = before

    return refuse(table, "type of the sequence changed", "was built with cdc.sequence", take_back)


def declare_refused_name(table: Table) -> str:
    """A column that no table of Delta's or of the package can have."""
    name = table.draw.choice(list(REFUSED_NAMES))
    table.refused_columns = [Column([name], "text")]
    take_back = table.refused_columns.clear

    table.refusal = Refusal(f"column {name}", {table.staging: REFUSED_NAMES[name]}, take_back)
    return f"column {name} declared (to be refused)"


# Tables of events.


def optimize_raw(table: Table) -> str:
    table.sql(f"optimize {{s}}.{table.raw_table}")
    return "raw table optimized"


def delete_raw(table: Table) -> str:
    """Events that were read go from the raw table, as their retention ends."""
    batch = table.draw.randint(0, table.mark)
    table.sql(f"delete from {{s}}.{table.raw_table} where batch_ <= {batch}")
    table.raw = [(b, event) for b, event in table.raw if b > batch]
    table.lost_events = True
    return f"raw events up to batch {batch} deleted"


def recreate_raw(table: Table) -> str:
    table.sql(f"drop table {{s}}.{table.raw_table}")
    table.create_raw()
    table.raw = []
    table.lost_events = table.reads_all = True
    return "raw table created anew"


def has_read_all(table: Table) -> bool:
    """Whether the tables have all events, with all that is declared of them."""
    has_columns = set(table.declared) <= set(table.columns)
    return table.exists and table.mark == table.batch and not table.reads_all and has_columns


# Tables that hold the events.


def can_lose(table: Table) -> bool:
    """Whether the table that remembers the events is there, and what it loses comes back."""
    return table.exists and not table.lost_events


def forget(table: Table, known: Known, columns: list[Column] | None = None) -> None:
    """The table holds other events than a build left there."""
    table.known = known
    if columns is not None:
        table.columns = list(columns)
    table.reads_all = True
    table.versions = table.current = None


def truncate(table: Table) -> str:
    table.sql(f"truncate table {table.at(table.memory)}")
    forget(table, {})
    return f"truncate table {table.memory}"


def first_key(table: Table, name: str) -> list[tuple[Any, str]]:
    """A value of the first key column, and the condition that a row has it; none in an empty table.

    Args:
        table: The table.
        name: Its history or its final table.
    """
    there = {row[0] for row in table.sql(f"show columns in {table.at(name)}")}
    column = quoted(next(n for n in table.keys[0].names if n in there))
    found = table.sql(
        f"select {column}, hash({column}) from {table.at(name)} where {column} is not null"
        f" order by {column} limit 1"
    )
    return [(key, f"hash({column}) = {number}") for key, number in found]


def delete_key(table: Table) -> str:
    """All versions of the keys that have one value in the first column of the key."""
    column = table.keys[0]
    found = first_key(table, table.memory)
    if not found:
        return "no key to delete"
    ((key, condition),) = found
    table.sql(f"delete from {table.at(table.memory)} where {condition}")
    gone = normal(key)
    forget(
        table,
        {e: s for e, s in table.known.items() if e.op == "T" or normal(e.values[column]) != gone},
    )
    return f"delete from {table.memory} where {column.name} = {gone!r}"


def names_are_known(table: Table) -> bool:
    """Whether the table has its key by the present name."""
    return can_lose(table) and not table.key_names_changed and bool(table.saved)


def older(table: Table) -> Saved:
    return table.draw.choice(table.saved)


def using(table: Table, name: str) -> str:
    return "iceberg" if table.is_lake(name) else "delta"


def restore(table: Table) -> str:
    saved = older(table)
    name = table.at(table.memory)
    if table.is_lake(table.memory):
        before = table.sql(f"select snapshot_id from {name}.history where is_current_ancestor")
        is_before = saved.version in {row[0] for row in before}
        act = "rollback_to_snapshot" if is_before else "set_current_snapshot"
        table.sql(f"call {CATALOG}.system.{act}('{{s}}.{table.memory}', {saved.version})")
    else:
        table.sql(f"restore table {name} to version as of {saved.version}")
    forget(table, copied(saved.known), saved.columns)
    return f"{table.memory} restored to version {saved.version}"


def overwrite(table: Table) -> str:
    saved = older(table)
    table.sql(
        f"create or replace table {table.at(table.memory)} using {using(table, table.memory)} as"
        f" select * from {table.at(table.memory)} version as of {saved.version}"
    )
    forget(table, copied(saved.known), saved.columns)
    return f"{table.memory} replaced by its version {saved.version}"


def can_clone(table: Table) -> bool:
    return names_are_known(table) and not table.is_lake(table.memory)


def clone(table: Table) -> str:
    saved = older(table)
    # Delta clones into no table that has rows.
    renamed = f"{{s}}.copy_{table.name}_{table.batch}_{len(table.story)}"
    name = table.at(table.memory)
    table.sql(f"alter table {name} rename to {renamed}")
    table.sql(f"create table {name} shallow clone {renamed} version as of {saved.version}")
    forget(table, copied(saved.known), saved.columns)
    table.saved = []  # its versions begin anew
    return f"{table.memory} replaced by a clone of its version {saved.version}"


def drop(table: Table) -> str:
    table.sql(f"drop table {table.at(table.memory)}")
    forget(table, {}, [])
    table.exists = False
    table.final_exists &= table.has_history
    table.saved = []
    return f"drop table {table.memory}"


UPKEEP = [
    "optimize {t}",
    "vacuum {t}",
    "alter table {t} set tblproperties ('a.b' = 'c')",
    "analyze table {t} compute statistics",
    "comment on table {t} is 'ours'",
]
LAKE_UPKEEP = [
    "call ice.system.rewrite_data_files(table => '{n}', options => map('min-input-files', '2'))",
    "call ice.system.rewrite_position_delete_files(table => '{n}')",
    "call ice.system.rewrite_manifests(table => '{n}')",
    "call ice.system.remove_orphan_files(table => '{n}')",
    "alter table {t} set tblproperties ('a.b' = 'c')",
    "analyze table {t} compute statistics",
]


def upkeep(table: Table) -> str:
    tables = [table.memory] if table.is_view else [table.memory, table.final]
    name = table.draw.choice(tables)
    statement = table.draw.choice(LAKE_UPKEEP if table.is_lake(name) else UPKEEP)
    statement = statement.replace("{n}", f"{{s}}.{name}").replace("{t}", table.at(name))
    table.sql(statement)
    return statement


def copied(known: Known) -> Known:
    return {event: dict(said) for event, said in known.items()}


# Final tables behind a history, which the next build repairs.


def can_spoil(table: Table) -> bool:
    return table.final_exists and table.has_history and not table.is_view


def spoil(table: Table) -> str:
    first = next((condition for _, condition in first_key(table, table.final)), "false")
    create = f"create or replace table {{t}} using {using(table, table.final)}"
    acts = [
        "truncate table {t}",
        "delete from {t}",
        f"delete from {{t}} where {first}",
        "update {t} set _cdc_updated_at = null",
        "update {t} set _cdc_seq = null",
        f"update {{t}} set _cdc_created_at = null where {first}",
        f"insert into {{t}} select * from {{t}} where {first}",
        "drop table {t}",
        f"{create} as select * from {{t}} where false",
    ]
    if not table.is_lake(table.final):
        acts += [
            "restore table {t} to version as of 0",
            f"{create} as select * from {{t}} version as of 0",
        ]
    statement = table.draw.choice(acts)
    table.sql(statement.replace("{t}", table.at(table.final)))
    table.current = None
    table.final_exists = not statement.startswith("drop")
    return statement.replace("{t}", table.final)


ACTS: list[Act] = [
    Act(3, always, add_column),
    Act(6, lambda t: bool(late_columns(t)), declare_late),
    Act(3, lambda t: bool(wider_columns(t)), widen),
    Act(3, always, rename),
    Act(2, lambda t: bool(droppable(t)), drop_column),
    Act(1, lambda t: bool(t.arrival), write_arrival_otherwise),
    Act(1, always, write_expression_otherwise),
    Act(1, always, optimize_raw),
    Act(0.5, lambda t: has_read_all(t) and bool(t.raw), delete_raw),
    Act(0.5, has_read_all, recreate_raw),
    Act(2, can_lose, truncate),
    Act(2, names_are_known, delete_key),
    Act(2, names_are_known, restore),
    Act(1, names_are_known, overwrite),
    Act(1, can_clone, clone),
    Act(2, can_lose, drop),
    Act(1, lambda t: t.exists and t.final_exists, upkeep),
    Act(6, can_spoil, spoil),
]


# What the next build refuses.
REFUSED: list[Act] = [
    Act(1, can_narrow, narrow),
    Act(1, can_respell, respell),
    Act(1, lambda t: built(t) and t.has_history and bool(t.declared), change_tracked),
    Act(1, built, change_time),
    Act(1, lambda t: built(t) and t.has_history, change_sequence),
    Act(1, lambda t: t.refusal is None, declare_refused_name),
]


def act(table: Table, may_be_refused: bool) -> None:
    """Draws something and does it.

    Args:
        table: The table that it is done to.
        may_be_refused: Whether the next build may refuse the table.
    """
    if table.refusal:
        return
    acts = [one for one in ACTS + REFUSED * may_be_refused if one.can(table)]
    (chosen,) = table.draw.choices(acts, [one.weight for one in acts])
    try:
        table.story.append(chosen.do(table))
    except Exception as exc:
        # Each begins with what Spark may refuse.
        table.story.append(f"not done, {chosen.do.__name__}: {first_line(exc)}")


def first_line(problem: Any) -> str:
    return str(problem).strip().split("\n")[0][:300]
