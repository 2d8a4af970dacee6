"""The wallets of the bench and what they have: positions of a lender, of pools, or of both."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from infra.bench.api.positions import lending, liquidity, whirlpool
from infra.bench.api.positions.accounts import AccountsWriter
from infra.bench.api.positions.lending import Lender, Made
from infra.bench.api.positions.liquidity import Pools
from infra.bench.api.redis_writer import RedisWriter
from infra.bench.api.world import DECIMALS, SUPPLY_RAW, World
from schemas.money import SOL_DECIMALS, WSOL
from schemas.protocols.registry import SLUGS
from schemas.solana.addresses import key, text

POSITIONS: Final = 20
"""Of a wallet, in each of its protocols."""
WALLETS: Final = 400
"""Of each group: asked in turn at 200 a second, each comes again when its answer is too old."""


@dataclass(slots=True)
class Wallets:
    """Addresses of wallets, by what they have: POSITIONS of each."""

    lenders: list[str] = field(default_factory=list)
    providers: list[str] = field(default_factory=list)
    both: list[str] = field(default_factory=list)


def wallets(world: World) -> Wallets:
    """Return the wallets of a world; nobody of them trades in it."""
    found = Wallets()
    for name in ("lenders", "providers", "both"):
        of_group = getattr(found, name)
        of_group += (text(world.raw(name, number)) for number in range(WALLETS))
    return found


async def write_positions(write: RedisWriter, world: World) -> None:
    """Write all accounts of the wallets, what these refer to, and what is covered."""
    accounts = AccountsWriter(write)
    lender, pools = _venues(world)
    of = wallets(world)
    for wallet in map(key, (*of.lenders, *of.both)):
        for _ in range(POSITIONS):
            await _put(accounts, lending.PROGRAM, lender.account(wallet))
    for wallet in map(key, (*of.providers, *of.both)):
        for position in pools.positions(POSITIONS):
            made = position.address, position.data(), whirlpool.POSITION_LAMPORTS
            await _put(accounts, whirlpool.PROGRAM, made)
            nft = whirlpool.derived(wallet, position.mint)
            await accounts.put_token(nft, wallet, position.mint, 1)
    for made in lender.references():
        await _put(accounts, lending.PROGRAM, made)
    for made in pools.references():
        await _put(accounts, whirlpool.PROGRAM, made)
    for mint in dict.fromkeys(_mints(world)):
        await accounts.put_mint(mint, DECIMALS, SUPPLY_RAW)
    await accounts.put_mint(key(WSOL), SOL_DECIMALS, 0)
    kinds = {kind for protocol in SLUGS.values() for kind in protocol.kinds}
    for program in sorted({kind.program for kind in kinds}):
        await accounts.cover(program)
    await accounts.follow(map(key, (*of.lenders, *of.providers, *of.both)))
    await accounts.write_progress()


def references(world: World) -> list[bytes]:
    """Return the addresses of a world's banks and pools."""
    lender, pools = _venues(world)
    return [*lender.banks, *pools.addresses]


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
