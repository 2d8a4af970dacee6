"""What providers of every kind of pool do in a slot: open a position, or change one of theirs."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from random import Random
from typing import Final, Generic, Protocol, TypeVar

from infra.chain.market.runtime.execution import Intent, Step
from infra.chain.market.runtime.ledger import Mint
from infra.chain.market.traders.signing import Signer
from infra.chain.market.world.genesis import World
from infra.chain.market.world.wallets import Wallet

PROVIDING: Final = "providing"  # tag of the intents
LEAST_RAW: Final = 1_000  # of a token that a provider adds
_POSITIONS_EACH: Final = 3


class Position(Protocol):
    """Whose position of which pool an instruction is about."""

    @property
    def address(self) -> bytes:
        """Return the position's address."""


PositionT = TypeVar("PositionT", bound=Position)


class ProviderHabit(ABC, Generic[PositionT]):
    """The habit of providing liquidity; all habits share the providers, not random numbers."""

    def __init__(self, world: World, signer: Signer, seed: str, per_slot: float, failed: float):
        self._world = world
        self._signer = signer
        self._random = Random(seed)  # noqa: S311 - reproducible, not secret
        self._per_slot = per_slot
        self._failed = failed
        self._own: dict[Wallet, dict[bytes, PositionT]] = {wallet: {} for wallet in world.providers}

    def turn(self) -> Iterator[Intent]:
        """Yield the next slot's transactions; each must have run before the next."""
        random, natives = self._random, self._world.ledger.natives
        count = int(self._per_slot) + (random.random() < self._per_slot % 1)
        for _ in range(count):
            wallet = random.choice(self._world.providers)
            # A fork may have taken an opening back, or a closing.
            own = [each for address, each in self._own[wallet].items() if address in natives]
            cosigners: tuple[bytes, ...] = ()
            if not own or (len(own) < _POSITIONS_EACH and random.random() < 0.4):
                at, cosigners, steps = self._open(wallet)
                self._own[wallet][at.address] = at
            else:
                steps = self._change(random.choice(own))
            if steps:
                yield Intent(
                    serial=self._signer.next_serial(),
                    payer=wallet.address,
                    steps=steps,
                    recent_blockhash=self._signer.recent_blockhash,
                    cosigners=cosigners,
                    tag=PROVIDING,
                )

    @abstractmethod
    def _open(self, wallet: Wallet) -> tuple[PositionT, tuple[bytes, ...], list[Step]]:
        """Return a position, who else signs, and its opening: nothing if it cannot be paid for."""

    @abstractmethod
    def _change(self, at: PositionT) -> list[Step]:
        """Return what is done with an open position: nothing if it cannot be paid for."""

    def _part_held(self, holder: bytes, sides: tuple[Mint, Mint]) -> tuple[int, int]:
        """Return a part of what a holder has of each side, in raw units."""
        part = self._random.randrange(4, 12)
        first, second = (self._world.ledger.held(holder, side) // part for side in sides)
        return first, second

    def _at_most(self, costs: tuple[int, int]) -> tuple[int, int]:
        """Return what it may cost at most: now and then less than it does, and it fails."""
        percent = 90 if self._random.random() < self._failed else 110
        return costs[0] * percent // 100, costs[1] * percent // 100
