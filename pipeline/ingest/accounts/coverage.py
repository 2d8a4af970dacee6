"""What the lane says is covered: programs, wallets and mints of which all accounts are known."""

from __future__ import annotations

from collections.abc import Iterable

from infra.redis.client import ask, connect
from infra.settings import Settings
from pipeline.ingest.accounts.tail import AccountTail
from schemas.account_reading import coverage, floor_question
from schemas.proto.tape_pb2 import Covered
from schemas.protocols.contract import Kind
from schemas.protocols.programs import ADDRESSES
from schemas.redis_keys import COVERED, account_tags
from schemas.solana.addresses import text

Subject = tuple[Covered.Kind, bytes]


async def read_covered(settings: Settings) -> list[Covered]:
    """Return the programs that Redis says are covered; raises RedisError."""
    client = connect(settings)
    try:
        floors = await ask(client, [floor_question(tag) for tag in account_tags()])
        found = []
        for program in ADDRESSES.values():
            names = [COVERED.make(tag=tag, address=text(program)) for tag in account_tags()]
            said = await ask(client, [("HMGET", name, "slot", "given", "reason") for name in names])
            slots = [
                coverage(values, floor).slot for values, floor in zip(said, floors, strict=True)
            ]
            known = [slot for slot in slots if slot is not None]
            if len(known) == len(slots):
                found.append(Covered(kind=Covered.PROGRAM, address=program, slot=max(known)))
        return found
    finally:
        await client.aclose()


class Coverage:
    """Follows what the lane says: `known` are an earlier process's, the tail's records win.

    Programs of group `tokens` are never covered: their accounts are, wallet by wallet.
    """

    def __init__(
        self, kinds: Iterable[Kind], known: Iterable[Covered], tail: AccountTail | None = None
    ) -> None:
        self.kinds = tuple(kinds)
        self.programs = frozenset(kind.program for kind in self.kinds)
        self.withdrawals = 0
        self._covered: set[Subject] = {(each.kind, each.address) for each in known}
        self._wanted = frozenset(kind.program for kind in self.kinds if kind.group != "tokens")
        self._again: set[bytes] = set()
        self._void: set[bytes] = set()  # programs of which no part may be resumed
        if tail is not None:
            self.note(tail.covered)
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
                self._covered.discard((each.kind, each.address))

    def note(self, covered: Iterable[Covered]) -> None:
        """Take what the lane says now."""
        for each in covered:
            subject = each.kind, each.address
            if each.kind == Covered.ALL:
                self._covered.clear()
            elif each.HasField("slot"):
                self._covered.add(subject)
                self._again.discard(each.address)
            else:
                self._covered.discard(subject)

    def lacking(self) -> list[bytes]:
        """Return the programs to bootstrap."""
        return sorted(
            program
            for program in self._wanted
            if (Covered.PROGRAM, program) not in self._covered or program in self._again
        )

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

    def withdraw(self) -> bool:
        """Take nothing for covered any more; return whether anything was."""
        was_covered = bool(self._covered)
        self._covered.clear()
        self._void |= self._wanted
        self.withdrawals += 1
        return was_covered
