"""Spark as the profile of the reference project sets it: for tables of some thousand rows."""

from __future__ import annotations

from typing import Any

import pytest

from tests.conftest import SMALL


@pytest.fixture
def spark(spark: Any) -> Any:
    """A session that does not compile what it runs once."""
    for name, value in SMALL.items():
        spark.conf.set(name, str(value).lower() if isinstance(value, bool) else value)
    return spark
