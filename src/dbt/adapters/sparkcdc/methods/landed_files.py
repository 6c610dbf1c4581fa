"""Erasing lines of landed files."""

from __future__ import annotations

import os
from dataclasses import asdict
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from dbt.adapters.base.meta import available
from dbt.adapters.sparkcdc.erasure import landed_files, table_files
from dbt.adapters.sparkcdc.methods.base import BaseMethods
from dbt.adapters.sparkcdc.tables.places import local_folder
from dbt_common.exceptions import DbtRuntimeError


class LandedFileMethods(BaseMethods):
    """`cdc_erase` on the files of a landing folder of this machine."""

    @available.parse_none
    def landing_problem(self, folder: str) -> str | None:
        """Returns why the files of a landing folder cannot be written again; None where they can.

        Args:
            folder: The folder of the landing model.
        """
        there = self._landing_folder(folder)
        if there is None:
            return f"the landing folder {folder} is not on a disk of this machine"
        if not there.is_dir():
            return f"the landing folder {there} does not exist"
        tables = sorted(path for path in there.iterdir() if path.is_dir())
        if locked := [str(path) for path in tables if not os.access(path, os.W_OK | os.X_OK)]:
            return f"this user may not write in {', '.join(locked)}"
        return None

    @available.parse_none
    def landed_rewrites(self, folder: str, lines: dict[str, list[str]]) -> dict[str, Any]:
        """Returns which landed files lose lines: see `landed_files.plan`.

        Args:
            folder: The folder of the landing model.
            lines: For each table, the SHA-256 of the lines.

        Returns:
            `files` and `problems`.
        """
        wanted = {table: set(hashes) for table, hashes in lines.items()}
        files, problems = landed_files.plan(self._local_landing_folder(folder), wanted)
        return {"files": [asdict(file) for file in files], "problems": problems}

    @available.parse_none
    def rewrite_landed_files(
        self, files: list[dict[str, Any]], lines: dict[str, list[str]]
    ) -> None:
        """Writes what landed files are to hold beside them.

        Args:
            files: See `landed_rewrites`, with the other argument.
            lines: For each table, the SHA-256 of the lines.
        """
        for file in files:
            landed_files.write_beside(file["file"], set(lines.get(file["table"], ())))

    @available.parse_none
    def replace_landed_files(self, folder: str) -> int:
        """See `landed_files.take_place`."""
        return landed_files.take_place(self._local_landing_folder(folder))

    @available.parse_none
    def search_landed_files(self, folder: str, values: list[str]) -> dict[str, Any]:
        """Searches all files of a landing folder.

        Args:
            folder: The folder of the landing model.
            values: Texts that no file may hold.

        Returns:
            See `table_files.Found`.
        """
        return asdict(table_files.search(self._local_landing_folder(folder), values, None, {}))

    def _landing_folder(self, folder: str) -> Path | None:
        """The folder as landing finds it; None where it is not on a disk of this machine."""
        if urlsplit(folder).scheme:
            return local_folder(folder)
        return Path(folder).absolute()

    def _local_landing_folder(self, folder: str) -> Path:
        there = self._landing_folder(folder)
        if there is None:
            raise DbtRuntimeError(
                f"cdc: the landing folder {folder} is not on a disk of this machine. Remove the"
                " person's lines from its files by hand."
            )
        return there
