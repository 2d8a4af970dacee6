"""Exponent's first program: yield tokens, principal tokens, and liquidity of both.

A vault splits standardized yield (SY) into principal (PT), which becomes SY again at maturity, and
yield (YT), which earns what SY gains until then where it is deposited. A market trades PT for SY;
its LP token is a share of both, and earns emissions and farms where it is deposited.
Earnings count with the indexes that the vault and the market last saw, and farms until now. What SY
gains after maturity is the treasury's: a `merge` first sees the rate of SY, and pays principal by
it, so each pays less SY the later it is. That rate is of the SY's own program, which nothing here
reads, so the SY of matured principal is not known. It stays a line of PT, which counts where a
market prices it: anybody can send a PT, and SY without an amount would make the wallet's worth
unknown. Below its highest rate a vault is in its emergency mode, and pays none.

The program divides a market's balances in floating point, here they are exact: above 2**53 the last
digits may differ.

Source: exponent-finance/exponent-core, `state/{vault,yield_token_position,lp_position,market_two,
personal_yield_tracker}.rs`, `instructions/vault/{merge,collect_interest,collect_emission}.rs`,
`instructions/market_two/withdraw_liquidity.rs`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from struct import error
from typing import Final, NamedTuple

from schemas.protocols.contract import (
    Account,
    Asset,
    Held,
    Kind,
    Lock,
    Position,
    Reading,
    Role,
    Unreadable,
    World,
)
from schemas.protocols.exponent_number import ONE, divided, number, ratio, times
from schemas.protocols.mint import MINT, MINT_2022, MINT_2022_EXTENDED
from schemas.protocols.token import TOKEN, TOKEN_2022, TOKEN_2022_EXTENDED
from schemas.protocols.vaults import PAUSED
from schemas.solana.addresses import key
from schemas.solana.borsh import Reader, raw_pubkey, u16, u32, u64
from schemas.solana.token_accounts import BadAccount, read_mint, read_token_account

PROGRAM: Final = key("ExponentnaRg3CQbW6dqQNZKXp7gtZ9DGMp1cwC4HAS7")
ROUTE: Final = "positions"

_YT_AT: Final = 72  # offsets of mints in a vault
_PT_AT: Final = 104
_LP_AT: Final = 136  # and in a market
_STATUS_AT: Final = 331  # of a market
_CAN_WITHDRAW: Final = 2
YIELD: Final = Kind(
    "exponent_yield_position", PROGRAM, bytes.fromhex("e35c92311d55475e"), wallets=(8,)
)
LIQUIDITY: Final = Kind(
    "exponent_lp_position", PROGRAM, bytes.fromhex("69f125c8e002fc5a"), wallets=(8,)
)
VAULT: Final = Kind(
    "exponent_vault", PROGRAM, bytes.fromhex("d308e82b02987577"), mints=(_YT_AT, _PT_AT)
)
MARKET: Final = Kind("exponent_market", PROGRAM, bytes.fromhex("d404847ea9797914"), mints=(_LP_AT,))
KINDS: Final = (YIELD, LIQUIDITY, VAULT, MARKET)

_MOST: Final = 64  # emissions, farms and their trackers; an account has few
_WHOLE_BPS: Final = 10_000
_MINTS: Final = (MINT, MINT_2022, MINT_2022_EXTENDED)
_TOKENS: Final = (TOKEN, TOKEN_2022, TOKEN_2022_EXTENDED)
_NO_VAULT: Final = "assets: the vault, which says what is deposited, is not known"
_NO_MARKET: Final = "assets: the market, which says what is deposited, is not known"
_NO_SUPPLY: Final = "assets.amount_raw: how many LP tokens the market has is not known"
_NO_RATE: Final = "assets: principal pays SY by a rate that the vault has not seen yet"
_EMERGENCY: Final = "locks: the vault pays nothing until SY is at its highest rate again"
_NO_EMISSION: Final = (
    "rewards: an emission is left out until the account that it is paid from, and that says of "
    "what it is, is known; it is asked for"
)


class _Tracker(NamedTuple):
    """What a position has of an index: as it last saw it, and staged."""

    seen_index: int
    staged_raw: int


class _Emission(NamedTuple):
    """What is paid beside the yield."""

    paid_from: bytes  # a token account
    last_index: int
    fee_bps: int = 0


class _Vault(NamedTuple):
    account: Account
    sy: bytes  # mints
    yt: bytes
    pt: bytes
    ends_s: int
    rate: int  # of SY in its base, as last seen
    highest: int
    final: int  # while the vault was active
    fee_bps: int
    emissions: tuple[_Emission, ...]

    def is_over(self, now_s: int) -> bool:
        """Return whether it is past its maturity."""
        return now_s > self.ends_s

    @property
    def is_in_emergency(self) -> bool:
        """Return whether SY has lost, by the rate that the vault last saw."""
        return self.highest > self.rate


class _Farm(NamedTuple):
    mint: bytes
    per_second: int
    ends_s: int
    last_index: int


class _Market(NamedTuple):
    account: Account
    pt: bytes  # mints
    sy: bytes
    lp: bytes
    pt_raw: int
    sy_raw: int
    is_paused: bool
    emissions: tuple[_Emission, ...]
    farms: tuple[_Farm, ...]
    seen_s: int  # when farms' indexes were last increased
    staked_lp: int


class _Deposit(NamedTuple):
    """A wallet's YT or LP tokens with the program."""

    account: Account
    of: bytes  # vault or market
    amount_raw: int
    interest: _Tracker | None
    emissions: tuple[_Tracker, ...]
    farms: tuple[_Tracker, ...] = ()


def read(held: Held, world: World) -> Reading:
    """Return a wallet's deposits and tokens of vaults and markets; raises Unreadable."""
    deposits = [_deposit(each) for kind in (YIELD, LIQUIDITY) for each in _own(held, kind)]
    vaults = {each.address: _vault(each) for each in held.of(VAULT) if _held(each, held)}
    markets = {each.address: _market(each) for each in held.of(MARKET) if _held(each, held)}
    owned_vaults, owned_markets = [*vaults.values()], [*markets.values()]
    if not (deposits or owned_vaults or owned_markets):
        return []
    if deposits:
        referred = yield tuple(dict.fromkeys(each.of for each in deposits))
        for deposit in deposits:
            try:
                if (account := referred.get(deposit.of)) is None:
                    continue
                if account.kind is VAULT:
                    vaults[deposit.of] = _vault(account)
                elif account.kind is MARKET:
                    markets[deposit.of] = _market(account)
            except Unreadable as bad:
                raise Unreadable(str(bad), deposit.account.address) from None
    wanted = {each.lp: None for each in markets.values()}
    for emissions in (
        *(each.emissions for each in vaults.values()),
        *(each.emissions for each in markets.values()),
    ):
        wanted |= {each.paid_from: None for each in emissions}
    found: Mapping[bytes, Account] = (yield tuple(wanted)) if wanted else {}
    positions = [each for of in owned_vaults for each in _tokens(of, held, world)]
    positions += [_lp_tokens(each, held, found) for each in owned_markets]
    for deposit in deposits:
        if deposit.interest is None:
            positions.append(_liquidity(deposit, markets.get(deposit.of), found, world))
        else:
            vault = vaults.get(deposit.of)
            positions.append(_yield(deposit, deposit.interest, vault, found, world))
    return [each for each in positions if each.assets or each.missing or each.lacking]


def _own(held: Held, kind: Kind) -> Iterator[Account]:
    return (each for each in held.of(kind) if each.data[8:40] == held.wallet)


def _held(account: Account, held: Held) -> bool:
    return any(held.tokens.get(each, 0) > 0 for each in account.kind.represented_by(account.data))


def _deposit(account: Account) -> _Deposit:
    reader = Reader(account.data, 40)
    try:
        of, amount_raw = reader.raw_pubkey(), reader.u64()
        if account.kind is YIELD:
            [interest] = _trackers(reader, account, 1)
            return _Deposit(account, of, amount_raw, interest, (*_trackers(reader, account),))
        emissions = (*_trackers(reader, account),)
        return _Deposit(account, of, amount_raw, None, emissions, (*_trackers(reader, account),))
    except error:
        raise Unreadable(
            f"{account.kind.name} of {len(account.data)} bytes", account.address
        ) from None


def _trackers(reader: Reader, account: Account, count: int | None = None) -> Iterator[_Tracker]:
    for _ in range(_count(reader, account) if count is None else count):
        yield _Tracker(_number(reader), reader.u64())


def _count(reader: Reader, account: Account) -> int:
    count = reader.u32()
    if count > _MOST:
        raise Unreadable(f"{count} elements at {reader.offset - 4}", account.address)
    return count


def _number(reader: Reader) -> int:
    value = number(reader.data, reader.offset)
    reader.skip(32)
    return value


def _vault(account: Account) -> _Vault:
    data = account.data
    reader = Reader(data, 524)
    try:
        emissions = []
        for _ in range(_count(reader, account)):
            paid_from = reader.raw_pubkey()
            reader.skip(64)
            final = _number(reader)
            reader.skip(32)
            emissions.append(_Emission(paid_from, final, reader.u16()))
            reader.skip(8)
        return _Vault(
            account,
            raw_pubkey(data, 40),
            raw_pubkey(data, _YT_AT),
            raw_pubkey(data, _PT_AT),
            u32(data, 264) + u32(data, 268),
            number(data, 337),
            number(data, 369),
            number(data, 401),
            u16(data, 505),
            tuple(emissions),
        )
    except error:
        raise Unreadable(f"vault of {len(data)} bytes", account.address) from None


def _market(account: Account) -> _Market:
    data = account.data
    reader = Reader(data, 412)
    try:
        emissions = []
        for _ in range(_count(reader, account)):
            emissions.append(_Emission(reader.raw_pubkey(), _number(reader)))
            reader.skip(8)
        seen_s = reader.u32()
        farms = tuple(
            _Farm(reader.raw_pubkey(), reader.u64(), reader.u32(), _number(reader))
            for _ in range(_count(reader, account))
        )
        reader.skip(8)
        return _Market(
            account,
            raw_pubkey(data, 40),
            raw_pubkey(data, 72),
            raw_pubkey(data, _LP_AT),
            u64(data, 372),
            u64(data, 380),
            not data[_STATUS_AT] & _CAN_WITHDRAW,
            tuple(emissions),
            farms,
            seen_s,
            reader.u64(),
        )
    except error:
        raise Unreadable(f"market of {len(data)} bytes", account.address) from None


def _tokens(vault: _Vault, held: Held, world: World) -> Iterator[Position]:
    """Yield a wallet's PT and YT: what YT earns that is not deposited is not its holder's."""
    ends = vault.ends_s * 1000
    over = vault.is_over(world.time_s)
    for mint in dict.fromkeys((vault.pt, vault.yt)):
        if (raw := held.tokens.get(mint, 0)) <= 0:
            continue
        position = Position(
            ROUTE, vault.account, mint, market=vault.account.address, stands_for={mint: raw}
        )
        position.locks = [Lock("term", 0 if over else raw, raw if over else 0, ends)]
        if mint != vault.pt:
            position.assets = [_yt(vault, raw, over)]
        elif over:
            _matured(position, vault, raw)
        else:
            position.assets = [Asset(Role.SUPPLY, mint, raw)]
        yield position


def _matured(position: Position, vault: _Vault, raw: int) -> None:
    """Add matured PT; how much SY it pays is not known."""
    position.unsupported_fields.append(_NO_RATE)
    role = Role.SUPPLY
    if vault.is_in_emergency:
        role = Role.LOCKED
        position.locks = [Lock("term", raw, 0)]
        position.unsupported_fields.append(_EMERGENCY)
    position.assets = [Asset(role, vault.pt, raw)]


def _yt(vault: _Vault, raw: int, over: bool) -> Asset:
    """Return a line of YT, which is worth nothing after maturity but what it has earned."""
    return Asset(Role.SUPPLY, vault.yt, raw, is_worthless=over)


def _yield(
    deposit: _Deposit,
    interest: _Tracker,
    vault: _Vault | None,
    found: Mapping[bytes, Account],
    world: World,
) -> Position:
    position = Position(ROUTE, deposit.account, market=deposit.of)
    if vault is None:
        position.missing.append(deposit.of)
        position.unsupported_fields.append(_NO_VAULT)
        return position
    position.reference_slot = vault.account.slot
    over = vault.is_over(world.time_s)
    if deposit.amount_raw:
        position.assets.append(_yt(vault, deposit.amount_raw, over))
        locked, free = (0, deposit.amount_raw) if over else (deposit.amount_raw, 0)
        position.locks = [Lock("term", locked, free, vault.ends_s * 1000)]
    earned_raw = interest.staged_raw + _earned(vault, interest, deposit.amount_raw)
    if earned_raw:
        position.assets.append(
            Asset(Role.REWARD, vault.sy, _without_fee(earned_raw, vault.fee_bps))
        )
    in_sy = earned_raw + (
        divided(deposit.amount_raw * ONE, vault.final) // ONE if vault.final else 0
    )
    for emission, tracker in _pairs(vault.emissions, deposit.emissions):
        grown = max(emission.last_index - tracker.seen_index, 0)
        raw = tracker.staged_raw + times(grown, in_sy)
        _reward(position, emission, _without_fee(raw, emission.fee_bps), found)
    return position


def _earned(vault: _Vault, interest: _Tracker, yt_raw: int) -> int:
    """Return the SY that deposited YT earned and the program did not stage, rounded down."""
    if vault.is_in_emergency or not 0 < interest.seen_index < vault.final:
        return 0  # in its emergency mode a vault pays no more
    grown = divided(ONE, interest.seen_index) - divided(ONE, vault.final)
    earned_raw = times(grown, yt_raw)
    if vault.rate > vault.final:
        earned_raw = times(divided(vault.final, vault.rate), earned_raw)
    return earned_raw


def _without_fee(raw: int, fee_bps: int) -> int:
    return max(raw - (raw * fee_bps + _WHOLE_BPS - 1) // _WHOLE_BPS, 0)


def _pairs(
    emissions: tuple[_Emission, ...], trackers: tuple[_Tracker, ...]
) -> Iterator[tuple[_Emission, _Tracker]]:
    """Yield each emission with its tracker; one that came later is tracked from 0."""
    for at, emission in enumerate(emissions):
        yield emission, trackers[at] if at < len(trackers) else _Tracker(0, 0)


def _reward(
    position: Position, emission: _Emission, raw: int, found: Mapping[bytes, Account]
) -> None:
    """Add a line of an emission: its mint is that of the account that it is paid from."""
    if not raw:
        return
    account = found.get(emission.paid_from)
    if account is None:
        position.lacking.append(emission.paid_from)
        if _NO_EMISSION not in position.unsupported_fields:
            position.unsupported_fields.append(_NO_EMISSION)
        return
    try:
        if account.kind not in _TOKENS:
            raise BadAccount(f"{account.kind.name} is no token account")
        mint = read_token_account(account.kind.program, account.data).mint
    except BadAccount as bad:
        raise Unreadable(f"emission: {bad}", position.account.address) from None
    position.assets.append(Asset(Role.REWARD, mint, raw))


def _lp_tokens(market: _Market, held: Held, found: Mapping[bytes, Account]) -> Position:
    """Return the LP tokens that a wallet holds; they earn nothing beside their share."""
    raw = held.tokens.get(market.lp, 0)
    position = Position(
        ROUTE, market.account, market=market.account.address, stands_for={market.lp: raw}
    )
    _shares(position, market, raw, found)
    return position


def _liquidity(
    deposit: _Deposit, market: _Market | None, found: Mapping[bytes, Account], world: World
) -> Position:
    position = Position(ROUTE, deposit.account, market=deposit.of)
    if market is None:
        position.missing.append(deposit.of)
        position.unsupported_fields.append(_NO_MARKET)
        return position
    position.reference_slot = market.account.slot
    if deposit.amount_raw:
        _shares(position, market, deposit.amount_raw, found)
    for emission, tracker in _pairs(market.emissions, deposit.emissions):
        grown = max(emission.last_index - tracker.seen_index, 0)
        _reward(position, emission, tracker.staged_raw + times(grown, deposit.amount_raw), found)
    for at, farm in enumerate(market.farms):
        tracker = deposit.farms[at] if at < len(deposit.farms) else _Tracker(0, 0)
        past_s = max(min(farm.ends_s, world.time_s) - market.seen_s, 0)
        index = farm.last_index + ratio(farm.per_second * past_s, market.staked_lp)
        raw = tracker.staged_raw + times(max(index - tracker.seen_index, 0), deposit.amount_raw)
        if raw:
            position.assets.append(Asset(Role.REWARD, farm.mint, raw))
    return position


def _shares(position: Position, market: _Market, raw: int, found: Mapping[bytes, Account]) -> None:
    """Add what LP tokens withdraw of a market, rounded down; locked while it lets none do so."""
    mint = found.get(market.lp)
    amounts: tuple[int | None, int | None] = (None, None)
    if mint is None:
        position.missing.append(market.lp)
        position.unsupported_fields.append(_NO_SUPPLY)
    else:
        position.reference_slot = min(mint.slot, position.reference_slot or mint.slot)
        supply = _supply(mint, position.account)
        if raw > supply:
            raise Unreadable(f"{raw} of {supply} LP tokens", position.account.address)
        amounts = market.pt_raw * raw // supply, market.sy_raw * raw // supply
    if market.is_paused:
        position.unsupported_fields.append(PAUSED)
    role = Role.LOCKED if market.is_paused else Role.SUPPLY
    for of, amount in zip((market.pt, market.sy), amounts, strict=True):
        position.assets.append(Asset(role, of, amount))


def _supply(mint: Account, of: Account) -> int:
    try:
        if mint.kind not in _MINTS:
            raise BadAccount(f"{mint.kind.name} is no mint")
        return read_mint(mint.kind.program, mint.data).supply_raw
    except BadAccount as bad:
        raise Unreadable(f"mint of LP tokens: {bad}", of.address) from None
