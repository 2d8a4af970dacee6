"""One transaction while it runs: its instructions, logs, compute units and what it changed.

Programs call `enter`, act on the ledger through `infra.chain.market.runtime.spl`, and `leave`; the
order of calls is the order of the flattened instructions and of the log lines. Everything the
transaction changes is noted, so a failure takes back all but the fee and a fork all of it.
"""

from __future__ import annotations

from binascii import b2a_base64
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Final

from infra.chain.market.runtime.events import FundingPayment, Launch, Leg, Move, PerpChange
from infra.chain.market.runtime.ledger import Ledger, TokenAccount
from infra.chain.market.runtime.programs import SYSTEM, Program
from infra.chain.submission import Submission

SELF_CPI_TAG: Final = bytes.fromhex("e445a52e51cb9a1d")
SIGNATURE_FEE_LAMPORTS: Final = 5_000
DEFAULT_UNITS: Final = 200_000

Accounts = tuple[bytes, ...]
Mask = tuple[bool, ...]


@lru_cache(maxsize=1_000)
def mask(pattern: str) -> Mask:
    """Return which accounts of an instruction are writable: `w` or `-` for each."""
    return tuple(letter == "w" for letter in pattern if letter != " ")


class InstructionError(Exception):
    """A program returned a custom error; the whole transaction fails with it."""

    def __init__(self, code: int, log: str = "") -> None:
        super().__init__(f"custom program error: {code:#x}")
        self.code = code
        self.log = log


class Stateful:
    """State beside the ledger that transactions change: pools and curves."""

    __slots__ = ()
    MUTABLE: tuple[str, ...] = ()

    def save(self) -> tuple[Any, ...]:
        """Return the mutable fields; values must not be changed in place afterwards."""
        return tuple([getattr(self, name) for name in self.MUTABLE])

    def restore(self, saved: tuple[Any, ...]) -> None:
        """Put saved fields back."""
        for name, value in zip(self.MUTABLE, saved, strict=True):
            setattr(self, name, value)


Step = Callable[["Execution"], object]


def _base64(data: bytes) -> str:
    return b2a_base64(data, newline=False).decode()


@dataclass(slots=True, eq=False)
class Intent:
    """A transaction as its sender signed it: every choice is made, only the outcome is open.

    Each step is one outer instruction. Running the same intent again on another fork gives the
    same message and signature, with whatever outcome that fork has.
    """

    serial: int
    payer: bytes
    steps: Sequence[Step]
    recent_blockhash: bytes
    cosigners: tuple[bytes, ...] = ()
    unit_limit: int = 0  # 0: no compute budget instructions
    unit_price: int = 0  # micro-lamports a compute unit
    version: int | None = None  # None: legacy message; 0: versioned
    lookup: bool = False  # load accounts from address lookup tables
    mangled: bool = False  # venue data arrives damaged
    is_vote: bool = False
    tag: str = ""
    submission: Submission | None = None  # it was made and signed outside

    @property
    def priority_fee_lamports(self) -> int:
        """Lamports paid to be earlier."""
        return -(-self.unit_limit * self.unit_price // 1_000_000)

    @property
    def fee_lamports(self) -> int:
        """Base and priority fee."""
        return SIGNATURE_FEE_LAMPORTS * (1 + len(self.cosigners)) + self.priority_fee_lamports


@dataclass(slots=True)
class Changes:
    """What a transaction found before it wrote: enough to take it back."""

    lamports: dict[bytes, int | None] = field(default_factory=dict)
    tokens: dict[bytes, tuple[TokenAccount, int] | None] = field(default_factory=dict)
    contents: set[bytes] = field(default_factory=set)  # of mints and native accounts
    states: dict[Stateful, tuple[Any, ...]] = field(default_factory=dict)
    undo: list[Callable[[], object]] = field(default_factory=list)

    def take_back(self, ledger: Ledger) -> None:
        """Restore the ledger and all states."""
        for address, lamports in self.lamports.items():
            if lamports is None:
                ledger.lamports.pop(address, None)
            else:
                ledger.lamports[address] = lamports
        for address, before in self.tokens.items():
            if before is None:
                ledger.tokens.pop(address, None)
            else:
                account, amount_raw = before
                account.amount_raw = amount_raw
                ledger.tokens[address] = account
        for state, saved in self.states.items():
            state.restore(saved)
        for action in reversed(self.undo):
            action()


Instruction = tuple[Program, Accounts, bytes, int]  # program, accounts, data, stack height


class Execution:
    """The running transaction."""

    __slots__ = (
        "burns",
        "changes",
        "data_logs",
        "err_code",
        "err_index",
        "events",
        "frames",
        "funding",
        "height",
        "instructions",
        "intent",
        "launches",
        "ledger",
        "legs",
        "logs",
        "moves",
        "outer_writable",
        "perps",
        "slot",
        "swap_instructions",
        "time_s",
        "tip_lamports",
        "units_left",
        "units_limit",
    )

    def __init__(self, ledger: Ledger, intent: Intent, slot: int, time_s: int) -> None:
        self.ledger = ledger
        self.intent = intent
        self.slot = slot
        self.time_s = time_s
        self.instructions: list[Instruction] = []
        self.outer_writable: list[Mask] = []
        self.logs: list[str] = []
        self.height = 0
        self.frames: list[tuple[Program, int]] = []
        self.units_limit = intent.unit_limit or DEFAULT_UNITS * len(intent.steps)
        self.units_left = self.units_limit
        self.changes = Changes()
        self.err_code: int | None = None
        self.err_index = 0
        # Places in `instructions` and `logs` that a malformed transaction damages.
        self.events: list[int] = []
        self.data_logs: list[int] = []
        self.swap_instructions: list[int] = []
        # Ground truth.
        self.legs: list[Leg] = []
        self.launches: list[Launch] = []
        self.moves: list[Move] = []
        self.perps: list[PerpChange] = []
        self.funding: list[FundingPayment] = []
        self.burns: list[tuple[TokenAccount, int]] = []
        self.tip_lamports = 0

    # Instructions and logs.

    def enter(
        self, program: Program, accounts: Accounts, data: bytes, writable: Mask | None = None
    ) -> int:
        """Invoke a program; returns the instruction's place in the flattened order.

        `writable` matters for outer instructions only: the message declares it.
        """
        height = self.height = self.height + 1
        place = len(self.instructions)
        self.instructions.append((program, accounts, data, height))
        if height == 1:
            self.outer_writable.append(writable or (False,) * len(accounts))
        self.logs.append(program.invoke[height])
        self.frames.append((program, self.units_left))
        return place

    def leave(self, units: int) -> None:
        """Return from a program that used `units` itself, beside those of its callees."""
        program, at_entry = self.frames.pop()
        self.height -= 1
        left = self.units_left - units
        if left < 0:
            left = 0
        self.units_left = left
        self.logs += (
            f"{program.consumed}{at_entry - left} of {at_entry} compute units",
            program.success,
        )

    def leave_builtin(self) -> None:
        """Return from a native program: it costs 150 units and logs no consumption."""
        program, _ = self.frames.pop()
        self.height -= 1
        self.units_left -= 150
        self.logs.append(program.success)

    def log(self, line: str) -> None:
        """Write a log line."""
        self.logs.append(line)

    def returns(self, program: Program, data: bytes) -> None:
        """Log a program's return data."""
        self.logs.append(program.returned + _base64(data))

    def emit_log(self, event: bytes) -> None:
        """Emit an event as a `Program data:` line."""
        self.data_logs.append(len(self.logs))
        self.logs.append("Program data: " + _base64(event))

    def emit_cpi(self, program: Program, event: bytes, units: int = 2_000) -> None:
        """Emit an event as a call of the program to itself."""
        self.events.append(len(self.instructions))
        self.enter(program, (program.event_authority,), SELF_CPI_TAG + event)
        self.leave(units)

    # Changes beside token accounts.

    def touch(self, state: Stateful) -> None:
        """Note a pool's state before it changes."""
        states = self.changes.states
        if state not in states:
            states[state] = state.save()

    def set_lamports(self, address: bytes, lamports: int) -> None:
        """Set an account's lamports; zero removes the account."""
        everyone = self.ledger.lamports
        before = self.changes.lamports
        if address not in before:
            before[address] = everyone.get(address)
        if lamports:
            everyone[address] = lamports
        else:
            everyone.pop(address, None)

    def move_lamports(self, source: bytes, destination: bytes, lamports: int) -> None:
        """Move lamports; fails with the System program's code where there are too few."""
        everyone = self.ledger.lamports
        held = everyone.get(source, 0)
        if held < lamports:
            raise InstructionError(1, f"Transfer: insufficient lamports {held}, need {lamports}")
        if source == destination or not lamports:
            return
        self.set_lamports(source, held - lamports)
        self.set_lamports(destination, everyone.get(destination, 0) + lamports)

    def note_token(self, account: TokenAccount) -> None:
        """Note a token account's amount before it changes."""
        before = self.changes.tokens
        if account.address not in before:
            before[account.address] = (account, account.amount_raw)

    def pay_fee(self) -> None:
        """Charge the payer; what is charged stays charged if the transaction fails."""
        payer = self.intent.payer
        lamports = self.ledger.lamports.get(payer, 0) - self.intent.fee_lamports
        self.set_lamports(payer, max(lamports, 0))

    # Running.

    def run(self) -> None:
        """Execute all steps; on failure only the fee remains."""
        self.pay_fee()
        for step in self.intent.steps:
            if self.err_code is not None:
                self._declare(step)
                continue
            try:
                step(self)
            except InstructionError as failure:
                self._unwind(failure)
                self._roll_back()

    def _unwind(self, failure: InstructionError) -> None:
        if failure.log:
            self.logs.append(
                f"Program log: {failure.log}" if self.frames[-1][0] is not SYSTEM else failure.log
            )
        while self.frames:
            program, at_entry = self.frames.pop()
            if program is not SYSTEM:
                self.units_left = max(self.units_left - 1_500, 0)
                used = at_entry - self.units_left
                self.logs.append(f"{program.consumed}{used} of {at_entry} compute units")
            self.logs.append(f"{program.failed}{failure.code:#x}")
        self.height = 0
        self.err_code = failure.code
        self.err_index = len(self.outer_writable) - 1

    def _roll_back(self) -> None:
        changes = self.changes
        payer = self.intent.payer
        before = changes.lamports[payer]
        changes.take_back(self.ledger)
        self.changes = Changes()
        self.ledger.lamports[payer] = before or 0
        self.pay_fee()
        self.legs.clear()
        self.launches.clear()
        self.moves.clear()
        self.perps.clear()
        self.funding.clear()
        self.burns.clear()
        self.tip_lamports = 0

    def _declare(self, step: Step) -> None:
        """Add the outer instruction of a step that never ran: the message still holds it."""
        instructions, logs = len(self.instructions), len(self.logs)
        units = self.units_left
        with suppress(InstructionError):
            step(self)
        del self.logs[logs:]
        del self.instructions[instructions + 1 :]
        for places, end in (
            (self.swap_instructions, instructions + 1),
            (self.events, instructions + 1),
            (self.data_logs, logs),
        ):
            places[:] = [place for place in places if place < end]
        self.frames.clear()
        self.height = 0
        self.units_left = units
        self._roll_back()
