"""Account writes: every account a transaction, or the bank, changed, as it is afterwards.

Pools and arrays of ticks change with every swap and are written once, at the slot's end. The market
writes no bytes of the other venues' accounts; these are left out.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from infra.chain.market.runtime.accounts import account, contents
from infra.chain.market.runtime.execution import Changes
from infra.chain.market.runtime.ledger import Ledger
from infra.chain.market.runtime.programs import PROGRAMS, SYSTEM
from infra.chain.source import AccountWrite

_PROGRAMS: Final = frozenset(program.address for program in PROGRAMS)
_CLOSED: Final = (SYSTEM.address, b"")


class Writer:
    """Reads changed accounts from the ledger; write versions ascend, forks included."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._version = 0

    def genesis(self) -> Iterator[AccountWrite]:
        """Yield every account there is, without the programs themselves, which have no bytes."""
        for address in self._ledger.lamports:
            if address not in _PROGRAMS and (found := account(self._ledger, address)) is not None:
                yield AccountWrite(address, found.owner, found.lamports, found.data, 0)

    def of(self, changes: Changes) -> tuple[AccountWrite, ...]:
        """Return what a transaction wrote; it is the last one that has run."""
        others = dict.fromkeys(sorted(changes.contents))  # a set's order is the process's
        return self.now({**changes.lamports, **changes.tokens, **others})

    def now(self, addresses: Iterable[bytes]) -> tuple[AccountWrite, ...]:
        """Return writes of these accounts as they are now; one that is gone is closed."""
        ledger, version = self._ledger, self._version
        lamports, opaque = ledger.lamports, ledger.opaque
        writes = []
        for address in addresses:
            held = lamports.get(address, 0)
            content = contents(ledger, address) if held else _CLOSED
            if content is None or address in opaque:
                continue
            version += 1
            writes.append(AccountWrite(address, content[0], held, content[1], version))
        self._version = version
        return tuple(writes)
