"""The local Apache Kafka and that of compose let the same people in, by the same rules."""

import re
from pathlib import Path

import pytest
import yaml

from infra.kafka import apache_access, rights
from infra.settings import Settings, SettingsError

COMPOSE = Path(apache_access.__file__).parents[1] / "compose.yaml"
SERVICES = yaml.safe_load(COMPOSE.read_text())["services"]
HEAP_BYTES = 1 << 30  # of the image, unless KAFKA_HEAP_OPTS says otherwise
MEMORY = ("queued.max.request.bytes", "socket.request.max.bytes")
SHARED = (
    "authorizer.class.name",
    "allow.everyone.if.no.acl.found",
    "listener.name.subscribers.sasl.enabled.mechanisms",
    "listener.name.subscribers.scram-sha-512.sasl.jaas.config",
    "listener.name.subscribers.connections.max.reauth.ms",
    "connections.max.idle.ms",
    "listener.name.subscribers.max.connections",
    "listener.name.subscribers.max.connection.creation.rate",
)


def settings(**values):
    return Settings(
        _env_file=None,
        kafka_security="sasl_plaintext",
        kafka_sasl_mechanism="PLAIN",
        kafka_username="soltape",
        kafka_password="of-the-roles",
        **values,
    )


def operated(**values):
    return settings(
        kafka_admin_username="operator", kafka_admin_password="of-the-operator", **values
    )


def properties(text):
    return dict(line.split("=", 1) for line in text.splitlines())


def composed():
    """Return the broker's settings of compose by the names that Kafka's image gives them."""
    found = {}
    for name, value in SERVICES["kafka"]["environment"].items():
        words = name.removeprefix("KAFKA_").replace("___", "-").replace("_", ".")
        found[words.lower()] = str(value)
    return found


def test_both_brokers_have_one_set_of_rules(tmp_path):
    local = properties(
        apache_access.access(operated(kafka_public_bootstrap="127.0.0.1:9094"), tmp_path)
    )
    there = composed()
    assert {name: there[name] for name in SHARED} == {name: local[name] for name in SHARED}
    assert int(local["listener.name.subscribers.connections.max.reauth.ms"]) <= 25_000
    bounds = {name: int(there[name]) for name in MEMORY}
    assert bounds["queued.max.request.bytes"] + bounds["socket.request.max.bytes"] < HEAP_BYTES
    assert "SUBSCRIBERS:SASL_SSL" in there["listener.security.protocol.map"]
    assert "PLAINTEXT:" not in there["listener.security.protocol.map"].replace("SASL_PLAINTEXT", "")


def test_the_operator_is_the_one_super_user_beside_the_broker(tmp_path):
    local = properties(apache_access.access(operated(), tmp_path))
    assert local["super.users"] == "User:soltape-broker;User:operator"
    assert composed()["super.users"] == "User:soltape-broker;User:soltape-operator"
    alone = properties(apache_access.access(settings(), tmp_path))
    assert alone["super.users"] == "User:soltape-broker;User:soltape"


def test_each_role_of_compose_has_its_own_user_and_no_other_password():
    wanted = {
        **dict.fromkeys(("ingest", "accounts"), "soltape-ingest"),
        **dict.fromkeys(("live", "books"), "soltape-agents"),
        **dict.fromkeys(("kafka-setup", "operator"), "soltape-operator"),
    }
    secrets = re.compile(r"\$\{KAFKA_(\w+)_PASSWORD")
    for name, service in SERVICES.items():
        environment = service.get("environment", {})
        if service.get("image") == "soltape":
            assert environment["KAFKA_USERNAME"] == wanted.get(name, ""), name
            has = {found for value in environment.values() for found in secrets.findall(str(value))}
            own = {"soltape-ingest": "INGEST", "soltape-agents": "AGENTS",
                   "soltape-operator": "ADMIN"}.get(wanted.get(name, ""))  # fmt: skip
            assert has == ({own} if own else set()), name
    users = re.findall(r"user_([a-z-]+)=", composed()["listener.name.roles.plain.sasl.jaas.config"])
    assert {*users} - {"soltape-broker", "soltape-operator"} == {*rights.ROLES} - {"soltape"}


def test_a_password_that_would_end_the_line_is_refused(tmp_path):
    with pytest.raises(SettingsError, match="KAFKA_ADMIN_: no"):
        apache_access.access(
            settings(kafka_admin_username="operator", kafka_admin_password='a"b'), tmp_path
        )


def test_subscribers_of_a_local_broker_are_on_this_machine():
    with pytest.raises(SettingsError, match="KAFKA_PUBLIC_BOOTSTRAP='kafka-1:9094'"):
        apache_access.listeners(settings(kafka_public_bootstrap="kafka-1:9094"), 1)
