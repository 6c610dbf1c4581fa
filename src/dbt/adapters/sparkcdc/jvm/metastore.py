"""The embedded metastore lets in one process at a time; this queues the others, or tells them."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from dbt.adapters.sparkcdc import private
from dbt_common.exceptions import DbtRuntimeError

try:
    import fcntl
except ImportError:  # Windows: Derby's own lock has to do
    fcntl = None  # type: ignore[assignment]

WAIT_SECONDS = 10.0
IN_WAREHOUSE = ".metastore"
OTHER_METASTORES = (
    "spark.hadoop.javax.jdo.option.ConnectionURL",
    "spark.hadoop.hive.metastore.uris",
)


def is_embedded(parameters: Mapping[str, str]) -> bool:
    """Whether the warehouse's own metastore is used, not one that the profile names.

    Args:
        parameters: The profile's Spark settings.
    """
    if parameters.get("spark.sql.catalogImplementation", "hive") != "hive":
        return False
    return not any(parameters.get(key) for key in OTHER_METASTORES)


def hold(folder: Path, wait: float = WAIT_SECONDS) -> int | None:
    """Takes the metastore for this process, and for the JVM that inherits the descriptor.

    Args:
        folder: The metastore's folder.
        wait: Seconds to wait, since a JVM whose dbt has just ended needs a moment to end too.

    Returns:
        File descriptor to close in the end; None where the system has no such locks.

    Raises:
        DbtRuntimeError: Another process holds it.
    """
    if fcntl is None:
        return None
    folder.mkdir(mode=private.FOLDER, parents=True, exist_ok=True)
    holder = os.open(folder / "lock", os.O_RDWR | os.O_CREAT, private.FILE)
    deadline = time.monotonic() + wait
    while True:
        try:
            fcntl.flock(holder, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as exc:
            if time.monotonic() > deadline:
                pid = os.pread(holder, 32, 0).decode(errors="replace").strip()
                os.close(holder)
                raise DbtRuntimeError(in_use(folder, f" (process {pid})" if pid else "")) from exc
            time.sleep(0.1)
        else:
            os.ftruncate(holder, 0)
            os.pwrite(holder, str(os.getpid()).encode(), 0)
            return holder


def release(holder: int | None) -> None:
    """Gives the metastore back.

    Args:
        holder: What `hold` returned.
    """
    if holder is not None:
        with contextlib.suppress(OSError):
            os.close(holder)


def make_room(jvm: Any, folder: Path) -> None:
    """Lets the embedded metastore hold views of any length.

    Hive makes the columns with a view's text 32,700 letters long, which the decoding of some forty
    columns exceeds. All of it is one transaction of Derby's.

    Args:
        jvm: The JVM that has the metastore open.
        folder: The metastore's folder.
    """
    connection = jvm.java.sql.DriverManager.getConnection(f"{url(folder)};create=false")
    try:
        found = connection.getMetaData().getColumns(None, "APP", "TBLS", "VIEW_%_TEXT")
        narrow = []
        while found.next():
            if found.getString("TYPE_NAME") != "CLOB":
                narrow.append(found.getString("COLUMN_NAME"))
        found.close()
        connection.setAutoCommit(False)
        statement = connection.createStatement()
        for column in narrow:
            for change in (
                "alter table APP.TBLS add column CDC_TEXT clob",
                f"update APP.TBLS set CDC_TEXT = cast({column} as clob)",
                f"alter table APP.TBLS drop column {column}",
                f"rename column APP.TBLS.CDC_TEXT to {column}",
            ):
                statement.execute(change)
        connection.commit()
    finally:
        connection.rollback()
        connection.close()


def url(folder: Path) -> str:
    """Returns the address of the embedded metastore, without options.

    Args:
        folder: The metastore's folder.
    """
    return f"jdbc:derby:;databaseName={folder / 'db'}"


def in_use(folder: Path, who: str = "") -> str:
    """Returns the message for a metastore that another process holds.

    Args:
        folder: The metastore's folder.
        who: Words that tell the holder, with a leading space.
    """
    option = "warehouse" if folder.name == IN_WAREHOUSE else "metastore"
    place = folder.parent if folder.name == IN_WAREHOUSE else folder
    return (
        f"The {option} {place} is in use by another process{who}: an embedded metastore "
        "lets in one process at a time. Wait until that one has ended, give this run another "
        f"`{option}` in profiles.yml, or let both use one Spark Connect server with "
        "`remote: sc://host:port`."
    )
