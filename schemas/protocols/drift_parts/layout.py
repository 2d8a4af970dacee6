"""Accounts of Drift v2: kinds, addresses, and the fields that readings use.

Source: programs/drift of protocol-v2, IDL 2.150 to 2.162. Two fields of a perp position changed
their meaning when the AMM's liquidity shares were retired: bytes 72 to 80 are an isolated deposit
since, and byte 95 flags. The program clears a slot before it uses it anew, so one that still has
shares, or what the AMM had a share (80 to 88), is of the earlier layout.
"""

from __future__ import annotations

from struct import Struct
from typing import Final, NamedTuple

from schemas.protocols.contract import Account, Kind, Unreadable
from schemas.solana.addresses import key
from schemas.solana.borsh import i64, raw_pubkey, u16, u32, u64, u128
from schemas.solana.derived import derived

PROGRAM: Final = key("dRiftyHA39MWEi3m9aunc5MzRF1JYuBsbn6VPcn33UH")
AUTHORITY_AT: Final = 8
USER: Final = Kind(
    "drift_user", PROGRAM, bytes.fromhex("9f755fe3ef973aec"), size=4376, wallets=(AUTHORITY_AT,)
)
USER_STATS: Final = Kind(
    "drift_user_stats",
    PROGRAM,
    bytes.fromhex("b0df881b7a4f20e3"),
    size=240,
    wallets=(AUTHORITY_AT,),
)
FUEL_OVERFLOW: Final = Kind(
    "drift_fuel_overflow",
    PROGRAM,
    bytes.fromhex("b640e7b1e28e453a"),
    size=240,
    wallets=(AUTHORITY_AT,),
)
STAKE: Final = Kind(
    "drift_insurance_stake",
    PROGRAM,
    bytes.fromhex("6eca0e2a5f495a5f"),
    size=136,
    wallets=(AUTHORITY_AT,),
)
SPOT_MARKET: Final = Kind("drift_spot_market", PROGRAM, bytes.fromhex("64b1086ba8414127"), size=776)
PERP_MARKET: Final = Kind(
    "drift_perp_market", PROGRAM, bytes.fromhex("0adf0c2c6bf537f7"), size=1216
)
STATE_ADDRESS: Final = derived(PROGRAM, b"drift_state")
STATE: Final = Kind(
    "drift_state",
    PROGRAM,
    bytes.fromhex("d8926b5e684bb6b1"),  # sha256("account:State")
    size=992,
    addresses=(STATE_ADDRESS,),
)
KINDS: Final = (USER, USER_STATS, FUEL_OVERFLOW, STAKE, SPOT_MARKET, PERP_MARKET, STATE)

QUOTE_MARKET: Final = 0  # the spot market of USDC
MOST_DECIMALS: Final = 19  # balances have 9 decimals, and their interest 10
_BORROW: Final = 1
_ISOLATED: Final = 1  # flags of a perp position
_LIQUIDATED: Final = 2 | 4  # being liquidated, bankrupt: of a perp position
_LIQUIDATED_USER: Final = 1 | 2  # likewise, of a user
_HIGH_LEVERAGE: Final = 1  # margin modes
_HIGH_LEVERAGE_MAINTENANCE: Final = 2
_SETTLEMENT: Final = 7
_PREDICTION: Final = 2

_SPOTS: Final = range(104, 104 + 8 * 40, 40)
_PERPS: Final = range(424, 424 + 8 * 96, 96)
_SPOT: Final = Struct("<QqqqHBB")
_PERP: Final = Struct("<8qQQq2xHHBB")
_NO_PERP: Final = bytes(_PERP.size)


class SpotPosition(NamedTuple):
    """A deposit or borrow, as a share of its market's."""

    scaled_balance: int
    open_bids: int  # raw amounts of the token in orders, asks below 0
    open_asks: int
    market_index: int
    is_borrow: bool
    open_orders: int


class PerpPosition(NamedTuple):
    """A bet on a market's price: base with 9 decimals, quote with 6; and what backs it alone."""

    last_funding_rate: int
    base: int
    quote: int
    quote_entry: int
    open_bids: int
    open_asks: int
    lp_shares: int  # of the market's AMM; the program pays nothing for them any more
    isolated_balance: int
    max_margin_ratio: int
    market_index: int
    open_orders: int
    is_isolated: bool
    is_liquidated: bool
    is_early: bool  # of the earlier layout

    @property
    def is_active(self) -> bool:
        """Return whether the program counts it."""
        return bool(
            self.base
            or self.quote
            or self.open_orders
            or self.open_bids
            or self.open_asks
            or self.isolated_balance
            or self.is_liquidated
        )


class User(NamedTuple):
    """A sub-account of a wallet."""

    account: Account
    spots: tuple[SpotPosition, ...]
    perps: tuple[PerpPosition, ...]  # those with shares of an AMM alone, too
    max_margin_ratio: int
    is_liquidated: bool
    has_high_leverage: bool  # for what may be opened
    has_high_leverage_maintenance: bool
    pool_id: int


class SpotMarket(NamedTuple):
    """A token that is deposited and borrowed; prices have 6 decimals, weights 4."""

    address: bytes
    slot: int
    number: int  # its index
    oracle: bytes
    oracle_source: int
    mint: bytes
    decimals: int
    price: int  # as the market last saw it
    price_5min: int
    insurance_vault: bytes
    insurance_shares: int
    insurance_base: int
    unstaking_s: int
    deposit_balance: int
    deposit_interest: int
    borrow_interest: int
    asset_weight: int
    asset_weight_initial: int
    liability_weight: int
    liability_weight_initial: int
    imf_factor: int
    scale_start: int
    pool_id: int


class PerpMarket(NamedTuple):
    """What is bet on: prices have 6 decimals, ratios and weights 4."""

    address: bytes
    slot: int
    number: int  # its index
    symbol: str
    oracle: bytes
    oracle_source: int
    price: int  # as the market last saw it
    expiry_price: int
    funding_rate_long: int
    funding_rate_short: int
    users_base: int  # of all users together, and their quote
    users_quote: int
    max_imbalance: int
    imf_factor: int
    pnl_imf_factor: int
    ratio: int  # of margin, for maintenance
    ratio_initial: int
    high_leverage_ratio: int
    high_leverage_ratio_initial: int
    pnl_weight: int
    pnl_weight_initial: int
    is_settled: bool  # at its expiry price
    is_prediction: bool
    quote_market: int
    pool_id: int


class Fee(NamedTuple):
    """What the program takes of the value of a bet that it closes at a market's expiry price."""

    slot: int
    numerator: int
    denominator: int

    def of(self, value: int) -> int:
        """Return the fee, cut off."""
        return value * self.numerator // self.denominator


def spot_market_address(index: int) -> bytes:
    """Return where a spot market is."""
    return derived(PROGRAM, b"spot_market", index.to_bytes(2, "little"))


def perp_market_address(index: int) -> bytes:
    """Return where a perp market is."""
    return derived(PROGRAM, b"perp_market", index.to_bytes(2, "little"))


def user_of(account: Account) -> User:
    """Return a sub-account; raises Unreadable."""
    data = checked(account, USER)
    spots = tuple(spot for at in _SPOTS if (spot := _spot(account, at)) is not None)
    perps = tuple(perp for at in _PERPS if (perp := _perp(data, at)) is not None)
    for positions in (spots, perps):
        if len({each.market_index for each in positions}) < len(positions):
            raise Unreadable("two positions of one market", account.address)
    return User(
        account,
        spots,
        perps,
        u32(data, 4340),
        bool(data[4348] & _LIQUIDATED_USER),
        data[4355] == _HIGH_LEVERAGE,
        data[4355] in (_HIGH_LEVERAGE, _HIGH_LEVERAGE_MAINTENANCE),
        data[4356],
    )


def _spot(account: Account, at: int) -> SpotPosition | None:
    balance, bids, asks, _, index, kind, orders = _SPOT.unpack_from(account.data, at)
    if not (balance or orders):
        return None
    if kind > _BORROW:
        raise Unreadable(f"spot position: balance type {kind} at {at + 34}", account.address)
    return SpotPosition(balance, bids, asks, index, kind == _BORROW, orders)


def _perp(data: bytes, at: int) -> PerpPosition | None:
    if data[at : at + _PERP.size] == _NO_PERP:  # as most places are
        return None
    (rate, base, quote, _, entry, bids, asks, _, shares, balance, per_share, *rest) = (
        _PERP.unpack_from(data, at)
    )
    ratio, index, orders, flags = rest
    is_early = bool(shares or per_share)
    if is_early:
        balance = ratio = flags = 0
    found = PerpPosition(
        rate,
        base,
        quote,
        entry,
        bids,
        asks,
        shares,
        balance,
        ratio,
        index,
        orders,
        bool(flags & _ISOLATED),
        bool(flags & _LIQUIDATED),
        is_early,
    )
    return found if found.is_active or shares else None


def spot_market_of(account: Account, index: int) -> SpotMarket:
    """Return the market of an index; raises Unreadable."""
    data = checked(account, SPOT_MARKET)
    _check_index(account, u16(data, 684), index)
    if (decimals := u32(data, 680)) > MOST_DECIMALS:
        raise Unreadable(f"spot market: decimals {decimals} at 680", account.address)
    return SpotMarket(
        account.address,
        account.slot,
        index,
        raw_pubkey(data, 40),
        data[687],
        raw_pubkey(data, 72),
        decimals,
        i64(data, 168),
        i64(data, 200),
        raw_pubkey(data, 304),
        u128(data, 336),
        u128(data, 368),
        i64(data, 384),
        u128(data, 432),
        u128(data, 464),
        u128(data, 480),
        u32(data, 644),
        u32(data, 640),
        u32(data, 652),
        u32(data, 648),
        u32(data, 656),
        u64(data, 720),
        data[735],
    )


def perp_market_of(account: Account, index: int) -> PerpMarket:
    """Return the market of an index; raises Unreadable."""
    data = checked(account, PERP_MARKET)
    _check_index(account, u16(data, 1160), index)
    return PerpMarket(
        account.address,
        account.slot,
        index,
        data[1000:1032].decode("utf-8", "replace").strip(" \0"),
        raw_pubkey(data, 40),
        data[926],
        i64(data, 72),
        i64(data, 1088),
        _i128(data, 608),
        _i128(data, 624),
        _i128(data, 336) + _i128(data, 352),
        _i128(data, 384) + i64(data, 952) + i64(data, 944),
        u64(data, 1072),
        u32(data, 1120),
        u32(data, 1124),
        u32(data, 1140),
        u32(data, 1136),
        u16(data, 1176),
        u16(data, 1174),
        u32(data, 1148),
        u32(data, 1144),
        data[1162] == _SETTLEMENT,
        data[1163] == _PREDICTION,
        u16(data, 1166),
        data[1173],
    )


def fee_of(state: Account) -> Fee:
    """Return the fee of the first tier of perp markets; raises Unreadable."""
    data = checked(state, STATE)
    fee = Fee(state.slot, u32(data, 168), u32(data, 172))
    if not fee.denominator:
        raise Unreadable("state: fee_denominator 0 at 172", state.address)
    return fee


def checked(account: Account, kind: Kind) -> bytes:
    """Return the bytes of an account of a kind; raises Unreadable."""
    if account.kind is not kind or len(account.data) != kind.size:
        detail = f"it is {account.kind.name} of {len(account.data)} bytes, not {kind.name}"
        raise Unreadable(detail, account.address)
    return account.data


def _check_index(account: Account, found: int, wanted: int) -> None:
    if found != wanted:
        raise Unreadable(f"market index {found}, not {wanted} of its address", account.address)


def _i128(data: bytes, at: int) -> int:
    return int.from_bytes(data[at : at + 16], "little", signed=True)
