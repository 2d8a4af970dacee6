"""What wallets hold: SOL and tokens, with their worth; verified ones count (`tokens.backing`)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from api.http.errors import Problem
from api.stores.caches import SharedReading
from api.stores.clients import Stores
from api.tokens.reader import SOL_MINT, Token, Tokens
from api.wallets.answers import Holding, Holdings, HoldingsTotals, Native, TokenAccount
from api.wallets.figures import Worth, priced, priced_at, worth
from api.wallets.held import HeldAccount, HeldAccounts
from infra.clickhouse.sql import load
from schemas.amounts import MICROS, human, sol, text, usd
from schemas.money import MONEY, SOL_DECIMALS
from schemas.solana.base58 import encode

_BEGINNING: Final = load(__package__, "tape_beginning")
FRESH_FOR_S: Final = 30.0


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which holdings an answer lists."""

    least_usd: float | None = None
    unverified: bool = False

    def lists(self, usd_micros: int | None) -> bool:
        """Return whether a holding of that worth is listed; None is one without a price."""
        # Divided, as the answer shows it: 4.03 dollars, multiplied, exceed 4,030,000 millionths.
        return not self.least_usd or (usd_micros or 0) / MICROS >= self.least_usd


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


@dataclass(slots=True)
class _Held:
    """What a wallet's accounts hold of a token."""

    mint: str
    accounts: list[HeldAccount]
    amount_raw: int
    decimals: int | None
    token: Token | None
    worth: Worth
    is_verified: bool
    lacking: str | None  # why a share of a pool has no price


def _held(
    wallet: HeldAccounts, tokens: Tokens, backed: frozenset[str]
) -> tuple[Native | None, list[_Held]]:
    """Return a wallet's SOL, None if it is not known, and its tokens."""
    native = (
        None if wallet.lamports is None else _native(wallet.lamports, wallet.lamports_slot, tokens)
    )
    accounts: defaultdict[str, list[HeldAccount]] = defaultdict(list)
    for account in wallet.tokens:
        accounts[account.mint].append(account)
    held = []
    for mint, of_mint in accounts.items():
        amount_raw = sum(account.amount_raw for account in of_mint)
        decimals = of_mint[0].decimals
        token = tokens.get(mint)
        price = None if token is None else token.price
        value = worth(amount_raw, decimals, price)
        if token is not None and token.pool_price is not None:
            value = token.pool_price.worth(amount_raw)
        is_verified = mint in MONEY or mint in backed
        lacking = tokens.lacking.get(mint)
        held.append(_Held(mint, of_mint, amount_raw, decimals, token, value, is_verified, lacking))
    return native, held


def _total(wallet: HeldAccounts, native: Native | None, held: Sequence[_Held]) -> int | None:
    """Return what all is worth, in millionths of a dollar.

    None where none of it has a price, and where not all accounts were read: a part is no total.
    """
    if not wallet.has_all:
        return None
    values = [micros for each in held if (micros := each.worth[1]) is not None]
    if native is not None and native["value_usd_micros"] is not None:
        values.append(int(native["value_usd_micros"]))
    return sum(values) if values else None


def holdings(
    wallet: HeldAccounts, tokens: Tokens, backed: frozenset[str], wanted: Wanted
) -> Holdings:
    """Return what a wallet holds, most valuable first."""
    native, held = _held(wallet, tokens, backed)
    counted = [each for each in held if each.is_verified or wanted.unverified]
    listed = [each for each in counted if wanted.lists(each.worth[1])]
    listed.sort(key=_order)
    micros = None if native is None else native["value_usd_micros"]
    shown = native if wanted.lists(None if micros is None else int(micros)) else None
    value, total = _total(wallet, shown, listed), _total(wallet, native, counted)
    return {
        "value_usd": usd(value),
        "value_usd_micros": text(value),
        "total_value_usd": usd(total),
        "total_value_usd_micros": text(total),
        "native": shown,
        "tokens": [_holding(each, wallet, tokens.now_ms) for each in listed],
        "hidden_native": native is not None and shown is None,
        "hidden_unverified": len(held) - len(counted),
        "hidden_small": len(counted) - len(listed),
        "coverage": wallet.coverage(),
    }


def _order(held: _Held) -> tuple[int, str]:
    micros = held.worth[1]
    return 1 if micros is None else -micros, held.mint


def holdings_totals(wallet: HeldAccounts, tokens: Tokens, backed: frozenset[str]) -> HoldingsTotals:
    """Return what a wallet's balances come to."""
    native, held = _held(wallet, tokens, backed)
    verified = [each for each in held if each.is_verified]
    total = _total(wallet, native, verified)
    return {
        "value_usd": usd(total),
        "value_usd_micros": text(total),
        "native": native,
        "verified_tokens": len(verified),
        "unverified_tokens": len(held) - len(verified),
        "coverage": wallet.coverage(),
    }


def _native(lamports: int, slot: int | None, tokens: Tokens) -> Native:
    return {
        "lamports": str(lamports),
        "sol": sol(lamports),
        "as_of_slot": slot,
        **priced(lamports, tokens.get(SOL_MINT), tokens.now_ms, SOL_DECIMALS),
    }


def _holding(held: _Held, wallet: HeldAccounts, now_ms: int) -> Holding:
    token, decimals = held.token, held.decimals
    accounts = sorted(held.accounts, key=lambda each: (-each.amount_raw, encode(each.address)))
    withheld = [each.state.extensions.withheld_raw for each in accounts if each.state is not None]
    name, symbol = _names(held, wallet)
    return {
        "mint": held.mint,
        "name": name,
        "symbol": symbol,
        "decimals": decimals,
        "program": "token-2022" if accounts[0].is_token_2022 else "token",
        "is_verified": held.is_verified,
        "amount_raw": str(held.amount_raw),
        "amount": human(held.amount_raw, decimals),
        "shown_amount": wallet.shown(held.mint, held.amount_raw),
        "withheld_raw": str(sum(withheld)) if withheld else None,
        "accounts": [_account(each, decimals) for each in accounts],
        "price_source": None if token is None or token.price is None else token.source,
        "unsupported_fields": [] if held.lacking is None else [f"price_sol: {held.lacking}"],
        **priced_at(None if token is None else token.price, now_ms, held.worth),
    }


def _names(held: _Held, wallet: HeldAccounts) -> tuple[str | None, str | None]:
    """Return a token's name and symbol: as the tape has seen them, else as its mint says."""
    about = None if held.token is None else held.token.about
    mint = wallet.mints.get(held.mint)
    own = None if mint is None else mint.texts
    name = (about and about["name"]) or (own and own.name) or None
    symbol = (about and about["symbol"]) or (own and own.symbol) or None
    return name, symbol


def _account(held: HeldAccount, decimals: int | None) -> TokenAccount:
    state = held.state
    return {
        "account": encode(held.address),
        "amount_raw": str(held.amount_raw),
        "amount": human(held.amount_raw, decimals),
        "is_frozen": None if state is None else state.is_frozen,
        "delegate": encode(state.delegate) if state and state.delegate else None,
        "delegated_raw": str(state.delegated_raw) if state and state.delegate else None,
    }
