"""Tracked mints that nothing is known of, as after an upgrade: they are asked for again.

An earlier version kept the coverage of a mint under the mint's own address. There it is taken for
that of a wallet, and covers none of the wallet's token accounts.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from redis.asyncio import Redis

from infra.redis.client import ask
from schemas.accounts import mint_account_of
from schemas.protocols.programs import NUMBERS
from schemas.redis_keys import COVERED, account_tags
from schemas.solana.addresses import text

AT_ONCE: Final = 200
"""Mints of a look, and withdrawals of a slot: each is in the batch of every partition."""


class Unknown(NamedTuple):
    """Mints of which Redis has no coverage, and no reason for that."""

    mints: list[bytes]
    misplaced: list[bytes]  # those with coverage under their own address


async def look(redis: Redis, mints: Sequence[bytes]) -> Unknown:
    """Return which of some tracked mints nothing is known of; raises RedisError.

    All partitions have the records of the same subjects: one is asked.
    """
    tag = account_tags()[0]
    subjects = [subject for mint in mints for subject in (mint_account_of(mint), mint)]
    said = await ask(
        redis, [("EXISTS", COVERED.make(tag=tag, address=text(each))) for each in subjects]
    )
    unknown = [
        (mint, is_misplaced)
        for mint, is_known, is_misplaced in zip(mints, said[::2], said[1::2], strict=True)
        if not is_known
    ]
    # Under a program's address is the coverage of the program.
    misplaced = [mint for mint, is_misplaced in unknown if is_misplaced and mint not in NUMBERS]
    return Unknown([mint for mint, _ in unknown], misplaced)
