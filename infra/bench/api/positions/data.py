"""The wallets of the bench and what they have: of a lender, of pools, of both, of many."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from infra.bench.api.markets import write_market
from infra.bench.api.positions import lending, liquidity, whirlpool
from infra.bench.api.positions.accounts import AccountsWriter
from infra.bench.api.positions.copied import Chain
from infra.bench.api.positions.lending import Lender, Made
from infra.bench.api.positions.liquidity import Pools
from infra.bench.api.redis_writer import RedisWriter
from infra.bench.api.world import DECIMALS, SUPPLY_RAW, World
from schemas.markets import PRICE_SCALE
from schemas.money import SOL_DECIMALS, WSOL
from schemas.protocols.registry import SLUGS
from schemas.solana.addresses import key, text

POSITIONS: Final = 20
"""Of a wallet, in each of its protocols."""
LOANS_OF_ALL: Final = 3
"""Of a wallet in many protocols: each is a position, and rewards of it are another."""
RANGES_OF_ALL: Final = 5
"""Positions in pools of such a wallet."""
WALLETS: Final = 400
"""Of each group: asked in turn at 200 a second, each comes again when its answer is too old."""
_REWARDS_RAW: Final = 1 << 62  # in a pool's vault, more than is owed


@dataclass(slots=True)
class Wallets:
    """Addresses of wallets, by what they have: POSITIONS of each, or 60 in 12 protocols."""

    lenders: list[str] = field(default_factory=list)
    providers: list[str] = field(default_factory=list)
    both: list[str] = field(default_factory=list)
    many: list[str] = field(default_factory=list)


def wallets(world: World) -> Wallets:
    """Return the wallets of a world; only those with positions in many protocols trade in it."""
    found = Wallets(many=[world.wallet(world.wallets - 1 - each) for each in range(WALLETS)])
    for name in ("lenders", "providers", "both"):
        of_group = getattr(found, name)
        of_group += (text(world.raw(name, number)) for number in range(WALLETS))
    return found


async def write_positions(write: RedisWriter, world: World) -> None:
    """Write all accounts of the wallets, what these refer to, and what is covered."""
    accounts = AccountsWriter(write)
    lender, pools = _venues(world)
    of = wallets(world)
    loans = [(POSITIONS, (*of.lenders, *of.both)), (LOANS_OF_ALL, of.many)]
    for count, wallet in ((count, key(each)) for count, own in loans for each in own):
        for _ in range(count):
            await _put(accounts, lending.PROGRAM, lender.account(wallet))
    ranges = [(POSITIONS, (*of.providers, *of.both)), (RANGES_OF_ALL, of.many)]
    for count, wallet in ((count, key(each)) for count, own in ranges for each in own):
        for position in pools.positions(count):
            made = position.address, position.data(), whirlpool.POSITION_LAMPORTS
            await _put(accounts, whirlpool.PROGRAM, made)
            await _put_nft(accounts, wallet, position.mint)
    chain = Chain(world.seed)
    await _write_copied(accounts, chain, of.many)
    for mint, decimals in chain.mints():
        await write_market(write, text(mint), PRICE_SCALE // 10, decimals)
    for made in lender.references():
        await _put(accounts, lending.PROGRAM, made)
    for made in pools.references():
        await _put(accounts, whirlpool.PROGRAM, made)
    for vault, pool, mint in pools.vaults():
        await accounts.put_token(vault, pool, mint, _REWARDS_RAW)
        await accounts.follow_account(vault)
    for mint in dict.fromkeys(_mints(world)):
        await accounts.put_mint(mint, DECIMALS, SUPPLY_RAW)
    await accounts.put_mint(key(WSOL), SOL_DECIMALS, 0)
    await write_market(write, WSOL, PRICE_SCALE, SOL_DECIMALS)  # behind the chain's mints
    kinds = {kind for protocol in SLUGS.values() for kind in protocol.kinds}
    for program in sorted({kind.program for kind in kinds}):
        await accounts.cover(program)
    await accounts.follow(map(key, (*of.lenders, *of.providers, *of.both, *of.many)))
    await accounts.write_progress()


def references(world: World) -> list[bytes]:
    """Return the addresses of a world's banks, pools and markets."""
    lender, pools = _venues(world)
    return [*lender.banks, *pools.addresses, *Chain(world.seed).changing]


async def _write_copied(accounts: AccountsWriter, chain: Chain, owners: list[str]) -> None:
    """Write what wallets have of a chain's protocols, and what that refers to."""
    for each in chain.references:
        await accounts.put(each.address, each.kind.program, each.data, each.lamports)
        if each.kind.group == "tokens":
            await accounts.follow_account(each.address)
    for wallet in map(key, owners):
        for each in chain.accounts(wallet):
            await accounts.put(each.address, each.kind.program, each.data, each.lamports)
            if each.nft is not None:
                await _put_nft(accounts, wallet, each.nft)


async def _put_nft(accounts: AccountsWriter, wallet: bytes, mint: bytes) -> None:
    await accounts.put_token(whirlpool.derived(wallet, mint), wallet, mint, 1)


def _venues(world: World) -> tuple[Lender, Pools]:
    mints = _mints(world)
    lender = Lender([*dict.fromkeys(mints)][: lending.BANKS], world.seed)
    return lender, Pools(mints, key(WSOL), world.seed)


def _mints(world: World) -> list[bytes]:
    """Return the token of each pool."""
    return [world.raw("mint", number % world.mints) for number in range(liquidity.POOLS)]


async def _put(accounts: AccountsWriter, program: bytes, made: Made) -> None:
    address, data, lamports = made
    await accounts.put(address, program, data, lamports)
