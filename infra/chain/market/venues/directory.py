"""Which pools and curves exist, so that wallets find something to trade."""

from __future__ import annotations

from infra.chain.market.runtime.execution import Execution
from infra.chain.market.runtime.ledger import Mint
from infra.chain.market.venues.venue import Pool


class Directory:
    """Live curves and pools in the order they appeared; pools also by mint."""

    def __init__(self) -> None:
        self.curves: dict[bytes, Pool] = {}
        self.pools: dict[bytes, Pool] = {}
        self.by_mint: dict[bytes, dict[bytes, Pool]] = {}
        self._listed: dict[bytes, tuple[Pool, ...]] = {}

    def add(self, pool: Pool) -> None:
        """List a curve or a pool."""
        if pool.IS_CURVE:
            self.curves[pool.address] = pool
            return
        self.pools[pool.address] = pool
        for side in pool.sides:
            self.by_mint.setdefault(side.address, {})[pool.address] = pool
            self._listed.pop(side.address, None)

    def remove(self, pool: Pool) -> None:
        """Take a curve or a pool off the list."""
        if pool.IS_CURVE:
            self.curves.pop(pool.address, None)
            return
        self.pools.pop(pool.address, None)
        for side in pool.sides:
            self._listed.pop(side.address, None)
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

    def of(self, mint: Mint) -> tuple[Pool, ...]:
        """Return the pools of a mint, without its curve."""
        listed = self._listed.get(mint.address)
        if listed is None:
            pools = self.by_mint.get(mint.address)
            listed = self._listed[mint.address] = tuple(pools.values()) if pools else ()
        return listed
