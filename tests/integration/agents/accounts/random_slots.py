"""Slots in which anything may happen to a few accounts of a few wallets."""

from __future__ import annotations

from random import Random

from schemas.proto.tape_pb2 import AccountVersion, Covered, SlotBatch
from schemas.solana.addresses import STAKE_PROGRAM
from tests.integration.agents.accounts.conftest import (
    asked,
    closing,
    native,
    raw,
    slot_batch,
    stake,
    token,
    vote,
)

ALICE, BOB, CAROL = (raw(2, number) for number in (1, 2, 3))
WALLETS = (ALICE, BOB, CAROL)


def _version(random: Random, address: bytes) -> AccountVersion:
    number = address[1]
    pick = random.choice
    if random.random() < 0.2:
        return closing(address)
    if address in WALLETS:
        return native(address, random.randrange(1, 10**9))
    if number % 3 == 0:
        return vote(address, random.randrange(256))
    if number % 3 == 1 and random.random() < 0.9:
        return token(address, pick(WALLETS), random.randrange(10**6))
    return stake(address, pick(WALLETS), pick(WALLETS), random.randrange(100))


def random_batches(
    random: Random, count: int, after: int = 100, *, accounts: int = 7, loses: bool = True
) -> list[SlotBatch]:
    """Slots with versions, asked ones among them, closings, coverage, and slots that were lost."""
    addresses = [*(raw(1, number) for number in range(accounts)), *WALLETS]
    batches: list[SlotBatch] = []
    slot = after
    for _ in range(count):
        parent, slot = slot, slot + random.randint(1, 3)
        lost = loses and batches and random.random() < 0.05
        versions = []
        for address in random.sample(addresses, random.randrange(5)):
            found = _version(random, address)
            if random.random() < 0.3:
                asked(found, slot - random.randrange(6))
            versions.append(found)
        covered = []
        if random.random() < 0.25:
            kind, address, low = random.choice(
                [
                    (Covered.WALLET, random.choice(WALLETS), slot - random.randrange(5)),
                    (Covered.MINT, random.choice(WALLETS), slot - random.randrange(5)),
                    (Covered.PROGRAM, STAKE_PROGRAM, 1),  # the sweep has a test of its own
                ]
            )
            since = random.choice([None, low])
            reason = random.choice(["", "the block is gone"]) if since is None else ""
            covered.append(Covered(kind=kind, address=address, slot=since, reason=reason))
        if loses and random.random() < 0.05:
            covered.insert(0, Covered(kind=Covered.ALL, reason="slots were lost"))
        batches.append(
            slot_batch(
                slot,
                *versions,
                covered=covered,
                parent=parent + 1 if lost else parent,
                complete=random.random() < 0.8,
            )
        )
    return batches
