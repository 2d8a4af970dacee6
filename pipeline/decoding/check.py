"""Running totals of `soltape decode --check`: which transactions the decoded swaps explain."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from pipeline.decoding.conservation import differences
from pipeline.decoding.contract import UNREADABLE
from pipeline.decoding.exchanges import changes, is_listed
from pipeline.decoding.explaining import Explanation, explain
from pipeline.decoding.reading import Decoded, Reading, read
from pipeline.decoding.registry import PROGRAMS
from pipeline.decoding.wallets import Whose, whose
from pipeline.solana.transaction import Transaction
from schemas.events import Swap
from schemas.solana.rpc_json import RpcTransaction

SHOWN = 3  # examples of what one instruction left unexplained


@dataclass(slots=True)
class Exchanges:
    """Transactions of listed programs in which an owner gave one mint for another."""

    shown: int = SHOWN
    counted: int = 0
    explained: int = 0
    unreadable: int = 0
    excluded: Counter[str] = field(default_factory=Counter)  # by instruction
    with_cuts: int = 0  # of the explained
    cuts: Counter[str] = field(default_factory=Counter)  # by program
    causes: Counter[str] = field(default_factory=Counter)  # by instruction
    examples: defaultdict[str, list[dict[str, Any]]] = field(
        default_factory=lambda: defaultdict(list)
    )

    def add(self, tx: Transaction, explanation: Explanation | None) -> None:
        """Count one transaction; one that invokes no listed program is none of these."""
        if explanation is None or not is_listed(tx):
            return
        if explanation.excluded:
            self.excluded.update(explanation.excluded)
            return
        self.counted += 1
        if not explanation.unexplained:
            self.explained += 1
            self.with_cuts += bool(explanation.cuts)
            self.cuts.update(explanation.cuts)
            return
        example = {
            "signature": tx.signature,
            "left_raw": {
                owner: {mint: str(amount_raw) for mint, amount_raw in net.items()}
                for owner, net in explanation.unexplained.items()
            },
        }
        for cause in explanation.causes or {"no instruction"}:
            self.causes[cause] += 1
            if len(self.examples[cause]) < self.shown:
                self.examples[cause].append(example)

    def add_unreadable(self) -> None:
        """Count a transaction that cannot be read: nobody knows, so it is not explained."""
        self.counted += 1
        self.unreadable += 1

    def report(self) -> dict[str, Any]:
        """Return the counts as JSON; `share` is null where nothing was exchanged."""
        return {
            "transactions": self.counted,
            "explained": self.explained,
            "with_cuts": self.with_cuts,
            "unreadable": self.unreadable,
            "share": self.explained / self.counted if self.counted else None,
            "cuts": dict(self.cuts.most_common()),
            "excluded": dict(self.excluded.most_common()),
            "unexplained": {
                cause: {"transactions": count, "examples": self.examples[cause]}
                for cause, count in self.causes.most_common()
            },
        }


@dataclass(slots=True)
class Wallets:
    """Wallets of swaps, one for each transaction, by whose the swaps are."""

    shown: int = SHOWN
    counted: Counter[Whose] = field(default_factory=Counter)
    passed_on: list[dict[str, str]] = field(default_factory=list)  # the first ones

    def add(self, tx: Transaction, swaps: Iterable[Swap]) -> None:
        """Count the wallets of one transaction."""
        for wallet, kind in whose(tx, changes(tx), swaps):
            self.counted[kind] += 1
            if kind is Whose.PASSED_ON and len(self.passed_on) < self.shown:
                self.passed_on.append({"signature": tx.signature, "wallet": wallet})

    def report(self) -> dict[str, Any]:
        """Return the counts as JSON."""
        counts = {kind.value: self.counted[kind] for kind in Whose}
        return {**counts, "examples": self.passed_on}


@dataclass(slots=True)
class Conservation:
    """All that `--check` counts; `differences` and `unreadable` have each case."""

    transactions: int = 0
    with_swaps: int = 0
    explained: int = 0
    differences: list[dict[str, Any]] = field(default_factory=list)
    unreadable: list[dict[str, str]] = field(default_factory=list)
    exchanges: Exchanges = field(default_factory=Exchanges)
    wallets: Wallets = field(default_factory=Wallets)

    def add(self, transaction: RpcTransaction, decoded: Decoded) -> None:
        """Compare one transaction's swaps with its balances; a failed one moved nothing."""
        self.transactions += 1
        if transaction.info.meta.HasField("err"):
            return
        try:
            self._compare(transaction, decoded)
        except UNREADABLE as error:
            self.unreadable.append({"signature": decoded.signature, "reason": str(error)})
            self.exchanges.add_unreadable()

    def _compare(self, transaction: RpcTransaction, decoded: Decoded) -> None:
        tx = Transaction(transaction.info, transaction.slot or 0, 0, PROGRAMS)
        readings: list[Reading] = list(read(tx, []))
        self.exchanges.add(tx, explain(tx, readings, decoded.events))
        swaps = [event for event in decoded.events if isinstance(event, Swap)]
        if not swaps:
            return
        self.wallets.add(tx, swaps)
        self.with_swaps += 1
        found = differences(tx, readings)
        self.explained += not found
        self.differences += [
            {
                "signature": tx.signature,
                "account": item.account,
                "role": item.role,
                "mint": item.mint,
                "expected_raw": str(item.expected_raw),
                "actual_raw": str(item.actual_raw),
            }
            for item in found
        ]

    def report(self) -> dict[str, Any]:
        """Return the report as one JSON object; `share` is null where there was no swap."""
        return {
            "kind": "conservation",
            "transactions": self.transactions,
            "with_swaps": self.with_swaps,
            "explained": self.explained,
            "share": self.explained / self.with_swaps if self.with_swaps else None,
            "differences": self.differences,
            "unreadable": self.unreadable,
            "exchanges": self.exchanges.report(),
            "wallets": self.wallets.report(),
        }
