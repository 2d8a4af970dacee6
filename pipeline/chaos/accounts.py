"""The state of the chain's accounts in Redis, against what the chain noted of every write.

Layouts and rules are written down here once more: of a token account the owner is at 32, a stake
account has 200 bytes, and what is stored below its coverage is not alive.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, NamedTuple

from infra.chain.account_truth import GENESIS, Noted, digest, read
from infra.redis.client import connect
from infra.settings import Settings
from pipeline.chaos.differences import Differences
from schemas.accounts import BadAccount, unpack
from schemas.redis_keys import (
    ACCOUNT,
    ASKED_ACCOUNTS,
    COVERAGE_FLOOR,
    COVERED,
    FOUND_BY,
    WATERMARK,
    account_tag,
    account_tags,
)
from schemas.solana.addresses import (
    STAKE_PROGRAM,
    TOKEN_2022_PROGRAM,
    TOKEN_PROGRAM,
    key,
    text,
)

GROUP: Final = "accounts"
MARGINFI_PROGRAM: Final = key("MFv2hWf31Z9kbCa1snEPYctwafyhdvnV7FZnsebVacA")
KLEND_PROGRAM: Final = key("KLend2g3cP87fffoy8q1mQqGKjrxjC8boSyAYavgmjD")
WHIRLPOOL_PROGRAM: Final = key("whirLbMiicVdio4qvUfM5KAg6Ct8VwpYzGff3uctyCc")
CLMM_PROGRAM: Final = key("CAMMCzo5YL8w4VFF8KVHrK22GGUsp5VTaW7grrKgrWqK")
CPMM_PROGRAM: Final = key("CPMMoo8L3F4NbTegBCKVNunggL7H1ZpdTHKxQB5qKP1C")
AMM_PROGRAM: Final = key("675kPX9MHTjS2zt1qfr1NYHuzeLXfQM9H24wFSUt1Mp8")
DLMM_PROGRAM: Final = key("LBUZKhRxPF3XUpBCjp4YzTKgLccjZhTSDM9YuVaPwxo")
DAMM_V2_PROGRAM: Final = key("cpamdpZCGKUy5JxQXB4dcpGPiikHawvSWAd6mEn1sGG")
SIZES: Final = {
    STAKE_PROGRAM: frozenset({200}),
    MARGINFI_PROGRAM: frozenset({1_064, 1_864, 2_312}),  # groups, banks and accounts
    KLEND_PROGRAM: frozenset({3_344, 4_664, 8_624}),  # obligations, markets and reserves
    WHIRLPOOL_PROGRAM: frozenset({216, 653, 9_988}),  # positions, pools and arrays of ticks
    CLMM_PROGRAM: frozenset({281, 1_544, 10_240}),
    CPMM_PROGRAM: frozenset({637}),
    AMM_PROGRAM: frozenset({752, 2_208}),  # pools and target orders
    DLMM_PROGRAM: frozenset({904, 8_120, 10_136, 10_360, 13_608}),  # positions of three lengths
    DAMM_V2_PROGRAM: frozenset({408, 1_112}),
}
"""Programs that are compared whole, and the sizes of their accounts that are stored."""
_NAMES: Final = {
    STAKE_PROGRAM: "stake account",
    MARGINFI_PROGRAM: "marginfi account",
    KLEND_PROGRAM: "klend account",
    WHIRLPOOL_PROGRAM: "Whirlpools account",
    CLMM_PROGRAM: "CLMM account",
    CPMM_PROGRAM: "CPMM pool",
    AMM_PROGRAM: "AMM v4 account",
    DLMM_PROGRAM: "DLMM account",
    DAMM_V2_PROGRAM: "DAMM v2 account",
}
TOKEN_SIZE: Final = 165
_TOKENS: Final = (TOKEN_PROGRAM, TOKEN_2022_PROGRAM)
_HOLDER_AT: Final = slice(32, 64)
_READ_AT_ONCE: Final = 1_000
_ENTRIES: Final = 10_000  # of the stream of asks

Row = dict[str, Any]


class _Alive(NamedTuple):
    slot: int
    owner: bytes
    lamports: int
    data: bytes


@dataclass(slots=True)
class AccountState:
    """All accounts at the end of a slot, and those that slots wrote which are left since."""

    accounts: dict[bytes, Noted] = field(default_factory=dict)
    lamports: dict[bytes, list[tuple[int, int]]] = field(default_factory=dict)
    """Of the wallets that were asked for: each slot that changed them, ascending, and after it."""
    unsettled: set[str] = field(default_factory=set)  # base58


def after(
    file: Path,
    canonical: Collection[int],
    rolled_back: Collection[int],
    wallets: Iterable[str],
) -> AccountState:
    """Return the state after the canonical slots; the others' writes are noted as not settled.

    `rolled_back` are slots that were confirmed and left, of which nobody could know it yet.
    """
    state = AccountState(lamports={key(wallet): [] for wallet in wallets})
    for noted in read(file):
        if noted.slot in canonical or noted.slot == GENESIS:
            state.accounts[noted.address] = noted
            if (changes := state.lamports.get(noted.address)) is not None:
                changes.append((noted.slot, noted.lamports))
        elif noted.slot in rolled_back:
            state.unsettled.add(text(noted.address))
    return state


async def ask(settings: Settings, wallets: Iterable[str], mints: Iterable[str]) -> None:
    """Ask for wallets and mints as the API does; raises RedisError."""
    redis = connect(settings)
    try:
        pipe = redis.pipeline(transaction=False)
        for kind, addresses in (("wallet", wallets), ("mint", mints)):
            for address in addresses:
                pipe.xadd(ASKED_ACCOUNTS.make(), {kind: key(address)}, maxlen=_ENTRIES)
        await pipe.execute()
    finally:
        await redis.aclose()


async def since(redis: Any, subject: str) -> int | None:
    """Return the slot from which all partitions have all of a program, wallet or mint."""
    pipe = redis.pipeline(transaction=False)
    for tag in account_tags():
        pipe.hmget(COVERED.make(tag=tag, address=subject), "slot", "given")
        pipe.hmget(COVERAGE_FLOOR.make(tag=tag), "slot", "hole")
    answers = await pipe.execute()
    slots = []
    for (slot, given), (floor, hole) in zip(answers[::2], answers[1::2], strict=True):
        if slot is None or given is None or int(given) < int(floor or 0) or hole is not None:
            return None
        slots.append(int(slot))
    return max(slots)


async def uncovered(settings: Settings, subjects: Iterable[str]) -> list[str]:
    """Return which programs, wallets and mints are not covered; raises RedisError."""
    redis = connect(settings)
    try:
        return [each for each in subjects if await since(redis, each) is None]
    finally:
        await redis.aclose()


async def watermark(settings: Settings) -> int:
    """Return the lowest slot that a partition of the lane has; raises RedisError."""
    redis = connect(settings)
    try:
        slots = [
            await redis.hget(WATERMARK.make(tag=tag, group=GROUP), "slot") for tag in account_tags()
        ]
    finally:
        await redis.aclose()
    return min(int(slot or 0) for slot in slots)


async def compare(
    settings: Settings,
    state: AccountState,
    wallets: Collection[str],
    mints: Collection[str],
    found: Differences,
) -> None:
    """Note where stored accounts differ from the chain's: each must be there, and no other."""
    of_wallets: dict[str, dict[str, Row]] = {wallet: {} for wallet in wallets}
    of_programs: dict[bytes, dict[str, Row]] = {program: {} for program in SIZES}
    for address, noted in state.accounts.items():
        if not noted.lamports:
            continue
        holder = text(noted.first_data[_HOLDER_AT])
        if noted.owner in _TOKENS and noted.size >= TOKEN_SIZE and holder in of_wallets:
            of_wallets[holder][text(address)] = _noted(noted)
        elif noted.size in SIZES.get(noted.owner, ()):
            of_programs[noted.owner][text(address)] = _noted(noted)
    redis = connect(settings, answer_timeout_s=60.0)
    try:
        for program, wanted in of_programs.items():
            alive = await _of_program(redis, program, found)
            stored = {address: _stored(each) for address, each in alive.items()}
            found.maps(_NAMES[program], wanted, stored)
        for wallet, wanted in of_wallets.items():
            alive = await _of_wallet(redis, wallet, found)
            # Its own lamports are those of the slot at which they were asked, which is stored.
            own = alive.pop(wallet, None)
            found.maps(
                "lamports of a wallet",
                {wallet: _at(state.lamports[key(wallet)], own.slot if own else None)},
                {wallet: own.lamports if own else 0},
            )
            found.maps("account of a wallet", wanted, {a: _stored(s) for a, s in alive.items()})
        for mint in mints:
            of_mint = state.accounts.get(key(mint))
            wanted = {mint: _noted(of_mint)} if of_mint and of_mint.lamports else {}
            alive = await _alive(redis, [mint], mint, found)
            found.maps("mint account", wanted, {a: _stored(each) for a, each in alive.items()})
    finally:
        await redis.aclose()


def _at(changes: Sequence[tuple[int, int]], slot: int | None) -> int:
    """Return what was there at the end of a slot, None: at the end of all."""
    return next((lamports for at, lamports in reversed(changes) if slot is None or at <= slot), 0)


def _noted(noted: Noted) -> Row:
    return {
        "owner": text(noted.owner),
        "lamports": noted.lamports,
        "size": noted.size,
        "digest": noted.digest.hex(),
    }


def _stored(alive: _Alive) -> Row:
    return {
        "owner": text(alive.owner),
        "lamports": alive.lamports,
        "size": len(alive.data),
        "digest": digest(alive.data).hex(),
    }


async def _of_program(redis: Any, program: bytes, found: Differences) -> dict[str, _Alive]:
    addresses = [
        name.decode().rpartition(":")[2]
        for tag in account_tags()
        async for name in redis.scan_iter(ACCOUNT.make(tag=tag, address="*"), count=5_000)
    ]
    alive = await _alive(redis, addresses, text(program), found)
    return {address: each for address, each in alive.items() if each.owner == program}


async def _of_wallet(redis: Any, wallet: str, found: Differences) -> dict[str, _Alive]:
    addresses = {wallet}
    for tag in account_tags():
        addresses |= set(map(text, await redis.smembers(FOUND_BY.make(tag=tag, address=wallet))))
    alive = await _alive(redis, sorted(addresses), wallet, found)
    return {
        address: each
        for address, each in alive.items()
        if address == wallet or (each.owner in _TOKENS and text(each.data[_HOLDER_AT]) == wallet)
    }


async def _alive(
    redis: Any, addresses: Sequence[str], subject: str, found: Differences
) -> dict[str, _Alive]:
    """Return the accounts at addresses that are alive, as the coverage of a subject says."""
    covered_from = await since(redis, subject)
    if covered_from is None:
        found.add("coverage", subject, "covered", "not")
        return {}
    alive = {}
    for at in range(0, len(addresses), _READ_AT_ONCE):
        chunk = addresses[at : at + _READ_AT_ONCE]
        pipe = redis.pipeline(transaction=False)
        for address in chunk:
            pipe.get(ACCOUNT.make(tag=account_tag(address), address=address))
        for address, packed in zip(chunk, await pipe.execute(), strict=True):
            if packed is None:
                continue
            try:
                account = unpack(packed)
                data = account.data()
            except BadAccount as error:
                found.add("stored account", address, "an account", str(error))
                continue
            if not account.closed and account.slot >= covered_from:
                alive[address] = _Alive(account.slot, account.program, account.lamports, data)
    return alive
