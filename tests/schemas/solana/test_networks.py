"""Genesis hashes: those of public clusters, of local chains, and what is none."""

import pytest

from schemas.solana.networks import RECORDED, SIMULATED, is_genesis_hash, network_of

MAINNET = "5eykt4UsFv8P8NJdTREpY1vzqKqZKvdpKuc147dw2N9d"


def test_a_genesis_hash_names_its_network_and_any_other_none():
    assert network_of(MAINNET) == "mainnet"
    assert network_of("EtWTRABZaYq6iMfeYKouRu166VU2xqa1wcaWoxPkrZBG") == "devnet"
    assert network_of("4uhcVJyU9pJkvQyS88uRDiswHXSCkY3zQawwpjk2NsNY") == "testnet"
    assert network_of(SIMULATED) == "simulated"
    assert network_of(RECORDED) == "recorded"
    assert network_of("11111111111111111111111111111111") is None
    assert network_of("mainnet") is None


@pytest.mark.parametrize("text", [MAINNET, SIMULATED, RECORDED, "1" * 32])
def test_32_bytes_in_base58_can_be_a_genesis_hash(text):
    assert is_genesis_hash(text)


@pytest.mark.parametrize("text", [None, 7, "", "mainnet", MAINNET[:-4], MAINNET + "d", "0" * 44])
def test_anything_else_can_not(text):
    assert not is_genesis_hash(text)
