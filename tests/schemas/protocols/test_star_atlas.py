"""Star Atlas: stakes of ATLAS and the escrow of POLIS, built by hand."""

from __future__ import annotations

import struct

import pytest
from solders.pubkey import Pubkey

from schemas.protocols import star_atlas
from schemas.protocols.contract import Account, Held, Kind, Position, Role, Unreadable, World
from schemas.protocols.registry import SLUGS, kind_of
from schemas.solana.addresses import key, text

OTHER, MINT, FARM = (bytes([n]) * 32 for n in range(2, 5))
# A wallet that a public tool shows with the accounts that its address leads to.
WALLET = key("2yodqKtkdNJXxJv21s5YMVG8bjscaezLVFRfnWra5D77")
PROXY_OF_IT = "73mNZAQ7pqc8USH7LNRujDRpWQ7GLkxhqcyBMLZsiu7B"
ESCROW_OF_IT = "GoNreRSzd1JiV9nbUEpXMwK8V53W2GxGeZHXLHAgS9eJ"
NOW_S = 1_790_000_000
WORLD = World(450_000_000, NOW_S, 1_050)


def account(kind: Kind, data: bytes, at: bytes = b"e" * 32) -> Account:
    assert kind_of(at, kind.program, data) is kind
    return Account(at, kind, 1, data, 90)


def stake(total: int = 500, active: int = 300, earned: int = 7, owner: bytes = WALLET) -> Account:
    data = star_atlas.STAKE.tag + owner + FARM + MINT
    data += struct.pack("<QQQQHqqqqB", total, active, earned, 1, 2, 3, 4, 5, 6, 255)
    return account(star_atlas.STAKE, data)


def polis(owner: bytes | None = None, ends_s: int = NOW_S + 50) -> tuple[Account, Account]:
    proxy = star_atlas.polis_proxy(WALLET)
    data = star_atlas.ESCROW.tag + star_atlas.POLIS_LOCKER + (owner or proxy) + b"\xff" + bytes(32)
    data += struct.pack("<Qqq", 500, NOW_S - 50, ends_s) + WALLET
    terms = star_atlas.LOCKER.tag + bytes(33) + MINT + bytes(8) + bytes(32)
    terms += struct.pack("<BBQQQ", 0, 4, 0, 100, 0)
    return (
        account(star_atlas.ESCROW, data, star_atlas.polis_escrow(proxy)),
        account(star_atlas.LOCKER, terms, star_atlas.POLIS_LOCKER),
    )


def read(*own: Account, others: tuple[Account, ...] = ()) -> list[Position]:
    known = {each.address: each for each in others}
    reading = star_atlas.read(Held(WALLET, own), WORLD)
    try:
        wanted = next(reading)
        for _ in range(8):
            wanted = reading.send({each: known[each] for each in wanted if each in known})
    except StopIteration as end:
        found: list[Position] = end.value
        return found
    raise AssertionError("more than 8 rounds")


def lines(position: Position) -> list[tuple[Role, bytes, int | None]]:
    return [(each.role, each.mint, each.amount_raw) for each in position.assets]


def test_a_stake_is_what_is_active_what_leaves_and_what_it_earned() -> None:
    [position] = read(stake())
    assert lines(position) == [
        (Role.SUPPLY, MINT, 300),
        (Role.PENDING, MINT, 200),
        (Role.REWARD, MINT, 7),
    ]
    assert position.market == FARM
    assert any("rewards" in each for each in position.unsupported_fields)


def test_an_empty_stake_and_one_of_another_wallet_are_no_position() -> None:
    assert read(stake(0, 0, 0)) == []
    assert read(stake(owner=OTHER)) == []


def test_more_active_than_staked_is_unreadable() -> None:
    with pytest.raises(Unreadable, match="active_stake 9 at 112 of total_stake 5") as error:
        read(stake(5, 9))
    assert error.value.account == stake().address


def test_the_wallet_leads_to_its_polis() -> None:
    proxy = star_atlas.polis_proxy(WALLET)
    assert text(proxy) == PROXY_OF_IT
    assert text(star_atlas.polis_escrow(proxy)) == ESCROW_OF_IT
    seeds = [b"Escrow", star_atlas.POLIS_LOCKER, proxy]
    assert bytes(
        Pubkey.find_program_address(seeds, Pubkey(star_atlas.VOTER))[0]
    ) == star_atlas.polis_escrow(proxy)


def test_polis_is_locked_and_votes_for_its_wallet() -> None:
    [position] = read(others=polis())
    assert lines(position) == [(Role.LOCKED, MINT, 500)]
    assert position.voting is not None
    assert (position.voting.power_raw, position.voting.delegate) == (500 * 4 // 2, None)


def test_polis_is_free_after_the_second_in_which_its_lock_ends() -> None:
    """As Tribeca's; what the fork does in that second is not known, so it is not free in it."""
    for ends_s, role in ((NOW_S, Role.LOCKED), (NOW_S - 1, Role.SUPPLY)):
        [position] = read(others=polis(ends_s=ends_s))
        assert lines(position) == [(role, MINT, 500)]


def test_an_escrow_of_another_proxy_is_no_position() -> None:
    assert read(others=polis(OTHER)) == []


def test_the_slug() -> None:
    assert SLUGS["p26"] is star_atlas.PROTOCOL
