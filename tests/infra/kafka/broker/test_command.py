"""`soltape kafka` where it cannot start: a message, no traceback."""

import os

from click.testing import CliRunner

from infra.kafka.broker.command import kafka
from infra.local import folder_lock
from infra.local.process import free_port


def test_a_second_broker_on_the_same_log_is_refused_with_the_pid_of_the_first(
    tmp_path, monkeypatch
):
    monkeypatch.setenv("SOLTAPE_DATA", str(tmp_path))
    with folder_lock.hold(tmp_path / "kafka" / "lock"):
        result = CliRunner().invoke(kafka, ["--port", str(free_port())])
    assert result.exit_code == 1
    assert f"in use by process {os.getpid()}" in result.output


def test_a_folder_that_cannot_be_made_is_named(tmp_path, monkeypatch):
    (tmp_path / "file").touch()
    monkeypatch.setenv("SOLTAPE_DATA", str(tmp_path / "file"))
    result = CliRunner().invoke(kafka, ["--port", str(free_port())])
    assert result.exit_code == 1
    assert str(tmp_path / "file" / "kafka") in result.output
