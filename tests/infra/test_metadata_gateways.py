"""Gateways for ipfs:// and ar:// that cannot work are refused before anything starts."""

from __future__ import annotations

from pathlib import Path

import pytest

from infra.settings import Settings, SettingsError, load_own

IPFS, ARWEAVE = "METADATA_IPFS_GATEWAY", "METADATA_ARWEAVE_GATEWAY"
TRUSTED = "METADATA_TRUSTED_ORIGIN"
BOTH = pytest.mark.parametrize("setting", [IPFS, ARWEAVE])


@pytest.fixture(autouse=True)
def _nothing_set(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in Settings.model_fields:
        monkeypatch.delenv(name.upper(), raising=False)
    monkeypatch.chdir(tmp_path)


def refused(**given: str) -> str:
    """Return what is said of settings that are refused."""
    with pytest.raises(SettingsError) as raised:
        load_own(**{name.lower(): value for name, value in given.items()})
    return str(raised.value)


@BOTH
@pytest.mark.parametrize(
    "gateway",
    ["https://gateway.example", "https://gateway.example/", "http://gateway.example:80",
     "https://gateway.example:443/at/a/path", "https://bücher.example", "https://1.1.1.1",
     "http://[2606:4700::1]", "https://gateway.example/raw", ""],
)  # fmt: skip
def test_a_public_gateway_is_accepted(setting: str, gateway: str) -> None:
    assert getattr(load_own(**{setting.lower(): gateway}), setting.lower()) == (gateway or None)


@BOTH
@pytest.mark.parametrize(
    ("gateway", "origin"),
    [("http://127.0.0.1:8080", "http://127.0.0.1:8080"),
     ("http://127.0.0.1", "http://127.0.0.1"), ("http://ipfs", "http://ipfs"),
     ("http://localhost.:8080/x", "http://localhost.:8080"), ("http://[::1]:1", "http://[::1]:1"),
     ("https://Gateway.Example:8443/x", "https://gateway.example:8443"),
     ("http://10.0.0.1:80", "http://10.0.0.1"), ("https://g.example:0", "https://g.example:0")],
)  # fmt: skip
def test_one_of_your_own_must_be_the_trusted_origin(
    setting: str, gateway: str, origin: str
) -> None:
    said = refused(**{setting: gateway})
    assert said.startswith(f"{setting}=")
    assert f"METADATA_TRUSTED_ORIGIN must be the origin: {origin} (" in said
    for other in ("http://127.0.0.1:8081", "https://127.0.0.1:8080", "http://kubo:8080"):
        assert "must be the origin" in refused(**{setting: gateway, TRUSTED: other})
    if not origin.endswith(":0"):
        found = load_own(**{setting.lower(): gateway, TRUSTED.lower(): origin})
        assert getattr(found, setting.lower()) == gateway


@BOTH
@pytest.mark.parametrize(
    "gateway",
    ["https://user:s3cret@gateway.example", "https://gateway.example/?token=s3cret",
     "https://gateway.example?key=s3cret", "https://gateway.example/#s3cret",
     "https://gateway.example/?", "https://gateway.example/a\\s3cret",
     "https://gateway.example/\x00s3cret"],
)  # fmt: skip
def test_nothing_but_an_address_is_expected_and_no_secret_is_shown(
    setting: str, gateway: str
) -> None:
    said = refused(**{setting: gateway, TRUSTED: "https://gateway.example"})
    assert said.startswith(f"{setting}=")
    assert "without credentials, query or fragment" in said
    assert "s3cret" not in said


@pytest.mark.parametrize(
    ("setting", "ending"), [(IPFS, "/ipfs"), (IPFS, "/ipns"), (ARWEAVE, "/tx")]
)
def test_what_is_put_behind_the_address_is_not_in_it(setting: str, ending: str) -> None:
    for slash in ("", "/", "//"):
        said = refused(**{setting: f"https://gateway.example{ending}{slash}"})
        assert said.startswith(f"{setting}=")
        assert f"the same address is expected without {ending} at its end" in said
    kept = f"https://gateway.example{ending}-gateway"
    assert getattr(load_own(**{setting.lower(): kept}), setting.lower()) == kept


@BOTH
def test_names_that_are_none_are_refused(setting: str) -> None:
    for gateway in ("https://ga$te.example", "https://a..example", f"https://{'a' * 64}.example"):
        assert refused(**{setting: gateway}).startswith(f"{setting}=")
    assert "the name of a host" in refused(**{setting: f"https://{'ü' * 63}.example"})


def test_a_wrong_origin_is_the_one_thing_that_is_reported() -> None:
    said = refused(**{TRUSTED: "http://127.0.0.1:8080/x", IPFS: "http://127.0.0.1:8080"})
    assert said.startswith(f"{TRUSTED}=")
    assert IPFS not in said
