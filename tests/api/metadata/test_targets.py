"""Which URIs may be asked, and which addresses are public."""

from __future__ import annotations

from contextlib import suppress
from ipaddress import IPv4Address, IPv6Address, ip_address

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from api.metadata.failures import Failed
from api.metadata.public_addresses import is_public
from api.metadata.targets import Targets
from infra.settings import Settings

CONTENT = "bafkreibm6jg3ux5qumhcn2b3flc3tyu6dmlb4xa7u5bf44yegnrjhc4yeq"
TRANSACTION = "r8vJp1SxbrqUOyD6G4MXoyXbWTPyHqHxkZlOPxrXhNw"
GATEWAYS = Targets(None, "https://ipfs.example", "https://ar.example/")


@pytest.mark.parametrize(
    "address",
    ["0.0.0.0", "10.1.2.3", "100.64.0.1", "100.127.255.255", "127.0.0.1", "127.255.0.1",
     "168.63.129.16", "169.254.169.254", "172.16.0.1", "172.31.255.255", "192.0.0.170",
     "192.168.1.1",
     "198.18.0.1", "224.0.0.251", "239.255.255.250", "240.0.0.1", "255.255.255.255",
     "::", "::1", "::ffff:10.0.0.1", "::ffff:8.8.8.8", "::127.0.0.1", "64:ff9b::7f00:1",
     "64:ff9b:1::a00:1", "100::1", "2001::1", "2001:0:4136:e378:8000:63bf:3fff:fdd2",
     "2001:db8::1", "2002:7f00:1::", "2002:a00:1::1", "fc00::1", "fd00:ec2::254", "fe80::1",
     "fe80::1%eth0", "fec0::1", "ff02::1", "5f00::1", "", "localhost", "127.1", "2606:4700::1%1"],
)  # fmt: skip
def test_what_is_not_public(address):
    assert not is_public(address)


@pytest.mark.parametrize(
    "address", ["1.1.1.1", "8.8.8.8", "100.63.255.255", "100.128.0.1", "172.32.0.1", "11.0.0.1",
                "2606:4700:4700::1111", "2a00:1450:4001:82a::200e"],
)  # fmt: skip
def test_what_is_public(address):
    assert is_public(address)


@given(st.ip_addresses())
def test_nothing_is_public_that_the_library_calls_otherwise(address: IPv4Address | IPv6Address):
    if is_public(str(address)):
        assert ip_address(address).is_global
        assert not address.is_multicast


@pytest.mark.parametrize(
    ("uri", "url"),
    [
        ("https://coins.example/a.json", "https://coins.example/a.json"),
        ("HTTP://Coins.Example", "http://coins.example/"),
        ("https://coins.example:443/ä b?c=ü#d".replace(" ", ""),
         "https://coins.example/%C3%A4b?c=%C3%BC"),
        ("https://bücher.example/1", "https://xn--bcher-kva.example/1"),
        ("http://[2606:4700::1]/", "http://[2606:4700::1]/"),
        (f"ipfs://{CONTENT}", f"https://ipfs.example/ipfs/{CONTENT}"),
        (f"ipfs://ipfs/{CONTENT}/1.json", f"https://ipfs.example/ipfs/{CONTENT}/1.json"),
        (f"ar://{TRANSACTION}", f"https://ar.example/{TRANSACTION}"),
    ],
)  # fmt: skip
def test_where_a_uri_leads(uri, url):
    assert GATEWAYS.of(uri).url == url


@pytest.mark.parametrize(
    "uri",
    ["", "coins.example", "file:///etc/passwd", "ftp://coins.example/", "data:text/plain,x",
     "javascript:alert(1)", "gopher://coins.example/", "http://", "http:///a", "http:coins.example",
     "http://user@coins.example/", "http://user:pw@coins.example/", "http://@coins.example/",
     "http://coins.example:22/", "http://coins.example:8080/", "http://coins.example:0/",
     "http://coins.example:99999/", "https://coins.example:80a/", "http://coins.example\\@x/",
     "http://coins\t.example/", "http://coins.example/a\r\nx: y", "http://co ins.example/",
     "http://[::1%25eth0]/", "http://[coins.example]/", "http://coins.example%2f@x/",
     "http://coi%6es.example/", "http://" + "a" * 64 + ".example/", "http://.example/",
     "ipfs://../../admin", f"ipfs://{CONTENT}/../../admin", f"ipfs://{CONTENT}/%2e%2e/x",
     "http://coins.example/\ud800", "http://localhost/", "http://kafka/", "http://2130706433/",
     "http://" + "\u00fc" * 300 + ".example/", "ipfs://short", f"ar://{TRANSACTION}x", "ar://../../../../../../../../../../../../admin/",
     "http://coins.example/" + "a" * 2_048],
)  # fmt: skip
def test_what_is_refused(uri):
    with pytest.raises(Failed) as caught:
        GATEWAYS.of(uri)
    assert caught.value.reason == "refused"


@pytest.mark.parametrize(
    ("uri", "setting"),
    [(f"ipfs://{CONTENT}", "METADATA_IPFS_GATEWAY"), (f"ar://{TRANSACTION}", "METADATA_ARWEAVE")],
)
def test_without_a_gateway_the_setting_is_named(uri, setting):
    with pytest.raises(Failed, match=setting):
        Targets().of(uri)


ORIGINS = st.sampled_from(
    ["http://127.0.0.1:8080", "http://kubo", "https://own.example:8443", "http://[::1]:8080"]
)
GATEWAY_TEXTS = st.one_of(
    ORIGINS,
    st.builds(
        "{}{}{}{}".format,
        st.sampled_from(["http://", "HTTPS://", "https://user@", "ftp://"]),
        st.sampled_from(
            [
                "gw.example",
                "GW.Example.",
                "bücher.example",
                "ipfs",
                "a..b",
                "g$.example",
                "10.0.0.1",
                "1.1.1.1",
                "own.example",
                "[::1]",
                "[2606:4700::1]",
                "localhost.",
            ]
        )
        | st.text(max_size=5),
        st.sampled_from(["", ":80", ":443", ":0", ":8443", ":x"]),
        st.sampled_from(
            ["", "/", "/?", "/ipfs", "/ipfs/", "/a b", "/at/a/path", "/tx", "/#", "/é", "/\\x"]
        ),
    ),
)


@given(GATEWAY_TEXTS, st.none() | ORIGINS)
def test_through_every_gateway_that_settings_accept_contents_are_asked(gateway, trusted):
    given = {"_env_file": None, "metadata_trusted_origin": trusted}
    with suppress(ValidationError):
        accepted = Settings(**given, metadata_ipfs_gateway=gateway).metadata_ipfs_gateway
        path = Targets(trusted, accepted).of(f"ipfs://{CONTENT}").path
        assert path.endswith(f"/ipfs/{CONTENT}")
        assert "/ipfs/ipfs/" not in path
    with suppress(ValidationError):
        accepted = Settings(**given, metadata_arweave_gateway=gateway).metadata_arweave_gateway
        path = Targets(trusted, None, accepted).of(f"ar://{TRANSACTION}").path
        assert path.endswith(f"/{TRANSACTION}")


@given(st.text(max_size=80))
def test_any_text_is_a_target_or_refused(text):
    for uri in (text, f"http://{text}", f"https://coins.example/{text}", f"ipfs://{text}"):
        with suppress(Failed):
            target = GATEWAYS.of(uri)
            assert target.url.isascii()
            assert target.url.isprintable()
            assert GATEWAYS.of(target.url) == target
