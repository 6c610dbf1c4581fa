"""Settings hold for the time of a statement."""

from __future__ import annotations

from typing import Any

import pytest
from dbt.adapters.sparkcdc.session.settings_scope import scoped


class Conf(dict[str, str]):
    """A session's settings, as far as they are asked for."""

    def set(self, name: str, value: str) -> None:
        self[name] = value

    def unset(self, name: str) -> None:
        self.pop(name, None)


class Session:
    def __init__(self) -> None:
        self.conf = Conf(kept="1", changed="old")


def test_settings_are_restored_after_an_error() -> None:
    session: Any = Session()
    with (
        pytest.raises(ValueError, match="broken"),
        scoped(session, {"changed": "new", "added": "x"}),
    ):
        assert session.conf == {"kept": "1", "changed": "new", "added": "x"}
        raise ValueError("broken")
    assert session.conf == {"kept": "1", "changed": "old"}
