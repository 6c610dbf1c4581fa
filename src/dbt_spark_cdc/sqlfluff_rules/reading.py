"""Rules about which events are read."""

from __future__ import annotations

import re

from sqlfluff.core.parser import BaseSegment
from sqlfluff.core.rules import BaseRule, LintResult, RuleContext
from sqlfluff.core.rules.crawlers import SegmentSeekerCrawler

from dbt_spark_cdc.sqlfluff_rules import trees

# The side that holds the maximum is the smaller one.
_SIDES = {">": (0, 1), ">=": (0, 1), "<": (1, 0), "<=": (1, 0)}
_SHIFTS = re.compile(r"date_?(add|sub)|timestamp_?(add|sub)|time_(add|sub)|add_(months|days)")
_FEEDS = {"table_changes", "table_changes_by_path"}
# Where a condition can name the kind of a change.
_CONDITIONS = (
    "where_clause",
    "join_on_condition",
    "qualify_clause",
    "having_clause",
    "case_expression",
    "merge_when_matched_clause",
)


class Rule_CDC_RD01(BaseRule):
    """A watermark without a lookback loses late events.

    An incremental model that reads only rows above the highest value it has seen never sees an
    event that arrives later with a lower one: a transaction that took longer, another partition of
    the topic, a server whose clock is behind. The count of rows looks right, and some of them stay
    wrong.

    A column that counts what arrives (``cdc_arrival_columns``) never goes back and needs no
    lookback.

    **Anti-pattern**

    An event that arrives late with a lower ``updated_at`` is never read.

    .. code-block:: jinja
       :force:

        select *
        from {{ source('shop', 'customer_events') }}
        {% if is_incremental() %}
        where updated_at > (select max(updated_at) from {{ this }})
        {% endif %}

    **Best practice**

    Read by arrival. ``cdc.events`` and a snapshot do so where the declaration has an ``arrival``.
    Without such a column, read some of the past again.

    .. code-block:: jinja
       :force:

        select *
        from {{ source('shop', 'customer_events') }}
        {% if is_incremental() %}
        where updated_at > (select max(updated_at) - interval 3 days from {{ this }})
        {% endif %}
    """

    name = "cdc.watermark"
    groups = ("all", "cdc")
    config_keywords = ["cdc_arrival_columns", "cdc_sequence_columns", "cdc_time_columns"]
    crawl_behaviour = SegmentSeekerCrawler({"where_clause", "join_on_condition"})

    cdc_arrival_columns: str
    cdc_sequence_columns: str
    cdc_time_columns: str

    def _eval(self, context: RuleContext) -> list[LintResult]:
        """Reports comparisons with a maximum that leave no room for what is late."""
        found = []
        for comparison in trees.comparisons([context.segment]):
            if comparison.operator not in _SIDES or self._looks_back(comparison.segments):
                continue
            sides = (comparison.left, comparison.right)
            greater, lesser = (sides[side] for side in _SIDES[comparison.operator])
            maximum = _maximum(lesser)
            names = trees.columns(greater)
            if maximum and names and self._is_watermark(names, trees.columns([maximum])):
                found.append(
                    LintResult(
                        anchor=comparison.left[0],
                        description=f"`{names[0]}` above its maximum: an event that arrives late "
                        "with a lower value is never read. Read by arrival, or subtract a "
                        "lookback.",
                    )
                )
        return found

    def _is_watermark(self, compared: list[str], highest: list[str]) -> bool:
        """Whether columns are read from their own maximum on, or by time or position."""
        if all(re.search(self.cdc_arrival_columns, name) for name in compared):
            return False
        ordered = f"{self.cdc_sequence_columns}|{self.cdc_time_columns}"
        return set(compared) == set(highest) or all(re.search(ordered, name) for name in compared)

    @staticmethod
    def _looks_back(segments: list[BaseSegment]) -> bool:
        """Whether something is added or subtracted."""
        operators = trees.within(segments, "binary_operator")
        functions = trees.within(segments, "function")
        return (
            any(operator.raw in ("+", "-") for operator in operators)
            or any(trees.within(segments, "interval_expression"))
            or any(_SHIFTS.search(trees.function_name(function)) for function in functions)
        )


def _maximum(segments: list[BaseSegment]) -> BaseSegment | None:
    """The call of max() in a subquery; None if there is none."""
    for select in trees.within(segments, "select_statement"):
        chosen = select.get_child("select_clause")
        for function in trees.within([chosen] if chosen else [], "function"):
            if trees.function_name(function) == "max":
                return function
    return None


class Rule_CDC_RD02(BaseRule):
    """Delta's change feed is read with its pre-images.

    For every update, ``table_changes`` has two rows of one version: the row before it and the row
    after it. Without a condition on ``_change_type`` the old values compete with the new ones, and
    aggregates count updates twice.

    **Anti-pattern**

    Each updated row appears twice, once with its old values.

    .. code-block:: sql

        select *
        from table_changes('shop.customers', 12)

    **Best practice**

    Leave the pre-images out, or treat them as what they are.

    .. code-block:: sql

        select *
        from table_changes('shop.customers', 12)
        where _change_type <> 'update_preimage'
    """

    name = "cdc.preimages"
    groups = ("all", "cdc")
    crawl_behaviour = SegmentSeekerCrawler({"function"})

    def _eval(self, context: RuleContext) -> LintResult | None:
        """Reports a change feed in a file that never asks for the kind of a change."""
        if trees.function_name(context.segment) not in _FEEDS:
            return None
        conditions = trees.within([context.parent_stack[0]], *_CONDITIONS)
        if "_change_type" in trees.columns(conditions):
            return None
        return LintResult(
            anchor=context.segment,
            description="The change feed has the old and the new row of every update. "
            "Add a condition on _change_type, such as _change_type <> 'update_preimage'.",
        )
