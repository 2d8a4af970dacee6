"""Brokers that we start refuse settings that they cannot serve."""

import pytest

from infra.kafka import embedded, tansu
from infra.settings import Settings, SettingsError


def settings(**values: object) -> Settings:
    return Settings(_env_file=None, **values)


@pytest.mark.parametrize("kind", [embedded, tansu])
def test_only_this_machine(kind):
    with pytest.raises(SettingsError, match=r"KAFKA_BOOTSTRAP='kafka-1:9092'.* this machine"):
        kind.process(settings(kafka_bootstrap="kafka-1:9092"))
    with pytest.raises(SettingsError, match="this machine only"):
        kind.process(settings(kafka_bootstrap="127.0.0.1:9092,127.0.0.1:9093"))


@pytest.mark.parametrize("kind", [embedded, tansu])
def test_only_plaintext(kind):
    with pytest.raises(SettingsError, match="KAFKA_SECURITY='ssl'"):
        kind.process(settings(kafka_bootstrap="127.0.0.1:9092", kafka_security="ssl"))
