"""The people of the market: wallets, their means, and transactions they can sign."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random
from typing import Final

from infra.chain.market import spl
from infra.chain.market.execution import Execution, Intent, Step
from infra.chain.market.ledger import TOKEN_ACCOUNT_RENT_LAMPORTS, Ledger, Mint
from infra.chain.market.programs import JITO_TIP_ACCOUNTS, derived
from infra.chain.market.venue import Pool, Trader

LAMPORTS: Final = 1_000_000_000
SEED_LETTERS: Final = "abcdefghijkmnopqrstuvwxyz23456789"


@dataclass(slots=True, eq=False)
class Wallet:
    """A wallet; bots keep wrapped SOL at hand, others wrap and unwrap for each trade."""

    address: bytes
    keeps_wsol: bool = False


@dataclass(slots=True, eq=False)
class Validator:
    """A validator's identity and vote account."""

    address: bytes
    vote_account: bytes


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
        self._serial += 1
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
            serial=self._serial,
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

    def vote(self, validator: bytes, step: Step) -> Intent:
        """Return a signed vote."""
        self._serial += 1
        return Intent(self._serial, validator, [step], self.recent_blockhash, is_vote=True)


def tip_step(payer: bytes, random: Random) -> Step:
    """Return a transfer to one of Jito's tip accounts."""
    account = random.choice(JITO_TIP_ACCOUNTS)
    lamports = random.randrange(10_000, 3_000_000)

    def tip(tx: Execution) -> None:
        spl.transfer_lamports(tx, payer, account, lamports)
        tx.tip_lamports += lamports

    return tip


class SwapPlan:
    """Accounts for a swap: where tokens come from and go to, and the steps around it."""

    def __init__(
        self, ledger: Ledger, wallet: Wallet, mint_in: Mint, amount_in_raw: int, mint_out: Mint
    ) -> None:
        self.before: list[Step] = []
        self.after: list[Step] = []
        self._ledger = ledger
        self._wallet = wallet
        owner = wallet.address
        self.source = ledger.associated(owner, mint_in)
        self.destination = ledger.associated(owner, mint_out)
        self._mint_in, self._mint_out, self._amount = mint_in, mint_out, amount_in_raw

    def trader(self) -> Trader:
        """Return the trader of these accounts."""
        owner = self._wallet.address
        return Trader(owner, self.source, self.destination, owner)

    def with_associated(self, sol: Mint) -> SwapPlan:
        """Use associated accounts; wrap and unwrap SOL unless the wallet keeps it wrapped."""
        wallet, owner = self._wallet, self._wallet.address
        wraps = not wallet.keeps_wsol
        if self._mint_in is sol and wraps:
            source, amount = self.source, self._amount
            self.before += (
                lambda tx: spl.create_associated(tx, owner, owner, sol),
                lambda tx: spl.transfer_lamports(tx, owner, source, amount),
                lambda tx: spl.sync_native(tx, source),
            )
            self.after.append(lambda tx: spl.close_account(tx, source, owner, owner))
        mint_out, destination = self._mint_out, self.destination
        self.before.append(lambda tx: spl.create_associated(tx, owner, owner, mint_out))
        if mint_out is sol and wraps:
            self.after.append(lambda tx: spl.close_account(tx, destination, owner, owner))
        return self

    def with_seed_account(self, sol: Mint, random: Random) -> SwapPlan:
        """Use a wSOL account made with a seed and closed again, as Raydium's clients do."""
        owner = self._wallet.address
        seed = "".join(random.choice(SEED_LETTERS) for _ in range(32))
        temporary = derived("seed", owner, seed)
        lamports = TOKEN_ACCOUNT_RENT_LAMPORTS
        if self._mint_in is sol:
            self.source = temporary
            lamports += self._amount
        else:
            self.destination = temporary
        self.before += (
            lambda tx: spl.create_account_with_seed(tx, owner, temporary, seed, lamports, 165),
            lambda tx: spl.initialize_account(tx, temporary, sol, owner, sysvar=True),
        )
        if self._mint_in is sol:
            mint_out = self._mint_out
            self.before.append(lambda tx: spl.create_associated(tx, owner, owner, mint_out))
        self.after.append(lambda tx: spl.close_account(tx, temporary, owner, owner))
        return self


def swap_step(pool: Pool, trader: Trader, mint_in: Mint, amount: int, minimum: int) -> Step:
    """Return a swap as an outer instruction."""

    def swap(tx: Execution) -> None:
        pool.swap(tx, trader, mint_in, amount, minimum)

    return swap
