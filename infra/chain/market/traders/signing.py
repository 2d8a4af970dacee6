"""From a decision to a signed transaction: serial numbers, compute budget, tips, versions."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

from infra.chain.market.runtime import spl
from infra.chain.market.runtime.execution import Execution, Intent, Step
from infra.chain.market.runtime.programs import JITO_TIP_ACCOUNTS
from infra.chain.market.world.wallets import Wallet


class Signer:
    """Turns decisions into intents: serial numbers, compute budget, tips and message versions."""

    def __init__(self, random: Random) -> None:
        self._random = random
        self._serial = 0
        self.recent_blockhash = bytes(32)

    def sign(
        self,
        wallet: Wallet,
        steps: Sequence[Step],
        unit_limit: int,
        *,
        hurry: float = 0.3,
        cosigners: tuple[bytes, ...] = (),
        version: int | None = None,
        lookup: bool = False,
        tag: str = "",
    ) -> Intent:
        """Return the signed transaction; `hurry` is how likely it pays for priority and a tip."""
        random = self._random
        serial = self.next_serial()
        all_steps: list[Step] = []
        price = 0
        if random.random() < 0.9:
            all_steps.append(spl.set_unit_limit)
            if random.random() < hurry:
                price = random.randrange(1_000, 5_000_000)
                all_steps.append(spl.set_unit_price)
        else:
            unit_limit = 0
        all_steps.extend(steps)
        if random.random() < hurry * 0.4:
            all_steps.append(tip_step(wallet.address, random))
        return Intent(
            serial=serial,
            payer=wallet.address,
            steps=all_steps,
            recent_blockhash=self.recent_blockhash,
            cosigners=cosigners,
            unit_limit=unit_limit,
            unit_price=price,
            version=version,
            lookup=lookup,
            tag=tag,
        )

    def next_serial(self) -> int:
        """Return the serial number of a transaction that is signed elsewhere."""
        self._serial += 1
        return self._serial

    def vote(self, validator: bytes, step: Step) -> Intent:
        """Return a signed vote."""
        return Intent(self.next_serial(), validator, [step], self.recent_blockhash, is_vote=True)


def tip_step(payer: bytes, random: Random) -> Step:
    """Return a transfer to one of Jito's tip accounts."""
    account = random.choice(JITO_TIP_ACCOUNTS)
    lamports = random.randrange(10_000, 3_000_000)

    def tip(tx: Execution) -> None:
        spl.transfer_lamports(tx, payer, account, lamports)
        tx.tip_lamports += lamports

    return tip
