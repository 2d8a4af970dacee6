"""What the instructions about positions share, whichever program has the pool."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, Protocol

from infra.chain.market.runtime import spl
from infra.chain.market.runtime.execution import Execution, InstructionError, Step
from infra.chain.market.runtime.ledger import Mint
from infra.chain.market.runtime.stake_program import set_native
from infra.chain.market.venues.launches import initialize_mint, register
from infra.chain.market.venues.ranges import RangedPool, RangedPosition, rent_lamports

NOT_FOUND: Final = 3_012  # Anchor's AccountNotInitialized


class Instructions(Protocol):
    """A program's instructions about positions; each yields those of a transaction."""

    def opened(self, at: Place, liquidity: int, most: tuple[int, int]) -> Iterator[Step]:
        """Open a position with liquidity that costs no more than `most`."""
        ...

    def increased(self, at: Place, liquidity: int, most: tuple[int, int]) -> Iterator[Step]:
        """Add liquidity."""
        ...

    def decreased(self, at: Place, liquidity: int) -> Iterator[Step]:
        """Take liquidity."""
        ...

    def collected(self, at: Place) -> Iterator[Step]:
        """Collect all fees until now."""
        ...

    def closed(self, at: Place, liquidity: int) -> Iterator[Step]:
        """Take all liquidity and fees, and close a position."""
        ...


@dataclass(frozen=True, slots=True)
class Place:
    """Whose position of which pool an instruction is about, between which ticks."""

    pool: RangedPool
    holder: bytes
    nft: Mint
    address: bytes  # of the position
    lower: int
    upper: int

    @property
    def arrays(self) -> tuple[bytes, bytes]:
        """Return the addresses of the arrays that its ticks are in."""
        pool = self.pool
        lower, upper = (pool.array_start(tick) for tick in (self.lower, self.upper))
        return pool.array_address(lower), pool.array_address(upper)


def place(pool: RangedPool, holder: bytes, mint: bytes, lower: int, upper: int) -> Place:
    """Return a place; the mint's address is that of a key that signs where it is opened."""
    nft = pool.ledger.mints.get(mint) or Mint(mint, 0, 0, authority=pool.address)
    return Place(pool, holder, nft, pool.position_address(mint), lower, upper)


def create_array(tx: Execution, at: Place, start: int) -> None:
    """Create the account of an array of ticks."""
    pool = at.pool
    pool.tick_arrays[start] = address = pool.array_address(start)
    size = pool.ARRAY_BYTES
    spl.create_account(
        tx, at.holder, address, rent_lamports(size), size, pool.PROGRAM, has_bytes=True
    )
    set_native(tx, address, pool.array(start))


def create_position(tx: Execution, at: Place) -> None:
    """Create a position with its NFT, one token without decimals that nobody can mint again."""
    pool, nft, holder = at.pool, at.nft, at.holder
    size = pool.POSITION_BYTES
    spl.create_account(
        tx, holder, at.address, rent_lamports(size), size, pool.PROGRAM, has_bytes=True
    )
    set_native(tx, at.address, pool.position(nft.address, at.lower, at.upper))
    spl.create_account(tx, holder, nft.address, 1_461_600, 82, nft.program)
    register(tx, nft)
    initialize_mint(tx, nft)
    account = spl.create_associated(tx, holder, holder, nft, idempotent=False)
    spl.mint_to(tx, nft, account, pool.address, 1)
    spl.revoke_mint_authority(tx, nft, pool.address)


def close_position(tx: Execution, at: Place) -> None:
    """Burn the NFT and close its account and the position, which must be empty."""
    if not tx.ledger.held(at.holder, at.nft):
        raise InstructionError(NOT_FOUND)
    account = tx.ledger.associated(at.holder, at.nft)
    spl.burn(tx, account, at.nft, at.holder, 1)
    spl.close_account(tx, account, at.holder, at.holder)
    tx.move_lamports(at.address, at.holder, tx.ledger.lamports[at.address])
    set_native(tx, at.address, None)


def found(tx: Execution, at: Place) -> RangedPosition:
    """Return a position that its holder may change; fails where there is none."""
    position = tx.ledger.natives.get(at.address)
    if not isinstance(position, RangedPosition) or not tx.ledger.held(at.holder, at.nft):
        raise InstructionError(NOT_FOUND)
    return position


def own_accounts(tx: Execution, at: Place) -> tuple[bytes, bytes]:
    """Return the holder's accounts of both tokens."""
    first, second = (tx.ledger.associated(at.holder, side) for side in at.pool.sides)
    return first, second


def pay_in(tx: Execution, at: Place, amounts: tuple[int, int], *, checked: bool = False) -> None:
    """Move tokens from the holder to the pool."""
    own, vaults = own_accounts(tx, at), at.pool.vaults
    _pay(tx, at, tuple(zip(own, vaults, strict=True)), amounts, at.holder, checked)


def pay_out(tx: Execution, at: Place, amounts: tuple[int, int], *, checked: bool = False) -> None:
    """Move tokens from the pool to the holder."""
    own, vaults = own_accounts(tx, at), at.pool.vaults
    _pay(tx, at, tuple(zip(vaults, own, strict=True)), amounts, at.pool.address, checked)


def _pay(
    tx: Execution,
    at: Place,
    ways: tuple[tuple[bytes, bytes], ...],
    amounts: tuple[int, int],
    authority: bytes,
    checked: bool,
) -> None:
    for side, (source, to), raw in zip(at.pool.sides, ways, amounts, strict=True):
        if raw and checked:
            spl.transfer_checked(tx, source, side, to, authority, raw)
        elif raw:
            spl.transfer(tx, source, to, authority, raw)
