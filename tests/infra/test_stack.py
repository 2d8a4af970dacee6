"""What `soltape up` decides to start, and where."""

import os
import socket

import pytest

from infra import folder_lock, stack
from infra.process import PortInUse, free_port
from infra.settings import Settings, SettingsError, load_own
from infra.stack import Wishes, plan


@pytest.fixture(autouse=True)
def empty_folder(tmp_path, monkeypatch):
    for name in Settings.model_fields:
        monkeypatch.delenv(name.upper(), raising=False)
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def taken():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        yield listener.getsockname()[1]


def names(planned):
    return [part.process.name for part in planned.parts]


def after(planned, name):
    return next(part.after for part in planned.parts if part.process.name == name)


def test_everything_is_started_here_by_default():
    planned = plan(load_own(), Wishes())
    assert names(planned) == ["kafka", "clickhouse", "redis", "chain", "ingest", "agents", "books"]
    assert after(planned, "ingest") == ("kafka", "chain")
    assert planned.elsewhere == {}
    environment = planned.environment()
    assert environment["KAFKA_BOOTSTRAP"].startswith("127.0.0.1:")
    assert environment["RPC_ENDPOINT"].startswith("http://127.0.0.1:")
    assert planned.published() == environment


def test_what_the_user_has_set_is_used_and_shown_without_credentials(monkeypatch):
    monkeypatch.setenv("KAFKA_BOOTSTRAP", "kafka-1:9092,kafka-2:9092")
    monkeypatch.setenv("CLICKHOUSE_URL", "https://clickhouse.example.com:8443")
    monkeypatch.setenv("REDIS_URL", "rediss://me:s3cret@redis.example.com:6380/1")
    monkeypatch.setenv("GEYSER_ENDPOINT", "https://yellowstone.example.com")
    monkeypatch.setenv("RPC_ENDPOINT", "https://rpc.example.com/s3cret")
    planned = plan(load_own(), Wishes())
    assert names(planned) == ["ingest", "agents", "books"]
    assert after(planned, "ingest") == ()
    assert planned.elsewhere == {
        "kafka": "kafka-1:9092,kafka-2:9092",
        "clickhouse": "https://clickhouse.example.com:8443",
        "redis": "rediss://redis.example.com:6380",
        "chain": "https://yellowstone.example.com",
    }
    assert "s3cret" not in str(planned.published())
    assert planned.published()["KAFKA_BOOTSTRAP"] == "kafka-1:9092,kafka-2:9092"
    assert planned.environment()["REDIS_URL"] == "rediss://me:s3cret@redis.example.com:6380/1"


def test_a_default_port_that_is_taken_is_replaced_and_told(monkeypatch, taken):
    monkeypatch.setattr(stack, "CLICKHOUSE_PORT", taken)
    planned = plan(load_own(), Wishes())
    address = planned.environment()["CLICKHOUSE_URL"]
    assert not address.endswith(f":{taken}")
    assert any(
        f"port {taken} is in use" in note and "CLICKHOUSE_URL" in note for note in planned.notes
    )


def test_a_port_that_the_user_set_and_that_is_taken_is_an_error(monkeypatch, taken):
    monkeypatch.setenv("METRICS_PORT_INGEST", str(taken))
    with pytest.raises(PortInUse, match=rf"port {taken} .*METRICS_PORT_INGEST"):
        plan(load_own(), Wishes())


def test_a_broker_asked_for_listens_where_the_setting_says(monkeypatch):
    port = free_port()
    monkeypatch.setenv("KAFKA_BOOTSTRAP", f"127.0.0.1:{port}")
    planned = plan(load_own(), Wishes(broker="embedded"))
    assert "kafka" in names(planned)
    assert planned.environment()["KAFKA_BOOTSTRAP"] == f"127.0.0.1:{port}"


def test_a_chain_asked_for_replaces_an_endpoint_elsewhere_and_says_so(monkeypatch):
    monkeypatch.setenv("GEYSER_ENDPOINT", "https://yellowstone.example.com")
    planned = plan(load_own(), Wishes(chain="simulated"))
    assert "chain" in names(planned)
    assert "yellowstone" not in planned.environment()["GEYSER_ENDPOINT"]
    assert "chain is started here: GEYSER_ENDPOINT is not used" in planned.notes


def test_secured_kafka_cannot_be_embedded(monkeypatch):
    monkeypatch.setenv("KAFKA_SECURITY", "sasl_ssl")
    with pytest.raises(SettingsError, match="KAFKA_SECURITY='sasl_ssl'"):
        plan(load_own(), Wishes())


def test_only_tansu_forgets():
    assert not any(part.forgets for part in plan(load_own(), Wishes()).parts)
    planned = plan(load_own(), Wishes(broker="tansu"))
    assert [part.process.name for part in planned.parts if part.forgets] == ["kafka"]
    assert {part.process.name for part in planned.parts if part.restart_with} == {
        "ingest",
        "agents",
        "books",
    }


def test_a_local_chain_begins_a_new_tape_and_another_one_continues_its_own(monkeypatch):
    data = load_own().soltape_data
    kept = [data / system / "kept" for system in ("kafka", "clickhouse", "redis")]
    for file in kept:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("of the last start")
    monkeypatch.setenv("GEYSER_ENDPOINT", "https://yellowstone.example:443")
    plan(load_own(), Wishes())
    assert all(file.exists() for file in kept)
    plan(load_own(), Wishes(chain="simulated"))
    assert not any(file.exists() for file in kept)


@pytest.mark.parametrize("system", ["kafka", "clickhouse"])
def test_a_folder_that_a_process_works_in_is_not_emptied(system):
    data = load_own().soltape_data
    with (
        folder_lock.hold(data / system / "lock"),
        pytest.raises(folder_lock.FolderInUse, match=f"process {os.getpid()}"),
    ):
        plan(load_own(), Wishes())
