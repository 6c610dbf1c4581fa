"""The files of a landing folder on this machine."""

from __future__ import annotations

from pathlib import Path

from dbt_spark_cdc.landing.folder import LocalFolder


def test_a_link_that_leads_nowhere_does_not_keep_the_other_files_out(tmp_path: Path) -> None:
    (tmp_path / "orders").mkdir()
    (tmp_path / "orders" / "a.jsonl").write_text("{}\n")
    (tmp_path / "orders" / "gone.jsonl").symlink_to("nowhere")
    (tmp_path / "orders" / "loop.jsonl").symlink_to("loop.jsonl")
    (tmp_path / "loop").symlink_to("loop")
    found = {file.name: file.problem for file in LocalFolder(None, tmp_path).files()}
    assert set(found) == {"orders/a.jsonl", "orders/loop.jsonl"}
    assert found["orders/a.jsonl"] == ""
    assert found["orders/loop.jsonl"].startswith("the file cannot be read (Too many levels")
