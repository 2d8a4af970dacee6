"""Backups of the embedded ClickHouse, by the engine itself while nothing serves its folder."""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from xml.etree import ElementTree

from infra.clickhouse.embedded import UNFINISHED, require_finished
from infra.clickhouse.engine import Engine, Scope
from infra.clickhouse.errors import QueryError
from infra.local.folder_lock import hold

# The engine writes it last.
_MANIFEST = ".backup"


def write(data: Path, database: str, folder: Path) -> None:
    """Write a backup of a database to a folder that is not there yet.

    It has a name of its own until it is whole. Raises FolderInUse, EngineNotOpened, QueryError,
    OSError.
    """
    if not (data / "metadata" / f"{database}.sql").exists():
        raise FileNotFoundError(errno.ENOENT, f"there is no database {database} in it", str(data))
    if folder.exists():
        raise FileExistsError(errno.EEXIST, "a backup is written to a new folder", str(folder))
    folder.parent.mkdir(parents=True, exist_ok=True)
    part = folder.with_name(f"{folder.name}.part-{os.getpid()}")
    try:
        with _at_rest(data):
            require_finished(data)
            _ask(data, part, f"BACKUP DATABASE {database} TO File({_quoted(part)})")
        _require_whole(part)
    except BaseException:
        shutil.rmtree(part, ignore_errors=True)  # it may be what fills the disk
        raise
    part.rename(folder)


def _require_whole(folder: Path) -> None:
    """Raise OSError unless a backup has every byte that its manifest names.

    The engine says that a backup is made even where the disk is full: its files end early then.
    """
    try:
        files = ElementTree.parse(folder / _MANIFEST).iter("file")  # noqa: S314 - our own
        sizes = {_file(each): int(each.findtext("size", "0")) for each in files}
    except ElementTree.ParseError:
        raise _cut_short(folder / _MANIFEST) from None
    for name, size in sizes.items():
        if size and (folder / name).stat().st_size != size:
            raise _cut_short(folder / name)


def _file(entry: ElementTree.Element) -> str:
    """Return the file that has an entry's bytes: equal ones are there once."""
    return entry.findtext("data_file") or entry.findtext("name") or ""


def _cut_short(file: Path) -> OSError:
    return OSError(errno.ENOSPC, "the backup was cut short, is its disk full?", str(file))


def read(data: Path, database: str, folder: Path) -> None:
    """Bring a database back from a backup; it must not be there.

    The engine makes all tables before it fills them: until the last is full, nothing else opens
    the folder. Raises FolderInUse, QueryError, OSError.
    """
    made, unfinished = data / "metadata" / f"{database}.sql", data / UNFINISHED
    if not (folder / _MANIFEST).exists():
        raise FileNotFoundError(errno.ENOENT, "this is no whole backup", str(folder))
    if made.exists():
        raise FileExistsError(
            errno.EEXIST,
            f"it has a database {database}: move this folder away first",
            str(data),
        )
    with _at_rest(data):
        unfinished.touch()
        try:
            _ask(data, folder, f"RESTORE DATABASE {database} FROM File({_quoted(folder)})")
        except QueryError:
            if not made.exists():
                unfinished.unlink()
            raise
        unfinished.unlink()


@contextmanager
def _at_rest(data: Path) -> Iterator[None]:
    before = os.umask(0o077)  # no other user reads what is written
    try:
        with hold(data / "lock"):
            yield
    finally:
        os.umask(before)


def _ask(data: Path, folder: Path, sql: str) -> None:
    engine = Engine(data, backups=folder)
    try:
        with engine.query(Scope("backup", settings={"max_execution_time": "0"})) as query:
            query.run(sql)
    finally:
        engine.close()


def _quoted(path: Path) -> str:
    escaped = str(path).replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"
