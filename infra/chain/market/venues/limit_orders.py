"""Jupiter's limit orders, v2: what a maker puts into escrow, a keeper swaps for the maker.

The keeper's transaction takes the input out of escrow, swaps it in a pool, and pays the maker what
the order asks for; what the pool gave beyond that stays the keeper's.
"""

from __future__ import annotations

from typing import Final

from infra.chain.market.runtime import spl
from infra.chain.market.runtime.execution import Execution, Step, mask
from infra.chain.market.runtime.ledger import Ledger, Mint
from infra.chain.market.runtime.programs import (
    ASSOCIATED_TOKEN,
    INSTRUCTIONS_SYSVAR,
    JUPITER_TRIGGER,
    SYSTEM,
    anchor_tag,
    derived,
    event_tag,
)
from infra.chain.market.venues.venue import Pool, Trader, pack_u64

_INITIALIZE: Final = anchor_tag("initialize_order")
_PRE_FILL: Final = anchor_tag("pre_flash_fill_order")
_FILL: Final = anchor_tag("flash_fill_order")
_TRADE: Final = event_tag("TradeEvent")


class LimitOrder:
    """An order to swap all of `making_raw` for at least `taking_raw`."""

    def __init__(
        self,
        ledger: Ledger,
        maker: bytes,
        pool: Pool,
        mint_in: Mint,
        amounts_raw: tuple[int, int],
        number: int,
    ) -> None:
        self.maker, self.pool, self.mint_in = maker, pool, mint_in
        self.mint_out = pool.other(mint_in)
        self.making_raw, self.taking_raw = amounts_raw
        self.address = derived("limit-order", maker, number)
        self.reserve = ledger.associated(self.address, mint_in)
        self.maker_out = ledger.associated(maker, self.mint_out)
        self._maker_in = ledger.associated(maker, mint_in)
        self._number = number
        self._ledger = ledger

    def open(self, tx: Execution) -> None:
        """Put the input into escrow."""
        maker, order, mints = self.maker, self.address, (self.mint_in, self.mint_out)
        accounts = (
            *(maker, maker, order, self.reserve, self._maker_in, JUPITER_TRIGGER.address),
            *(mint.address for mint in mints),
            *(mint.program.address for mint in mints),
            *(SYSTEM.address, ASSOCIATED_TOKEN.address),
            *(JUPITER_TRIGGER.event_authority, JUPITER_TRIGGER.address),
        )
        data = _INITIALIZE + pack_u64(self._number) + pack_u64(self.making_raw)
        writable = mask("w-www---------")
        tx.enter(JUPITER_TRIGGER, accounts, data + pack_u64(self.taking_raw) + b"\0\0", writable)
        spl.create_associated(tx, maker, order, self.mint_in)
        spl.transfer_checked(tx, self._maker_in, self.mint_in, self.reserve, maker, self.making_raw)
        tx.leave(20_000)

    def fill(self, keeper: bytes) -> tuple[Step, Step, Step]:
        """Return the steps of a fill: the input out of escrow, the swap, the maker's payment."""
        source, destination = (
            self._ledger.associated(keeper, mint) for mint in (self.mint_in, self.mint_out)
        )
        trader = Trader(keeper, source, destination, self.maker)

        def swap(tx: Execution) -> None:
            self.pool.swap(tx, trader, self.mint_in, self.making_raw, self.taking_raw)
            leg = tx.legs[-1]
            leg.keeper, leg.trader_out_raw = keeper, self.taking_raw

        return (
            lambda tx: self._take(tx, keeper, source),
            swap,
            lambda tx: self._pay(tx, keeper, destination),
        )

    def _take(self, tx: Execution, keeper: bytes, source: bytes) -> None:
        mint = self.mint_in
        accounts = (
            *(keeper, self.address, self.reserve, source, mint.address),
            *(mint.program.address, INSTRUCTIONS_SYSVAR),
        )
        data = _PRE_FILL + pack_u64(self.making_raw)
        tx.enter(JUPITER_TRIGGER, accounts, data, mask("-www---"))
        spl.transfer_checked(tx, self.reserve, mint, source, self.address, self.making_raw)
        tx.leave(12_000)

    def _pay(self, tx: Execution, keeper: bytes, destination: bytes) -> None:
        mint, own = self.mint_out, JUPITER_TRIGGER
        accounts = (
            *(keeper, self.maker, self.address, self.reserve, self.maker_out, destination),
            *(own.address, self.mint_in.program.address, mint.address, mint.program.address),
            *(SYSTEM.address, own.event_authority, own.address),
        )
        writable = mask("--wwww-------")
        tx.enter(own, accounts, _FILL + pack_u64(self.taking_raw), writable)
        spl.transfer_checked(tx, destination, mint, self.maker_out, keeper, self.taking_raw)
        amounts = (0, 0, self.making_raw, self.taking_raw)
        tx.emit_cpi(own, _TRADE + self.address + keeper + b"".join(map(pack_u64, amounts)))
        tx.leave(14_000)
