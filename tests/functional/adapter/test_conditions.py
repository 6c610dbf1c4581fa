"""Conditions that Delta parses a second time mean the same to it."""

from __future__ import annotations

from typing import Any

from dbt.adapters.sparkcdc.nodes.steps import NOT_NAMES

# The forms that `steps.listing` and `steps.partition_condition` write.
CONDITIONS = (
    "`{name}` = 'K'",
    "`{name}` is null",
    "(`{name}` = 1 and `x` is null)",
    "`{name}` between 1L and 3L and `{name}` in (3L, 1L)",
    "_cdc_is_latest and `{name}` between 'a' and 'b' and `{name}` in ('a')",
    "((`x` = 'a' and `{name}` in (1L, 3L)) or (`{name}` = 'b' and `x` in (2L)))",
)


def test_every_other_word_of_sql_is_a_name(spark: Any) -> None:
    parser = spark._jsparkSession.sessionState().sqlParser()

    def means_the_same(condition: str) -> bool:
        """REPLACE WHERE hands the parsed condition on as the text that Spark makes of it."""
        parsed = parser.parseExpression(condition)
        try:
            return bool(parser.parseExpression(parsed.sql()).equals(parsed))
        except Exception:  # not even a condition any more
            return False

    # In one expression: a word that changes one of them changes it.
    every = " or ".join(f"({condition})" for condition in CONDITIONS)
    words = [row.keyword.lower() for row in spark.sql("select * from sql_keywords()").collect()]
    assert len(words) > 300
    changed = {
        word
        for word in [*words, "1e5", "1l", "x y", "a.b"]
        if not means_the_same(every.format(name=word))
    }
    assert changed == NOT_NAMES
