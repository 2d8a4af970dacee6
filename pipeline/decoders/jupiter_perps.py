"""Jupiter Perpetuals: JLP minted for one token of its pool and burnt for another; swaps in it; and
what became of positions.

Swaps are read from what the instruction moved. Positions, their collateral and their keepers' swaps
inside the pool are no swap of a wallet: they are read from the events that the program emits by
calling itself, whichever instruction does. Source: the program's IDL.
"""

from __future__ import annotations

from collections.abc import Callable
from hashlib import sha256
from typing import Any, Final

from pipeline.decoding.contract import (
    UNREADABLE,
    Instruction,
    Leg,
    Malformed,
    PositionChanged,
    Unread,
    Venue,
    named,
)
from pipeline.decoding.flows import exchange
from pipeline.solana.transaction import CPI_EVENT_TAG
from schemas.solana.borsh import Reader

POOL: Final = 5  # of every form of them
LONG: Final = 1
SHORT: Final = 2

_I64_MAX: Final = 2**63 - 1

_SWAPS: Final = named(
    "add_liquidity",
    "add_liquidity2",
    "remove_liquidity",
    "remove_liquidity2",
    "swap",
    "swap2",
    "swap_with_token_ledger",
)
_IGNORED: Final = named(
    "borrow_from_custody",
    "close_borrow_position",
    "close_position_request",
    "close_position_request2",
    "close_position_request3",
    "create_and_delegate_stake_account",
    "create_decrease_position_market_request",
    "create_decrease_position_request2",
    "create_increase_position_market_request",
    "create_token_ledger",
    "create_token_metadata",
    "decrease_position4",
    "decrease_position_with_internal_swap",
    "decrease_position_with_tpsl",
    "decrease_position_with_tpsl_and_internal_swap",
    "deposit_collateral_for_borrows",
    "get_add_liquidity_amount_and_fee2",
    "get_assets_under_management2",
    "get_remove_liquidity_amount_and_fee2",
    "increase_position4",
    "increase_position_pre_swap",
    "increase_position_with_internal_swap",
    "instant_create_limit_order",
    "instant_create_tpsl",
    "instant_decrease_position",
    "instant_decrease_position2",
    "instant_increase_position",
    "instant_increase_position_pre_swap",
    "instant_update_limit_order",
    "instant_update_tpsl",
    "liquidate_borrow_position",
    "liquidate_full_position4",
    "operator_set_custody_config",
    "operator_set_pool_config",
    "partial_liquidate_borrow_position",
    "realloc_custody",
    "realloc_pool",
    "redeem_stake",
    "refresh_assets_under_management",
    "repay_to_custody",
    "set_max_global_sizes",
    "set_token_ledger",
    "unstake",
    "update_decrease_position_request2",
    "withdraw_collateral_for_borrows",
    "withdraw_fees2",
    "withdraw_stake",
)


def _swap(ix: Instruction) -> Leg | None:
    return exchange(ix.tx, ix.position, ix.tx.subtree_end(ix.position), pool=ix.address(POOL))


# -- positions ----------------------------------------------------------------------------


def _optional(body: Reader, read: Callable[[Reader], Any]) -> Any:
    return read(body) if body.flag() else None


_TYPES: Final[dict[str, Callable[[Reader], Any]]] = {
    "key": Reader.pubkey,
    "key?": lambda body: _optional(body, Reader.pubkey),
    "u8": Reader.u8,
    "u64": Reader.u64,
    "u64?": lambda body: _optional(body, Reader.u64),
    "i64": Reader.i64,
    "bool": Reader.flag,
}


def _fields(text: str) -> tuple[tuple[str, Callable[[Reader], Any]], ...]:
    return tuple((name, _TYPES[kind]) for name, _, kind in (f.partition(":") for f in text.split()))


class _Layout:
    """An event: its fields in order as `name:type`, `_` for those that are not read.

    Those in `appended` are of newer versions of the program: an event may end before any of them.
    """

    def __init__(self, change: str, fields: str, appended: str, *, is_instant: bool) -> None:
        self.change = change
        self.is_instant = is_instant
        self._fields = _fields(fields)
        self._appended = _fields(appended)

    def read(self, body: Reader) -> dict[str, Any]:
        """Return the fields by name; raises struct.error where the event ends within one."""
        values = {name: read(body) for name, read in self._fields}
        for name, read in self._appended:
            if not body.has(1):
                break
            values[name] = read(body)
        return values


_POSITION: Final = "position:key side:u8 custody:key collateral_custody:key"
_FEES: Final = "position_fee:u64 funding_fee:u64"
_EVENTS: Final = {
    sha256(f"event:{name}".encode()).digest()[:8]: layout
    for name, layout in {
        "IncreasePositionEvent": _Layout(
            "increase",
            f"{_POSITION} size:u64 mint:key _:key _:key _:u8 _:u8 _:u64 wallet:key pool:key "
            "size_delta:u64 collateral_delta:u64 _:u64 price:u64 _:u64? _:u64 fee:u64 _:i64 _:key?",
            f"{_FEES} price_impact_fee:u64",
            is_instant=False,
        ),
        "InstantIncreasePositionEvent": _Layout(
            "increase",
            f"{_POSITION} size:u64 mint:key wallet:key pool:key "
            "size_delta:u64 collateral_delta:u64 _:u64 price:u64 _:u64 _:u64 fee:u64 _:i64 _:key?",
            f"{_FEES} price_impact_fee:u64",
            is_instant=True,
        ),
        "DecreasePositionEvent": _Layout(
            "decrease",
            f"{_POSITION} size:u64 mint:key _:key _:key _:u8 _:u8 has_profit:bool pnl:u64 "
            "wallet:key pool:key size_delta:u64 paid_out:u64 _:u64? price:u64 _:u64? fee:u64 "
            "_:i64 _:key?",
            f"{_FEES} price_impact_fee:u64 _:u64 collateral:u64 _:i64 entry_price:u64",
            is_instant=False,
        ),
        "InstantDecreasePositionEvent": _Layout(
            "decrease",
            f"{_POSITION} size:u64 mint:key _:key has_profit:bool pnl:u64 wallet:key pool:key "
            "size_delta:u64 paid_out:u64 _:u64 price:u64 _:u64 fee:u64 _:i64 _:key?",
            f"{_FEES} _:u64 collateral:u64 price_impact_fee:u64 _:i64 entry_price:u64 _:key?",
            is_instant=True,
        ),
        "LiquidateFullPositionEvent": _Layout(
            "liquidate",
            f"{_POSITION} _:key mint:key size:u64 has_profit:bool pnl:u64 wallet:key pool:key "
            "paid_out:u64 _:u64 price:u64 fee:u64 liquidation_fee:u64",
            f"_:i64 {_FEES} price_impact_fee:u64 _:u64 collateral:u64 _:i64 entry_price:u64",
            is_instant=False,
        ),
    }.items()
}


def _event(ix: Instruction) -> PositionChanged | Unread | None:
    layout = _EVENTS.get(ix.data[8:16])
    if layout is None:
        return None
    try:
        return _changed(layout, layout.read(Reader(ix.data, 16)))
    except UNREADABLE as error:
        detail = f"event {ix.data[8:16].hex()}: {error}"
        return Unread("malformed event", malformed=detail)


def _changed(layout: _Layout, event: dict[str, Any]) -> PositionChanged:
    if event["side"] not in (LONG, SHORT):
        raise Malformed(f"side {event['side']} is neither long nor short")
    pnl = event.get("pnl")
    if pnl is not None:
        if pnl > _I64_MAX:
            raise Malformed(f"PnL of {pnl} does not fit 64 bits")
        pnl = pnl if event["has_profit"] else -pnl
    return PositionChanged(
        wallet=event["wallet"],
        position=event["position"],
        pool=event["pool"],
        custody=event["custody"],
        collateral_custody=event["collateral_custody"],
        mint=event["mint"],
        is_long=event["side"] == LONG,
        change=layout.change,
        is_instant=layout.is_instant,
        size_usd_micros=event["size"],
        price_usd_micros=event["price"],
        fee_usd_micros=event["fee"],
        size_delta_usd_micros=event.get("size_delta"),
        collateral_delta_usd_micros=event.get("collateral_delta"),
        pnl_usd_micros=pnl,
        position_fee_usd_micros=event.get("position_fee"),
        funding_fee_usd_micros=event.get("funding_fee"),
        price_impact_fee_usd_micros=event.get("price_impact_fee"),
        liquidation_fee_usd_micros=event.get("liquidation_fee"),
        paid_out_usd_micros=event.get("paid_out"),
        collateral_usd_micros=event.get("collateral"),
        entry_price_usd_micros=event.get("entry_price"),
    )


VENUES: Final = (
    Venue(
        dex="jupiter-perps",
        programs=("PERPHjGBqRHArX4DySjwM6UJHiR3sWAatqfdBS2qQJu",),
        handlers={**dict.fromkeys(_SWAPS, _swap), CPI_EVENT_TAG: _event},
        ignored=_IGNORED,
        has_perps=True,
    ),
)
