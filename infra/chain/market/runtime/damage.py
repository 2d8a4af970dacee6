"""Malformed transactions: venue data that arrives cut short, although the swap succeeded."""

from __future__ import annotations

from base64 import b64decode, b64encode
from random import Random

from infra.chain.market.runtime.execution import SELF_CPI_TAG, Execution

_DATA = "Program data: "
_RAY = "Program log: ray_log: "


def damage(tx: Execution) -> None:
    """Cut every swap instruction and every copy of its events behind their tags.

    What is left is recognisable and unreadable. The cut depends on the transaction alone.
    """
    random = Random(tx.intent.serial)  # noqa: S311 - reproducible, not secret
    for place in tx.swap_instructions:
        program, accounts, data, height = tx.instructions[place]
        tag = 8 if len(data) > 17 else 1
        tx.instructions[place] = (program, accounts, data[: tag + random.randrange(4)], height)
    for place in tx.events:
        program, accounts, data, height = tx.instructions[place]
        start = len(SELF_CPI_TAG) + 8
        tx.instructions[place] = (
            program,
            accounts,
            data[: start + random.randrange(1, 24)],
            height,
        )
    for place in tx.data_logs:
        line = tx.logs[place]
        prefix = _RAY if line.startswith(_RAY) else _DATA
        keep = 1 + random.randrange(8) if prefix == _RAY else 8 + random.randrange(1, 24)
        event = b64decode(line[len(prefix) :])[:keep]
        tx.logs[place] = prefix + b64encode(event).decode()
