"""A PostgreSQL server of its own that lives as long as one capture."""

import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

PLUGIN = "wal2json"
INSTALL = "apt-get install postgresql-15 postgresql-15-wal2json"

SETTINGS = """
listen_addresses = ''
unix_socket_directories = '{directory}'
wal_level = logical
max_replication_slots = 2
fsync = off
deadlock_timeout = 20ms
timezone = 'UTC'
"""

# Fixed releases of PostgreSQL (15.20 among them) accept only the output plugins that this setting
# lists. Earlier ones do not know it and would not start with it.
PLUGINS_SETTING = "output_plugin_libraries"


def find_programs() -> Path:
    """Find a PostgreSQL installation that has the wal2json plugin, version 15 before others.

    Returns:
        The directory that holds initdb, pg_ctl and pg_config.

    Raises:
        SystemExit: There is no PostgreSQL of version 15 or later, or none with wal2json.
    """
    servers = installations()
    if not servers:
        raise SystemExit(f"PostgreSQL 15 was not found. On Debian 12 install it with: {INSTALL}")
    for path in servers:
        if (Path(_output(path / "pg_config", "--pkglibdir")) / f"{PLUGIN}.so").exists():
            return path
    raise SystemExit(
        f"PostgreSQL in {servers[0]} lacks the output plugin wal2json. "
        f"On Debian 12 install it with: {INSTALL}"
    )


def installations(oldest: int = 15) -> list[Path]:
    """List the PostgreSQL servers of this machine, version 15 before others.

    Args:
        oldest: The oldest version that will do.

    Returns:
        The directories that hold their programs.
    """
    debian = Path("/usr/lib/postgresql")
    candidates = [debian / "15" / "bin", *sorted(debian.glob("*/bin"), reverse=True)]
    for program in ("initdb", "pg_config"):
        if found := shutil.which(program):
            candidates.append(Path(found).resolve().parent)
    return [path for path in candidates if (path / "initdb").exists() and major(path) >= oldest]


def major(programs: Path) -> int:
    """Read the major version of the installation whose programs lie in a directory."""
    version = re.search(r"(\d+)", _output(programs / "initdb", "--version"))
    return int(version[1]) if version else 0


def plugin_version(programs: Path) -> str | None:
    """Tell wal2json's version, which only the package manager knows."""
    package = f"postgresql-{major(programs)}-wal2json"
    try:
        return _output("dpkg-query", "--show", "--showformat=${Version}", package)
    except (OSError, subprocess.CalledProcessError):
        return None


def known_settings(programs: Path) -> dict[str, str]:
    """Ask the server which settings it knows; no cluster has to exist.

    Args:
        programs: The directory of PostgreSQL's programs.

    Returns:
        The default of each setting by its name.
    """
    # One setting a line, parted by tabs: name, context, group, type, default, minimum and so on.
    lines = _output(programs / "postgres", "--describe-config").splitlines()
    return {fields[0]: fields[4] for line in lines if len(fields := line.split("\t")) > 4}


def server_settings(directory: Path, known: Mapping[str, str]) -> str:
    """Write the part of postgresql.conf that a capture needs.

    Args:
        directory: Where the server's socket goes.
        known: The default of each setting that the server knows.

    Returns:
        Lines of postgresql.conf.
    """
    lines = SETTINGS.format(directory=directory)
    if PLUGINS_SETTING in known:
        allowed = [name.strip() for name in known[PLUGINS_SETTING].split(",") if name.strip()]
        lines += f"{PLUGINS_SETTING} = '{', '.join([*allowed, PLUGIN])}'\n"
    return lines


@contextmanager
def running_server(programs: Path, port: int | None = None) -> Iterator[str]:
    """Make a new database cluster, run it, and remove it at the end.

    Without a port only a socket in the cluster's own directory is listened on.

    Args:
        programs: The directory of PostgreSQL's programs.
        port: Port of 127.0.0.1 to listen on too, for clients that know no sockets.

    Yields:
        The connection string.

    Raises:
        SystemExit: The server could not be made or started.
    """
    directory = Path(tempfile.mkdtemp(prefix="capture-"))
    data = directory / "cluster"
    # PostgreSQL refuses to run as root.
    user = ["runuser", "-u", "postgres", "--"] if os.geteuid() == 0 else []
    cluster = ["--pgdata", str(data)]
    initdb = [*user, str(programs / "initdb"), *cluster, "--username=postgres", "--auth=trust"]
    control = [*user, str(programs / "pg_ctl"), *cluster, "--silent", "--wait"]
    try:
        if user:
            shutil.chown(directory, "postgres")
        _run(*initdb, "--encoding=UTF8", "--no-locale", "--no-sync", cwd=directory)
        with (data / "postgresql.conf").open("a") as settings:
            settings.write(server_settings(directory, known_settings(programs)))
            if port:
                settings.write(f"listen_addresses = '127.0.0.1'\nport = {port}\n")
        _run(*control, "start", cwd=directory)
        yield (
            f"host={directory} user=postgres dbname=postgres client_encoding=utf8 "
            f"options='-c timezone=UTC -c datestyle=ISO'{f' port={port}' if port else ''}"
        )
    finally:
        if (data / "postmaster.pid").exists():
            _run(*control, "--mode=fast", "stop", cwd=directory)
        shutil.rmtree(directory)


def _output(*command: str | Path) -> str:
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


def _run(*command: str, cwd: Path) -> None:
    # A file and no pipe: the server inherits it, and would keep a pipe open as long as it lives.
    with tempfile.TemporaryFile() as output:
        code = subprocess.run(command, stdout=output, stderr=output, cwd=cwd).returncode
        if code:
            output.seek(0)
            told = output.read().decode(errors="replace")
            raise SystemExit(f"This failed: {' '.join(command)}\n{told}")
