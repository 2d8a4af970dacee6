"""The `soltape` command as typed: help, mistakes, and no traceback for any of them."""

import os
import socket
import subprocess
import sys
from pathlib import Path

import click
import pytest

from infra.cli import cli
from infra.local import running

pytestmark = pytest.mark.processes


def soltape(*arguments, cwd, **settings):
    return subprocess.run(
        [sys.executable, "-m", "infra.cli", *arguments],
        cwd=cwd,
        env=os.environ | settings,
        capture_output=True,
        text=True,
        timeout=240,
    )


def test_help_lists_every_command(tmp_path):
    answer = soltape("--help", cwd=tmp_path)
    assert answer.returncode == 0
    for command in ("up", "doctor", "chain", "record", "ingest", "agents", "decode", "tail"):
        assert f"\n  {command} " in answer.stdout


@pytest.mark.parametrize("group", [cli, cli.commands["bench"]], ids=["soltape", "bench"])
def test_the_list_says_what_commands_say_of_themselves(group):
    """It reads sources; click, which imports them all, is the judge."""
    with click.Context(group) as context:
        listed, imported = context.make_formatter(), context.make_formatter()
        group.format_commands(context, listed)
        click.Group.format_commands(group, context, imported)
    assert listed.getvalue() == imported.getvalue()


def test_make_bench_runs_every_bench(tmp_path):
    answer = soltape("bench", "--help", cwd=tmp_path)
    listed = answer.stdout.partition("Commands:\n")[2].splitlines()
    benches = [line.split()[0] for line in listed if line.strip()]
    run = subprocess.run(
        ["make", "-n", "bench"], cwd=Path(__file__).parents[2], capture_output=True, text=True
    )
    assert len(benches) == 16
    assert f"for name in {' '.join(benches)}; do" in run.stdout
    assert "bench $name --quick ||" in run.stdout


def test_a_wrong_setting_is_a_message(tmp_path):
    answer = soltape("doctor", cwd=tmp_path, METRICS_PORT_INGEST="eleven")
    assert answer.returncode == 2
    assert "METRICS_PORT_INGEST='eleven'" in answer.stderr
    assert "Traceback" not in answer.stderr


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--chain", "recorded"], "--chain recorded FILE"),
        (["--chain", "recorded", "no-such-file"], "no-such-file"),
        (["--chain", "simulation"], "simulated, recorded FILE, or a URL"),
        (["--chain", "simulated", "tx.jsonl"], "a recording is played with --chain recorded FILE"),
        (["tx.jsonl"], "a recording is played with --chain recorded FILE"),
        (["--chain", "https://host:443", "--rate", "5"], "--rate and --seed are for a chain"),
        (["--chain", "ftp://host"], "GEYSER_ENDPOINT='ftp://host'"),
        (["--broker", "rabbit"], "KAFKA_BOOTSTRAP='rabbit'"),
        (["--rate", "-1"], "--rate"),
    ],
)
def test_up_refuses_what_it_cannot_run(tmp_path, arguments, said):
    (tmp_path / "tx.jsonl").touch()
    answer = soltape("up", *arguments, cwd=tmp_path)
    assert answer.returncode == 2
    assert said in answer.stderr
    assert "Traceback" not in answer.stderr


def test_a_second_up_is_refused_with_the_pid_of_the_first(tmp_path):
    with running.hold(tmp_path / ".soltape"):
        answer = soltape("up", cwd=tmp_path)
    assert answer.returncode == 1
    assert f"pid {os.getpid()}" in answer.stderr


def test_up_in_a_folder_that_cannot_be_written_names_the_setting(tmp_path):
    (tmp_path / "file").touch()
    answer = soltape("up", cwd=tmp_path, SOLTAPE_DATA="file/data")
    assert answer.returncode == 1
    assert "SOLTAPE_DATA=file/data" in answer.stderr
    assert "Traceback" not in answer.stderr


def test_a_port_the_user_set_and_that_is_taken_is_a_message(tmp_path):
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        port = listener.getsockname()[1]
        answer = soltape("up", cwd=tmp_path, METRICS_PORT_AGENTS=str(port))
    assert answer.returncode == 1
    assert f"port {port}" in answer.stderr
    assert "METRICS_PORT_AGENTS" in answer.stderr
    assert "Traceback" not in answer.stderr


def test_up_without_its_own_kafka_says_that_yours_does_not_answer(tmp_path):
    answer = soltape("up", "--broker", "127.0.0.1:1", cwd=tmp_path)
    assert answer.returncode == 1
    assert "Kafka at 127.0.0.1:1 does not answer" in answer.stderr
    assert "Traceback" not in answer.stderr
