"""What Redis must have of accounts after some slots: computed from all of them, slowly."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from schemas.accounts import StoredAccount, mint_account_of, pack
from schemas.proto.tape_pb2 import AccountVersion, Covered, SlotBatch
from schemas.redis_keys import ACCOUNT, ACCOUNTS_CLOSED, COVERAGE_FLOOR, COVERED, FOUND_BY
from schemas.solana.addresses import (
    METAPLEX_PROGRAM,
    SYSTEM_PROGRAM,
    TOKEN_2022_PROGRAM,
    TOKEN_PROGRAM,
    text,
)

FOUND = {
    Covered.WALLET: {TOKEN_PROGRAM, TOKEN_2022_PROGRAM},
    Covered.MINT: {METAPLEX_PROGRAM},
}
OWN = {
    Covered.WALLET: {SYSTEM_PROGRAM},
    Covered.HOLDERS: {TOKEN_PROGRAM, TOKEN_2022_PROGRAM, METAPLEX_PROGRAM},
}


def expected(batches: Iterable[SlotBatch], tag: str) -> dict[str, Any]:
    """Return the keys and values; closings are there for ever."""
    last: dict[bytes, tuple[int, AccountVersion, bytes, int]] = {}  # slot, program, closed at
    covers: dict[bytes, dict[bytes, bytes]] = {}
    floor = hole = None
    before = 0
    for batch in batches:
        if before and batch.parent > before:
            floor = batch.slot
        before = batch.slot
        hole = None if batch.complete else (hole or batch.slot)
        for version in batch.accounts:
            slot = version.asked_slot if version.HasField("asked_slot") else batch.slot
            known = last.get(version.address)
            if known is not None and known[0] > slot:
                continue
            program = version.program
            if version.closed and known is not None:
                program = known[2]
            last[version.address] = (slot, version, program, batch.block_time_ms)
        for covered in batch.covered:
            subject, limit = covered.address, None
            if covered.kind == Covered.MINT:
                subject = mint_account_of(covered.address)
            if covered.kind == Covered.ALL:
                floor = batch.slot
            elif covered.HasField("slot"):
                covers[subject] = {
                    b"slot": b"%d" % covered.slot,
                    b"given": b"%d" % batch.slot,
                }
                limit = covered.slot
            elif covered.reason:
                covers[subject] = {b"reason": covered.reason.encode()}
            else:
                covers.pop(subject, None)
                limit = batch.slot + 1
            if limit is None or covered.kind == Covered.PROGRAM:
                continue
            for address, (slot, version, program, _) in [*last.items()]:
                is_own = address == covered.address and program in OWN.get(covered.kind, ())
                is_found = covered.address in version.found_by
                is_its = is_own or (is_found and program in FOUND.get(covered.kind, ()))
                if is_its and not version.closed and slot < limit:
                    del last[address]
    return _keys(last, covers, {b"slot": floor, b"hole": hole}, tag)


def _keys(
    last: dict[bytes, tuple[int, AccountVersion, bytes, int]],
    covers: dict[bytes, dict[bytes, bytes]],
    floor: dict[bytes, int | None],
    tag: str,
) -> dict[str, Any]:
    keys: dict[str, Any] = {}
    for address, (slot, version, program, closed_ms) in last.items():
        account = StoredAccount(
            slot, version.lamports, program, version.size, version.data, version.closed
        )
        keys[ACCOUNT.make(tag=tag, address=text(address))] = pack(account)
        for finder in () if version.closed else version.found_by:
            keys.setdefault(FOUND_BY.make(tag=tag, address=text(finder)), set()).add(address)
        if version.closed:
            keys.setdefault(ACCOUNTS_CLOSED.make(tag=tag), {})[address] = float(closed_ms)
    for address, fields in covers.items():
        keys[COVERED.make(tag=tag, address=text(address))] = fields
    if known := {name: b"%d" % slot for name, slot in floor.items() if slot is not None}:
        keys[COVERAGE_FLOOR.make(tag=tag)] = known
    return keys
