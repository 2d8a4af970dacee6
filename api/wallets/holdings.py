"""What wallets hold, from the balances that the books have seen: SOL and tokens, with their worth.

A token is verified where its value means something: one knows what it is, somebody traded it of
late, and its pools hold enough, or trade enough, that somebody could sell. Money always is.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from api.http.errors import Problem
from api.stores.caches import SharedReading
from api.stores.clients import Stores
from api.tokens.reader import SOL_MINT, Token, Tokens
from api.wallets.answers import (
    COVERAGE,
    Coverage,
    Holding,
    Holdings,
    HoldingsTotals,
    Native,
)
from api.wallets.figures import Worth, priced, priced_at, worth
from api.wallets.state import WalletState
from infra.clickhouse.sql import load
from schemas.amounts import LAMPORTS, MICROS, human, sol, text, usd
from schemas.markets import QUARTERS_KEPT, unpack_head, window
from schemas.money import MONEY
from schemas.positions import Balance
from schemas.redis_keys import MARKET, mint_tag
from schemas.solana.base58 import decode, encode

LEAST_LIQUIDITY_LAMPORTS: Final = 10 * LAMPORTS
LEAST_VOLUME_LAMPORTS: Final = 100 * LAMPORTS  # of a day: concentrated pools do not tell liquidity

_BEGINNING: Final = load(__package__, "tape_beginning")
FRESH_FOR_S: Final = 30.0


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which holdings an answer lists."""

    least_usd: float | None = None
    unverified: bool = False

    def lists(self, usd_micros: int | None) -> bool:
        """Return whether a holding of that worth is listed; None is one without a price."""
        return not self.least_usd or (usd_micros or 0) >= self.least_usd * MICROS


class Beginning:
    """Where the tape begins; asked for now and then."""

    def __init__(self, stores: Stores) -> None:
        self._stores = stores
        self._known: tuple[int, int] | None = None
        self.read = SharedReading(self._look, FRESH_FOR_S).get

    async def _look(self) -> tuple[int, int] | None:
        """Return the first slot and its time; None while it is not known.

        Where ClickHouse does not answer, holdings are answered with what was known before.
        """
        with suppress(Problem):  # it has been counted
            for row in await self._stores.query(_BEGINNING, {}):
                self._known = row["slot"], row["time_ms"]
        return self._known


async def read_backed(stores: Stores, tokens: Tokens, mints: Iterable[str]) -> frozenset[str]:
    """Return which mints have a price that somebody could sell at; raises Problem."""
    backed, doubtful = set(), []
    for mint in mints:
        token = tokens.get(mint)
        if token is not None and token.source == "live" and _is_known(token):
            if _pooled_lamports(token) >= LEAST_LIQUIDITY_LAMPORTS:
                backed.add(mint)
            else:
                doubtful.append(mint)
    if doubtful:
        series = await stores.ask(
            [("HGET", MARKET.make(tag=mint_tag(mint), mint=mint), "quarters") for mint in doubtful]
        )
        for mint, quarters in zip(doubtful, series, strict=True):
            if quarters:
                day = window(quarters, tokens.now_ms // 60_000, QUARTERS_KEPT)
                if day.buy_lamports + day.sell_lamports >= LEAST_VOLUME_LAMPORTS:
                    backed.add(mint)
    return frozenset(backed)


def _is_known(token: Token) -> bool:
    return bool(token.about["name"] or token.about["symbol"])


def _pooled_lamports(token: Token) -> int:
    if token.pooled_lamports is None:
        head = token.packed_head
        token.pooled_lamports = 0 if head is None else unpack_head(head)[0].liquidity_lamports or 0
    return token.pooled_lamports


def mints_of(state: WalletState) -> set[str]:
    """Return the tokens that a wallet's accounts hold, SOL among them."""
    return {mint for _, mint, _ in state.balances}


@dataclass(slots=True)
class _Held:
    """What a wallet's accounts hold of a token."""

    mint: str
    accounts: list[tuple[bytes, Balance]]
    amount_raw: int
    token: Token | None
    worth: Worth
    is_verified: bool


def _held(
    state: WalletState, tokens: Tokens, backed: frozenset[str]
) -> tuple[Native | None, list[_Held]]:
    """Return a wallet's SOL, None if it is not known, and its tokens."""
    native: Native | None = None
    wallet = decode(state.wallet)
    accounts: defaultdict[str, list[tuple[bytes, Balance]]] = defaultdict(list)
    for account, mint, balance in state.balances:
        if account == wallet:
            native = _native(balance, tokens)
        else:
            accounts[mint].append((account, balance))
    held = []
    for mint, of_mint in accounts.items():
        amount_raw = sum(balance.amount_raw for _, balance in of_mint)
        token = tokens.get(mint)
        price = None if token is None else token.price
        value = worth(amount_raw, of_mint[0][1].decimals, price)
        is_verified = mint in MONEY or mint in backed
        held.append(_Held(mint, of_mint, amount_raw, token, value, is_verified))
    return native, held


def _total(state: WalletState, native: Native | None, held: Sequence[_Held]) -> int | None:
    """Return what all is worth, in millionths of a dollar.

    None where none of it has a price, and where not all accounts were read: a part is no total.
    """
    if not state.has_all_accounts:
        return None
    values = [micros for each in held if (micros := each.worth[1]) is not None]
    if native is not None and native["value_usd_micros"] is not None:
        values.append(int(native["value_usd_micros"]))
    return sum(values) if values else None


def holdings(
    state: WalletState,
    tokens: Tokens,
    backed: frozenset[str],
    beginning: tuple[int, int] | None,
    wanted: Wanted,
) -> Holdings:
    """Return what a wallet holds, most valuable first."""
    native, held = _held(state, tokens, backed)
    counted = [each for each in held if each.is_verified or wanted.unverified]
    listed = [each for each in counted if wanted.lists(each.worth[1])]
    listed.sort(key=_order)
    micros = None if native is None else native["value_usd_micros"]
    shown = native if wanted.lists(None if micros is None else int(micros)) else None
    value, total = _total(state, shown, listed), _total(state, native, counted)
    return {
        "value_usd": usd(value),
        "value_usd_micros": text(value),
        "total_value_usd": usd(total),
        "total_value_usd_micros": text(total),
        "native": shown,
        "tokens": [_holding(each, tokens.now_ms) for each in listed],
        "hidden_native": native is not None and shown is None,
        "hidden_unverified": len(held) - len(counted),
        "hidden_small": len(counted) - len(listed),
        "coverage": _coverage(state, beginning),
    }


def _order(held: _Held) -> tuple[int, str]:
    micros = held.worth[1]
    return 1 if micros is None else -micros, held.mint


def holdings_totals(
    state: WalletState,
    tokens: Tokens,
    backed: frozenset[str],
    beginning: tuple[int, int] | None,
) -> HoldingsTotals:
    """Return what a wallet's balances come to."""
    native, held = _held(state, tokens, backed)
    verified = [each for each in held if each.is_verified]
    total = _total(state, native, verified)
    return {
        "value_usd": usd(total),
        "value_usd_micros": text(total),
        "native": native,
        "verified_tokens": len(verified),
        "unverified_tokens": len(held) - len(verified),
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


def _holding(held: _Held, now_ms: int) -> Holding:
    first = held.accounts[0][1]
    token = held.token
    accounts = sorted((-balance.amount_raw, encode(account)) for account, balance in held.accounts)
    return {
        "mint": held.mint,
        "name": None if token is None else token.about["name"],
        "symbol": None if token is None else token.about["symbol"],
        "decimals": first.decimals,
        "program": "token-2022" if first.is_token_2022 else "token",
        "is_verified": held.is_verified,
        "amount_raw": str(held.amount_raw),
        "amount": human(held.amount_raw, first.decimals),
        "accounts": [
            {
                "account": account,
                "amount_raw": str(-less),
                "amount": human(-less, first.decimals),
            }
            for less, account in accounts
        ],
        **priced_at(None if token is None else token.price, now_ms, held.worth),
    }
