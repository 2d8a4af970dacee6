"""A wallet's own lamports, which no stream brings: whether those that were asked for are stored."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import NamedTuple

from api.stores.clients import Stores
from schemas.accounts import BadAccount, unpack
from schemas.redis_keys import ACCOUNT, account_tag
from schemas.solana.addresses import text


class LamportsOf(NamedTuple):
    """Lamports of a wallet as they are at the end of a slot, or later."""

    wallet: bytes
    slot: int


async def newer_lamports(stores: Stores, wanted: Sequence[LamportsOf]) -> list[LamportsOf]:
    """Return those that are stored, in one trip; raises Problem."""
    names = [text(each.wallet) for each in wanted]
    answers = await stores.ask(
        [("GET", ACCOUNT.make(tag=account_tag(name), address=name)) for name in names]
    )
    found = []
    for each, packed in zip(wanted, answers, strict=True):
        with suppress(BadAccount):  # who reads the wallet says so
            if packed is not None and unpack(packed).slot >= each.slot:
                found.append(each)
    return found
