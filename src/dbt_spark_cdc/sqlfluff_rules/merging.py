"""Rules about MERGE."""

from __future__ import annotations

import re
from itertools import pairwise

from sqlfluff.core.parser import BaseSegment
from sqlfluff.core.rules import BaseRule, LintResult, RuleContext
from sqlfluff.core.rules.crawlers import SegmentSeekerCrawler

from dbt_spark_cdc.sqlfluff_rules import trees

_MERGE = SegmentSeekerCrawler({"merge_statement"})
_RANGES = {"<", "<=", ">", ">="}
_ONE_A_KEY = {"row_number", "max_by", "min_by"}


class Rule_CDC_MG01(BaseRule):
    """The source of a MERGE can have several rows for a key.

    Then Delta stops with ``DELTA_MULTIPLE_SOURCE_ROW_MATCHING_TARGET_ROW_IN_MERGE``, or, where the
    key is new, inserts it several times without an error. Both depend on how events happen to fall
    into batches.

    A subquery must number its rows, group them or take the first of them. A table is reported if
    its name says that it holds events (``cdc_event_tables``).

    **Anti-pattern**

    A customer with two changes in one batch.

    .. code-block:: sql

        merge into customers as current
        using customer_events as event
            on current.id = event.id
        when matched and current.lsn < event.lsn then update set *
        when not matched then insert *

    **Best practice**

    Take the latest event of each key. This is right only where every event has all columns;
    ``strategy: cdc.scd2`` and ``cdc.current`` also know partial events, deletes and truncates.

    .. code-block:: sql

        merge into customers as current
        using (
            select *
            from customer_events
            qualify row_number() over (partition by id order by lsn desc, event_id desc) = 1
        ) as event
            on current.id = event.id
        when matched and current.lsn < event.lsn then update set *
        when not matched then insert *
    """

    name = "cdc.merge_source"
    groups = ("all", "cdc")
    config_keywords = ["cdc_event_tables"]
    crawl_behaviour = _MERGE

    cdc_event_tables: str

    def _eval(self, context: RuleContext) -> LintResult | None:
        """Reports a source that nothing reduces to one row a key."""
        source = _source(context.segment)
        if source is None:
            return None
        if source.is_type("bracketed"):
            repeats = not _is_one_a_key(source)
        else:
            repeats = bool(re.search(self.cdc_event_tables, trees.column_name(source)))
        if not repeats:
            return None
        return LintResult(
            anchor=source,
            description="The source of the MERGE can have several rows for a key. "
            "Keep the latest of each with row_number() = 1.",
        )


class Rule_CDC_MG02(BaseRule):
    """A MERGE applies events without comparing positions.

    A batch that is repeated, or arrives late, then overwrites newer values with older ones. Every
    branch that updates or deletes needs a condition that the event is newer than the row.

    **Anti-pattern**

    The last batch wins, whatever it holds.

    .. code-block:: sql

        merge into customers as current
        using latest_customers as event
            on current.id = event.id
        when matched then update set *
        when not matched then insert *

    **Best practice**

    Keep the position in the table and compare it.

    .. code-block:: sql

        merge into customers as current
        using latest_customers as event
            on current.id = event.id
        when matched and current.lsn < event.lsn then update set *
        when not matched then insert *
    """

    name = "cdc.merge_order"
    groups = ("all", "cdc")
    crawl_behaviour = _MERGE

    def _eval(self, context: RuleContext) -> list[LintResult]:
        """Reports branches without a comparison of two columns by order."""
        return [
            LintResult(
                anchor=branch,
                description="The branch applies an event whatever its position. Add a condition "
                "that it is newer than the row, such as current.lsn < event.lsn.",
            )
            for branch in _matched(context.segment)
            if not any(_compares_positions(part) for part in trees.comparisons(_condition(branch)))
        ]


class Rule_CDC_MG03(BaseRule):
    """A MERGE deletes rows and forgets that they were deleted.

    The position of the delete goes with the row. An older event of that key, late or repeated,
    finds no row and inserts it again.

    **Anti-pattern**

    A late update brings a deleted customer back.

    .. code-block:: sql

        merge into customers as current
        using latest_customers as event
            on current.id = event.id
        when matched and current.lsn < event.lsn and event.op = 'D' then delete
        when matched and current.lsn < event.lsn then update set *
        when not matched and event.op <> 'D' then insert *

    **Best practice**

    Keep the row, its position and a flag, and leave deleted rows out in a view. ``cdc.current``
    with a history, or with ``history: false``, remembers deletes in this way.

    .. code-block:: sql

        merge into customers as current
        using latest_customers as event
            on current.id = event.id
        when matched and current.lsn < event.lsn
            then update set is_deleted = event.op = 'D', lsn = event.lsn, name = event.name
        when not matched
            then insert (id, is_deleted, lsn, name)
            values (event.id, event.op = 'D', event.lsn, event.name)
    """

    name = "cdc.merge_delete"
    groups = ("all", "cdc")
    crawl_behaviour = _MERGE

    def _eval(self, context: RuleContext) -> list[LintResult]:
        """Reports branches that delete, where another one inserts."""
        if not any(trees.within([context.segment], "merge_insert_clause")):
            return []
        return [
            LintResult(
                anchor=branch,
                description="A late event inserts the deleted row again. Keep the row with its "
                "position and a flag, and leave it out in a view.",
            )
            for branch in _matched(context.segment)
            if branch.get_child("merge_delete_clause")
        ]


def _source(merge: BaseSegment) -> BaseSegment | None:
    """What follows USING: brackets around a query, or the name of a table."""
    parts = trees.code(merge)
    for word, source in pairwise(parts):
        if word.raw_upper == "USING":
            return source if source.is_type("bracketed", "table_reference") else None
    return None


def _is_one_a_key(query: BaseSegment) -> bool:
    """Whether a query numbers its rows, groups them, takes the first, or reads no table."""
    if not any(trees.within([query], "from_clause")):
        return True
    if any(trees.within([query], "groupby_clause", "qualify_clause")):
        return True
    functions = trees.within([query], "function")
    if any(trees.function_name(function) in _ONE_A_KEY for function in functions):
        return True
    return any(part.is_one for part in trees.comparisons([query]))


def _matched(merge: BaseSegment) -> list[BaseSegment]:
    """The branches WHEN MATCHED."""
    return list(trees.within([merge], "merge_when_matched_clause"))


def _condition(branch: BaseSegment) -> list[BaseSegment]:
    """What stands between WHEN MATCHED AND and THEN."""
    parts = trees.code(branch)
    words = [part.raw_upper for part in parts]
    return parts[: words.index("THEN")] if "THEN" in words else parts


def _compares_positions(comparison: trees.Comparison) -> bool:
    """Whether a condition compares two columns by their order."""
    return (
        comparison.operator in _RANGES
        and bool(trees.columns(comparison.left))
        and bool(trees.columns(comparison.right))
    )
