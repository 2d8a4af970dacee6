"""The client of a request, by what trusted proxies say."""

import pytest

from infra.proxies import Proxies, plain

PROXIES = Proxies("10.0.0.0/8,192.0.2.7,2001:db8::/64")


def test_a_port_behind_an_address_is_left_out():
    proxies = Proxies("10.0.0.0/8")
    for named in ("192.0.2.7:5678", "192.0.2.7", "[2001:db8::1]:443", "2001:db8::1"):
        found = proxies.client("10.0.0.1", [named])
        assert found == ("2001:db8::1" if "db8" in named else "192.0.2.7")


def test_without_a_trusted_proxy_the_peer_is_the_client():
    assert Proxies().client("127.0.0.1", ["203.0.113.9"]) == "127.0.0.1"
    assert PROXIES.client("203.0.113.1", ["203.0.113.9"]) == "203.0.113.1"


@pytest.mark.parametrize(
    ("forwarded", "client"),
    [
        ([], "10.0.0.1"),
        (["203.0.113.9"], "203.0.113.9"),
        # What a caller wrote itself is left of what the proxy appended.
        (["127.0.0.1, 203.0.113.9"], "203.0.113.9"),
        (["127.0.0.1", "203.0.113.9"], "203.0.113.9"),
        (["203.0.113.9, 192.0.2.7, 10.1.2.3"], "203.0.113.9"),
        (["198.51.100.1, 203.0.113.9, 10.1.2.3"], "203.0.113.9"),
        (["10.4.4.4"], "10.4.4.4"),
        (["nobody, 10.4.4.4"], "10.4.4.4"),
        (["203.0.113.9, nobody"], "10.0.0.1"),
        ([""], "10.0.0.1"),
        (["2001:db8:1::5"], "2001:db8:1::5"),
    ],
)
def test_behind_trusted_proxies_it_is_the_address_that_the_last_of_them_names(forwarded, client):
    assert PROXIES.client("10.0.0.1", forwarded) == client


def test_an_address_that_is_none_is_trusted_by_nobody():
    assert not PROXIES.trusts("")
    assert not PROXIES.trusts("unix:")
    assert PROXIES.trusts("2001:db8::1")


@pytest.mark.parametrize("networks", ["10.0.0.0/8", "::ffff:10.0.0.0/104"])
def test_a_socket_of_ipv6_trusts_the_same_ipv4_proxies(networks):
    proxies = Proxies(networks)
    for peer in ("10.0.0.1", "::ffff:10.0.0.1", "::ffff:a00:1"):
        assert proxies.trusts(peer)
        assert proxies.client(peer, ["203.0.113.9"]) == "203.0.113.9"
        assert proxies.client(peer, []) == "10.0.0.1"
    assert not proxies.trusts("::ffff:203.0.113.1")
    assert not proxies.trusts("2001:db8::1")
    assert proxies.client("::ffff:203.0.113.1", ["127.0.0.1"]) == "203.0.113.1"


@pytest.mark.parametrize(
    ("named", "client"),
    [
        ("::ffff:203.0.113.9", "203.0.113.9"),
        ("::FFFF:cb00:7109, ::ffff:10.1.2.3", "203.0.113.9"),
        ("fe80::1%eth0", "fe80::1"),
        ("[fe80::1%25eth0]:443", "fe80::1"),
    ],
)
def test_a_named_address_is_ipv4_where_it_can_be_and_has_no_zone(named, client):
    assert PROXIES.client("10.0.0.1", [named]) == client


def test_a_proxy_of_a_zone_is_trusted_and_what_is_no_address_stays():
    assert Proxies("fe80::/10").trusts("fe80::1%eth0")
    assert Proxies("::/0").trusts("2001:db8::1")
    assert Proxies("::/0").trusts("::ffff:10.0.0.1")
    assert not Proxies("2001:db8::/32").trusts("::ffff:10.0.0.1")
    for text in ("", "unix:", "198.51.100.7", "2001:db8::1", "a:b%c"):
        assert plain(text) == text
