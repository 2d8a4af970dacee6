"""Swaps as pages, newest first: of a wallet, of a token, of a wallet in one token.

A swap that the table has twice, as it may until its parts are merged, is left out here and not by
the query, which then need not look at more than it returns.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from api.history.answers import Swap, SwapPage, TokenSwaps, WalletSwaps, WalletTokenSwaps
from api.history.spans import Asked, Span, page_after, span
from api.history.swaps_kept import KeptSwaps
from api.stores.clients import Stores
from api.stores.gaps import GapReader
from api.stores.settled import Settled, read_settled
from api.stores.unique import Row, read_unique
from api.tokens.reader import TokenReader, unknown_token
from api.wallets.position_answers import GapCounts
from infra.clickhouse.sql import load
from schemas.amounts import human, sol, text, usd
from schemas.redis_keys import mint_tags
from schemas.times import DAY_MS

DEFAULT_LIMIT: Final = 50
"""A wallet's swaps lie among those of its tokens: each is some 1 ms of ClickHouse's CPU."""
MOST: Final = 1_000
LONGEST_MS: Final = 90 * DAY_MS
WALLET_MS: Final = 30 * DAY_MS  # looked back without `from`
TOKEN_MS: Final = DAY_MS

_GROUP: Final = "store"
_OF_WALLET: Final = load(__package__, "wallet_swaps")
_OF_TOKEN: Final = load(__package__, "token_swaps")
_PAGE_BEGIN: Final = load(__package__, "wallet_page_begin")
_FURTHER: Final = 32  # times as far back with every step
_U32_MAX: Final = 2**32 - 1

At = tuple[int, int, int, int]  # block time, slot, transaction, instruction


async def read_wallet_swaps(
    stores: Stores, gaps: GapReader, kept: KeptSwaps, wallet: str, asked: Asked
) -> WalletSwaps:
    """Return a page of a wallet's swaps; raises Problem."""
    now = await read_settled(stores, _GROUP, mint_tags())
    within = _span(asked, now, WALLET_MS, of_wallet(wallet))
    # One step: the query finds by itself how far back it has to look.
    rows = await _read(stores, _OF_WALLET, {"wallet": wallet}, within, asked, now, [within.from_ms])
    lacking = (await gaps.read()).of_swaps(wallet)
    return {"wallet": wallet, **_page(rows, within, asked, now, lacking, await kept.from_ms())}


async def read_token_swaps(
    stores: Stores,
    gaps: GapReader,
    kept: KeptSwaps,
    reader: TokenReader,
    mint: str,
    asked: Asked,
) -> TokenSwaps:
    """Return a page of the swaps that have a token on either side; raises Problem."""
    now = await read_settled(stores, _GROUP, mint_tags())  # its swaps as a quote are of any mint
    within = _span(asked, now, TOKEN_MS, of_token(mint))
    rows = await _read(
        stores, _OF_TOKEN, {"mint": mint, "wallet": ""}, within, asked, now, _steps(within)
    )
    await _require_known(reader, mint, rows)
    lacking = (await gaps.read()).of_swaps()
    return {"mint": mint, **_page(rows, within, asked, now, lacking, await kept.from_ms())}


async def read_wallet_token_swaps(
    stores: Stores,
    gaps: GapReader,
    kept: KeptSwaps,
    reader: TokenReader,
    wallet: str,
    mint: str,
    asked: Asked,
) -> WalletTokenSwaps:
    """Return a page of a wallet's swaps that have a token on either side; raises Problem."""
    now = await read_settled(stores, _GROUP, mint_tags())
    within = _span(asked, now, WALLET_MS, of_wallet_and_token(wallet, mint))
    # Most swaps of a wallet have the quotes it trades with: first where it has a page of any.
    times = {"from_ms": within.from_ms, "before_ms": within.before.time_ms}
    [begin] = await stores.query(_PAGE_BEGIN, {"wallet": wallet, "limit": asked.limit + 1, **times})
    keys = {"mint": mint, "wallet": wallet}
    steps = _steps(within, within.before.time_ms - begin["at_ms"])
    rows = await _read(stores, _OF_TOKEN, keys, within, asked, now, steps)
    await _require_known(reader, mint, rows)
    lacking = (await gaps.read()).of_swaps(wallet)
    return {
        "wallet": wallet,
        "mint": mint,
        **_page(rows, within, asked, now, lacking, await kept.from_ms()),
    }


# What cursors are of.


def of_wallet(wallet: str) -> str:
    """Return what the list of a wallet's swaps is called."""
    return f"swaps by {wallet}"


def of_token(mint: str) -> str:
    """Return what the list of a token's swaps is called."""
    return f"swaps of {mint}"


def of_wallet_and_token(wallet: str, mint: str) -> str:
    """Return what the list of a wallet's swaps in one token is called."""
    return f"swaps of {mint} by {wallet}"


async def _require_known(reader: TokenReader, mint: str, rows: list[Row]) -> None:
    """Raise Problem for a token that nobody has heard of; one that has swaps is known."""
    if not rows and (await reader.read([mint])).get(mint) is None:
        raise unknown_token(mint)


def _span(asked: Asked, now: Settled, default_ms: int, of: str) -> Span:
    return span(asked, now, default_ms, LONGEST_MS, of, _U32_MAX)


def _steps(within: Span, length_ms: int = DAY_MS) -> Iterator[int]:
    """Yield how far back to look: a day first, as most pages need no more; then further."""
    length_ms = max(length_ms, 1)
    while (at_ms := within.before.time_ms - length_ms) > within.from_ms:
        yield at_ms
        length_ms *= _FURTHER
    yield within.from_ms


async def _read(
    stores: Stores,
    sql: str,
    keys: Mapping[str, object],
    within: Span,
    asked: Asked,
    now: Settled,
    steps: Iterator[int] | list[int],
) -> list[Row]:
    """Return the rows of a page and one more, if there are as many; none twice."""
    found: list[Row] = []
    first = within.before
    before: At = (first.time_ms, first.slot, first.tx_index, first.index)
    for from_ms in steps:
        keys = {**keys, "from_ms": from_ms, "as_of_slot": now.slot}
        found += await _rows(stores, sql, keys, before, asked.limit + 1 - len(found))
        if len(found) > asked.limit:
            break
        before = (from_ms, 0, 0, 0)  # from here on all has been read
    return found


async def _rows(
    stores: Stores, sql: str, keys: Mapping[str, object], before: At, most: int
) -> list[Row]:
    async def ask(at: At, limit: int) -> list[Row]:
        time_ms, slot, tx_index, event_index = at
        return await stores.query(
            sql,
            {
                **keys,
                "before_ms": time_ms,
                "before_slot": slot,
                "before_tx_index": tx_index,
                "before_event_index": event_index,
                "limit": limit,
            },
        )

    return await read_unique(ask, _at, before, most)


def _at(row: Row) -> At:
    return row["block_time_ms"], row["slot"], row["tx_index"], row["event_index"]


def _page(
    rows: list[Row],
    within: Span,
    asked: Asked,
    now: Settled,
    gaps: GapCounts | None,
    known_from_ms: int | None,
) -> SwapPage:
    has_more = len(rows) > asked.limit
    last = _at(rows[asked.limit - 1]) if has_more else (0, 0, 0, 0)
    return {
        "from_ms": within.from_ms,
        "to_ms": within.to_ms,
        "known_from_ms": known_from_ms,
        "swaps": [_swap(row) for row in rows[: asked.limit]],
        "page": page_after(within, last, has_more=has_more),
        "as_of_slot": now.slot,
        "as_of_ms": now.time_ms,
        "gaps": gaps,
    }


def _swap(row: Row) -> Swap:
    """Return a swap as answers have it; prices and values are computed as for the live streams."""
    amount_raw, decimals = row["amount_raw"], row["decimals"]
    quote_amount_raw, quote_decimals = row["quote_amount_raw"], row["quote_decimals"]
    lamports, usd_micros = row["sol_value_lamports"], row["usd_value_micros"]
    amount = human(amount_raw, decimals)
    price = 0.0
    if amount_raw:
        price = quote_amount_raw / amount_raw * 10.0 ** (decimals - quote_decimals)
    sol_value = sol(lamports)
    usd_value = usd(usd_micros)
    return {
        "signature": row["signature"],
        "slot": row["slot"],
        "tx_index": row["tx_index"],
        "event_index": row["event_index"],
        "block_time_ms": row["block_time_ms"],
        "dex": row["dex"],
        "program_id": row["program_id"],
        "pool": row["pool"],
        "wallet": row["wallet"],
        "fee_payer": row["fee_payer"],
        "keeper": row["keeper"],
        "mint": row["mint"],
        "quote_mint": row["quote_mint"],
        "side": row["side"],
        "amount_raw": str(amount_raw),
        "decimals": decimals,
        "quote_amount_raw": str(quote_amount_raw),
        "quote_decimals": quote_decimals,
        "wallet_amount_raw": str(row["wallet_amount_raw"]),
        "wallet_quote_amount_raw": str(row["wallet_quote_amount_raw"]),
        "price": price,
        "price_sol": sol_value / amount if sol_value is not None and amount else None,
        "price_usd": usd_value / amount if usd_value is not None and amount else None,
        "sol_value": sol_value,
        "usd_value": usd_value,
        "pool_fee_raw": text(row["pool_fee_raw"]),
        "pool_fee_mint": row["pool_fee_mint"],
        "fee_lamports": str(row["fee_lamports"]),
        "priority_fee_lamports": str(row["priority_fee_lamports"]),
        "tip_lamports": str(row["tip_lamports"]),
        "router": row["router"],
        "platform": row["platform"],
        "commitment": "confirmed",
        "reserve_raw": text(row["reserve_raw"]),
        "quote_reserve_raw": text(row["quote_reserve_raw"]),
        "liquidity": text(row["liquidity"]),
        "sqrt_price_x64": text(row["sqrt_price_x64"]),
        "sol_value_lamports": text(lamports),
        "usd_value_micros": text(usd_micros),
        "amount": amount,
        "quote_amount": human(quote_amount_raw, quote_decimals),
        "fee_sol": sol(row["fee_lamports"]),
        "priority_fee_sol": sol(row["priority_fee_lamports"]),
        "tip_sol": sol(row["tip_lamports"]),
    }
