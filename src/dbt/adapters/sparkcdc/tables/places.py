"""Folders and files on a disk of this machine, or wherever else Spark's file systems reach."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import urlsplit
from urllib.request import url2pathname

from dbt.adapters.sparkcdc.session.remote import is_remote

# Classes of Hadoop and of Apache Commons, which Spark has.
PATH = "org.apache.hadoop.fs.Path"
ARRAYS = "org.apache.commons.lang3.ArrayUtils"
IO_UTILS = "org.apache.commons.io.IOUtils"
# How Hadoop writes the status of a file.
STATUS = re.compile(r"\{path=(.*?); isDirectory=")


def local_folder(location: str) -> Path | None:
    """Returns the folder that a table's URI names, or None if it is not on a disk of this machine.

    Args:
        location: A URI, such as `file:/data/table`.
    """
    parts = urlsplit(location)
    if parts.scheme != "file" or parts.netloc not in ("", "localhost"):
        return None
    return Path(url2pathname(parts.path))


def place_of(spark: Any, location: str) -> Place | None:
    """Returns what reads the files of a table.

    Args:
        spark: A session, inside this process or of a server.
        location: A URI.

    Returns:
        None where only a server reaches them.
    """
    found = local_folder(location)
    if found is None and ":" in location and not is_remote(spark):
        # Spark encodes the address as a URI, and file systems take it as it is read.
        path = getattr(spark._jvm, PATH)(spark._jvm.java.net.URI(location))
        return StoredPlace(spark, str(path.toString()))
    return found


def lines_of(file: Place) -> Iterator[str]:
    """Reads a file no further than its lines are wanted.

    Args:
        file: The file.

    Raises:
        OSError: There is no such file, or it cannot be read.
    """
    if isinstance(file, StoredPlace):
        yield from file.lines()
    elif isinstance(file, Path):
        with file.open(encoding="utf-8") as lines:
            yield from lines


class Place(Protocol):
    """What the log of a table is read by; `pathlib.Path` has all of it."""

    def __hash__(self) -> int:
        """Of places that are the same, the same."""

    @property
    def name(self) -> str:
        """The last part of its path."""

    def __truediv__(self, name: str) -> Place:
        """What has this name in it."""

    def iterdir(self) -> Iterable[Place]:
        """What is in the folder."""

    def exists(self) -> bool:
        """Whether it is there."""

    def read_text(self, encoding: str) -> str:
        """What the file holds.

        Args:
            encoding: Its encoding.
        """


class StoredPlace:
    """A folder or file that the file systems of a session's JVM reach, as in an object store.

    Errors of Java are raised as `OSError`, as Python's own are.
    """

    def __init__(self, spark: Any, address: str) -> None:
        """Names a place; nothing is asked.

        Args:
            spark: A session that runs inside this process.
            address: As Hadoop writes a path, such as `s3a://bucket/warehouse/shop.db/orders`.
        """
        self._spark, self._address = spark, address.rstrip("/")

    def __str__(self) -> str:
        return self._address

    def __repr__(self) -> str:
        return f"StoredPlace({self._address!r})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, StoredPlace) and self._address == other._address

    def __hash__(self) -> int:
        return hash(self._address)

    def __truediv__(self, name: str) -> StoredPlace:
        return StoredPlace(self._spark, f"{self._address}/{name}")

    @property
    def name(self) -> str:
        """The last part of its path."""
        return self._address.rpartition("/")[2]

    def iterdir(self) -> list[StoredPlace]:
        """Returns what is in the folder.

        Raises:
            OSError: There is no such folder, or it cannot be listed.
        """

        def listed(files: Any, path: Any) -> str:
            # All of them in one call: a call for each would take long.
            return str(self._class(ARRAYS).toString(files.listStatus(path)))

        paths = STATUS.findall(str(self._ask(listed)))
        return [self / path.rpartition("/")[2] for path in paths]

    def exists(self) -> bool:
        """Returns whether it is there.

        Raises:
            OSError: Nobody can tell.
        """
        return bool(self._ask(lambda files, path: files.exists(path)))

    def read_text(self, encoding: str = "utf-8") -> str:
        """Returns what the file holds.

        Args:
            encoding: Of its characters.

        Raises:
            OSError: There is no such file, or it cannot be read.
        """

        def read(files: Any, path: Any) -> str:
            stream = files.open(path)
            try:
                return str(self._class(IO_UTILS).toString(stream, encoding))
            finally:
                stream.close()

        return str(self._ask(read))

    def lines(self) -> Iterator[str]:
        """Reads the lines of the file, which is closed where no more of them are wanted.

        Raises:
            OSError: There is no such file, or it cannot be read.
        """
        java = self._spark._jvm.java
        stream = self._ask(lambda files, path: files.open(path))
        try:
            reader = java.io.BufferedReader(java.io.InputStreamReader(stream, "UTF-8"))
            while (line := self._ask(lambda files, path: reader.readLine())) is not None:
                yield str(line)
        finally:
            stream.close()

    def _ask(self, question: Any) -> Any:
        from py4j.protocol import Py4JError

        try:
            path = self._class(PATH)(self._address)
            conf = self._spark._jsparkSession.sessionState().newHadoopConf()
            return question(path.getFileSystem(conf), path)
        except (Py4JError, _spark_error()) as exc:
            from dbt.adapters.sparkcdc.errors import message_of  # it needs this module

            raise OSError(f"{self._address} cannot be read: {message_of(exc)}") from exc

    def _class(self, name: str) -> Any:
        return getattr(self._spark._jvm, name)


def _spark_error() -> type[Exception]:
    from pyspark.errors import PySparkException

    return PySparkException
