"""Stakes in Kamino's farms and their rewards, which are no more than what their vaults hold."""

from __future__ import annotations

import pytest

from schemas.protocols.contract import Account, Role, Unreadable, issuer_of
from schemas.protocols.kamino_parts import farms
from schemas.protocols.kamino_parts.reserve import RESERVE
from tests.support.kamino import (
    FARM,
    MINT,
    NOW_S,
    OTHER,
    PAYS,
    SHARE,
    WAD,
    WALLET,
    account,
    farm_data,
    holding,
    in_market,
    put,
    read,
    reserve_data,
    staked,
    user_data,
)


def test_a_stake_earns_its_share_until_the_rewards_run_out() -> None:
    for available, earned in ((10**9, 5 + 100 * 8 // 4), (40, 5 + 10), (0, 5)):
        rewards, staking = read(WALLET, staked(user_data(10, 5), farm_data(40, 8, available)))
        assert [(each.mint, each.amount_raw) for each in rewards.assets] == [(SHARE, earned)]
        assert [(each.role, each.amount_raw) for each in staking.assets] == [(Role.SUPPLY, 10)]
        assert (rewards.route, staking.route) == ("rewards", "staking")


def test_a_reward_follows_its_curve_from_point_to_point() -> None:
    farm = farm_data(40, 8, 10**9)
    put(farm, 192 + 176, NOW_S - 30)
    put(farm, 192 + 184, 4)
    rewards, _ = read(WALLET, staked(user_data(10), farm))
    assert rewards.assets[0].amount_raw == (70 * 8 + 30 * 4) // 4


def test_stake_that_may_not_leave_is_locked_and_what_leaves_cools_down() -> None:
    farm = farm_data(40, 0, 0)
    put(farm, 7496, 1)
    put(farm, 7512, 100)
    put(farm, 7424, 20 * WAD, 16)
    put(farm, 7440, 50)  # tokens of pending stake, which are a pool of their own
    [staking] = read(WALLET, staked(user_data(10, leaving=3), farm))
    assert [(each.role, each.amount_raw) for each in staking.assets] == [
        (Role.LOCKED, 10),
        (Role.PENDING, 3 * 50 // 20),
    ]
    term, cooldown = staking.locks
    assert (term.kind, term.locked_raw, term.ends_ms) == ("term", 10, (NOW_S + 90) * 1000)
    assert (cooldown.kind, cooldown.claimable_raw) == ("cooldown", 0)
    assert cooldown.ends_ms == (NOW_S + 60) * 1000


def test_stake_that_warms_up_is_a_share_of_the_pending_tokens() -> None:
    farm, user = farm_data(40, 0, 0), user_data(10)
    put(farm, 7424, 20 * WAD, 16)
    put(farm, 7440, 50)
    put(user, 424, 3 * WAD, 16)  # `pending_deposit_stake_scaled`
    [staking] = read(WALLET, staked(user, farm))
    assert [(each.role, each.amount_raw) for each in staking.assets] == [
        (Role.SUPPLY, 10),
        (Role.PENDING, 3 * 50 // 20),
    ]
    assert staking.locks == []


def test_rewards_by_an_oracle_are_left_out_and_a_delegates_stake_is_not_the_farms() -> None:
    farm = farm_data(40, 8, 10**9)
    put(farm, 7568, 3)
    rewards, _ = read(WALLET, staked(user_data(10), farm))
    assert rewards.assets == []
    assert "oracle" in rewards.unsupported_fields[0]
    put(farm, 7568, 2**64 - 1)
    farm[7328] = 1
    [only] = read(WALLET, staked(user_data(10), farm))
    assert only.route == "rewards"
    [missing] = read(WALLET, {OTHER: account(OTHER, farms.USER_STATE, user_data(10))})
    assert missing.missing == [FARM]


def granted(
    unclaimed: int, holds: int | None, *, user: bytes = OTHER, stake: int = 0
) -> dict[bytes, Account]:
    """A farm that anybody opened, with a grant of its reward to a wallet that did nothing."""
    data = user_data(stake, unclaimed)
    farm = farm_data(1, 0, 0)
    farm[7328] = 1
    found = {
        user: account(user, farms.USER_STATE, data),
        FARM: account(FARM, farms.FARM_STATE, farm),
    }
    return found if holds is None else {**found, PAYS: holding(holds)}


def test_a_reward_is_no_more_than_its_vault_holds() -> None:
    """`reward_user_once` of a stranger's farm grants any wallet any amount."""
    for holds, shown in ((10**18 + 1, 10**18), (10**18, 10**18), (25, 25), (0, 0)):
        [rewards] = read(WALLET, granted(10**18, holds))
        assert [(each.mint, each.amount_raw) for each in rewards.assets] == [(SHARE, shown)]
        cut = [each for each in rewards.unsupported_fields if "vault" in each]
        assert len(cut) == (shown < 10**18)
        assert (rewards.missing, rewards.lacking, rewards.open_markets) == ([], [], [])


def test_a_reward_whose_vault_is_not_known_counts_nothing_and_has_it_asked_for() -> None:
    """A farm of a verified token, with a vault that nobody follows yet, made the wallet unknown."""
    [rewards] = read(WALLET, granted(10**18, None))
    assert [each.amount_raw for each in rewards.assets] == [0]
    assert (rewards.missing, rewards.lacking) == ([], [PAYS])
    [reason] = rewards.unsupported_fields
    assert "vault" in reason
    assert read(WALLET, granted(0, None)) == [], "nothing is owed: nothing is asked for"


def test_a_vault_of_another_mint_is_unreadable_and_pays_nothing() -> None:
    accounts = granted(5, 10)
    for wrong in (holding(10, MINT), account(PAYS, RESERVE, reserve_data(1, 1))):
        with pytest.raises(Unreadable) as raised:
            read(WALLET, {**accounts, PAYS: wrong})
        assert raised.value.account == PAYS, "it is left out, and the others are read"


def test_what_a_vault_holds_is_shared_by_all_users_of_a_wallet() -> None:
    """One grant a user, of which a stranger can make many: the vault pays its balance once."""
    accounts = {**granted(6, 10), **granted(50, 10, user=MINT), **granted(50, 10, user=b"u" * 32)}
    found = read(WALLET, accounts)
    assert [[each.amount_raw for each in of.assets] for of in found] == [[6], [4], [0]]
    assert {of.reference_slot for of in found} == {7}


def test_a_reward_without_a_vault_is_never_paid() -> None:
    accounts = granted(10**18, None)
    farm = bytearray(accounts[FARM].data)
    farm[192 + 120 : 192 + 152] = bytes(32)
    [rewards] = read(WALLET, {**accounts, FARM: account(FARM, farms.FARM_STATE, farm)})
    assert [each.amount_raw for each in rewards.assets] == [0]
    assert rewards.lacking == []


def test_rewards_that_cannot_be_computed_are_left_out() -> None:
    """The owner of a farm chooses its oracle, or a setting that the program itself fails at."""
    by_oracle, failing = granted(5, 10, stake=1), granted(5, 10, stake=1)
    for accounts, at, value in ((by_oracle, 7568, 3), (failing, 192 + 537, 20)):
        farm = bytearray(accounts[FARM].data)
        put(farm, at, value, 1 if at < 7000 else 8)
        accounts[FARM] = account(FARM, farms.FARM_STATE, farm)
        [rewards] = read(WALLET, accounts)
        assert (rewards.assets, rewards.open_markets) == ([], [])
        [why] = rewards.unsupported_fields
        assert "left out" in why
        del accounts[PAYS]
        [unfollowed] = read(WALLET, accounts)
        assert (unfollowed.assets, unfollowed.unsupported_fields) == ([], [why])
        [empty] = read(WALLET, {**accounts, PAYS: holding(0)})
        assert [each.amount_raw for each in empty.assets] == [0], "an empty vault pays nothing"


def test_beside_a_reward_that_cannot_be_computed_the_others_count() -> None:
    farm, user = farm_data(1, 0, 0), user_data(1, 5)
    farm[7328] = 1
    put(farm, 7232, 2)
    second = 192 + 704
    farm[second : second + 32], farm[second + 120 : second + 152] = MINT, OTHER
    farm[second + 537] = 20  # of its rate's decimals: the program itself fails
    put(farm, second + 488, NOW_S - 100)
    put(user, 256, 7)
    holds = b"h" * 32
    farm[second + 120 : second + 152] = holds
    accounts = {**staked(user, farm), holds: holding(10**9, MINT, holds)}
    [rewards] = read(WALLET, accounts)
    assert [(each.mint, each.amount_raw) for each in rewards.assets] == [(SHARE, 5)]
    assert rewards.open_markets == []
    assert "rewards_per_second_decimals is 20" in rewards.unsupported_fields[0]


def test_collateral_tokens_in_a_farm_name_their_market() -> None:
    farm = farm_data(40, 0, 0)
    farm[72:104] = SHARE
    reserve = in_market(reserve_data(3000, 2000), b"M" * 32)
    accounts = staked(user_data(10), farm)
    [staking] = read(WALLET, accounts)
    assert staking.open_markets == [], "no reserve has that token"
    accounts[issuer_of(SHARE, RESERVE)] = account(MINT, RESERVE, reserve)
    [staking] = read(WALLET, accounts)
    assert (staking.route, staking.open_markets) == ("staking", [b"M" * 32])
