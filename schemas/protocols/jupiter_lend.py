"""Jupiter Lend (Fluid): shares of earn, and positions of vaults, which an NFT owns.

A vault's amounts have up to 9 decimals, those of tokens with fewer are scaled up. Debt is by the
position's tick; one that was liquidated since leads to a branch, and to those that one merged
into. Source: IDLs of the earn, vaults and liquidity programs; the address of the rewards' program
is that of `@jup-ag/lend-read`.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from struct import error, pack
from typing import Final

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
from schemas.protocols.in_step import in_step
from schemas.protocols.jupiter_lend_liquidation import (
    Left,
    Trail,
    is_latest,
    is_liquidated,
    left_of,
    next_of,
    trail_of_id,
    trail_of_tick,
)
from schemas.protocols.jupiter_lend_prices import (
    MAX_TICK,
    MIN_TICK,
    SCALE,
    Rewards,
    debt_of,
    reserve_prices,
    token_price,
    vault_prices,
)
from schemas.solana.addresses import key
from schemas.solana.borsh import raw_pubkey, u32, u64
from schemas.solana.derived import derived
from schemas.solana.token_accounts import BadAccount, read_mint

EARN: Final = key("jup3YeL8QhtSx1e253b2FDvsMNC87fDrgQZivbrndc9")
VAULTS: Final = key("jupr81YtYssSyPt8jbnGuiWon5f6x9TcDEFxYe3Bdzi")
LIQUIDITY: Final = key("jupeiUmn818Jg1ekPURTpr4mFo29p46vygyykFJ3wZC")
REWARDS: Final = key("jup7TthsMgcR9Y3L277b8Eo9uboVSmu1utkuXHNUKar")
LENDING: Final = Kind(
    "jupiter_lending", EARN, bytes.fromhex("87c75210f983b6f1"), size=196, mints=(40,)
)
RESERVE: Final = Kind(
    "jupiter_token_reserve", LIQUIDITY, bytes.fromhex("15123b8778141f0c"), size=192
)
REWARDS_MODEL: Final = Kind(
    "jupiter_rewards_model", REWARDS, bytes.fromhex("a6484783ac4aa6b5"), size=89
)
POSITION: Final = Kind(
    "jupiter_vault_position", VAULTS, bytes.fromhex("aabc8fe47a40f7d0"), size=71, mints=(14,)
)
CONFIG: Final = Kind("jupiter_vault_config", VAULTS, bytes.fromhex("63562bd8b866774d"), size=219)
STATE: Final = Kind("jupiter_vault_state", VAULTS, bytes.fromhex("e4c452a562d2eb98"), size=127)
METADATA: Final = Kind("jupiter_vault_metadata", VAULTS, bytes.fromhex("f8b1f45d43137539"), size=44)
TICK: Final = Kind("jupiter_vault_tick", VAULTS, bytes.fromhex("b05e43f785ad0773"), size=40)
TICK_IDS: Final = Kind("jupiter_vault_tick_ids", VAULTS, bytes.fromhex("291cbec544d51fb5"), size=57)
BRANCH: Final = Kind("jupiter_vault_branch", VAULTS, bytes.fromhex("0e3f643219081d05"), size=47)
_CACHED_ADDRESSES: Final = 1 << 12  # of vaults' ticks, 1 kB each
_MOST_BRANCHES: Final = 5  # the trips to the store that are left
_NO_TICK: Final = -(2**31)
_VAULT_DECIMALS: Final = 9
_REFUSED: Final = "amount: the exchange prices are none that the program accepts"


def read(held: Held, world: World) -> Reading:
    """Return a wallet's shares of earn and its positions of vaults; raises Unreadable."""
    return (yield from in_step(_read_earn(held, world), _read_vaults(held, world)))


def _read_earn(held: Held, world: World) -> Reading:
    owned = [
        (account, shares)
        for account in held.of(LENDING)
        if (shares := held.tokens.get(account.data[40:72], 0)) > 0
    ]
    if not owned:
        return []
    wanted = [account.data[131:163] for account, _ in owned]
    for account, _ in owned:
        if any(model := account.data[75:107]):
            wanted += [model, account.data[40:72]]
    known = yield tuple(dict.fromkeys(wanted))
    found = []
    for account, shares in owned:
        try:
            found.append(_earn(account, shares, known, world.time_s))
        except (error, IndexError):
            raise Unreadable("Lending or its TokenReserve is too short", account.address) from None
    return found


def _earn(account: Account, shares: int, known: Mapping[bytes, Account], time_s: int) -> Position:
    data = account.data
    line = Asset(Role.SUPPLY, raw_pubkey(data, 8), None, data[74])
    position = Position("earn", account, assets=[line], stands_for={raw_pubkey(data, 40): shares})
    reserve = _known(position, known, raw_pubkey(data, 131), RESERVE)
    rewards = _rewards(position, known)
    if reserve is None or position.missing:
        return position
    liquidity = reserve_prices(reserve.data, time_s)
    price = token_price(data, liquidity.supply, rewards, time_s) if liquidity else None
    if price is None:
        position.unsupported_fields.append(_REFUSED)
        return position
    line.amount_raw = shares * price // SCALE
    return position


def _rewards(position: Position, known: Mapping[bytes, Account]) -> Rewards | None:
    """Return what raises a share's price beside interest; None where nothing does, or unknown."""
    data = position.account.data
    if not any(address := raw_pubkey(data, 75)):
        return None
    model = _known(position, known, address, REWARDS_MODEL)
    mint_at = raw_pubkey(data, 40)
    mint = known.get(mint_at)
    if mint is None:
        position.missing.append(mint_at)
        return None
    try:
        shares_raw = read_mint(mint.kind.program, mint.data).supply_raw
    except BadAccount as reason:
        raise Unreadable(f"the mint of the shares: {reason}", position.account.address) from None
    return None if model is None else Rewards(model.data, shares_raw)


def _read_vaults(held: Held, world: World) -> Reading:
    accounts = [
        account for account in held.of(POSITION) if held.tokens.get(account.data[14:46], 0) > 0
    ]
    if not accounts:
        return []
    wanted: list[bytes] = []
    for account in accounts:
        try:
            wanted += _vault_of(account.data)
        except error as reason:
            raise Unreadable(f"vault position: {reason}", account.address) from None
    known = dict((yield tuple(dict.fromkeys(wanted))))
    tokens = [
        token
        for each in known.values()
        if each.kind is CONFIG
        for token in (each.data[154:186], each.data[186:218])
    ]
    if tokens:
        known |= yield tuple(dict.fromkeys(_reserve_of(token) for token in tokens))
    for _ in range(_MOST_BRANCHES):
        branches = [
            at
            for account in accounts
            if (at := _end_of(account.data, known)[0]) is not None and at not in known
        ]
        if not branches:
            break
        sent = yield tuple(dict.fromkeys(branches))
        known |= sent
        if not sent:
            break
    found = []
    for account in accounts:
        try:
            found.append(_vault(account, known, world.time_s))
        except (error, IndexError):
            raise Unreadable("an account of the vault is too short", account.address) from None
    return found


def _vault_of(data: bytes) -> tuple[bytes, ...]:
    """Return the addresses of config, state, metadata; of one with debt, of its ticks."""
    tick = _tick_of(data)
    return _addresses(data[8:10], tick, u32(data, 51) if tick > MIN_TICK else 0)


@lru_cache(_CACHED_ADDRESSES)
def _addresses(vault: bytes, tick: int, tick_id: int) -> tuple[bytes, ...]:
    found = [
        derived(VAULTS, seed, vault)
        for seed in (b"vault_config", b"vault_state", b"vault_metadata")
    ]
    if tick > MIN_TICK:
        place = pack("<I", tick + MAX_TICK)
        found.append(derived(VAULTS, b"tick", vault, place))
        ids = pack("<I", (tick_id + 2) // 3 % 2**32)
        found.append(derived(VAULTS, b"tick_id_liquidation", vault, place, ids))
    return tuple(found)


def _tick_of(data: bytes) -> int:
    """Return the tick of a position, the lowest where it has no debt; raises `struct.error`."""
    if len(data) < 71:
        raise error(f"{len(data)} bytes")
    tick = int.from_bytes(data[47:51], "little", signed=True)
    if data[46] or tick == _NO_TICK:
        return MIN_TICK
    if not MIN_TICK <= tick <= MAX_TICK:
        raise error(f"tick {tick} at 47")
    return tick


def _reserve_of(mint: bytes) -> bytes:
    return derived(LIQUIDITY, b"reserve", mint)


def _vault(account: Account, known: Mapping[bytes, Account], time_s: int) -> Position:
    data = account.data
    mint = raw_pubkey(data, 14)
    addresses = _vault_of(data)
    position = Position(
        "borrow",
        account,
        id=mint,
        market=addresses[0],
        stands_for={mint: 1},
        can_be_given=True,
    )
    kinds = (CONFIG, STATE, METADATA, TICK)
    found = [_known(position, known, at, kind) for at, kind in zip(addresses, kinds, strict=False)]
    config, state, metadata, *ticks = found
    if config is None:
        return position
    tokens = raw_pubkey(config.data, 154), raw_pubkey(config.data, 186)
    supplied, borrowed = (_known(position, known, _reserve_of(of), RESERVE) for of in tokens)
    supply = Asset(Role.SUPPLY, tokens[0], None)
    borrow = Asset(Role.BORROW, tokens[1], None)
    position.assets = [supply, borrow] if ticks else [supply]
    if metadata is not None:
        supply.decimals, borrow.decimals = metadata.data[42], metadata.data[43]
    position.health = Health(None, None, None)
    position.unsupported_fields.append("health: the vault's oracle is not among stored accounts")
    if position.missing:
        return position
    if state is None or supplied is None or borrowed is None or metadata is None:
        return position
    collateral_raw = u64(data, 55)
    debt_raw = max(debt_of(_tick_of(data), collateral_raw) - u64(data, 63), 0)
    if ticks and ticks[0] is not None and is_liquidated(data, ticks[0].data):
        left = _left(position, data, known)
        if left is None:
            return position
        collateral_raw, debt_raw = left
    supply_price = reserve_prices(supplied.data, time_s)
    borrow_price = reserve_prices(borrowed.data, time_s)
    prices = None
    if supply_price and borrow_price:
        prices = vault_prices(
            config.data, state.data, supply_price.supply, borrow_price.borrow, time_s
        )
    if prices is None:
        position.unsupported_fields.append(_REFUSED)
        return position
    supply.amount_raw = collateral_raw * prices.supply // SCALE // _scale(metadata.data[42])
    borrow.amount_raw = -(-debt_raw * prices.borrow // (SCALE * _scale(metadata.data[43])))
    return position


def _scale(decimals: int) -> int:
    """Return by how much a vault scales amounts of a token up."""
    return int(10 ** max(_VAULT_DECIMALS - decimals, 0))


def _end_of(data: bytes, known: Mapping[bytes, Account]) -> tuple[bytes | None, Trail | None]:
    """Return the branch at the end of a liquidated position's trail so far, and the trail.

    The first is what to ask for next, while it is not known; None: nothing more to ask for.
    """
    try:
        *_, tick_at, ids_at = _vault_of(data)  # of a position without debt: none is a tick
        tick, ids = known.get(tick_at), known.get(ids_at)
        if tick is None or tick.kind is not TICK or not is_liquidated(data, tick.data):
            return None, None
        if is_latest(data, tick.data):
            trail = trail_of_tick(tick.data)
        elif ids is None or ids.kind is not TICK_IDS:
            return ids_at, None
        else:
            trail = trail_of_id(data, ids.data)
        for _ in range(_MOST_BRANCHES):
            if trail.is_over:
                return None, trail
            at = derived(VAULTS, b"branch", data[8:10], pack("<I", trail.branch))
            branch = known.get(at)
            if branch is None or branch.kind is not BRANCH:
                return at, trail
            further = next_of(trail, branch.data)
            if further is None:
                return at, trail
            trail = further
    except (error, IndexError):
        return None, None
    return None, None


def _left(position: Position, data: bytes, known: Mapping[bytes, Account]) -> Left | None:
    """Return what a liquidation left; None, and named, where that is not known."""
    at, trail = _end_of(data, known)
    if trail is not None and trail.is_over:
        return Left(0, 0)
    if at is not None and trail is None:
        _known(position, known, at, TICK_IDS)
    elif at is not None and trail is not None:
        branch = _known(position, known, at, BRANCH)
        if branch is None:
            return None
        try:
            return left_of(trail, branch.data, data)
        except error:
            at = None
    if at is None:
        position.unsupported_fields.append("amount: the liquidation's branches lead nowhere")
    return None


def _known(
    position: Position, known: Mapping[bytes, Account], address: bytes, kind: Kind
) -> Account | None:
    """Return a reference and note its slot, or that it is missing."""
    account = known.get(address)
    if account is None or account.kind is not kind:
        position.missing.append(address)
        return None
    slots = (account.slot, position.reference_slot)
    position.reference_slot = min(slot for slot in slots if slot is not None)
    return account


PROTOCOL: Final = Protocol(
    "jupiter_lend",
    (LENDING, RESERVE, REWARDS_MODEL, POSITION, CONFIG, STATE, METADATA, TICK, TICK_IDS, BRANCH),
    (
        Route("earn", Shape.LENDING, "Shares of earn, worth more with every second"),
        Route("borrow", Shape.LENDING, "Positions of vaults: collateral and debt"),
    ),
    read,
    unsupported_fields=("health of vault positions",),
    reads_tokens=True,
)
