"""Whether SOL is as new as what it may have become."""

from __future__ import annotations

from typing import Any

import pytest

from api.accounts.following import FollowState
from api.accounts.wallets import LaneReading
from api.analysis.figures import net_worth
from api.analysis.native import changed_since
from api.wallets.held import HeldAccount, HeldAccounts
from schemas.accounts import StoredAccount
from schemas.protocols.token import TOKEN
from schemas.solana.addresses import STAKE_PROGRAM, SYSTEM_PROGRAM, TOKEN_PROGRAM, text

WALLET, STAKE, TOKENS, OTHER, NFT, SHARE, POOL = (bytes([n]) * 32 for n in range(1, 8))
SOL_SLOT = 100


def stored(slot: int, program: bytes, *, closed: bool = False) -> StoredAccount:
    return StoredAccount(slot, 5, program, 0, b"", closed)


def held(
    accounts: dict[bytes, StoredAccount],
    own_tokens: tuple[bytes, ...] = (),
    lamports: int | None = 5,
    lamports_slot: int | None = SOL_SLOT,
) -> HeldAccounts:
    opened = {each: (TOKEN, accounts[each], b"") for each in own_tokens}
    own = {WALLET: stored(SOL_SLOT, SYSTEM_PROGRAM)}
    tokens = [
        HeldAccount(bytes([80 + at]) * 32, text(mint), amount_raw, 0, is_token_2022=False)
        for at, (mint, amount_raw) in enumerate(((NFT, 1), (SHARE, 700)))
    ]
    return HeldAccounts(
        text(WALLET),
        300,
        0,
        lamports,
        lamports_slot,
        tokens,
        2,
        2,
        True,
        1,
        None,
        FollowState.COMPLETE,
        reading=LaneReading({}, {}, own | accounts, opened, 0),
    )


def position(name: bytes, slot: int, market: bytes | None = None) -> Any:
    return {"position_id": text(name), "slot": slot, "market": None if not market else text(market)}


def test_stake_and_tokens_of_the_wallet_count_from_the_slot_after() -> None:
    for slot, expected in ((SOL_SLOT, None), (SOL_SLOT + 1, SOL_SLOT + 1)):
        assert changed_since(held({STAKE: stored(slot, STAKE_PROGRAM)}), [], ()) == expected
        of_tokens = {TOKENS: stored(slot, TOKEN_PROGRAM)}
        assert changed_since(held(of_tokens, (TOKENS,)), [], ()) == expected
        closed = {TOKENS: stored(slot, TOKEN_PROGRAM, closed=True)}
        assert changed_since(held(closed), [], ()) == expected
    both = {STAKE: stored(105, STAKE_PROGRAM), TOKENS: stored(109, TOKEN_PROGRAM)}
    assert changed_since(held(both, (TOKENS,)), [], ()) == 109


def test_what_is_of_others_does_not_count() -> None:
    assert changed_since(held({OTHER: stored(200, TOKEN_PROGRAM)}), [], ()) is None, "it was sold"
    shares = [
        position(POOL, 200),  # a pool
        position(POOL, 200, POOL),  # a vault, which is its own market
        position(SHARE, 200, POOL),  # one that is named by its token
    ]
    assert changed_since(held({}), shares, ()) is None


def test_positions_that_an_nft_leads_to_count_and_those_that_changed_since() -> None:
    assert changed_since(held({}), [position(NFT, 200, POOL)], ()) == 200
    assert changed_since(held({}), [position(OTHER, 201, POOL)], ()) == 201
    before = {STAKE: stored(SOL_SLOT - 1, STAKE_PROGRAM)}
    assert changed_since(held(before), [position(STAKE, 150)], ()) == 150


def test_what_no_token_of_the_wallet_is_the_title_to_counts() -> None:
    """An escrow of a derived account, which does not name the wallet."""
    escrow = position(OTHER, 150)
    assert changed_since(held({}), [escrow], {text(OTHER)}) == 150
    assert changed_since(held({}), [escrow], {text(POOL)}) is None


def test_without_sol_or_its_slot_nothing_is_outdated() -> None:
    newer = {STAKE: stored(200, STAKE_PROGRAM)}
    assert changed_since(held(newer, lamports=0), [], ()) is None
    assert changed_since(held(newer, lamports=None), [], ()) is None
    assert changed_since(held(newer, lamports_slot=None), [], ()) is None
    books = held(newer)
    books.reading = None
    assert changed_since(books, [], ()) is None


@pytest.mark.parametrize("outdated", [False, True])
def test_net_worth_with_sol_that_may_be_in_it_twice_is_null(outdated: bool) -> None:
    holdings: Any = {
        "native": {"value_usd_micros": "7"},
        "coverage": {"known_accounts": 1, "read_accounts": 1, "is_complete": True},
        "total_value_usd_micros": "7",
    }
    found: Any = {
        "positions": [],
        "coverage": {"known_accounts": 1, "read_accounts": 1},
        "errors": [],
        "unpriced": 0,
    }
    worth = net_worth(holdings, found, moved=False, outdated=outdated)
    assert worth["reasons"] == (["native_outdated"] if outdated else [])
    sums = [worth[name] for name in ("value_usd_micros", "assets_usd_micros", "known_usd_micros")]
    assert sums == [None if outdated else "7"] * 3
