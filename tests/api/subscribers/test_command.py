"""`soltape kafka-users` says what is missing before it does anything."""

import pytest
from click.testing import CliRunner

from api.subscribers.command import kafka_users
from api.subscribers.issuing import Credentials
from api.subscribers.properties import text
from api.subscribers.register import KafkaUser, group_prefix, new_user
from infra.settings import Settings, SettingsError

CREATE = ("create", "--account", "acme", "--plan", "business", "--name", "prod")


@pytest.fixture(autouse=True)
def empty_folder(tmp_path, monkeypatch):
    for name in Settings.model_fields:
        monkeypatch.delenv(name.upper(), raising=False)
    monkeypatch.chdir(tmp_path)


def test_without_settings_it_names_them_and_the_broker_that_is_needed():
    said = CliRunner().invoke(kafka_users, CREATE)
    assert said.exit_code == 1
    assert "set KAFKA_ADMIN_USERNAME, KAFKA_ADMIN_PASSWORD, KAFKA_PUBLIC_BOOTSTRAP" in said.output
    assert "the embedded broker serves this machine only" in said.output


def test_only_plans_with_kafka_are_offered():
    said = CliRunner().invoke(kafka_users, [*CREATE[:3], "--plan", "pro", "--name", "x"])
    assert said.exit_code == 2
    assert "'business', 'enterprise'" in said.output


def test_groups_are_the_accounts_and_no_name_begins_with_anothers():
    one, other = group_prefix("acme"), group_prefix("acme2")
    assert one != other
    assert not one.startswith(other)
    assert not new_user("acme").startswith(one)
    assert new_user("acme").startswith(one.removesuffix("."))
    assert new_user("acme") != new_user("acme")


def credentials():
    user = KafkaUser(new_user("acme"), "acme", "business", "prod", 0)
    return Credentials(user, "s3cret")


def test_a_password_is_not_shown_by_accident():
    assert "s3cret" not in repr(credentials())


def test_the_certificate_is_in_the_file_and_a_private_key_never(tmp_path):
    pem = tmp_path / "ca.pem"
    pem.write_text("-----BEGIN CERTIFICATE-----\r\nAAAA\r\n-----END CERTIFICATE-----\n")
    settings = Settings(_env_file=None, kafka_public_bootstrap="k:1", kafka_public_ca_file=pem)
    lines = dict(line.split("=", 1) for line in text(settings, credentials()).splitlines())
    assert lines["ssl.ca.pem"] == (r"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----")
    pem.write_text("-----BEGIN PRIVATE KEY-----")
    with pytest.raises(SettingsError, match="it holds a private key"):
        text(settings, credentials())
    pem.unlink()
    with pytest.raises(SettingsError, match=r"KAFKA_PUBLIC_CA_FILE=.*ca.pem: "):
        text(settings, credentials())
