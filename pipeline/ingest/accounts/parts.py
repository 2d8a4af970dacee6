"""How all accounts of a kind are asked for: in one answer, or in 256 parts where they are many.

A kind that has wallets may have millions of accounts. Its parts differ by the first byte of
a wallet's key, and keys are evenly spread: one part, the sample, says whether the kind is small.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable
from typing import Final

from infra.solana_rpc.client import NotNow, RpcRefused
from pipeline.ingest.accounts.rpc import AccountsRpc, Found
from schemas.protocols.contract import Kind

PARTS: Final = 256
SAMPLE: Final = 0x9D  # any byte but 0, with which the keys of nobody begin
SMALL_BYTES: Final = 4 << 20  # of a kind's accounts, as the sample says
SMALL_ANSWER_BYTES: Final = 16 << 20  # of the answer; a larger one is not read to its end
SMALL_TRIES: Final = 2  # at one answer; parts are asked for as long as it takes
ACCOUNT_BYTES: Final = 200  # of an answer beside an account's data

Part = tuple[Kind, int | None]  # the byte; None: all of the kind


def kinds_of(kinds: Iterable[Kind], program: bytes) -> list[Kind]:
    """Return the kinds that bootstrap asks for."""
    return [each for each in kinds if each.program == program and each.group != "tokens"]


def parts_of(kind: Kind) -> list[Part]:
    """Return the parts of a kind that is not asked for in one answer."""
    return [(kind, byte) for byte in range(PARTS)]


def part_name(part: Part) -> str:
    """Return what Redis knows a part by."""
    kind, byte = part
    return kind.name if byte is None else f"{kind.name}:{byte:02x}"


async def ask_part(rpc: AccountsRpc, part: Part, least_slot: int) -> Found:
    """Return a part's accounts; raises RpcRefused, BadAnswer."""
    kind, byte = part
    return await rpc.of_kind(kind, least_slot, None if byte is None else (kind.wallets[0], byte))


async def ask_whole(rpc: AccountsRpc, kind: Kind, least_slot: int) -> Found | None:
    """Return all accounts of a kind; None where they are many: ask its parts.

    Raises RpcRefused, BadAnswer.
    """
    if kind.addresses:
        return await rpc.multiple(kind.addresses, least_slot)
    if not kind.wallets:
        return await rpc.of_kind(kind, least_slot)
    _, sample = await ask_part(rpc, (kind, SAMPLE), least_slot)
    if PARTS * sum(ACCOUNT_BYTES + len(update.data) for update in sample) > SMALL_BYTES:
        return None
    try:
        bounded = rpc.bounded(SMALL_TRIES)
        return await bounded.of_kind(kind, least_slot, most_bytes=SMALL_ANSWER_BYTES)
    except (NotNow, RpcRefused):  # too many, whatever the sample says, or for a limit of the node's
        return None


async def answers_of(
    rpc: AccountsRpc, kind: Kind, least_slot: int
) -> AsyncIterator[tuple[Part, Found]]:
    """Yield all accounts of a kind, answer by answer; raises RpcRefused, BadAnswer."""
    whole = await ask_whole(rpc, kind, least_slot)
    if whole is not None:
        yield (kind, None), whole
        return
    for part in parts_of(kind):
        yield part, await ask_part(rpc, part, least_slot)
