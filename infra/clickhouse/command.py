"""`soltape clickhouse`: the embedded server, and the shape of the database on any server."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path
from urllib.parse import urlsplit

import click

from infra.clickhouse.embedded import EngineNotOpened, run
from infra.local import tape
from infra.local.folder_lock import FolderInUse
from infra.local.process import PortInUse
from infra.settings import load
from infra.telemetry import configure_logging, host_of


@click.group(invoke_without_command=True)
@click.option(
    "--port",
    type=click.IntRange(1, 65535),
    help="Port on 127.0.0.1.  [default: that of CLICKHOUSE_URL]",
)
@click.option(
    "--data",
    type=click.Path(file_okay=False, path_type=Path),
    help="Where tables are kept.  [default: clickhouse/ in SOLTAPE_DATA]",
)
@click.pass_context
def clickhouse(context: click.Context, port: int | None, data: Path | None) -> None:
    """Run the embedded ClickHouse alone, until Ctrl-C; or bring a database up to date.

    Without a command it is the ClickHouse engine (chDB) behind ClickHouse's HTTP interface, on
    loopback only. Any HTTP client of ClickHouse works:

    \b
      curl 'http://127.0.0.1:8123/ping'
      curl 'http://127.0.0.1:8123/' -d 'SHOW TABLES FROM soltape'
      curl 'http://127.0.0.1:8123/?user=reader' -d 'SELECT version() FORMAT JSON'

    The user `reader` may only read. With CLICKHOUSE_USER and CLICKHOUSE_PASSWORD set it asks the
    writer for them, and the reader for CLICKHOUSE_READER_PASSWORD. Neither reaches outside the
    tables: file(), url(), INTO OUTFILE and the like are refused. Without a database a statement
    works in `scratch`. In production set CLICKHOUSE_URL to a ClickHouse server, 25.11 or newer,
    instead; nothing else changes.
    """
    if context.invoked_subcommand:
        if port or data:
            raise click.UsageError("--port and --data are of the embedded server, not of a command")
        return
    settings = load()
    configure_logging(settings, "clickhouse")
    port = port or urlsplit(settings.clickhouse_url).port or 8123
    try:
        run(settings, data or settings.soltape_data / "clickhouse", port)
    except (EngineNotOpened, FolderInUse, PortInUse, OSError) as error:
        raise click.ClickException(str(error)) from None


@clickhouse.command()
@click.option("--check", is_flag=True, help="Change nothing; status 1 if anything is pending.")
def migrate(check: bool) -> None:
    """Create the tables and views in CLICKHOUSE_DATABASE, or bring them up to date.

    `soltape up` and `soltape agents` do it as they start; it may run at any time and from several
    places at once. On a ClickHouse server it also makes the user CLICKHOUSE_READER_USER, once
    CLICKHOUSE_READER_PASSWORD is set, and limits both users: for that the writer needs the right to
    manage access.
    """
    from infra.clickhouse import migrations
    from infra.clickhouse.client import ClickHouseError, ClickHouseUnavailable, connect
    from infra.clickhouse.client import check as reach
    from infra.clickhouse.reader import create_on_server
    from infra.clickhouse.writer import limit_on_server

    settings = load()
    where = f"{settings.clickhouse_database} at {host_of(settings.clickhouse_url)}"
    try:
        asyncio.run(reach(settings, timeout_s=10))  # says it in plain words if it is not there
        if check:
            if pending := migrations.pending(settings):
                raise click.ClickException(f"{where}: to be applied: {_names(pending)}")
            click.echo(f"{where}: up to date")
            return
        applied = migrations.migrate(settings)
        click.echo(f"{where}: " + (f"applied {_names(applied)}" if applied else "up to date"))
        with connect(settings) as client:
            if create_on_server(client, settings):
                limit_on_server(client, settings)
                click.echo(f"{where}: {settings.clickhouse_reader_user} may read")
    except (migrations.MigrationError, ClickHouseError, ClickHouseUnavailable) as error:
        raise click.ClickException(str(error)) from None


@clickhouse.command()
@click.argument("folder", type=click.Path(path_type=Path))
def backup(folder: Path) -> None:
    """Write a backup of the embedded ClickHouse of this data folder to FOLDER, a new one.

    It has all tables and views of CLICKHOUSE_DATABASE. Neither the embedded ClickHouse nor an agent
    may run meanwhile: then no table lacks rows of slots that a checkpoint of the books has. API
    keys are in Redis: `soltape keys export` beside it.

    A ClickHouse server writes its own: BACKUP DATABASE soltape TO Disk('backups', 'today'), while
    the agents `pnl`, `market` and `store` are stopped.

    \b
    Examples:
      soltape clickhouse backup /backups/2026-11-23
      soltape keys export /backups/2026-11-23-keys.jsonl
    """
    from infra.clickhouse import backups

    _at_rest(backups.write, folder)
    click.echo(f"{folder}: written. API keys are not in it: soltape keys export")


@clickhouse.command()
@click.argument("folder", type=click.Path(exists=True, file_okay=False, path_type=Path))
def restore(folder: Path) -> None:
    """Bring a backup in FOLDER into the embedded ClickHouse of this data folder.

    CLICKHOUSE_DATABASE must not be there, and the embedded ClickHouse not run: move clickhouse/ of
    the data folder away first. Redis is ahead of the backup then: before agents start,
    `soltape rebuild --from-checkpoint` takes it back to the backup's checkpoints.

    Nothing is lost that the log still has: the agents write the rows of later slots again. Slots
    that the log has no longer become gaps, which health and answers name. Names and symbols of
    tokens are asked of the chain again.

    \b
    The whole of it, with everything ended:
      mv .soltape/clickhouse .soltape/clickhouse.lost
      soltape clickhouse restore /backups/2026-11-23
      soltape up --stores                                  in another terminal, until it is done
      soltape rebuild --from-checkpoint
      soltape keys import /backups/2026-11-23-keys.jsonl   where Redis was lost too
    """
    _at_rest(_restore, folder)
    click.echo(
        f"{folder}: restored. Before agents start: soltape rebuild --from-checkpoint, which takes "
        "Redis back to it"
    )


def _restore(data: Path, database: str, folder: Path) -> None:
    from infra.clickhouse import backups

    backups.read(data, database, folder)
    # A local chain would empty what was restored, and so would any after a local one.
    tape.note(data.parent, f"the backup {folder}")


def _at_rest(work: Callable[[Path, str, Path], None], folder: Path) -> None:
    """Do work on the embedded ClickHouse of the data folder, which must not run."""
    from infra.clickhouse.errors import QueryError

    settings = load()
    data = settings.soltape_data / "clickhouse"
    try:
        work(data, settings.clickhouse_database, folder.resolve())
    except (QueryError, FolderInUse, EngineNotOpened, OSError) as error:
        raise click.ClickException(str(error)) from None


def _names(found: Sequence[object]) -> str:
    return ", ".join(map(str, found))
