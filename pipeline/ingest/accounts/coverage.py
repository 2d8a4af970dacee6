"""What the lane says is covered: programs, wallets and mints of which all accounts are known."""

from __future__ import annotations

from collections.abc import Iterable

from pipeline.ingest.accounts.tail import AccountTail
from schemas.proto.tape_pb2 import Covered
from schemas.protocols.contract import Kind

Subject = tuple[Covered.Kind, bytes]


class Coverage:
    """Follows what the lane says: `known` are an earlier process's, the tail's records win.

    Programs of group `tokens` are never covered: their accounts are, wallet by wallet.

    What is covered was asked for and given with slots of the lane from `floor` on: where the agent
    loses slots before it, that voids nothing of it.
    """

    def __init__(
        self,
        kinds: Iterable[Kind],
        known: Iterable[Covered],
        tail: AccountTail | None = None,
        floor: int = -1,
    ) -> None:
        self.kinds = tuple(kinds)
        self.programs = frozenset(kind.program for kind in self.kinds)
        self.withdrawals = 0
        self.floor = floor
        # -> slot of the lane with which the agent has it, too
        self._covered: dict[Subject, int] = {(each.kind, each.address): -1 for each in known}
        self._wanted = frozenset(kind.program for kind in self.kinds if kind.group != "tokens")
        self._again: set[bytes] = set()
        self._void: set[bytes] = set()  # programs of which no part may be resumed
        if tail is not None:
            self.note(tail.covered, tail.all_withdrawn)
            self._void = {
                each.address
                for each in tail.covered
                if each.kind == Covered.PROGRAM and not each.HasField("slot")
            }
            if any(each.kind == Covered.ALL for each in tail.covered):
                self._void = set(self._wanted)
            if tail.settled is None:
                self._void = set(self._wanted)
            for each in tail.broken:
                self._covered.pop((each.kind, each.address), None)
            # The agent may have yet to apply what withdraws some, in slots before the tail's.
            self._covered = dict.fromkeys(self._covered, max(tail.last.values(), default=-1))

    def note(self, covered: Iterable[Covered], slot: int = -1) -> None:
        """Take what the lane says now, or said up to a slot in which it withdrew all."""
        for each in covered:
            subject = each.kind, each.address
            if each.kind == Covered.ALL:
                self._covered.clear()
                self.floor = max(self.floor, slot)
            elif each.HasField("slot"):
                self._covered[subject] = slot
                self._again.discard(each.address)
            else:
                self._covered.pop(subject, None)

    def lacking(self) -> list[bytes]:
        """Return the programs to bootstrap."""
        return sorted(
            program
            for program in self._wanted
            if (Covered.PROGRAM, program) not in self._covered or program in self._again
        )

    def stored_with(self, slot: int) -> list[bytes]:
        """Return the programs that are covered once the lane is applied up to a slot."""
        return [
            program
            for program in self._wanted
            if self._covered.get((Covered.PROGRAM, program), slot + 1) <= slot
            and program not in self._again
        ]

    def bootstrap_again(self, program: bytes) -> bool:
        """Ask for a program's accounts again; False where it is not subscribed."""
        self._again.add(program)
        self._void.add(program)
        return program in self._wanted

    def is_void(self, program: bytes) -> bool:
        """Return whether what was asked of a program before is of no use."""
        return program in self._void

    def asked_anew(self, program: bytes) -> None:
        """Take note that nothing is left of what was asked of a program before."""
        self._void.discard(program)

    def withdraw(self, lost_to: int = -1) -> bool:
        """Take nothing for covered any more; return whether anything was.

        The lane must cover nothing from now on by what it had before slot `lost_to`.
        """
        was_covered = bool(self._covered)
        self._covered.clear()
        self._void |= self._wanted
        self.withdrawals += 1
        self.floor = max(self.floor, lost_to)
        return was_covered
