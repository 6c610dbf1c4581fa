"""Rules about the order of events: what picks the latest row of a key."""

from __future__ import annotations

import re

from sqlfluff.core.parser import BaseSegment
from sqlfluff.core.rules import BaseRule, LintResult, RuleContext
from sqlfluff.core.rules.crawlers import SegmentSeekerCrawler

from dbt_spark_cdc.sqlfluff_rules import trees

# Their result is text, which sorts 10 before 9.
_TEXT_FUNCTIONS = {
    "concat",
    "concat_ws",
    "format_string",
    "get_json_object",
    "json_extract_scalar",
    "json_value",
    "regexp_extract",
    "split_part",
    "string",
    "substr",
    "substring",
    "to_char",
}
_TEXT_TYPE = re.compile(r"(string|text|n?(var)?char2?)\b", re.IGNORECASE)
# Without OVER they return any row of the group; Spark takes the first that it happens to read.
_ANY_ROW = {"any_value", "first", "first_value", "last", "last_value"}
_RANKS = {"rank", "dense_rank"}


def _listed(names: str) -> set[str]:
    """A comma separated list of an option, in lower case."""
    return {name.strip().lower() for name in names.split(",")}


class Rule_CDC_OR01(BaseRule):
    """A time decides which change of a key is the latest.

    Times tie: all changes of a transaction have its commit time, and clocks of several servers
    differ. Which of the tied rows wins is then left to chance, and another run can give another
    table. A position of the source (LSN, SCN, binlog file and offset, ``_commit_version``) does not
    tie.

    Columns of the ``PARTITION BY`` and literals do not count as further ordering expressions,
    because they are equal in all rows of a key.

    **Anti-pattern**

    Two changes at the same ``cdc_timestamp`` are in no order.

    .. code-block:: sql

        select
            *,
            row_number() over (partition by id order by cdc_timestamp desc) as recency
        from customer_events

    **Best practice**

    Order by the position that the source gives its changes. A time may come before it.

    .. code-block:: sql

        select
            *,
            row_number() over (partition by id order by lsn desc, event_id desc) as recency
        from customer_events
    """

    name = "cdc.order_by_time"
    groups = ("all", "cdc")
    config_keywords = ["cdc_time_columns", "cdc_sequence_columns", "cdc_window_functions"]
    crawl_behaviour = SegmentSeekerCrawler({"function"})

    cdc_time_columns: str
    cdc_sequence_columns: str
    cdc_window_functions: str

    def _eval(self, context: RuleContext) -> LintResult | None:
        """Reports a window, ``max_by`` or ``max(struct(..))`` whose order is a time alone."""
        order = self._order(context.segment, context.parent_stack)
        if not order or not all(self._is_time(term) for term in order):
            return None
        return LintResult(
            anchor=order[0][0],
            description=f"`{order[0][0].raw}` alone orders the changes of a key, and times tie. "
            "Order by a position of the source, such as an LSN or a sequence, or add one.",
        )

    def _order(
        self, function: BaseSegment, stack: tuple[BaseSegment, ...]
    ) -> list[list[BaseSegment]]:
        """The expressions by which a function picks a row; empty if it picks none."""
        name = trees.function_name(function)
        if name in _listed(self.cdc_window_functions):
            window = trees.window(function, stack[0])
            if window is not None:
                return window.deciding() if window.is_divided else []
        if trees.picks(function):
            return [trees.arguments(function)[1]]
        if name in ("max", "min"):
            return self._struct_order(trees.arguments(function))
        return []

    def _struct_order(self, given: list[list[BaseSegment]]) -> list[list[BaseSegment]]:
        """The first field of ``max(struct(time, ..))``, unless a later one is a position."""
        inner = trees.core(given[0]) if given else []
        if len(inner) != 1 or not inner[0].is_type("function"):
            return []
        fields = trees.arguments(inner[0])
        if trees.function_name(inner[0]) not in ("struct", "named_struct") or len(fields) < 2:
            return []
        later = trees.columns(part for field in fields[1:] for part in field)
        if any(re.search(self.cdc_sequence_columns, name) for name in later):
            return []
        # named_struct('t', t, ..): the names stand between the values.
        return [fields[0] if trees.columns(fields[0]) else fields[1]]

    def _is_time(self, term: list[BaseSegment]) -> bool:
        """Whether all columns of an ordering expression are times by their names."""
        names = trees.columns(term)
        return bool(names) and all(re.search(self.cdc_time_columns, name) for name in names)


class Rule_CDC_OR02(BaseRule):
    """Chance decides which row of a key is taken.

    This is so where ``row_number()`` has no order, or one that is equal in all rows of a key (a
    literal, the key itself) or random; where ``rank() = 1`` keeps every row of a tie instead of
    one; and where ``first()``, ``last()`` or ``any_value()`` picks a value of a group.

    **Anti-pattern**

    The order is the key, so any of its rows can be the first.

    .. code-block:: sql

        select
            *,
            row_number() over (partition by id order by id) as recency
        from customer_events

    **Best practice**

    Order by a position of the source, with the identity of the event as the last expression.

    .. code-block:: sql

        select
            *,
            row_number() over (partition by id order by lsn desc, event_id desc) as recency
        from customer_events
    """

    name = "cdc.arbitrary_row"
    groups = ("all", "cdc")
    config_keywords = ["cdc_window_functions"]
    crawl_behaviour = SegmentSeekerCrawler({"function"})

    cdc_window_functions: str

    def _eval(self, context: RuleContext) -> LintResult | None:
        """Reports a function that picks a row without a reason."""
        function, root = context.segment, context.parent_stack[0]
        name = trees.function_name(function)
        window = trees.window(function, root)
        problem = None
        if window is None:
            select = trees.enclosing(context.parent_stack, "select_statement")
            if name in _ANY_ROW and select and select.get_child("groupby_clause"):
                problem = (
                    f"`{name}` takes the value of any row of the group. Use max_by with a position "
                    "of the source."
                )
        elif window.is_divided and name in _listed(self.cdc_window_functions):
            if not window.deciding():
                problem = (
                    f"Nothing in the order of `{name}` differs between the rows of a key. Order by "
                    "a position of the source."
                )
            elif name in _RANKS and self._first_is_kept(function, context.parent_stack):
                problem = f"`{name}` is 1 for every row of a tie. Use row_number()."
        return LintResult(anchor=function, description=problem) if problem else None

    @staticmethod
    def _first_is_kept(function: BaseSegment, stack: tuple[BaseSegment, ...]) -> bool:
        """Whether a condition keeps the rows in which the function, or its alias, is 1."""
        alias = stack[-1].get_child("alias_expression")
        name = trees.column_name(trees.code(alias)[-1]) if alias else None
        for comparison in trees.comparisons([stack[0]]):
            left = trees.core(comparison.left)
            if not comparison.is_one or len(left) != 1:
                continue
            if left[0] is function:
                return True
            if left[0].is_type("column_reference") and name == trees.column_name(left[0]):
                return True
        return False


class Rule_CDC_OR03(BaseRule):
    """Positions are compared as text.

    Text sorts ``10`` before ``9``, and ``binlog.99:500`` after ``binlog.100:4``. Fields that are
    taken out of JSON by ``get_json_object`` are text too.

    **Anti-pattern**

    From the tenth change on, the latest one is not the first.

    .. code-block:: sql

        select
            *,
            row_number() over (
                partition by id
                order by get_json_object(payload, '$.source.lsn') desc
            ) as recency
        from customer_events

    **Best practice**

    Cast to a number, or compare the parts of a position as numbers, in a struct.

    .. code-block:: sql

        select
            *,
            row_number() over (
                partition by id
                order by cast(get_json_object(payload, '$.source.lsn') as bigint) desc
            ) as recency
        from customer_events
    """

    name = "cdc.text_position"
    groups = ("all", "cdc")
    config_keywords = ["cdc_window_functions"]
    crawl_behaviour = SegmentSeekerCrawler({"function"})

    cdc_window_functions: str

    def _eval(self, context: RuleContext) -> LintResult | None:
        """Reports an order whose first deciding expression makes text."""
        function = context.segment
        order: list[list[BaseSegment]] = []
        if trees.picks(function):
            order = [trees.arguments(function)[1]]
        elif trees.function_name(function) in _listed(self.cdc_window_functions):
            window = trees.window(function, context.parent_stack[0])
            order = window.deciding() if window and window.is_divided else []
        # What follows only breaks ties, for which any order will do.
        if not order or not self._is_text(trees.core(order[0])):
            return None
        return LintResult(
            anchor=order[0][0],
            description=f"`{order[0][0].raw}` is text, which sorts 10 before 9. "
            "Cast it to a number, or its parts in a struct.",
        )

    @staticmethod
    def _is_text(parts: list[BaseSegment]) -> bool:
        """Whether an expression makes text."""
        if any(part.is_type("binary_operator") and part.raw == "||" for part in parts):
            return True
        if len(parts) != 1:
            return False
        name = trees.function_name(parts[0]) if parts[0].is_type("function") else ""
        if name in ("cast", "try_cast") or parts[0].is_type("cast_expression"):
            types = list(trees.within(parts, "data_type"))
            return bool(types) and bool(_TEXT_TYPE.match(types[-1].raw))
        return name in _TEXT_FUNCTIONS
