"""Settings as the user gives them: by environment, by .env, or beside a running stack."""

import re
from pathlib import Path

import pytest
from dotenv import dotenv_values

from infra.local import running
from infra.settings import Settings, SettingsError, load, load_own

EXAMPLE = Path(__file__).parents[2] / ".env.example"


@pytest.fixture(autouse=True)
def empty_folder(tmp_path, monkeypatch):
    for name in Settings.model_fields:
        monkeypatch.delenv(name.upper(), raising=False)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    ("name", "value", "accepted"),
    [
        ("METRICS_PORT_INGEST", "70000", "65535"),
        ("LOG_LEVEL", "loud", "'debug', 'info', 'warning' or 'error'"),
        ("KAFKA_BOOTSTRAP", "broker", "host:port"),
        ("GEYSER_ENDPOINT", "grpc.example.com", "https:// means TLS"),
        ("KAFKA_SESSION_TIMEOUT_S", "soon", "number"),
        ("CLICKHOUSE_DATABASE", "a-b", "A-Za-z"),
        ("KAFKA_BOOTSTRAP", "a:1,b:99999", "from 1 to 65535"),
        ("API_CORS_ORIGINS", "https://a.example/", "nothing behind it"),
        ("API_CORS_ORIGINS", "a.example", "scheme://host"),
        ("KAFKA_BOOTSTRAP", "kafka://a:1", "host:port"),
        ("GEYSER_ENDPOINT", "http://a:b", "from 1 to 65535"),
        ("CLICKHOUSE_URL", "clickhouse://a:9000", "http:// or https://"),
        ("REDIS_URL", "redis://", "redis:// or rediss://"),
        ("GATEWAY_URL", "https://a:1", "ws:// or wss://"),
        ("API_HOST", "127.0.0..1", "an address or a name of this machine"),
        ("METRICS_HOST", ".example.com", "an address or a name of this machine"),
        ("GATEWAY_HOST", "a" * 64, "an address or a name of this machine"),
        ("KAFKA_BOOTSTRAP", "127.0.0..1:9092", "host:port"),
        ("REDIS_URL", "redis://127.0.0..1:6379", "redis:// or rediss://"),
    ],
)
def test_a_wrong_value_names_variable_value_and_what_is_accepted(
    monkeypatch, name, value, accepted
):
    monkeypatch.setenv(name, value)
    with pytest.raises(SettingsError) as raised:
        load()
    assert f"{name}={value!r}" in str(raised.value)
    assert accepted in str(raised.value)


@pytest.mark.parametrize("host", ["::1", "0.0.0.0", "localhost", "host.example.", "bücher.example"])
def test_hosts(monkeypatch, host):
    monkeypatch.setenv("API_HOST", host)
    assert load().api_host == host


def test_a_cluster_has_one_database(monkeypatch):
    monkeypatch.setenv("REDIS_URL", "redis+cluster://a:6379/1")
    with pytest.raises(SettingsError, match="a cluster has one database"):
        load()
    monkeypatch.setenv("REDIS_URL", "rediss+cluster://a:6379")
    assert load().redis_url == "rediss+cluster://a:6379"


def test_every_wrong_value_is_reported_at_once(monkeypatch):
    monkeypatch.setenv("KAFKA_REPLICATION", "0")
    monkeypatch.setenv("LOG_FORMAT", "xml")
    with pytest.raises(SettingsError) as raised:
        load()
    assert len(str(raised.value).splitlines()) == 2


def test_secrets_show_neither_in_repr_nor_in_errors(monkeypatch):
    monkeypatch.setenv("GEYSER_X_TOKEN", "s3cret")
    monkeypatch.setenv("KAFKA_PASSWORD", "s3cret")
    monkeypatch.setenv("LOG_LEVEL", "loud")
    with pytest.raises(SettingsError) as raised:
        load()
    assert "s3cret" not in str(raised.value)
    monkeypatch.delenv("LOG_LEVEL")
    settings = load()
    assert "s3cret" not in repr(settings)
    assert settings.geyser_x_token is not None
    assert settings.geyser_x_token.get_secret_value() == "s3cret"


def test_credentials_in_an_address_show_not_in_errors(monkeypatch):
    monkeypatch.setenv("REDIS_URL", "http://me:s3cret@redis.example.com")
    monkeypatch.setenv("RPC_ENDPOINT", "ws://rpc.example.com/?api-key=s3cret")
    with pytest.raises(SettingsError) as raised:
        load()
    assert "s3cret" not in str(raised.value)
    assert "redis.example.com" in str(raised.value)
    assert "rpc.example.com" in str(raised.value)


def test_a_token_that_grpc_cannot_send_is_refused_and_not_shown(monkeypatch):
    for token in ("s3cret\n", "s3cr\u00e9t"):
        monkeypatch.setenv("GEYSER_X_TOKEN", token)
        with pytest.raises(SettingsError) as raised:
            load()
        assert "GEYSER_X_TOKEN=(hidden): ASCII without line breaks" in str(raised.value)
        assert "s3cr" not in str(raised.value)


def test_a_database_of_redis_is_a_number(monkeypatch):
    for url in ("redis://a:1", "redis://a:1/", "rediss://a:1/3", "unix:///run/redis.sock"):
        monkeypatch.setenv("REDIS_URL", url)
        assert load().redis_url == url
    monkeypatch.setenv("REDIS_URL", "redis://a:1/tape")  # the client would take database 0
    with pytest.raises(SettingsError, match=r"REDIS_URL='redis://a:1/.*number of a database"):
        load()


@pytest.mark.parametrize(
    ("name", "value", "shown"),
    [
        ("GEYSER_ENDPOINT", "https://provider.example/s3cret", "https://provider.example/(hidden)"),
        ("RPC_ENDPOINT", "htps://provider.example?api-key=s3cret", "htps://provider.example/(hid"),
        ("REDIS_URL", "redis://me:s3/cret@host:port/0", "redis://host:port/(hidden)"),
    ],
)
def test_a_wrong_address_does_not_show_its_key(monkeypatch, name, value, shown):
    monkeypatch.setenv(name, value)
    with pytest.raises(SettingsError) as raised:
        load()
    assert f"{name}='{shown}" in str(raised.value)
    assert "cret" not in str(raised.value).replace("X_TOKEN", "")


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("GEYSER_ENDPOINT", "https://provider.example/"),
        ("RPC_ENDPOINT", "https://provider.example/?api-key=1"),
        ("REDIS_URL", "unix:///run/valkey.sock"),
        ("CLICKHOUSE_URL", "http://[::1]:8123"),
        ("KAFKA_BOOTSTRAP", "a:1,[::1]:65535"),
    ],
)
def test_addresses_as_people_write_them_are_accepted(monkeypatch, name, value):
    monkeypatch.setenv(name, value)
    assert getattr(load(), name.lower()) == value


def test_a_dotenv_that_is_no_text_is_named(empty_folder):
    (empty_folder / ".env").write_bytes(b"LOG_LEVEL=\xff\n")
    with pytest.raises(SettingsError, match=r"\.env cannot be read"):
        load()


def test_a_blank_value_is_no_value(monkeypatch):
    monkeypatch.setenv("GEYSER_X_TOKEN", "")
    monkeypatch.setenv("KAFKA_BOOTSTRAP", "")
    settings = load()
    assert settings.geyser_x_token is None
    assert settings.kafka_bootstrap == "127.0.0.1:9092"


def test_environment_then_dotenv_then_running_stack_then_default(empty_folder, monkeypatch):
    data = empty_folder / ".soltape"
    with running.hold(data):
        running.publish(
            data,
            {
                "KAFKA_BOOTSTRAP": "127.0.0.1:1001",
                "REDIS_URL": "redis://127.0.0.1:1002/0",
                "CLICKHOUSE_URL": "http://127.0.0.1:1003",
            },
        )
        (empty_folder / ".env").write_text(
            "KAFKA_BOOTSTRAP=127.0.0.1:2001\nREDIS_URL=redis://127.0.0.1:2002/0\n"
        )
        monkeypatch.setenv("KAFKA_BOOTSTRAP", "127.0.0.1:3001")
        settings = load()
        assert settings.kafka_bootstrap == "127.0.0.1:3001"
        assert settings.redis_url == "redis://127.0.0.1:2002/0"
        assert settings.clickhouse_url == "http://127.0.0.1:1003"
        assert settings.geyser_endpoint == "http://127.0.0.1:10000"
        assert load_own().clickhouse_url == "http://127.0.0.1:8123"
    assert load().clickhouse_url == "http://127.0.0.1:8123"


def test_a_login_of_the_running_stack_goes_to_its_own_systems_alone(empty_folder, monkeypatch):
    data = empty_folder / ".soltape"
    published = {
        "KAFKA_BOOTSTRAP": "127.0.0.1:1001",
        "KAFKA_SECURITY": "sasl_plaintext",
        "KAFKA_PASSWORD": "of-the-folder",
        "CLICKHOUSE_URL": "http://127.0.0.1:1003",
        "CLICKHOUSE_PASSWORD": "of-the-folder",
    }
    with running.hold(data):
        running.publish(data, published)
        for same in ("127.0.0.1:1001", "localhost:1001"):
            monkeypatch.setenv("KAFKA_BOOTSTRAP", same)
            assert load().kafka_security == "sasl_plaintext"
            assert load().kafka_password.get_secret_value() == "of-the-folder"
        monkeypatch.setenv("CLICKHOUSE_URL", "http://localhost:1003/")
        assert load().clickhouse_password.get_secret_value() == "of-the-folder"
        monkeypatch.setenv("CLICKHOUSE_URL", "https://clickhouse.example.com")
        assert load().clickhouse_password is None
        monkeypatch.setenv("KAFKA_BOOTSTRAP", "kafka-1:9092")
        assert load().kafka_security == "plaintext"
        assert load().kafka_password is None


def test_every_setting_is_explained_in_the_example():
    text = EXAMPLE.read_text()
    for name, field in Settings.model_fields.items():
        assert field.description, f"{name} has no description"
        entry = re.search(rf"((?:^#.*\n)+)^# ?{name.upper()}=", text, re.MULTILINE)
        assert entry, f"{name.upper()} is not explained in .env.example"
        assert field.description in " ".join(entry[1].replace("#", " ").split())


def test_the_example_with_everything_set_gives_the_defaults(empty_folder):
    uncommented = re.sub(r"^# ?([A-Z][A-Z0-9_]*=)", r"\1", EXAMPLE.read_text(), flags=re.MULTILINE)
    (empty_folder / ".env").write_text(uncommented)
    values = dotenv_values(empty_folder / ".env")
    assert {name.lower() for name in values} == set(Settings.model_fields)
    settings = load()
    assert settings.model_fields_set >= {n.lower() for n, value in values.items() if value}
    for name, field in Settings.model_fields.items():
        assert getattr(settings, name) == field.default, name


def test_the_example_as_it_is_sets_nothing(empty_folder):
    (empty_folder / ".env").write_text(EXAMPLE.read_text())
    assert load().model_fields_set == set()


@pytest.mark.parametrize("origin", ["http://127.0.0.1:8899", "https://metadata.example.com"])
def test_a_trusted_origin_is_one(monkeypatch, origin):
    monkeypatch.setenv("METADATA_TRUSTED_ORIGIN", origin)
    assert load_own().metadata_trusted_origin == origin


@pytest.mark.parametrize(
    "origin",
    ["127.0.0.1:8899", "http://127.0.0.1:8899/", "http://127.0.0.1/x", "http://a@127.0.0.1", "*",
     "ftp://127.0.0.1", "http://127.0.0.1:8899?x"],
)  # fmt: skip
def test_a_trusted_origin_is_nothing_else(monkeypatch, origin):
    monkeypatch.setenv("METADATA_TRUSTED_ORIGIN", origin)
    with pytest.raises(SettingsError, match="METADATA_TRUSTED_ORIGIN"):
        load_own()
