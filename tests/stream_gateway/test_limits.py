"""Limits as the settings ask for them."""

import pytest

from infra.settings import Settings, SettingsError
from stream_gateway.limits import Limits


def test_limits_are_the_defaults_where_nothing_is_set():
    assert Limits.of(Settings(_env_file=None)) == Limits()


@pytest.mark.parametrize("idle_s", [5.0, 20.0])
def test_nobody_may_be_idle_before_he_was_sent_a_ping(idle_s):
    with pytest.raises(SettingsError, match="GATEWAY_IDLE_S"):
        Limits.of(Settings(_env_file=None, gateway_ping_s=20.0, gateway_idle_s=idle_s))
