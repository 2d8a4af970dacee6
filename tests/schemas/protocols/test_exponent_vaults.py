"""Shares of Exponent's strategy vaults, and withdrawals; bytes are in the order of the IDL."""

from __future__ import annotations

import struct
from collections.abc import Sequence

import pytest

from schemas.protocols import exponent_vaults
from schemas.protocols.contract import Account, Held, Kind, Position, Unreadable
from schemas.protocols.registry import MINT_PROGRAMS, kind_of, mints_of

WALLET, VAULT, SHARES, TOKEN, REQUEST, OTHER = (bytes([n]) * 32 for n in range(1, 7))


def vec(*elements: bytes) -> bytes:
    return struct.pack("<I", len(elements)) + b"".join(elements)


def u64(value: int) -> bytes:
    return struct.pack("<Q", value)


def account(kind: Kind, address: bytes, body: bytes, slot: int = 50) -> Account:
    data = kind.tag + body
    assert kind_of(address, kind.program, data) is kind
    return Account(address, kind, 1, data, slot)


def entry(prices: int | None, policies: int) -> bytes:
    """Return a token of a vault: its price is simple, or a product of several."""
    price = b"\0" + u64(7) if prices is None else b"\1" + vec(*[u64(7)] * prices)
    return TOKEN + price + OTHER + OTHER + u64(5) + vec(*[u64(3)] * policies)


def vault(*entries: bytes) -> Account:
    body = bytes(32) + OTHER * 2 + vec(*entries) + TOKEN + SHARES + OTHER
    return account(exponent_vaults.VAULT, VAULT, body + bytes(400), 40)


def request(shares: int, fills: Sequence[tuple[bytes, int]] = (), owner: bytes = WALLET) -> Account:
    body = VAULT + owner + u64(1_000) + u64(shares)
    body += vec(*(mint + OTHER + u64(raw) for mint, raw in fills))
    return account(exponent_vaults.REQUEST, REQUEST, body + struct.pack("<II", 1, 2) + bytes(56))


def read(own: Sequence[Account], shares: int, *chain: Account) -> list[Position]:
    there = {each.address: each for each in chain}
    reading = exponent_vaults.read(Held(WALLET, own, {SHARES: shares} if shares else {}))
    try:
        wanted = next(reading)
        for _ in range(8):
            wanted = reading.send({each: there[each] for each in wanted if each in there})
    except StopIteration as end:
        found: list[Position] = end.value
        return found
    raise AssertionError("more than 8 rounds")


def lines(position: Position) -> list[tuple[str, bytes, int | None]]:
    return [(each.role.value, each.mint, each.amount_raw) for each in position.assets]


@pytest.mark.parametrize(
    "entries", [(), (entry(None, 0),), (entry(3, 2), entry(0, 1), entry(None, 4))]
)
def test_a_vault_is_found_by_its_shares_behind_any_tokens(entries: tuple[bytes, ...]) -> None:
    found = vault(*entries)
    assert found.kind.found_by(found.data) == [SHARES]
    assert mints_of(found.kind, found.data) == [SHARES]
    assert exponent_vaults.PROGRAM in MINT_PROGRAMS
    [position] = read([found], 9)
    assert lines(position) == [("supply", SHARES, 9)]
    assert position.stands_for == {SHARES: 9}
    assert position.unsupported_fields


def test_a_vault_whose_bytes_end_early_is_found_by_nothing() -> None:
    whole = vault(entry(2, 2))
    for size in range(8, whole.data.index(SHARES) + 32):
        assert whole.kind.found_by(whole.data[:size]) == []
    many = whole.data[:104] + struct.pack("<I", 1 << 31) + whole.data[108:]
    assert whole.kind.found_by(many) == []


def test_a_withdrawal_is_what_was_filled_and_what_was_not() -> None:
    [found] = read([request(400, [(TOKEN, 30), (OTHER, 0)])], 0, vault(entry(None, 0)))
    assert lines(found) == [("pending", TOKEN, 30), ("pending", SHARES, 400)]
    [lock] = found.locks
    assert (lock.kind, lock.locked_raw, lock.claimable_raw) == ("cooldown", 400, 0)
    assert (found.market, found.reference_slot, found.stands_for) == (VAULT, 40, {})


def test_a_withdrawal_that_is_filled_needs_no_vault() -> None:
    [found] = read([request(0, [(TOKEN, 30)])], 0)
    assert (lines(found), found.missing) == ([("pending", TOKEN, 30)], [])
    assert read([request(0)], 0) == []
    assert read([request(5, owner=OTHER)], 0) == []


def test_a_withdrawal_without_its_vault_says_so() -> None:
    [found] = read([request(400, [(TOKEN, 30)])], 0)
    assert (lines(found), found.missing) == ([("pending", TOKEN, 30)], [VAULT])
    assert found.unsupported_fields


def test_a_withdrawal_whose_bytes_are_wrong_is_unreadable() -> None:
    own = request(400, [(TOKEN, 30)])
    with pytest.raises(Unreadable, match="withdrawal of 100 bytes"):
        read([own._replace(data=own.data[:100])], 0)
    with pytest.raises(Unreadable, match="its vault at 8 is none"):
        read([own], 0, request(1)._replace(address=VAULT))
