"""Which names a server answers to."""

import pytest

from infra.hosts import Hosts


@pytest.mark.parametrize(
    "host", ["127.0.0.1", "127.0.0.1:8000", "localhost:1", "LocalHost", "[::1]:8000", "[::1]"]
)
def test_on_loopback_this_machine_s_names_are_ours(host):
    assert Hosts("127.0.0.1").accepts(host)
    assert Hosts("127.0.0.1", "api.example.com").accepts(host)


@pytest.mark.parametrize(
    "host",
    [
        *("evil.example", "evil.example:8000", "127.0.0.1.evil.example", "localhost.evil.example"),
        *("evil.example@127.0.0.1.evil", "evil/127.0.0.1", "", ":8000", "[::1", "[127.0.0.1]"),
        *("127.0.0.1, evil.example", "evil.example#localhost", "2130706433"),
    ],
)
def test_others_are_not(host):
    assert not Hosts("127.0.0.1").accepts(host)
    assert not Hosts("0.0.0.0", "api.example.com").accepts(host)


@pytest.mark.parametrize("address", ["127.0.0.1", "127.0.0.2", "0:0:0:0:0:0:0:1", "localhost"])
def test_every_address_of_loopback_is_guarded(address):
    assert not Hosts(address).accepts("evil.example")
    assert Hosts(address).accepts("localhost:8000")
    assert Hosts(address).accepts(f"[{address}]:8000" if ":" in address else address)


def test_a_balancer_may_ask_by_address_where_others_reach_us():
    guarded = Hosts("0.0.0.0", "api.example.com")
    assert guarded.accepts("10.1.2.3:8000")
    assert guarded.accepts("[fd00::7]:8000")
    for other in ("10.1.2.3:8000", "0.0.0.0:8000"):
        assert not Hosts("127.0.0.1", "api.example.com").accepts(other)


def test_names_of_the_user_s_are_ours_and_without_them_any_where_others_reach_us():
    assert Hosts("127.0.0.1", "api.example.com,ws.example.com").accepts("WS.example.com:443")
    assert Hosts("0.0.0.0").accepts("whatever.example")
    assert Hosts("192.0.2.7", "api.example.com").accepts("192.0.2.7:8000")
