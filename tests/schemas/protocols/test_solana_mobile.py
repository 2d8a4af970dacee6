"""Solana Mobile: stakes, configurations and pools built by hand."""

from __future__ import annotations

import struct

import pytest

from schemas.protocols import solana_mobile
from schemas.protocols.contract import Account, Held, Kind, Position, Role, Unreadable, World
from schemas.protocols.registry import SLUGS, kind_of
from schemas.protocols.solana_mobile import SKR

WALLET, OTHER, CONFIG, POOL = (bytes([n]) * 32 for n in range(1, 5))
NOW_S = 1_790_000_000
WORLD = World(450_000_000, NOW_S, 1_050)
COOLDOWN_S = 172_800
PRICE = 1_100_000_000


def account(kind: Kind, data: bytes, at: bytes, slot: int = 90) -> Account:
    assert kind_of(at, kind.program, data) is kind
    return Account(at, kind, 1, data, slot)


def u128(number: int) -> bytes:
    return number.to_bytes(16, "little")


def stake(
    shares: int = 1000, leaving: int = 0, since_s: int = NOW_S, owner: bytes = WALLET
) -> Account:
    data = solana_mobile.STAKE.tag + b"\xff" + CONFIG + owner + POOL + u128(shares) + u128(10**9)
    data += u128(5) + struct.pack("<Qq", leaving, since_s)
    return account(solana_mobile.STAKE, data, b"s" * 32)


def config(price: int = PRICE, mint: bytes = SKR) -> Account:
    data = solana_mobile.CONFIG.tag + b"\xff" + bytes(32) + mint + bytes(32)
    data += struct.pack("<QQ", 1, COOLDOWN_S) + u128(10**9) + u128(price) + bytes(40)
    return account(solana_mobile.CONFIG, data, CONFIG, 80)


def pool(
    *,
    commission_bps: int = 0,
    commission: int = 5,
    is_active: bool = True,
    last_price: int = 0,
    of: bytes = CONFIG,
) -> Account:
    data = solana_mobile.POOL.tag + of + bytes(64) + u128(10**9) + u128(commission) + bytes(32)
    data += struct.pack("<HBB", commission_bps, 255, is_active) + u128(last_price)
    return account(solana_mobile.POOL, data, POOL, 70)


def read(*own: Account, others: tuple[Account, ...] = ()) -> list[Position]:
    known = {each.address: each for each in others}
    reading = solana_mobile.read(Held(WALLET, own), WORLD)
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


def test_shares_are_worth_the_price_and_what_leaves_is_beside_them() -> None:
    [position] = read(stake(999, 50), others=(config(), pool()))
    assert lines(position) == [(Role.SUPPLY, SKR, 1098), (Role.PENDING, SKR, 50)]
    [lock] = position.locks
    assert (lock.kind, lock.locked_raw, lock.claimable_raw) == ("cooldown", 50, 0)
    assert lock.ends_ms == (NOW_S + COOLDOWN_S) * 1000
    assert (position.market, position.reference_slot) == (POOL, 70)


def test_after_the_cooldown_it_can_be_withdrawn() -> None:
    [position] = read(stake(0, 50, NOW_S - COOLDOWN_S), others=(config(), pool()))
    assert (position.locks[0].locked_raw, position.locks[0].claimable_raw) == (0, 50)


def test_shares_of_a_guardian_that_left_have_the_price_of_then() -> None:
    [position] = read(stake(), others=(config(), pool(is_active=False, last_price=10**9)))
    assert lines(position) == [(Role.SUPPLY, SKR, 1000)]


@pytest.mark.parametrize("of", [pool(commission_bps=1), pool(commission=6)], ids=["bps", "sum"])
def test_with_a_commission_the_amount_is_not_known(of: Account) -> None:
    [position] = read(stake(), others=(config(), of))
    assert lines(position) == [(Role.SUPPLY, SKR, None)]
    assert any("commission" in each for each in position.unsupported_fields)


def test_without_the_configuration_price_and_cooldown_are_not_known() -> None:
    [position] = read(stake(1000, 50), others=(pool(),))
    assert lines(position) == [(Role.SUPPLY, SKR, None), (Role.PENDING, SKR, 50)]
    assert position.missing == [CONFIG]
    assert [each.ends_ms for each in position.locks] == [None]
    assert len(position.unsupported_fields) == 2


def test_an_empty_stake_and_one_of_another_wallet_are_no_position() -> None:
    assert read(stake(0)) == []
    assert read(stake(owner=OTHER)) == []


@pytest.mark.parametrize(
    ("others", "detail"),
    [
        ((config(mint=OTHER), pool()), "solana_mobile_config: of another token"),
        ((config(), pool(of=OTHER)), "solana_mobile_pool: of another token or configuration"),
        ((config()._replace(address=POOL),), "solana_mobile_pool: solana_mobile_config of 193"),
        ((config(price=1 << 100), pool()), "more than a token has"),
    ],
    ids=["mint", "pool", "kind", "price"],
)
def test_bytes_that_the_program_does_not_write_are_unreadable(
    others: tuple[Account, ...], detail: str
) -> None:
    with pytest.raises(Unreadable, match=detail) as error:
        read(stake(), others=others)
    assert error.value.account == stake().address


def test_the_slug() -> None:
    assert SLUGS["p25"] is solana_mobile.PROTOCOL
