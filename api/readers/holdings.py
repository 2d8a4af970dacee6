"""What wallets hold, from the balances that the books have seen: SOL and tokens, with their worth.

A token is verified where its value means something: one knows what it is, and its price comes from
a pool that holds enough, or trades enough, that somebody could sell. Money is always verified.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from api.amounts import sol, usd
from api.answers.wallets import COVERAGE, Coverage, Holding, Holdings, Native
from api.errors import Problem
from api.readers.position_figures import priced, worth
from api.readers.tokens import SOL_MINT, Token, Tokens
from api.readers.wallet_state import WalletState
from api.sql import load
from api.stores import Stores
from schemas.base58 import encode
from schemas.markets import QUARTERS_KEPT, unpack_pool, window
from schemas.money import DOLLARS
from schemas.positions import Balance
from schemas.redis_keys import MARKET, mint_tag

LEAST_LIQUIDITY_LAMPORTS: Final = 10 * 10**9
LEAST_VOLUME_LAMPORTS: Final = 100 * 10**9  # of a day: concentrated pools do not tell liquidity

_BEGINNING: Final = load(__package__, "tape_beginning")
_ASK_AGAIN_S: Final = 600.0
RETRY_S: Final = 5.0


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which holdings an answer lists."""

    least_usd: float | None = None
    unverified: bool = False


class Beginning:
    """Where the tape begins; asked for now and then."""

    def __init__(self, stores: Stores) -> None:
        self._stores = stores
        self._known: tuple[int, int] | None = None
        self._again_at = 0.0

    async def read(self) -> tuple[int, int] | None:
        """Return the first slot and its time; None while it is not known.

        That is no reason to tell nothing: where ClickHouse is away, what was known before stands.
        """
        now = time.monotonic()
        if now >= self._again_at:
            self._again_at = now + RETRY_S
            with suppress(Problem):  # it has been counted
                rows = await self._stores.query(_BEGINNING, {})
                if rows:
                    self._known = rows[0]["slot"], rows[0]["time_ms"]
                    self._again_at = now + _ASK_AGAIN_S
        return self._known


async def read_backed(stores: Stores, tokens: Tokens, mints: Iterable[str]) -> frozenset[str]:
    """Return which mints have a price from a pool that is worth something; raises Problem."""
    asked = []
    for mint in mints:
        token = tokens.get(mint)
        if token is not None and token.price is not None and token.price.pool and _is_known(token):
            asked.append((mint, token.price.pool))
    if not asked:
        return frozenset()
    packed = await stores.ask(
        [
            ("HGET", MARKET.make(tag=mint_tag(mint), mint=mint), f"pool:{pool}")
            for mint, pool in asked
        ]
    )
    now_min = tokens.now_ms // 60_000
    return frozenset(
        mint
        for (mint, _), data in zip(asked, packed, strict=True)
        if data and _holds(data, now_min)
    )


def _is_known(token: Token) -> bool:
    return bool(token.about["name"] or token.about["symbol"])


def _holds(packed_pool: bytes, now_min: int) -> bool:
    pool, quarters = unpack_pool(packed_pool)
    if pool.liquidity_lamports >= LEAST_LIQUIDITY_LAMPORTS:
        return True
    day = window(quarters, now_min, QUARTERS_KEPT)
    return day.buy_lamports + day.sell_lamports >= LEAST_VOLUME_LAMPORTS


def mints_of(state: WalletState) -> set[str]:
    """Return the tokens that a wallet's accounts hold, SOL among them."""
    return {encode(balance.mint) for _, balance in state.balances}


def holdings(
    state: WalletState,
    tokens: Tokens,
    backed: frozenset[str],
    beginning: tuple[int, int] | None,
    wanted: Wanted,
) -> Holdings:
    """Return what a wallet holds, most valuable first."""
    native: Native | None = None
    accounts: defaultdict[str, list[tuple[str, Balance]]] = defaultdict(list)
    for account, balance in state.balances:
        if account == state.wallet:
            native = _native(balance, tokens)
        else:
            accounts[encode(balance.mint)].append((account, balance))
    listed: list[tuple[int, Holding]] = []
    unverified = small = 0
    for mint, of_mint in accounts.items():
        micros, holding = _holding(mint, of_mint, tokens, backed)
        if not (holding["is_verified"] or wanted.unverified):
            unverified += 1
        elif wanted.least_usd and (micros or 0) < wanted.least_usd * 10**6:
            small += 1
        else:
            listed.append((-1 if micros is None else micros, holding))
    listed.sort(key=lambda each: (-each[0], each[1]["mint"]))
    values = [micros for micros, _ in listed if micros >= 0]
    if native is not None and native["value_usd_micros"] is not None:
        values.append(int(native["value_usd_micros"]))
    total = sum(values) if values or not state.balances else None
    return {
        "value_usd": None if total is None else usd(total),
        "value_usd_micros": None if total is None else str(total),
        "native": native,
        "tokens": [holding for _, holding in listed],
        "hidden_unverified": unverified,
        "hidden_small": small,
        "coverage": _coverage(state, beginning),
    }


def _coverage(state: WalletState, beginning: tuple[int, int] | None) -> Coverage:
    slot, time_ms = beginning or (None, None)
    return {
        "is_complete": False,
        "since_slot": slot,
        "since_ms": time_ms,
        "known_accounts": state.account_count,
        "read_accounts": len(state.balances),
        "note": COVERAGE,
    }


def _native(balance: Balance, tokens: Tokens) -> Native:
    return {
        "lamports": str(balance.amount_raw),
        "sol": sol(balance.amount_raw),
        **priced(balance.amount_raw, tokens.get(SOL_MINT), tokens.now_ms, balance.decimals),
    }


def _holding(
    mint: str, accounts: Sequence[tuple[str, Balance]], tokens: Tokens, backed: frozenset[str]
) -> tuple[int | None, Holding]:
    """Return a token's worth in millionths of a dollar, None if unknown, and what is told of it."""
    first = accounts[0][1]
    decimals = first.decimals
    amount_raw = sum(balance.amount_raw for _, balance in accounts)
    token = tokens.get(mint)
    _, micros = worth(amount_raw, decimals, None if token is None else token.price)
    ordered = sorted(accounts, key=lambda each: (-each[1].amount_raw, each[0]))
    return micros, {
        "mint": mint,
        "name": None if token is None else token.about["name"],
        "symbol": None if token is None else token.about["symbol"],
        "decimals": decimals,
        "program": "token-2022" if first.is_token_2022 else "token",
        "is_verified": mint == SOL_MINT or mint in DOLLARS or mint in backed,
        "amount_raw": str(amount_raw),
        "amount": amount_raw / 10**decimals,
        "accounts": [
            {
                "account": account,
                "amount_raw": str(balance.amount_raw),
                "amount": balance.amount_raw / 10**decimals,
            }
            for account, balance in ordered
        ],
        **priced(amount_raw, token, tokens.now_ms, decimals),
    }
