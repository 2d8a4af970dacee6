"""DefiTuna: lending vaults, and leveraged positions in pools of FusionAMM and Orca's Whirlpools.

Source: tuna-sdk's IDL and `rust-sdk/client/src/implementation/`: shares by funds (supplies rounded
down, debts up), `compute_total_and_debt`, `is_healthy`; fusionamm-sdk `math/liquidity.rs`. Vaults
count as of their last update: the program accrues interest in floating point.

Anybody can create a vault or a market (`create_vault_permissionless` chooses its interest,
`create_market_permissionless`): these name their creator, those of the protocol name nobody. A
position in one counts where that vault or market is verified.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from fractions import Fraction
from struct import error, unpack_from
from typing import Final, NamedTuple

from schemas.protocols.contract import (
    Account,
    Asset,
    Health,
    Held,
    Kind,
    Position,
    Protocol,
    Reading,
    Role,
    Route,
    Shape,
    Unreadable,
    World,
)
from schemas.protocols.health import UNKNOWN
from schemas.protocols.math.concentrated import price_range, token_amounts
from schemas.protocols.math.ticks import orca_sqrt_price_x64
from schemas.solana.addresses import key, text
from schemas.solana.borsh import raw_pubkey, u32, u64, u128
from schemas.solana.derived import derived

PROGRAM: Final = key("tuna4uSQZncNeeiAMKbstuxA9CUkHH6HmC64wgmnogD")
FUSION_PROGRAM: Final = key("fUSioN9YKKSa3CUC2YUc4tPkHJ5Y6XW1yz8y6F7qWz9")


def _kind(name: str, tag: str, wallets: tuple[int, ...] = ()) -> Kind:
    return Kind(f"defituna_{name}", PROGRAM, bytes.fromhex(tag), wallets=wallets)


LENDING: Final = _kind("lending_position", "2ffffc2314f59df3", (11,))
LP: Final = _kind("lp_position", "4cc5a133e80f89dc", (11,))
SPOT: Final = _kind("spot_position", "76387c68b2cdae4d", (11,))
VAULT: Final = _kind("vault", "d308e82b02987577")
MARKET: Final = _kind("market", "dbbed53700e3c69a")
POOL: Final = Kind("fusion_pool", FUSION_PROGRAM, bytes.fromhex("fecccf6219b51d43"))

_WHIRLPOOLS: Final = key("whirLbMiicVdio4qvUfM5KAg6Ct8VwpYzGff3uctyCc")
_WHIRLPOOL_TAG: Final = bytes.fromhex("3f95d10ce1806309")
_HUNDRED_PERCENT: Final = 1_000_000
_INTEREST: Final = "interest since a vault's last update, which accrues in floating point"
_FEES: Final = "fees of the pool that are not collected"
_NO_PRICES: Final = "range.lower, range.upper, range.current: the tokens' decimals are not read"
_UNSET: Final = bytes(32)
_NOTHING: Final = (0, 0)
_U64: Final = 1 << 64
_U128: Final = 1 << 128


class _Lending(NamedTuple):
    account: Account
    mint: bytes
    shares: int
    vault: bytes


class _Leveraged(NamedTuple):
    account: Account
    pool: bytes
    mints: tuple[bytes, bytes]
    kept_raw: tuple[int, int]  # beside the liquidity
    loan_shares: tuple[int, int]
    liquidity: int = 0
    ticks: tuple[int, int] | None = None  # None: it is no liquidity

    @property
    def market(self) -> bytes:
        """Return the address of the pool's market."""
        return _address(b"market", self.pool)


class _Market(NamedTuple):
    account: Account
    threshold: Fraction  # of the total, which the debt may not exceed
    vaults: tuple[bytes, bytes]
    is_open: bool  # to anybody: it was created without the protocol


class _Vault(NamedTuple):
    account: Account
    mint: bytes
    deposited: tuple[int, int]  # funds, shares
    borrowed: tuple[int, int]
    rate: int  # of interest
    counted_s: int  # until when it is counted
    is_open: bool  # to anybody: it was created without the protocol

    def is_behind(self, world: World) -> bool:
        """Return whether interest has accrued that is not counted."""
        return bool(self.rate and self.borrowed[0] and world.time_s > self.counted_s)


class _Pool(NamedTuple):
    account: Account
    sqrt_price_x64: int
    current_tick: int


def read(held: Held, world: World) -> Reading:
    """Return a wallet's deposits and leveraged positions; raises Unreadable."""
    lendings = [_lending(account) for account in _own(held, LENDING)]
    leveraged = [_lp(account) for account in _own(held, LP)]
    leveraged += [_spot(account) for account in _own(held, SPOT)]
    if not lendings and not leveraged:
        return []
    wanted = [each.vault for each in lendings]
    wanted += [address for each in leveraged for address in (each.pool, each.market)]
    found = dict((yield tuple(dict.fromkeys(wanted))))
    markets = {each.market: _market(found, each) for each in leveraged}
    vaults = {address for market in markets.values() if market for address in market.vaults}
    if more := sorted(vaults - found.keys()):
        found |= yield tuple(more)
    positions = [_deposit(each, found, world) for each in lendings if each.shares]
    positions += [_position(each, markets[each.market], found, world) for each in leveraged]
    return [each for each in positions if each.assets]


def _own(held: Held, kind: Kind) -> Iterator[Account]:
    """Yield the accounts of a kind that name the wallet as their authority, or are cut short."""
    [at] = kind.wallets
    for account in held.of(kind):
        authority = account.data[at : at + 32]
        if authority == held.wallet or len(authority) < len(held.wallet):
            yield account


def _lending(account: Account) -> _Lending:
    data = account.data
    try:
        mint, shares, vault = raw_pubkey(data, 43), u64(data, 83), raw_pubkey(data, 91)
    except error:
        raise Unreadable(f"lending position of {len(data)} bytes", account.address) from None
    if vault == _UNSET:  # a position of the first version
        vault = _address(b"vault", mint)
    return _Lending(account, mint, shares, vault)


def _lp(account: Account) -> _Leveraged:
    data = account.data
    try:
        return _Leveraged(
            account=account,
            pool=raw_pubkey(data, 43),
            mints=(raw_pubkey(data, 75), raw_pubkey(data, 107)),
            liquidity=u128(data, 171),
            ticks=unpack_from("<ii", data, 187),
            loan_shares=(u64(data, 195), u64(data, 203)),
            kept_raw=(u64(data, 227), u64(data, 235)),
        )
    except error:
        raise Unreadable(f"LP position of {len(data)} bytes", account.address) from None


def _spot(account: Account) -> _Leveraged:
    data = account.data
    try:
        amount, shares = u64(data, 146), u64(data, 154)
        pool, mints = raw_pubkey(data, 43), (raw_pubkey(data, 75), raw_pubkey(data, 107))
    except error:
        raise Unreadable(f"spot position of {len(data)} bytes", account.address) from None
    if data[140] > 1:
        raise Unreadable(f"position_token {data[140]}", account.address)
    is_long = data[140] == 0  # it has A, and owes B
    return _Leveraged(
        account=account,
        pool=pool,
        mints=mints,
        kept_raw=(amount, 0) if is_long else (0, amount),
        loan_shares=(0, shares) if is_long else (shares, 0),
    )


def _address(*seeds: bytes) -> bytes:
    return derived(PROGRAM, *seeds)


def _market(found: Mapping[bytes, Account], of: _Leveraged) -> _Market | None:
    account = found.get(of.market)
    if account is None:
        return None
    data = account.data
    try:
        threshold = Fraction(u32(data, 88), _HUNDRED_PERCENT)
        vaults = (raw_pubkey(data, 157), raw_pubkey(data, 189))
        is_open = raw_pubkey(data, 237) != _UNSET  # authority
    except error:
        raise Unreadable(f"market of {len(data)} bytes", of.account.address) from None
    return _Market(account, threshold, vaults, is_open)


def _vault(found: Mapping[bytes, Account], address: bytes, of: Account) -> _Vault | None:
    account = found.get(address)
    if account is None:
        return None
    data = account.data
    if account.kind.program != PROGRAM or not data.startswith(VAULT.tag):
        raise Unreadable(f"{text(address)} is no vault", of.address)
    try:
        return _Vault(
            account=account,
            mint=raw_pubkey(data, 11),
            deposited=(u64(data, 43), u64(data, 51)),
            borrowed=(u64(data, 59), u64(data, 67)),
            rate=u64(data, 83),
            counted_s=u64(data, 91),
            is_open={raw_pubkey(data, 171), raw_pubkey(data, 203)} != {_UNSET},  # authority, market
        )
    except error:
        raise Unreadable(f"vault {text(address)} of {len(data)} bytes", of.address) from None


def _pool(found: Mapping[bytes, Account], of: _Leveraged) -> _Pool | None:
    account = found.get(of.pool)
    if account is None:
        return None
    data, kind = account.data, account.kind
    if kind.program == FUSION_PROGRAM and data.startswith(POOL.tag):
        at = 167, 183
    elif kind.program == _WHIRLPOOLS and data.startswith(_WHIRLPOOL_TAG):
        at = 65, 81
    else:
        raise Unreadable(f"{text(of.pool)} is no pool", of.account.address)
    try:
        return _Pool(account, u128(data, at[0]), *unpack_from("<i", data, at[1]))
    except error:
        detail = f"pool {text(of.pool)} of {len(data)} bytes"
        raise Unreadable(detail, of.account.address) from None


def _deposit(lending: _Lending, found: Mapping[bytes, Account], world: World) -> Position:
    vault = _vault(found, lending.vault, lending.account)
    position = Position("positions", lending.account, market=lending.vault)
    amount = None
    if vault is None:
        position.missing.append(lending.vault)
        position.unsupported_fields.append("amount_raw: the vault is missing")
    elif vault.mint != lending.mint:
        raise Unreadable("mint: the vault has another", lending.account.address)
    else:
        position.reference_slot = vault.account.slot
        position.open_markets = [lending.vault] if vault.is_open else []
        funds, shares = vault.deposited
        amount = lending.shares * funds // shares if shares else lending.shares
    position.assets.append(Asset(Role.SUPPLY, lending.mint, amount))
    if vault is not None and vault.is_behind(world):
        position.assets.append(Asset(Role.PENDING, lending.mint, None))
        position.unsupported_fields.append(_INTEREST)
    return position


def _position(
    of: _Leveraged, market: _Market | None, found: Mapping[bytes, Account], world: World
) -> Position:
    pool = _pool(found, of)
    vaults = [_vault(found, each, of.account) for each in market.vaults] if market else []
    position = Position("positions", of.account, market=of.market)
    used = [each.account for each in (pool, market, *vaults) if each is not None]
    position.reference_slot = min((each.slot for each in used), default=None)
    opened = [of.market] if market is not None and market.is_open else []
    opened += [
        vault.account.address
        for shares, vault in zip(of.loan_shares, vaults, strict=False)
        if shares and vault is not None and vault.is_open
    ]
    position.open_markets = opened
    held_raw: tuple[int | None, int | None] = of.kept_raw
    if pool is None:
        position.missing.append(of.pool)
        position.unsupported_fields.append("range, health: the pool is missing")
    if of.ticks is not None and of.liquidity:
        if pool is None:
            held_raw = (None, None)
            position.unsupported_fields.append("amount_raw of supplies: the pool is missing")
        else:
            held_raw = _in_pool(of, of.ticks, pool, position)
    debts = _debts(of, market, vaults, position)
    position.assets += _lines(Role.SUPPLY, of.mints, held_raw)
    position.assets += _lines(Role.BORROW, of.mints, debts)
    if of.ticks is not None and of.liquidity:
        position.assets += _lines(Role.REWARD, of.mints, (None, None))
        position.unsupported_fields.append(_FEES)
    behind = [
        vault.mint
        for shares, vault in zip(of.loan_shares, vaults, strict=False)
        if shares and vault is not None and vault.is_behind(world)
    ]
    if behind:
        position.assets += [Asset(Role.BORROW, mint, None) for mint in behind]
        position.unsupported_fields += [_INTEREST, "health: it counts that interest of debts"]
        position.health = UNKNOWN
    elif pool is not None and market is not None:
        position.health = _health(held_raw, debts, pool.sqrt_price_x64, market.threshold)
    return position


def _in_pool(
    of: _Leveraged, ticks: tuple[int, int], pool: _Pool, position: Position
) -> tuple[int, int]:
    """Return what the position has of both tokens, and note its range."""
    lower, upper = ticks
    try:
        at_lower, at_upper = orca_sqrt_price_x64(lower), orca_sqrt_price_x64(upper)
    except ValueError as reason:
        raise Unreadable(str(reason), of.account.address) from None
    if lower >= upper:
        raise Unreadable(f"ticks {lower} to {upper}", of.account.address)
    now = pool.sqrt_price_x64
    position.range = price_range(
        of.mints, (None, None), ticks, pool.current_tick, (at_lower, at_upper, now)
    )
    position.unsupported_fields.append(_NO_PRICES)
    amount_a, amount_b = token_amounts(of.liquidity, now, at_lower, at_upper)
    return of.kept_raw[0] + amount_a, of.kept_raw[1] + amount_b


def _debts(
    of: _Leveraged, market: _Market | None, vaults: list[_Vault | None], position: Position
) -> tuple[int | None, int | None]:
    """Return what is owed of both tokens, rounded up, and note what is missing for it."""
    if of.loan_shares == _NOTHING:
        return _NOTHING
    debts: list[int | None] = []
    for token, shares in enumerate(of.loan_shares):
        vault = vaults[token] if vaults else None
        if not shares:
            debts.append(0)
        elif vault is None:
            debts.append(None)
            position.missing.append(market.vaults[token] if market else of.market)
        elif vault.mint != of.mints[token]:
            raise Unreadable(f"mint {token}: the vault has another", of.account.address)
        else:
            funds, whole = vault.borrowed
            debts.append(-(-shares * funds // whole) if whole else shares)
    if None in debts:
        position.missing = [*dict.fromkeys(position.missing)]
        position.unsupported_fields.append("amount_raw of debts: market or vault is missing")
    return debts[0], debts[1]


def _lines(
    role: Role, mints: tuple[bytes, bytes], amounts: tuple[int | None, int | None]
) -> Iterator[Asset]:
    return (
        Asset(role, mint, amount)
        for mint, amount in zip(mints, amounts, strict=True)
        if amount != 0
    )


def _health(
    held_raw: tuple[int | None, int | None],
    debts: tuple[int | None, int | None],
    sqrt_price_x64: int,
    threshold: Fraction,
) -> Health:
    """Return the health by the pool's own price, of sums in token B rounded as the program does."""
    total, debt = (_in_b(amounts, sqrt_price_x64) for amounts in (held_raw, debts))
    if total is None or debt is None or not total:
        return UNKNOWN
    ltv = Fraction(debt, total)
    return Health(threshold / ltv if ltv else None, ltv, threshold)


def _in_b(amounts: tuple[int | None, int | None], sqrt_price_x64: int) -> int | None:
    """Return the worth of both amounts in B; None where unknown, or more than the program has."""
    amount_a, amount_b = amounts
    if amount_a is None or amount_b is None:
        return None
    price_x64 = sqrt_price_x64 * sqrt_price_x64 >> 64
    worth = (amount_a * price_x64 >> 64) + amount_b
    return worth if price_x64 < _U128 and worth < _U64 else None


PROTOCOL: Final = Protocol(
    "defituna",
    (LENDING, LP, SPOT, VAULT, MARKET, POOL),
    (
        Route("positions", Shape.LENDING, "Deposits, leveraged liquidity and spot positions"),
        Route(
            "staking",
            Shape.STAKING,
            "Staked tokens",
            unsupported="the staking program and its accounts are not known",
        ),
    ),
    read,
    identified="guess",
    unsupported_fields=(
        "interest since a vault's last update",
        "vaults and markets that anybody created: in sums where VERIFIED_MARKETS names them",
        "fees of pools that are not collected",
        "staking",
    ),
)
