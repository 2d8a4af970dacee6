"""What all venues share: a pool that quotes and swaps, and the trader at the other side."""

from __future__ import annotations

from abc import ABC, abstractmethod
from math import sqrt
from struct import Struct
from typing import Final, NamedTuple

from infra.chain.market.runtime.events import Leg
from infra.chain.market.runtime.execution import (
    Accounts,
    Execution,
    InstructionError,
    Mask,
    Stateful,
)
from infra.chain.market.runtime.ledger import Ledger, Mint
from infra.chain.market.runtime.programs import Program

pack_u64: Final = Struct("<Q").pack
pack_two_u64: Final = Struct("<QQ").pack


class Trader(NamedTuple):
    """Who swaps: the authority of two token accounts, acting for a wallet."""

    authority: bytes
    source: bytes
    destination: bytes
    wallet: bytes


class Call(NamedTuple):
    """A venue's instruction, ready to be an outer one or a leg of a route."""

    accounts: Accounts
    writable: Mask
    data: bytes


class Pool(Stateful, ABC):
    """A market between two mints. `sides` and `vaults` are in the venue's own order."""

    __slots__ = ("address", "alive", "ledger", "sides", "vaults")

    DEX: str = ""
    PROGRAM: Program
    SLIPPAGE_ERROR: int = 6_001
    ROUTE_STEP: bytes = b"\x00"  # the venue's variant in Jupiter's route plan
    IS_CURVE: bool = False  # a launched coin's first market, which it leaves when it is full

    def __init__(
        self, ledger: Ledger, address: bytes, sides: tuple[Mint, Mint], vaults: tuple[bytes, bytes]
    ) -> None:
        self.ledger = ledger
        self.address = address
        self.sides = sides
        self.vaults = vaults
        ledger.vaults.update(dict.fromkeys(vaults, address))
        self.alive = True

    @property
    def full(self) -> bool:
        """Whether a curve has sold what it sells, so that its coin moves to a pool."""
        return False

    @abstractmethod
    def quote(self, mint_in: Mint, amount_in_raw: int) -> int:
        """Return what a trader who sends `amount_in_raw` would receive, after all fees."""

    @abstractmethod
    def call(self, trader: Trader, mint_in: Mint, amount_in_raw: int, min_out_raw: int) -> Call:
        """Return the swap instruction."""

    @abstractmethod
    def swap(
        self, tx: Execution, trader: Trader, mint_in: Mint, amount_in_raw: int, min_out_raw: int
    ) -> int:
        """Execute the swap instruction; returns what the trader received."""

    def moving_accounts(self) -> tuple[bytes, ...]:
        """Return accounts of a swap that depend on the price at which it is executed."""
        return ()

    def other(self, mint: Mint) -> Mint:
        """Return the other side."""
        first, second = self.sides
        return second if mint is first else first

    def vault_balances(self) -> tuple[int, int]:
        """Return both vaults' balances."""
        first, second = self.vaults
        held = self.ledger.tokens.get
        one, other = held(first), held(second)
        return one.amount_raw if one else 0, other.amount_raw if other else 0

    def reserves(self) -> tuple[int, int]:
        """Return the reserves that the price is made of."""
        return self.vault_balances()

    def depth(self) -> tuple[float, float]:
        """Return liquidity (root of the product of the reserves) and root price."""
        first, second = self.reserves()
        return sqrt(first) * sqrt(second), sqrt(second / first)

    def mid(self) -> float:
        """Return the price between buying and selling: second side a first side, both raw."""
        root: float = self.depth()[1]
        return root * root

    def price_of(self, mint: Mint) -> float:
        """Return the mid price of one side in the other."""
        mid = self.mid()
        return mid if mint is self.sides[0] else 1 / mid

    def trade_to(self, mid: float) -> tuple[Mint, int]:
        """Return the trade, before fees, that moves the pool to a mid price."""
        liquidity, root = self.depth()
        wanted = sqrt(mid)
        first, second = self.sides
        if wanted < root:
            return first, int(liquidity * (1 / wanted - 1 / root))
        return second, int(liquidity * (wanted - root))

    def check(self, received_raw: int, min_out_raw: int) -> None:
        """Fail as the venue does where the trader would receive too little."""
        if received_raw < min_out_raw or not received_raw:
            raise InstructionError(self.SLIPPAGE_ERROR, "Error: exceeds desired slippage limit")

    def enter(self, tx: Execution, call: Call) -> int:
        """Enter the venue's program; fails where the pool is not there (any more)."""
        place = tx.enter(self.PROGRAM, call.accounts, call.data, call.writable)
        if not self.alive:
            raise InstructionError(3012, "AnchorError: AccountNotInitialized. Error Number: 3012.")
        tx.swap_instructions.append(place)
        return place

    def leg(
        self,
        tx: Execution,
        place: int,
        trader: Trader,
        mint_in: Mint,
        vault_raw: tuple[int, int],
        trader_raw: tuple[int, int],
    ) -> Leg:
        """Note the leg after its transfers; amounts are (in, out). Venues add what they report."""
        leg = Leg(
            place=place,
            dex=self.DEX,
            program_id=self.PROGRAM.name,
            pool=self.address,
            trader=trader.wallet,
            mint_in=mint_in,
            mint_out=self.other(mint_in),
            vault_in_raw=vault_raw[0],
            vault_out_raw=vault_raw[1],
            trader_in_raw=trader_raw[0],
            trader_out_raw=trader_raw[1],
            pool_sides=self.sides,
            vaults_raw=self.vault_balances(),
            token_owner=trader.authority,
        )
        tx.legs.append(leg)
        return leg


def ceil_div(numerator: int, denominator: int) -> int:
    """Divide, rounding up."""
    return -(-numerator // denominator)


def constant_product_out(reserve_in: int, reserve_out: int, amount_in: int) -> int:
    """Return what x*y=k gives for an input, rounded for the pool."""
    return reserve_out * amount_in // (reserve_in + amount_in)
