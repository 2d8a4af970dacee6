"""`soltape rebuild` and `soltape partitions raise` where ClickHouse does not run."""

import pytest
from click.testing import CliRunner

from infra.cli import cli
from infra.local.process import free_port


@pytest.mark.parametrize("command", [["rebuild"], ["partitions", "raise", "16"]])
def test_a_clickhouse_that_is_away_is_named(command, tmp_path, monkeypatch, caplog):
    monkeypatch.chdir(tmp_path)
    url = f"http://127.0.0.1:{free_port()}"
    monkeypatch.setenv("CLICKHOUSE_URL", url)
    said = CliRunner().invoke(cli, command)
    assert said.exit_code == 1
    assert f"nothing serves ClickHouse at {url}" in said.stderr
    assert "set CLICKHOUSE_URL" in said.stderr
    assert caplog.messages == [], "no words of the client's library"
