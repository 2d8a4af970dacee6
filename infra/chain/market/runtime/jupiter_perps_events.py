"""The events of Jupiter Perps, as its IDL 0.1.0 has them.

A size is that after an increase or a decrease, and the one that ends in a liquidation. `pnl_delta`
is of the price alone; `fee_usd` is the sum of the three fees that follow.
"""

from __future__ import annotations

from typing import Final

from infra.chain.market.runtime.anchor_events import EventLayout

REQUEST_CREATED: Final = EventLayout(
    "CreatePositionRequestEvent",
    "owner:pubkey pool:pubkey position_key:pubkey position_side:u8 position_mint:pubkey"
    " position_custody:pubkey position_collateral_mint:pubkey position_collateral_custody:pubkey"
    " position_request_key:pubkey position_request_mint:pubkey size_usd_delta:u64"
    " collateral_delta:u64 price_slippage:u64? jupiter_minimum_out:u64? pre_swap_amount:u64?"
    " request_change:u8 open_time:i64 referral:pubkey?",
)
REQUEST_CLOSED: Final = EventLayout(
    "ClosePositionRequestEvent",
    "entire_position:bool? executed:bool request_change:u8 request_type:u8 side:u8"
    " position_request_key:pubkey owner:pubkey mint:pubkey amount:u64 open_time:i64",
)

_POSITION: Final = (
    "position_key:pubkey position_side:u8 position_custody:pubkey"
    " position_collateral_custody:pubkey position_size_usd:u64 position_mint:pubkey"
)
_REQUEST: Final = (
    " position_request_key:pubkey position_request_mint:pubkey position_request_change:u8"
    " position_request_type:u8"
)
_INCREASED: Final = (
    " owner:pubkey pool:pubkey size_usd_delta:u64 collateral_usd_delta:u64"
    " collateral_token_delta:u64 price:u64 price_slippage:{slippage} fee_token:u64 fee_usd:u64"
    " open_time:i64 referral:pubkey? position_fee_usd:u64 funding_fee_usd:u64"
    " price_impact_fee_usd:u64"
)
_DECREASED: Final = (
    " has_profit:bool pnl_delta:u64 owner:pubkey pool:pubkey size_usd_delta:u64"
    " transfer_amount_usd:u64 transfer_token:{transfer} price:u64 price_slippage:{slippage}"
    " fee_usd:u64 open_time:i64 referral:pubkey? position_fee_usd:u64 funding_fee_usd:u64"
)
_OUTCOME: Final = (
    " price_impact_fee_usd:u64 original_position_collateral_usd:u64 position_collateral_usd:u64"
    " position_open_time:i64 position_price:u64"
)
INCREASED: Final = EventLayout(
    "IncreasePositionEvent",
    _POSITION
    + _REQUEST
    + " position_request_collateral_delta:u64"
    + _INCREASED.format(slippage="u64?"),
)
INSTANTLY_INCREASED: Final = EventLayout(
    "InstantIncreasePositionEvent", _POSITION + _INCREASED.format(slippage="u64")
)
DECREASED: Final = EventLayout(
    "DecreasePositionEvent",
    _POSITION + _REQUEST + _DECREASED.format(transfer="u64?", slippage="u64?") + _OUTCOME,
)
INSTANTLY_DECREASED: Final = EventLayout(
    "InstantDecreasePositionEvent",
    _POSITION
    + " desired_mint:pubkey"
    + _DECREASED.format(transfer="u64", slippage="u64")
    + " original_position_collateral_usd:u64 position_collateral_usd:u64"
    " price_impact_fee_usd:u64 position_open_time:i64 position_price:u64 position_request:pubkey?",
)
LIQUIDATED: Final = EventLayout(
    "LiquidateFullPositionEvent",
    "position_key:pubkey position_side:u8 position_custody:pubkey"
    " position_collateral_custody:pubkey position_collateral_mint:pubkey position_mint:pubkey"
    " position_size_usd:u64 has_profit:bool pnl_delta:u64 owner:pubkey pool:pubkey"
    " transfer_amount_usd:u64 transfer_token:u64 price:u64 fee_usd:u64 liquidation_fee_usd:u64"
    " open_time:i64 position_fee_usd:u64 funding_fee_usd:u64" + _OUTCOME,
)
