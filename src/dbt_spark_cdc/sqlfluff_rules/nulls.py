"""A rule about rows that get lost because they hold a NULL."""

from __future__ import annotations

import re

from sqlfluff.core.parser import BaseSegment
from sqlfluff.core.rules import BaseRule, LintResult, RuleContext
from sqlfluff.core.rules.crawlers import RootOnlyCrawler
from sqlfluff.core.templaters.base import RawFileSlice, TemplatedFile

from dbt_spark_cdc.sqlfluff_rules import trees

_DEDUPLICATE = re.compile(r"\bdbt_utils\.deduplicate\s*\(")
# There the macro has a body of its own, without the join.
_SAFE_DIALECTS = {"bigquery", "databricks", "postgres", "redshift", "snowflake"}


class Rule_CDC_NU01(BaseRule):
    """Rows are lost because a column of theirs is NULL.

    NULL is equal to nothing, not even to NULL. So a ``NATURAL JOIN`` drops every row that holds a
    NULL in any of the shared columns, and with it Spark's ``dbt_utils.deduplicate``, which joins in
    this way. ``count(distinct a, b)`` leaves out rows in which one of the two is NULL. ``NOT IN
    (select ..)`` keeps no row at all if the subquery returns one NULL.

    **Anti-pattern**

    Customers without a phone number disappear.

    .. code-block:: jinja
       :force:

        {{ dbt_utils.deduplicate(ref('customer_events'), partition_by='id', order_by='lsn desc') }}

    **Best practice**

    Number the rows and keep the first. Use ``NOT EXISTS``, an anti join, or ``count(distinct
    struct(a, b))`` for the others.

    .. code-block:: sql

        select * except (recency)
        from (
            select
                *,
                row_number() over (partition by id order by lsn desc, event_id desc) as recency
            from customer_events
        )
        where recency = 1
    """

    name = "cdc.null_loss"
    groups = ("all", "cdc")
    crawl_behaviour = RootOnlyCrawler()
    # A call of a macro is a template; sqlfluff would leave it out.
    targets_templated = True

    def _eval(self, context: RuleContext) -> list[LintResult]:
        """Reports joins, counts, subqueries and macros in which NULL loses rows."""
        root = context.segment
        written = [
            *(LintResult(join, description=_NATURAL) for join in _natural_joins(root)),
            *(LintResult(count, description=_COUNT) for count in _counts(root)),
            *(LintResult(word, description=_NOT_IN) for word in _not_in(root)),
        ]
        # What a macro renders is not for the reader of this file to change.
        results = [
            result for result in written if result.anchor and _is_written_here(result.anchor)
        ]
        if context.templated_file and context.dialect.name not in _SAFE_DIALECTS:
            results += _macros(root, context.templated_file)
        return results


_NATURAL = (
    "NATURAL JOIN drops rows that hold a NULL in a shared column. Name the keys in a join, "
    "or number the rows with row_number()."
)
_COUNT = (
    "count(distinct a, b) leaves out rows in which one of them is NULL. "
    "Use count(distinct struct(a, b))."
)
_NOT_IN = "NOT IN keeps no row if the subquery returns a NULL. Use NOT EXISTS or an anti join."
_MACRO = (
    "dbt_utils.deduplicate joins all columns on Spark and drops rows that hold a NULL. "
    "Use row_number(), or cdc.events with a snapshot."
)


def _is_written_here(segment: BaseSegment) -> bool:
    """Whether a segment stands in the file itself."""
    return segment.pos_marker is not None and segment.pos_marker.is_literal()


def _natural_joins(root: BaseSegment) -> list[BaseSegment]:
    """The word NATURAL of joins."""
    return [
        word
        for join in trees.within([root], "join_clause")
        for word in trees.code(join)
        if word.is_type("keyword") and word.raw_upper == "NATURAL"
    ]


def _counts(root: BaseSegment) -> list[BaseSegment]:
    """Calls of count(distinct ..) with several columns."""
    return [
        function
        for function in trees.within([root], "function")
        if trees.function_name(function) == "count"
        and len(given := trees.arguments(function)) > 1
        and given[0][0].raw_upper == "DISTINCT"
    ]


def _not_in(root: BaseSegment) -> list[BaseSegment]:
    """The word NOT in front of IN and a subquery."""
    found = []
    for expression in trees.within([root], "expression"):
        parts = trees.code(expression)
        for word, verb, brackets in zip(parts, parts[1:], parts[2:], strict=False):
            if (word.raw_upper, verb.raw_upper) == ("NOT", "IN") and _is_subquery(brackets):
                found.append(word)
    return found


def _is_subquery(segment: BaseSegment) -> bool:
    """Whether brackets hold a SELECT rather than a list of values."""
    return segment.is_type("bracketed") and any(trees.within([segment], "select_statement"))


def _macros(root: BaseSegment, file: TemplatedFile) -> list[LintResult]:
    """Calls of dbt_utils.deduplicate, at the first thing that they render."""
    return [
        LintResult(anchor, description=_MACRO)
        for part in file.raw_sliced
        if part.slice_type == "templated"
        and _DEDUPLICATE.search(part.raw)
        and (anchor := _rendered(root, part)) is not None
    ]


def _rendered(root: BaseSegment, part: RawFileSlice) -> BaseSegment | None:
    """The first segment that a template rendered; None if it rendered nothing."""
    begin, end = part.source_idx, part.end_source_idx()
    for segment in root.raw_segments:
        marker = segment.pos_marker
        if marker and segment.raw and begin <= marker.source_slice.start < end:
            return segment
    return None
