"""Brokers that we start refuse settings that they cannot serve."""

import pytest

from infra.kafka import embedded
from infra.settings import Settings, SettingsError


def settings(**values: object) -> Settings:
    return Settings(_env_file=None, **values)


def test_only_this_machine():
    with pytest.raises(SettingsError, match=r"KAFKA_BOOTSTRAP='kafka-1:9092'.* this machine"):
        embedded.process(settings(kafka_bootstrap="kafka-1:9092"))
    with pytest.raises(SettingsError, match="this machine only"):
        embedded.process(settings(kafka_bootstrap="127.0.0.1:9092,127.0.0.1:9093"))


def test_only_plaintext():
    with pytest.raises(SettingsError, match="KAFKA_SECURITY='ssl'"):
        embedded.process(settings(kafka_bootstrap="127.0.0.1:9092", kafka_security="ssl"))


def test_no_subscribers():
    with pytest.raises(SettingsError, match=r"KAFKA_PUBLIC_BOOTSTRAP=.* embedded broker serves"):
        embedded.process(
            settings(kafka_bootstrap="127.0.0.1:9092", kafka_public_bootstrap="127.0.0.1:9094")
        )
