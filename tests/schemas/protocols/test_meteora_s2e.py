"""Stakes of Stake2Earn, their fees, and tokens on their way out."""

from __future__ import annotations

import struct
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.protocols import meteora_s2e as s2e
from schemas.protocols.contract import Account, Held, Kind, Lock, Position, Unreadable, World
from tests.support.exploring import examples

WALLET, AT, VAULT, STAKED, QUOTE, OTHER = (bytes([n]) * 32 for n in range(1, 7))
NOW = 1_790_000_000
ONE = 1 << 64


def account(kind: Kind, address: bytes, fields: dict[int, bytes], slot: int = 50) -> Account:
    assert kind.size is not None
    data = bytearray(kind.size)
    for at, value in {0: kind.tag, **fields}.items():
        data[at : at + len(value)] = value
    return Account(address, kind, 1, bytes(data), slot)


def u64(*values: int) -> bytes:
    return struct.pack(f"<{len(values)}Q", *values)


def u128(*values: int) -> bytes:
    return b"".join(each.to_bytes(16, "little") for each in values)


def escrow(
    stake: int, is_top: bool, checkpoints: tuple[int, int], pending: tuple[int, int]
) -> Account:
    fields = {8: WALLET, 40: VAULT, 80: u64(stake), 88: bytes([is_top])}
    return account(s2e.ESCROW, AT, fields | {152: u128(*checkpoints), 184: u64(*pending)})


def unstake(amount: int, release_s: int, owner: bytes = WALLET) -> Account:
    fields = {40: u64(amount, NOW, release_s), 64: owner, 96: VAULT}
    return account(s2e.UNSTAKE, OTHER, fields)


def vault(
    effective: int, locked: tuple[int, int], cumulative: tuple[int, int], elapsed_s: int
) -> Account:
    fields = {40: STAKED, 72: QUOTE, 424: u64(1000), 536: u64(effective)}
    fields |= {552: u64(NOW - elapsed_s, *locked), 584: u128(*cumulative)}
    return account(s2e.VAULT, VAULT, fields, 40)


def read(mine: Account, *chain: Account) -> list[Position]:
    there = {each.address: each for each in chain}
    reading = s2e.read(Held(WALLET, [mine]), World(9, NOW, 3))
    try:
        wanted = next(reading)
        reading.send({each: there[each] for each in wanted if each in there})
    except StopIteration as end:
        found: list[Position] = end.value
        return found
    raise AssertionError("more than one round")


def lines(position: Position) -> list[tuple[str, bytes, int | None]]:
    return [(each.role.value, each.mint, each.amount_raw) for each in position.assets]


def test_a_top_staker_has_its_part_of_the_fees_released_by_now() -> None:
    mine = escrow(10, True, (ONE, 0), (3, 4))
    [found] = read(mine, vault(20, (400, 80), (2 * ONE, ONE), 250))
    # a: 100 of 400 released, 5 a token; with 2 - 1 before it 60, and 3. b: 20, 1 a token; 20 and 4
    assert lines(found) == [("locked", STAKED, 10), ("reward", STAKED, 63), ("reward", QUOTE, 24)]
    assert found.locks == [Lock("cooldown", 10)]
    assert found.market == VAULT
    assert found.reference_slot == 40


def test_a_staker_off_the_list_has_what_was_counted_before() -> None:
    [found] = read(escrow(10, False, (0, 0), (3, 0)), vault(20, (400, 80), (2 * ONE, ONE), 250))
    assert lines(found) == [("locked", STAKED, 10), ("reward", STAKED, 3)]


def test_fees_of_a_stake_that_was_taken_out_are_not_locked() -> None:
    [found] = read(escrow(0, False, (0, 0), (3, 0)), vault(20, (0, 0), (0, 0), 0))
    assert lines(found) == [("reward", STAKED, 3)]
    assert found.locks == []


@pytest.mark.parametrize(("elapsed_s", "fee"), [(-5, 0), (0, 0), (999, 3), (1000, 4), (9999, 4)])
def test_fees_are_released_second_by_second(elapsed_s: int, fee: int) -> None:
    [found] = read(escrow(8, True, (0, 0), (0, 0)), vault(8, (4, 0), (0, 0), elapsed_s))
    assert lines(found)[1:] == ([("reward", STAKED, fee)] if fee else [])


def test_a_list_without_stakes_releases_nothing() -> None:
    [found] = read(escrow(10, True, (0, 0), (1, 0)), vault(0, (4, 0), (0, 0), 500))
    assert lines(found)[1:] == [("reward", STAKED, 1)]


@pytest.mark.parametrize(("release_s", "role"), [(NOW + 1, "pending"), (NOW, "supply")])
def test_unstaked_tokens_wait_for_their_release(release_s: int, role: str) -> None:
    [found] = read(unstake(7, release_s), vault(0, (0, 0), (0, 0), 0))
    assert lines(found) == [(role, STAKED, 7)]
    [lock] = found.locks
    assert (lock.locked_raw, lock.claimable_raw) == ((7, 0) if role == "pending" else (0, 7))
    assert lock.ends_ms == release_s * 1000


@pytest.mark.parametrize(
    ("release_s", "ends_ms"),
    [
        (9_007_199_254_740, 9_007_199_254_740_000),
        (9_007_199_254_741, 9_007_199_254_740_991),
        (2**63 - 1, 9_007_199_254_740_991),
        (2**64 - 1, 0),  # -1 of an i64
    ],
)
def test_a_release_beyond_what_a_json_number_holds_is_at_its_limit(
    release_s: int, ends_ms: int
) -> None:
    [found] = read(unstake(7, release_s), vault(0, (0, 0), (0, 0), 0))
    assert [each.ends_ms for each in found.locks] == [ends_ms]


def test_without_its_vault_a_stake_is_of_an_unknown_mint() -> None:
    [found] = read(escrow(10, True, (0, 0), (1, 0)))
    assert (found.assets, found.missing) == ([], [VAULT])
    assert found.unsupported_fields


def test_an_empty_stake_and_another_wallets_are_no_positions() -> None:
    there = vault(0, (0, 0), (0, 0), 0)
    assert read(escrow(0, False, (0, 0), (0, 0)), there) == []
    assert read(unstake(7, NOW, OTHER), there) == []


def test_hostile_accounts_are_unreadable() -> None:
    with pytest.raises(Unreadable, match="checkpoint at 152"):
        read(escrow(10, True, (1, 0), (0, 0)), vault(9, (0, 0), (0, 0), 0))
    mine = escrow(10, True, (0, 0), (0, 0))
    with pytest.raises(Unreadable, match="s2e_escrow") as error:
        read(mine, mine._replace(address=VAULT))
    assert error.value.account == AT


@given(st.binary(min_size=432, max_size=432), st.binary(min_size=1008, max_size=1008))
@examples(200)
def test_random_bytes_are_read_or_unreadable(mine: bytes, other: bytes) -> None:
    of_escrow = account(s2e.ESCROW, AT, {8: WALLET, 40: VAULT, 88: mine})
    with suppress(Unreadable):
        found = read(of_escrow, account(s2e.VAULT, VAULT, {40: other}))
        assert all(each.amount_raw for position in found for each in position.assets)
