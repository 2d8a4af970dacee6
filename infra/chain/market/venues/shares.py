"""Pools of constant product that everybody has a share of: LP tokens, counted by the pool itself.

The program's own count is what shares are of; it has more than the LP mint's supply, as a pool
counts tokens that it never minted, and a launch burns some.
"""

from __future__ import annotations

from abc import abstractmethod

from infra.chain.market.runtime.execution import Execution
from infra.chain.market.runtime.ledger import Ledger, Mint
from infra.chain.market.runtime.programs import derived
from infra.chain.market.runtime.stake import epoch_of
from infra.chain.market.venues.venue import Pool


class SharePool(Pool):
    """A pool with an LP token; sides are in the program's order."""

    __slots__ = ("lp_mint", "lp_raw", "recent_epoch")

    MUTABLE: tuple[str, ...] = ("alive", "lp_raw", "recent_epoch")

    def __init__(
        self,
        ledger: Ledger,
        address: bytes,
        sides: tuple[Mint, Mint],
        vaults: tuple[bytes, bytes],
        lp_mint: bytes,
    ) -> None:
        super().__init__(ledger, address, sides, vaults)
        self.lp_mint = lp_mint
        self.lp_raw = 0
        self.recent_epoch = 0

    @property
    def owner(self) -> bytes:
        """Return the program."""
        return self.PROGRAM.address

    @property
    def provider(self) -> bytes:
        """Return who has the LP tokens of a pool that was there before the first slot."""
        return derived("provider", self.address)

    @abstractmethod
    def data(self) -> bytes:
        """Return the pool's account data."""

    @abstractmethod
    def withdrawn(self, lp_raw: int) -> tuple[int, int]:
        """Return what LP tokens would be paid now of both tokens."""

    def change(self, tx: Execution) -> None:
        """Note the state before it changes; the slot's end writes the account."""
        tx.touch(self)
        self.recent_epoch = epoch_of(tx.slot)
        self.ledger.rewritten.add(self.address)

    # The start of the world.

    def found(
        self, lp: Mint, authority: bytes, amounts: tuple[int, int], lp_raw: int, locked_raw: int
    ) -> None:
        """Put the pool on the chain before the first slot, with vaults of its authority's."""
        ledger = self.ledger
        for vault, side, amount in zip(self.vaults, self.sides, amounts, strict=True):
            ledger.endow(vault, side, authority, amount)
        self.lp_raw = lp_raw
        ledger.add_mint(lp)
        own = ledger.associated(self.provider, lp)
        ledger.endow(own, lp, self.provider, lp_raw - locked_raw)
        ledger.natives[self.address] = self

    def hand(self, owner: bytes, lp_raw: int) -> None:
        """Give an owner LP tokens of the provider's before the first slot."""
        ledger = self.ledger
        lp = ledger.mints[self.lp_mint]
        ledger.tokens[ledger.associated(self.provider, lp)].amount_raw -= lp_raw
        lp.supply_raw -= lp_raw
        ledger.endow(ledger.associated(owner, lp), lp, owner, lp_raw)
