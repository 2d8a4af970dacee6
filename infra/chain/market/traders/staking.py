"""Stakers: create, delegate, deactivate, withdraw and close stake accounts.

They have wallets and random numbers of their own: no price depends on what they do.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from random import Random
from typing import Final

from solders.pubkey import Pubkey

from infra.chain.market.runtime import spl, stake_program
from infra.chain.market.runtime.execution import Execution, Intent, Step
from infra.chain.market.runtime.programs import STAKE
from infra.chain.market.runtime.stake import (
    NEVER,
    STAKE_BYTES,
    STAKE_RENT_LAMPORTS,
    Stake,
    StakeHistory,
    epoch_of,
)
from infra.chain.market.traders.signing import Signer
from infra.chain.market.world.genesis import World
from infra.chain.market.world.wallets import Wallet
from schemas.amounts import LAMPORTS
from schemas.solana.addresses import STAKE_HISTORY

STAKING: Final = "staking"  # tag of the intents
SHARE: Final = 0.005  # of the market's rate
_ACCOUNTS_EACH: Final = 3


class Staking:
    """The habit of staking."""

    def __init__(self, world: World, signer: Signer, seed: int, per_slot: float, failed: float):
        self._world = world
        self._signer = signer
        self._random = Random(f"staking/{seed}")  # noqa: S311 - reproducible, not secret
        self._per_slot = per_slot
        self._failed = failed
        self._number = 0

    def turn(self, slot: int) -> Iterator[Intent]:
        """Yield the next slot's transactions; each must have run before the next."""
        count = int(self._per_slot) + (self._random.random() < self._per_slot % 1)
        for _ in range(count):
            wallet = self._random.choice(self._world.stakers)
            steps = self._steps(wallet, slot)
            yield Intent(
                serial=self._signer.next_serial(),
                payer=wallet.address,
                steps=steps,
                recent_blockhash=self._signer.recent_blockhash,
                tag=STAKING,
            )

    def _steps(self, wallet: Wallet, slot: int) -> list[Step]:
        random, owner = self._random, wallet.address
        natives = self._world.ledger.natives
        own = [
            (at, each)
            for at, each in natives.items()
            if isinstance(each, Stake) and each.withdrawer == owner
        ]
        rich = self._world.ledger.lamports.get(owner, 0) > 20 * LAMPORTS
        if not own or (rich and len(own) < _ACCOUNTS_EACH and random.random() < 0.3):
            return self._create(owner)
        at, stake = random.choice(own)
        history = natives[STAKE_HISTORY]
        assert isinstance(history, StakeHistory)
        if stake.voter is not None and stake.deactivation_epoch == NEVER:
            steps: list[Step] = [partial(_deactivate, at, owner)]
            return steps * 2 if random.random() < self._failed else steps
        if stake.moved(epoch_of(slot), history.epochs).effective:
            spare = self._world.ledger.lamports[at] - stake.lamports - STAKE_RENT_LAMPORTS
            return [partial(_withdraw, at, owner, max(spare, 0))]
        roll = random.random()
        if roll < 0.4:
            return [partial(_delegate, at, self._validator(), owner)]
        lamports = self._world.ledger.lamports[at]
        if roll < 0.6:
            lamports = (lamports - STAKE_RENT_LAMPORTS) // 2
        return [partial(_withdraw, at, owner, lamports)]

    def _create(self, owner: bytes) -> list[Step]:
        random = self._random
        self._number += 1
        seed = f"stake:{self._number}"
        at = bytes(Pubkey.create_with_seed(Pubkey(owner), seed, STAKE.pubkey))
        lamports = STAKE_RENT_LAMPORTS + random.randrange(LAMPORTS, 10 * LAMPORTS)
        steps: list[Step] = [
            lambda tx: spl.create_account_with_seed(
                tx, owner, at, seed, lamports, STAKE_BYTES, STAKE
            ),
            lambda tx: stake_program.initialize(tx, at, owner),
        ]
        if random.random() < 0.85:
            steps.append(partial(_delegate, at, self._validator(), owner))
        return steps

    def _validator(self) -> bytes:
        return self._random.choice(self._world.validators).vote_account


def _delegate(at: bytes, vote: bytes, owner: bytes, tx: Execution) -> None:
    stake_program.delegate(tx, at, vote, owner)


def _deactivate(at: bytes, owner: bytes, tx: Execution) -> None:
    stake_program.deactivate(tx, at, owner)


def _withdraw(at: bytes, owner: bytes, lamports: int, tx: Execution) -> None:
    stake_program.withdraw(tx, at, owner, owner, lamports)
