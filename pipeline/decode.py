"""`soltape decode`: transactions as RPC answers them in, the tape's events out, as JSON lines."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import IO, Any

import click
import orjson

from pipeline.decoding.conservation import differences
from pipeline.decoding.contract import UNREADABLE
from pipeline.decoding.decode import Decoded, Reading, decode_update, read
from pipeline.decoding.exchanges import LISTED, Exchange, explain
from pipeline.decoding.registry import PROGRAMS
from pipeline.solana.transaction import Transaction
from schemas.codec import event_to_json, perp_event_to_json
from schemas.events import Swap
from schemas.json_lines import numbered_lines, parse_line
from schemas.solana.rpc_json import RpcTransaction, transaction_from_json


class UnreadableLine(Exception):
    """A line that is no transaction; the text gives its number and the reason."""


@dataclass(slots=True)
class Exchanges:
    """Transactions of listed programs in which somebody gave one mint for another."""

    counted: int = 0
    explained: int = 0
    excluded: Counter[str] = field(default_factory=Counter)  # by instruction
    unexplained: list[dict[str, Any]] = field(default_factory=list)

    def add(self, tx: Transaction, exchange: Exchange | None) -> None:
        """Count one transaction; one that invokes no listed program is none of these."""
        invoked = {tx.keys[program] for program in tx.programs if program < len(tx.keys)}
        if exchange is None or LISTED.isdisjoint(invoked):
            return
        if exchange.excluded:
            self.excluded.update(exchange.excluded)
            return
        self.counted += 1
        self.explained += not exchange.unexplained
        self.unexplained += [
            {
                "signature": tx.signature,
                "owner": owner,
                "left_raw": {mint: str(amount_raw) for mint, amount_raw in net.items()},
            }
            for owner, net in exchange.unexplained.items()
        ]

    def report(self) -> dict[str, Any]:
        """Return the counts as JSON; `share` is null where nothing was exchanged."""
        return {
            "transactions": self.counted,
            "explained": self.explained,
            "share": self.explained / self.counted if self.counted else None,
            "excluded": dict(self.excluded.most_common()),
            "unexplained": self.unexplained,
        }


@dataclass(slots=True)
class Conservation:
    """Running totals of `--check`."""

    transactions: int = 0
    with_swaps: int = 0
    explained: int = 0
    differences: list[dict[str, Any]] = field(default_factory=list)
    unreadable: list[dict[str, str]] = field(default_factory=list)
    exchanges: Exchanges = field(default_factory=Exchanges)

    def add(self, transaction: RpcTransaction, decoded: Decoded) -> None:
        """Compare one transaction's swaps with its balances; one without them is unreadable."""
        self.transactions += 1
        if decoded.failed or not decoded.signature:
            return
        try:
            self._compare(transaction, decoded)
        except UNREADABLE as error:
            self.unreadable.append({"signature": decoded.signature, "reason": str(error)})

    def _compare(self, transaction: RpcTransaction, decoded: Decoded) -> None:
        tx = Transaction(transaction.info, transaction.slot or 0, 0, PROGRAMS)
        readings: list[Reading] = list(read(tx, []))
        self.exchanges.add(tx, explain(tx, readings, decoded.events))
        if not any(isinstance(event, Swap) for event in decoded.events):
            return
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
        }


def transactions(lines: IO[bytes]) -> Iterator[RpcTransaction | UnreadableLine]:
    """Read JSON lines; one that cannot be read is yielded as what is wrong with it."""
    for number, line in numbered_lines(lines):
        try:
            yield transaction_from_json(parse_line(line))
        except ValueError as error:
            yield UnreadableLine(f"line {number}: {error}")


@click.command()
@click.argument("file", type=click.File("rb"), default="-")
@click.option(
    "--check",
    is_flag=True,
    help="Compare each swap with the balance changes of its pool's vaults and its wallet's "
    "accounts, and print a last line of kind 'conservation': how many transactions are fully "
    "explained, and every account that is not. `exchanges` counts, by balances alone, those of "
    "listed venues, routers and keepers in which an owner gave one mint for another, how many of "
    "them the wallets' own amounts and plain transfers explain, and the instructions that "
    "explain others without a swap (liquidity, claims, loans).",
)
@click.option(
    "--undecoded",
    is_flag=True,
    help="Also print instructions of known venues that gave no event, as kind 'undecoded'.",
)
def decode(file: IO[bytes], check: bool, undecoded: bool) -> None:
    """Decode transactions into swaps, creations, migrations and perp events.

    FILE holds one `getTransaction` answer a line (encoding json or base64, with or without
    the JSON-RPC envelope); - or nothing reads standard input. One event a line is written,
    in execution order, those of perps after a transaction's others; raw amounts and lamports
    are strings. A line that cannot be read is reported on standard error, the rest goes on, and
    the exit status is 1.

    \b
    Example:
      soltape decode transactions.jsonl | jq 'select(.kind == "swap") | .dex' | sort | uniq -c
    """
    conservation = Conservation()
    unreadable = 0
    out = sys.stdout.buffer
    for item in transactions(file):
        if isinstance(item, UnreadableLine):
            unreadable += 1
            click.echo(f"soltape decode: {item}", err=True)
            continue
        block_time_ms = (item.block_time or 0) * 1000
        decoded = decode_update(item.info, item.slot or 0, block_time_ms)
        for event in decoded.events:
            out.write(orjson.dumps(event_to_json(event), option=orjson.OPT_APPEND_NEWLINE))
        for perp in decoded.perps:
            out.write(orjson.dumps(perp_event_to_json(perp), option=orjson.OPT_APPEND_NEWLINE))
        if undecoded:
            for miss in decoded.undecoded:
                line = {
                    "kind": "undecoded",
                    "signature": decoded.signature,
                    "event_index": miss.event_index,
                    "dex": miss.dex,
                    "program_id": miss.program_id,
                    "reason": miss.reason.name.lower(),
                    "detail": miss.detail,
                    "data": miss.data.hex(),
                }
                out.write(orjson.dumps(line, option=orjson.OPT_APPEND_NEWLINE))
        if check:
            conservation.add(item, decoded)
    if check:
        report = conservation.report()
        out.write(orjson.dumps(report, option=orjson.OPT_APPEND_NEWLINE))
        out.flush()
        click.echo(
            f"conservation: {report['explained']} of {report['with_swaps']} transactions "
            "with swaps fully explained",
            err=True,
        )
        exchanges = report["exchanges"]
        click.echo(
            f"exchanges: {exchanges['explained']} of {exchanges['transactions']} transactions in "
            "which balances fell in one mint and rose in another explained",
            err=True,
        )
    out.flush()
    if unreadable:
        click.echo(f"soltape decode: {unreadable} lines could not be read", err=True)
        raise SystemExit(1)
