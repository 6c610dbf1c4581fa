"""`python -m cluster up`, `down` and `status`."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from typing import Any

import click
from dbt_common.exceptions import DbtRuntimeError

from cluster import control, processes
from cluster.options import Folder, Options, Problem

ROOT = Path(__file__).resolve().parents[1]
HELP = {
    "master": "Port of the master.",
    "ui": "Port of the master's web page.",
    "connect": "Port of the Spark Connect server.",
    "thrift": "Port of the Thrift server.",
    "metastore": "Port of the metastore's PostgreSQL.",
    "workers": "How many workers run.",
    "connect_memory": "Heap of the Spark Connect server.",
    "thrift_memory": "Heap of the Thrift server.",
    "executor_memory": "Heap of each executor.",
}


@click.group(help=__doc__, context_settings={"auto_envvar_prefix": "CDC_CLUSTER"})
@click.option(
    "--folder",
    type=click.Path(file_okay=False, path_type=Path),
    default=ROOT / ".cluster",
    show_default=True,
    help="Where it keeps tables, metastore, logs and secrets.",
)
@click.pass_context
def main(context: click.Context, folder: Path) -> None:
    context.obj = Folder(folder.resolve())


def _sized(command: Callable[..., None]) -> Callable[..., None]:
    ports = Options().ports()
    for field in reversed(fields(Options)):
        name = field.name.replace("_", "-") + ("-port" if field.name in ports else "")
        variable = "CDC_CLUSTER_" + name.replace("-", "_").upper()
        command = click.option(
            f"--{name}",
            field.name,
            default=field.default,
            envvar=variable,
            show_default=True,
            show_envvar=True,
            help=HELP[field.name],
        )(command)
    return command


@main.command()
@_sized
@click.pass_obj
def up(folder: Folder, /, **given: Any) -> None:
    """Starts the cluster, unless it runs."""
    cluster = _reported(lambda: control.up(folder, Options(**given), click.echo))
    _show(folder, cluster)


@main.command()
@click.pass_obj
def down(folder: Folder) -> None:
    """Stops the cluster. Tables and metastore stay."""
    _reported(lambda: control.down(folder, click.echo))


@main.command()
@click.pass_obj
def status(folder: Folder) -> None:
    """Shows what runs; exit status 3 where not all of it does."""
    cluster = _reported(lambda: control.find(folder))
    if cluster.is_gone:
        click.echo("No cluster runs.")
        sys.exit(3)
    _show(folder, cluster)
    if not cluster.is_whole:
        sys.exit(3)


@main.command()
@click.argument("name")
@click.pass_obj
def restart(folder: Folder, name: str) -> None:
    """Starts a process that has ended again, for instance worker-1."""
    process = _reported(lambda: control.restart(folder, name))
    click.echo(f"{process.name} runs: process {process.pid}.")


def _show(folder: Folder, cluster: control.Cluster) -> None:
    ports = cluster.options.ports()
    for process in cluster.processes:
        port = ports.get(process.name)
        where = f"port {port}" if port else ""
        if not process.runs:
            state = f"ended; the end of {folder.log(process.name)}:\n"
            state += processes.end_of(folder.log(process.name))
        elif port and not processes.listens(port):
            state = "runs, and does not listen"
        else:
            state = "runs"
        click.echo(f"{process.name:<10} {where:<11} process {process.pid:<8} {state}")
    if cluster.is_whole:
        click.echo(f"Master: http://127.0.0.1:{cluster.options.ui}   Logs: {folder.logs}")
        click.echo(f"For dbt: . {folder.environment}   then --target connect or --target thrift")


def _reported(act: Callable[[], Any]) -> Any:
    try:
        return act()
    except Problem as exc:
        click.echo(str(exc), err=True)
    except DbtRuntimeError as exc:  # Java or jars are missing
        click.echo(exc.msg, err=True)
    except KeyboardInterrupt:
        click.echo("Interrupted. What had been started was stopped.", err=True)
    sys.exit(1)


if __name__ == "__main__":
    main(prog_name="python -m cluster")
