"""Limits as the settings ask for them."""

import pytest

from infra.settings import Settings, SettingsError
from stream_gateway.limits import Limits


def test_limits_are_the_defaults_where_nothing_is_set():
    assert Limits.of(Settings(_env_file=None)) == Limits()


@pytest.mark.parametrize("idle_s", [5.0, 20.0])
def test_no_client_is_idle_before_it_was_sent_a_ping(idle_s):
    with pytest.raises(SettingsError, match="GATEWAY_IDLE_S"):
        Limits.of(Settings(_env_file=None, gateway_ping_s=20.0, gateway_idle_s=idle_s))


def test_connections_kept_for_keys_are_read_from_the_settings():
    given = Settings(_env_file=None, gateway_reserved=" 0a1b2c3d4e5f:5, ffff00001111:500 ")
    assert Limits.of(given).reserved == {"0a1b2c3d4e5f": 5, "ffff00001111": 500}


@pytest.mark.parametrize(
    "wrong", ["0a1b2c3d4e5f", "0a1b2c3d4e5f:0", ":5", "a:-1", "a:5:b", "a:1999,b:2"]
)
def test_what_cannot_be_kept_is_named(wrong):
    with pytest.raises(SettingsError, match="GATEWAY_RESERVED"):
        Limits.of(Settings(_env_file=None, gateway_reserved=wrong))
