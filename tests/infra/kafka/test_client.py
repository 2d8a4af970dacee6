"""Settings become what each client library understands, and what is missing is named."""

import logging
import ssl
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient

from infra.kafka import client
from infra.local.process import free_port
from infra.settings import Settings, SettingsError


def settings(**values: object) -> Settings:
    return Settings(_env_file=None, **values)


def secured(**values: object) -> Settings:
    return settings(
        kafka_bootstrap="kafka-1:9093,kafka-2:9093",
        kafka_security="sasl_ssl",
        kafka_username="tape",
        kafka_password="s3cret",
        **values,
    )


def test_aiokafka_with_sasl_and_tls():
    config = client.aiokafka_consumer(secured())
    assert config["bootstrap_servers"] == ["kafka-1:9093", "kafka-2:9093"]
    assert config["security_protocol"] == "SASL_SSL"
    assert config["sasl_mechanism"] == "SCRAM-SHA-512"
    assert (config["sasl_plain_username"], config["sasl_plain_password"]) == ("tape", "s3cret")
    assert config["ssl_context"].verify_mode == ssl.CERT_REQUIRED
    assert config["ssl_context"].check_hostname


def test_a_password_in_the_clear_is_warned_of_where_it_leaves_this_machine(caplog):
    plain = {
        "kafka_security": "sasl_plaintext",
        "kafka_sasl_mechanism": "PLAIN",
        "kafka_username": "soltape",
        "kafka_password": "s3cret",
    }
    logger, warning = (
        logging.getLogger("aiokafka.conn"),
        "Sending username and password in the clear",
    )
    caplog.set_level(logging.WARNING, logger=logger.name)  # commands raise aiokafka's
    for each in list(logger.filters):  # of a test before, on loopback
        logger.removeFilter(each)
    try:
        client.aiokafka_client(settings(**plain, kafka_bootstrap="kafka-1:9092"))
        logger.warning(warning)
        assert len(caplog.records) == 1
        client.aiokafka_client(settings(**plain, kafka_bootstrap="127.0.0.1:9092"))
        logger.warning(warning)
        logger.warning("something else")
        assert [record.message for record in caplog.records] == [warning, "something else"]
    finally:
        for each in list(logger.filters):
            logger.removeFilter(each)


def test_confluent_accepts_what_we_give_it():
    config = client.confluent_producer(secured())
    assert config["enable.idempotence"] is True
    assert config["sasl.password"] == "s3cret"
    Producer(config)
    # private `_SILENT`: keeps librdkafka's log out of the test's output, as the product does.
    AdminClient(client.confluent_client(settings()) | {"logger": client._SILENT})


@pytest.mark.parametrize("of", [client.aiokafka_client, client.confluent_client])
def test_sasl_without_a_password_names_the_setting(of):
    with pytest.raises(SettingsError, match="needs KAFKA_USERNAME and KAFKA_PASSWORD"):
        of(settings(kafka_security="sasl_plaintext", kafka_username="tape"))


@pytest.mark.parametrize("of", [client.aiokafka_client, client.confluent_client])
def test_a_certificate_that_is_none_names_the_file(of, tmp_path: Path):
    with pytest.raises(SettingsError, match=r"KAFKA_CA_FILE=.*nowhere.pem: No such file"):
        of(secured(kafka_ca_file=tmp_path / "nowhere.pem"))
    broken = tmp_path / "broken.pem"
    broken.write_text("no certificate")
    with pytest.raises(SettingsError, match=r"KAFKA_CA_FILE=.*broken.pem"):
        of(secured(kafka_ca_file=broken))


async def test_no_broker_is_named_with_the_cause():
    port = free_port()
    with pytest.raises(client.KafkaUnreachable, match=f"127.0.0.1:{port} .*refused"):
        await client.metadata(settings(kafka_bootstrap=f"127.0.0.1:{port}"), timeout_s=1.0)
