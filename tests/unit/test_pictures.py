"""The pictures of the rules show what the rules say."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from scripts import pictures
from tests.functional import oracle

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "concepts.md"


def events(changes: list[pictures.Change]) -> list[oracle.Event]:
    """The changes as the oracle has events: a key change is an end of the old key as well."""
    found = []
    for change in changes:
        found.append(
            oracle.Event(0, change.key, change.position, change.op, change.name, change.city)
        )
        if change.old_key is not None:
            found.append(oracle.Event(0, change.old_key, change.position, "D", None, None))
    return found


def expected(picture: pictures.Picture, batch: int) -> set[pictures.Version]:
    arrived = [change for change in picture.changes if change.batch <= batch]
    return {
        pictures.Version(version.id, version.a or "", version.b or "", version.seq, version.seq_end)
        for version in oracle.histories(events(arrived))
    }


@pytest.mark.parametrize("picture", pictures.PICTURES, ids=lambda picture: picture.name)
def test_versions_are_those_of_the_rules(picture: pictures.Picture) -> None:
    assert max(change.batch for change in picture.changes) == len(picture.batches)
    for batch, versions in enumerate(picture.batches, start=1):
        assert set(versions) == expected(picture, batch)


@pytest.mark.parametrize("picture", pictures.PICTURES, ids=lambda picture: picture.name)
def test_every_version_and_event_is_drawn(picture: pictures.Picture) -> None:
    text = pictures.draw(picture)
    versions = [version for batch in picture.batches for version in batch]
    assert text.count('fill="var(--bar)"') == len(versions)
    assert len(re.findall("<circle", text)) >= len({change.position for change in picture.changes})
    assert picture.says.split(".")[0] in text


def test_pictures_are_up_to_date_and_on_the_page(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert pictures.main(check=True) == 0
    shown = set(re.findall(r"!\[[^]]+\]\(concepts/(\w+)\.svg\)", PAGE.read_text(encoding="utf-8")))
    assert shown == {picture.name for picture in pictures.PICTURES}

    assert pictures.main(check=True, folder=tmp_path) == 1
    assert "insert.svg is out of date: run `python scripts/pictures.py`" in capsys.readouterr().err
    assert pictures.main(check=False, folder=tmp_path) == 0
    assert pictures.main(check=True, folder=tmp_path) == 0
