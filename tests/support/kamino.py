"""Kamino's loans and farms as bytes of accounts, and what is read of them."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Final

from schemas.protocols import kamino
from schemas.protocols.contract import Account, Held, Kind, Position, Unreadable, World
from schemas.protocols.kamino_parts import farms, lending
from schemas.protocols.kamino_parts.reserve import RESERVE
from schemas.protocols.token import TOKEN

WALLET, OTHER, FARM, MINT, SHARE, PAYS = (bytes([n]) * 32 for n in range(1, 7))
WAD: Final = 10**18
SLOT: Final = 1_000
NOW_S: Final = 1_800_000_000


def put(data: bytearray, at: int, value: int, size: int = 8) -> None:
    """Write a number, little endian, into an account's bytes."""
    data[at : at + size] = value.to_bytes(size, "little")


def reserve_data(supply: int, shares: int, debt: int = 0, slot: int = SLOT) -> bytes:
    """Return a reserve of `supply` tokens, `debt` of them lent, that owes `shares` share tokens."""
    data = bytearray(RESERVE.size or 0)
    data[:8] = RESERVE.tag
    put(data, 16, slot)
    data[128:160] = MINT
    put(data, 224, supply - debt)
    put(data, 232, debt << 60, 16)
    put(data, 248, 2 << 60, 16)
    put(data, 272, 6)
    put(data, 296, 1 << 60)
    data[2560:2592] = SHARE
    put(data, 2592, shares)
    data[4872], data[4873] = 70, 80
    put(data, 5008, 125)
    for number in range(11):
        put(data, 4920 + 8 * number, number * 1000, 4)
        put(data, 4924 + 8 * number, number * 500, 4)
    return bytes(data)


def obligation_data(deposit: int, debt: int, group: int = 0) -> bytes:
    """Return a wallet's loan: `deposit` share tokens, and `debt` units of a reserve."""
    data = bytearray(lending.OBLIGATION.size or 0)
    data[:8] = lending.OBLIGATION.tag
    data[64:96] = WALLET
    data[96:128] = OTHER
    put(data, 128, deposit)
    data[1208:1240] = OTHER
    put(data, 1240, 1 << 60)
    put(data, 1296, debt << 60, 16)
    data[2285] = group
    return bytes(data)


def user_data(active: int, unclaimed: int = 0, leaving: int = 0) -> bytearray:
    """Return a wallet's stake in a farm: `active`, and `leaving` that cools down for a minute."""
    data = bytearray(farms.USER_STATE.size or 0)
    data[:8] = farms.USER_STATE.tag
    data[16:48], data[48:80] = FARM, WALLET
    put(data, 248, unclaimed)
    put(data, 408, active * WAD, 16)
    put(data, 448, leaving * WAD, 16)
    put(data, 464, NOW_S + 60)
    put(data, 512, NOW_S - 10)
    return data


def farm_data(staked: int, rate: int, available: int) -> bytearray:
    """Return a farm of `staked` tokens that pays `rate` a second out of `available`."""
    data = bytearray(farms.FARM_STATE.size or 0)
    data[:8] = farms.FARM_STATE.tag
    data[72:104] = MINT
    put(data, 104, 6)
    data[192:224] = SHARE
    put(data, 192 + 32, 9)
    data[192 + 120 : 192 + 152] = PAYS
    put(data, 192 + 152, available)
    put(data, 192 + 160, 1)
    put(data, 192 + 168, rate)
    for number in range(1, 20):
        put(data, 192 + 160 + 16 * number, 2**64 - 1)
    put(data, 192 + 488, NOW_S - 100)
    put(data, 7232, 1)
    put(data, 7248, staked)
    put(data, 7408, staked * WAD, 16)
    put(data, 7424, staked * WAD, 16)
    put(data, 7440, staked)
    put(data, 7568, 2**64 - 1)
    return data


def account(address: bytes, kind: Kind, data: bytes) -> Account:
    """Return an account of slot 7."""
    return Account(address, kind, 1, bytes(data), 7)


def holding(amount: int, mint: bytes = SHARE, address: bytes = PAYS) -> Account:
    """Return a token account with an amount: the vault that pays a farm's reward, unless named."""
    data = bytearray(165)
    data[:64] = mint + OTHER
    put(data, 64, amount)
    data[108] = 1
    return account(address, TOKEN, data)


def loan(data: bytes, reserve: bytes) -> dict[bytes, Account]:
    """Return a loan and its reserve by address."""
    return {
        FARM: account(FARM, lending.OBLIGATION, data),
        OTHER: account(OTHER, RESERVE, reserve),
    }


def staked(user: bytes, farm: bytes) -> dict[bytes, Account]:
    """Return a stake, its farm and the vault of its reward by address."""
    return {
        OTHER: account(OTHER, farms.USER_STATE, user),
        FARM: account(FARM, farms.FARM_STATE, farm),
        PAYS: holding(10**12),
    }


def in_market(data: bytes, market: bytes) -> bytes:
    """Return a loan or a reserve of another lending market."""
    return data[:32] + market + data[64:]


def read(
    wallet: bytes,
    accounts: Mapping[bytes, Account],
    *,
    slot: int = SLOT,
    time_s: int = NOW_S,
    tokens: Mapping[bytes, int] | None = None,
) -> list[Position]:
    """Return a wallet's positions as the driver reads them: of accounts that name it, or tokens."""
    own = [
        each
        for each in accounts.values()
        if {wallet, *(tokens or {})} & {*each.kind.found_by(each.data)}
    ]
    reading = kamino.read(Held(wallet, own, tokens or {}), World(slot, time_s, 1))
    try:
        wanted = next(reading)
        for _ in range(8):
            wanted = reading.send({each: accounts[each] for each in wanted if each in accounts})
    except StopIteration as end:
        return list(end.value)
    raise AssertionError("more rounds than the driver allows")


def unless_unreadable(
    wallet: bytes,
    accounts: Mapping[bytes, Account],
    tokens: Mapping[bytes, int],
    *,
    slot: int = SLOT,
    time_s: int = NOW_S,
) -> list[Position]:
    """Return a wallet's positions, none where an account is unreadable."""
    with suppress(Unreadable):
        return read(wallet, accounts, slot=slot, time_s=time_s, tokens=tokens)
    return []
