"""What macros ask and do of Iceberg tables alone."""

from __future__ import annotations

from typing import Any

from dbt.adapters.base.meta import available
from dbt.adapters.sparkcdc.iceberg import images as iceberg_images
from dbt.adapters.sparkcdc.iceberg import tables as iceberg
from dbt.adapters.sparkcdc.iceberg import writes as iceberg_writes
from dbt.adapters.sparkcdc.methods.tables import TableMethods

from dbt_spark_cdc.words import quoted


class IcebergMethods(TableMethods):
    """Maintenance of Iceberg's tables, and what their commits changed."""

    @available.parse_none
    def commit_checkpoint(self, table: str, checkpoint: str, version: int | None) -> bool:
        """Writes a checkpoint to an Iceberg table: see `iceberg_writes.commit_checkpoint`."""
        return iceberg_writes.commit_checkpoint(self._spark, table, checkpoint, version)

    @available.parse_none
    def iceberg_files(self, table: str) -> dict[str, int]:
        """See `iceberg.files`."""
        return iceberg.files(self._iceberg(table))

    @available.parse_none
    def compact_iceberg(self, table: str) -> None:
        """See `iceberg_writes.compact`."""
        iceberg_writes.compact(self._spark, self.execute, table)

    @available.parse_none
    def expire_iceberg(self, table: str, hours: int, dry_run: bool) -> int:
        """See `iceberg_writes.expire`."""
        return iceberg_writes.expire(
            lambda sql: self.execute(sql, fetch=True)[1].rows, table, hours, dry_run
        )

    @available.parse_none
    def roll_back_iceberg(self, table: str, snapshot: int) -> None:
        """See `iceberg_writes.roll_back`."""
        iceberg_writes.roll_back(self._iceberg(table), snapshot)

    @available.parse_none
    def iceberg_images(self, table: str, first: int, last: int | None) -> list[dict[str, Any]]:
        """Shows what commits of an Iceberg table changed, for the node that runs.

        Args:
            table: Its name in SQL.
            first: See `iceberg_images.images`, with the other argument.
            last: The last version whose changes are wanted; None for the newest one.

        Returns:
            `relation`: the rows of files before or after a commit changed them. `is_before`,
            `version`, `timestamp`: see `iceberg_images.Image`.
        """
        handle = self._handle
        if last is None:
            last = iceberg.newest_commits(self._iceberg(table), 1)[0]["version"]
        found = iceberg_images.images(handle.spark, table, first, last)
        handle.images += found
        handle.shown_to[table] = last
        return [
            {
                "relation": f"{iceberg.IMAGES}.{quoted(image.name)}",
                "is_before": image.is_before,
                "version": image.version,
                "timestamp": image.timestamp.isoformat(),
            }
            for image in found
        ]

    @available.parse_none
    def iceberg_shown_to(self, table: str) -> int | None:
        """Returns the last version whose changes the node that runs was shown; None for none.

        Args:
            table: Its name in SQL.
        """
        return self._handle.shown_to.get(table)
