"""Which pools and curves exist, so that wallets find something to trade."""

from __future__ import annotations

from infra.chain.market.execution import Execution
from infra.chain.market.ledger import Mint
from infra.chain.market.venue import Pool


class Directory:
    """Live pools in the order they appeared, and by mint."""

    def __init__(self) -> None:
        self.pools: dict[bytes, Pool] = {}
        self.by_mint: dict[bytes, dict[bytes, Pool]] = {}

    def add(self, pool: Pool) -> None:
        """List a pool."""
        self.pools[pool.address] = pool
        for side in pool.sides:
            self.by_mint.setdefault(side.address, {})[pool.address] = pool

    def remove(self, pool: Pool) -> None:
        """Take a pool off the list."""
        self.pools.pop(pool.address, None)
        for side in pool.sides:
            listed = self.by_mint.get(side.address)
            if listed is not None:
                listed.pop(pool.address, None)
                if not listed:
                    del self.by_mint[side.address]

    def open(self, tx: Execution, pool: Pool) -> None:
        """List a pool that a transaction created; taken back with it."""
        pool.alive = True
        self.add(pool)
        tx.changes.undo.append(lambda: self._retract(pool))

    def _retract(self, pool: Pool) -> None:
        pool.alive = False
        self.remove(pool)

    def close(self, tx: Execution, pool: Pool) -> None:
        """Take off a curve that a transaction ended; put back with it."""
        tx.touch(pool)
        pool.alive = False
        self.remove(pool)
        tx.changes.undo.append(lambda: self.add(pool))

    def of(self, mint: Mint) -> list[Pool]:
        """Return the pools of a mint."""
        return list(self.by_mint.get(mint.address, {}).values())
