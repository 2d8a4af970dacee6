"""Shares of Kamino's vaults and strategies that are staked in the farms that name them."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from schemas.protocols import kamino
from schemas.protocols.contract import Account, Held, Position, Role, World
from schemas.protocols.kamino_parts import farms
from tests.schemas.protocols.kamino_parts.test_vaults_liquidity import (
    MINT_A,
    MINT_B,
    POOL,
    RESERVES,
    SHARES,
    STRATEGY,
    VAULT,
    WALLET,
    WHIRLPOOLS,
    inside,
    pool,
    reserve,
    strategy,
    vault,
)
from tests.support.kamino import NOW_S, SLOT, farm_data, put, user_data

USER, FARM_AT = b"u" * 32, b"f" * 32
NAMES = {VAULT: 7680, STRATEGY: 7616}


def stake(issuer: bytes, *, leaving: int = 0, mint: bytes = SHARES) -> dict[bytes, Account]:
    """Return 10 shares that a wallet has in an issuer's farm, all that is staked there."""
    user, farm = user_data(10, leaving=leaving), farm_data(10, 0, 0)
    user[16:48] = FARM_AT
    farm[72:104] = mint
    farm[NAMES[issuer] : NAMES[issuer] + 32] = issuer
    put(farm, 7424, leaving * 10**18, 16)
    put(farm, 7440, leaving)
    return {
        USER: Account(USER, farms.USER_STATE, 1, bytes(user), 95),
        FARM_AT: Account(FARM_AT, farms.FARM_STATE, 1, bytes(farm), 65),
    }


def read(chain: Mapping[bytes, Account], tokens: Mapping[bytes, int]) -> list[Position]:
    """Return a wallet's positions as the driver reads them: by what names it, or its tokens."""
    finders = {WALLET, *tokens}
    own = [each for each in chain.values() if finders & {*each.kind.found_by(each.data)}]
    reading = kamino.read(Held(WALLET, own, tokens), World(SLOT, NOW_S, 1))
    try:
        wanted = next(reading)
        while True:
            wanted = reading.send({each: chain[each] for each in wanted if each in chain})
    except StopIteration as end:
        found: list[Position] = end.value
        return found


def lines(position: Position) -> list[tuple[Role, bytes, int | None]]:
    return [(each.role, each.mint, each.amount_raw) for each in position.assets]


def test_staked_shares_of_a_vault_are_its_tokens() -> None:
    chain = {VAULT: vault(1000, 100, {}), **stake(VAULT, leaving=3)}
    [found] = read(chain, {})
    assert (found.route, found.market, found.account.address) == ("vaults", VAULT, USER)
    assert lines(found) == [(Role.SUPPLY, MINT_A, 100), (Role.PENDING, MINT_A, 30)]
    assert [(each.kind, each.locked_raw) for each in found.locks] == [("cooldown", 3)]
    assert (found.stands_for, found.missing, found.reference_slot) == ({}, [], 65)
    assert {each.decimals for each in found.assets} == {6}


def test_staked_shares_of_a_vault_name_the_markets_that_it_has_lent_to() -> None:
    lent = reserve(RESERVES[0], 600, 0, 1000)
    lent = lent._replace(data=lent.data[:32] + b"M" * 32 + lent.data[64:])
    chain = {VAULT: vault(1000, 100, {RESERVES[0]: 5}), RESERVES[0]: lent, **stake(VAULT)}
    [found] = read(chain, {})
    assert (found.route, found.open_markets) == ("vaults", [b"M" * 32])


def test_shares_in_the_wallet_and_in_a_farm_count_once_each() -> None:
    chain = {VAULT: vault(1000, 100, {}), **stake(VAULT)}
    held, staked = read(chain, {SHARES: 7})
    assert (held.route, lines(held)) == ("vaults", [(Role.SUPPLY, MINT_A, 70)])
    assert held.stands_for == {SHARES: 7}
    assert (staked.route, lines(staked)) == ("vaults", [(Role.SUPPLY, MINT_A, 100)])
    assert held.account.address != staked.account.address


def test_staked_shares_of_a_strategy_are_its_tokens() -> None:
    chain = {
        STRATEGY: strategy(0, (700, 1100), 100),
        POOL: pool(WHIRLPOOLS, 1 << 64, 0),
        **{each.address: each for each in (inside(WHIRLPOOLS, 0, (-100, 100)),)},
        **stake(STRATEGY),
    }
    [found] = read(chain, {})
    assert (found.route, found.market, found.account.address) == ("liquidity", POOL, USER)
    assert lines(found) == [(Role.SUPPLY, MINT_A, 70), (Role.SUPPLY, MINT_B, 110)]
    assert (found.range is not None, found.reference_slot) == (True, 60)


@pytest.mark.parametrize("issuer", [VAULT, STRATEGY])
def test_a_stake_whose_issuer_does_not_exist_stays_a_stake_and_says_so(issuer: bytes) -> None:
    """Anybody can open a farm that names none: that was an error of the wallet for ever."""
    [found] = read(stake(issuer), {})
    assert (found.route, lines(found)) == ("staking", [(Role.SUPPLY, SHARES, 10)])
    assert (found.missing, found.lacking) == ([], [])
    [named] = found.unsupported_fields
    assert "is not known" in named


@pytest.mark.parametrize("issuer", [VAULT, STRATEGY])
def test_a_farm_of_another_token_than_the_shares_of_whom_it_names_is_a_stake(
    issuer: bytes,
) -> None:
    issuers = {VAULT: vault(1000, 100, {}), STRATEGY: strategy(2, (0, 0), 100)}
    for chain in (
        {issuer: issuers[issuer], **stake(issuer, mint=MINT_B)},
        {issuer: stake(issuer)[FARM_AT]._replace(address=issuer), **stake(issuer)},
    ):
        [found] = read(chain, {})
        assert (found.route, found.missing) == ("staking", [])
        assert [amount for *_, amount in lines(found)] == [10]
