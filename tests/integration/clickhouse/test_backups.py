"""What the embedded engine keeps, and its backups, by the commands that an operator runs."""

import os
import resource
import stat
import subprocess
import sys

import clickhouse_connect
import pytest

from infra.local import tape
from tests.integration.clickhouse.conftest import running
from tests.support.systems import bound


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """A data folder whose ClickHouse has ended, with a part larger than a megabyte."""
    folder = tmp_path_factory.mktemp("backups")
    with running(folder / "clickhouse", folder / "log") as embedded:
        client = clickhouse_connect.get_client(**embedded.address)
        client.command("CREATE DATABASE soltape")
        client.command("CREATE TABLE soltape.rows (s String) ENGINE = MergeTree ORDER BY ()")
        client.command(
            "INSERT INTO soltape.rows SELECT randomPrintableASCII(100) FROM numbers(20000)"
        )
        client.close()
    return folder


def soltape(data, *words, most_bytes=resource.RLIM_INFINITY):
    """Run a command, which may write no file larger than `most_bytes`: as on a full disk."""
    return subprocess.run(
        bound([sys.executable, "-m", "infra.cli", "clickhouse", *map(str, words)]),
        env=os.environ | {"SOLTAPE_DATA": str(data)},
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (most_bytes, most_bytes)),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def test_no_other_user_reads_what_the_engine_keeps(data):
    files = [file for file in (data / "clickhouse").rglob("*") if file.is_file()]
    assert any(file.suffix == ".bin" for file in files)
    assert not [file for file in files if stat.S_IMODE(file.stat().st_mode) & 0o077]


def test_a_backup_that_the_disk_has_no_room_for_is_none(data, tmp_path):
    done = soltape(data, "backup", tmp_path / "today", most_bytes=1_000_000)
    assert done.returncode == 1
    assert "the backup was cut short, is its disk full?" in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_what_was_restored_is_no_tape_of_a_local_chain(data, tmp_path):
    done = soltape(data, "backup", tmp_path / "today")
    assert done.returncode == 0, done.stderr
    tape.note(tmp_path, tape.LOCAL)
    done = soltape(tmp_path, "restore", tmp_path / "today")
    assert done.returncode == 0, done.stderr
    assert tape.owner(tmp_path) == f"the backup {tmp_path / 'today'}"
    with running(tmp_path / "clickhouse", tmp_path / "log") as embedded:
        client = clickhouse_connect.get_client(**embedded.address)
        found = client.query("SELECT count(), sum(length(s)) FROM soltape.rows").result_rows
        client.close()
    assert found == [(20_000, 2_000_000)]


def test_nothing_opens_what_was_not_restored_whole(data, tmp_path):
    done = soltape(data, "backup", tmp_path / "today")
    assert done.returncode == 0, done.stderr
    done = soltape(tmp_path, "restore", tmp_path / "today", most_bytes=1_000_000)
    assert done.returncode == 1
    assert "File too large" in done.stderr
    for words in ((), ("backup", tmp_path / "tomorrow"), ("restore", tmp_path / "today")):
        done = soltape(tmp_path, *words)
        assert done.returncode == 1, words
        assert "move this folder away" in done.stderr
