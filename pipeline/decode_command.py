"""`soltape decode`: transactions as RPC answers them in, the tape's events out, as JSON lines."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import IO

import click
import orjson

from pipeline.decoding.check import SHOWN, Conservation, Exchanges, Wallets
from pipeline.decoding.reading import decode_update
from schemas.codec import event_to_json, perp_event_to_json
from schemas.json_lines import numbered_lines, parse_line
from schemas.solana.rpc_json import RpcTransaction, transaction_from_json


class UnreadableLine(Exception):
    """A line that is no transaction; the text gives its number and the reason."""


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
    "them swaps, transfers and rent explain to the last unit (one that cannot be read is not), "
    "programs whose transfers beside swaps explain a part, and the instructions that explain "
    "others without a swap (liquidity, claims, lending). `wallets` counts whose swaps are: a "
    "signer's, an order's owner's, a program's account's; or a signer's who passed on what came "
    "out.",
)
@click.option(
    "--show",
    type=click.IntRange(0),
    default=SHOWN,
    show_default=True,
    help="With --check, how many transactions to name for each instruction that moved something "
    "unexplained.",
)
@click.option(
    "--undecoded",
    is_flag=True,
    help="Also print instructions of known venues that gave no event, as kind 'undecoded'.",
)
def decode(file: IO[bytes], check: bool, show: int, undecoded: bool) -> None:
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
    conservation = Conservation(exchanges=Exchanges(show), wallets=Wallets(show))
    unreadable = 0
    out = sys.stdout.buffer
    for item in transactions(file):
        if isinstance(item, UnreadableLine):
            unreadable += 1
            conservation.exchanges.add_unreadable()
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
