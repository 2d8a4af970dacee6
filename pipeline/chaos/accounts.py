"""All accounts that are stored, against what the chain noted of every write of any account.

Every account of the chain is compared, byte for byte, or left out by a rule with a name
(`account_kinds`): those of programs that are covered whole, and those that somebody asked for. What
is stored beside them (closings, what is below its coverage or kept no more) must be as the chain
had it at the slot that is stored.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any, Final, Generic, TypeVar

from infra.chain.account_truth import GENESIS, Noted
from infra.redis.client import connect
from infra.settings import Settings
from pipeline.chaos import account_kinds, account_states
from pipeline.chaos.account_kinds import (
    COVERED,
    HOLDER_AT,
    METADATA_MINT_AT,
    NO_PROTOCOL,
    NOT_ASKED_FOR,
    TRACKED,
    VOTES,
)
from pipeline.chaos.account_states import AccountState
from pipeline.chaos.account_stores import Asked, StoredAccounts, Version
from pipeline.chaos.differences import Differences
from schemas.accounts import followed_of, largest_of, mint_account_of
from schemas.redis_keys import ASKED_ACCOUNTS, WATERMARK, account_tags
from schemas.solana.addresses import METAPLEX_PROGRAM, VOTE_PROGRAM, text

GROUP: Final = "accounts"
OF_WALLET: Final = "account of a wallet"
LAMPORTS: Final = "lamports of a wallet"
MINT: Final = "mint account"
METADATA: Final = "metadata of a mint"
LARGEST: Final = "largest account of a mint"
FOLLOWED: Final = "account asked for by its address"
FOUND_BY: Final = "set of a wallet's accounts"
AT_ITS_SLOT: Final = "stored version, at its slot"
COVERAGE: Final = "coverage"
NO_KIND: Final = "account of no kind in the table"
_ENTRIES: Final = 10_000  # of the stream of asks

A = TypeVar("A", Noted, Version)
Row = dict[str, Any]
Rows = dict[str, Row]  # by base58 address


def in_clickhouse(kind: str) -> str:
    """Return what the rows of a kind are compared as."""
    return f"{kind}, in ClickHouse"


async def ask(settings: Settings, asked: Asked) -> None:
    """Ask for accounts as the API does; raises RedisError."""
    redis = connect(settings)
    try:
        pipe = redis.pipeline(transaction=False)
        for kind, addresses in (
            ("wallet", asked.wallets),
            ("mint", asked.mints),
            ("holders", asked.holders),
            ("account", asked.accounts),
        ):
            for address in sorted(addresses):
                pipe.xadd(ASKED_ACCOUNTS.make(), {kind: address}, maxlen=_ENTRIES)
        await pipe.execute()
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


def compare(state: AccountState, stored: StoredAccounts, found: Differences) -> Counter[str]:
    """Note where what is stored as alive differs from the chain: each is there, and no other.

    Returns how many accounts of the chain are left out, by the rule that says so.
    """
    found.compared[COVERAGE] += len(stored.since)
    for subject, slot in stored.since.items():
        if slot is None:
            found.add(COVERAGE, text(subject), "covered", "not")
    left_out = _programs(state, stored, found)
    asked_for = _asked_for(state, stored, found)
    for address, noted in state.accounts.items():
        if noted.lamports and noted.owner in TRACKED and text(address) not in asked_for:
            left_out[NOT_ASKED_FOR[noted.owner]] += 1
    return left_out


def _programs(state: AccountState, stored: StoredAccounts, found: Differences) -> Counter[str]:
    """Compare the accounts of programs that are covered whole."""
    left_out: Counter[str] = Counter()
    wanted: defaultdict[str, Rows] = defaultdict(dict)
    of_wallets: set[str] = set()
    for address, noted in state.accounts.items():
        if not noted.lamports or noted.owner in TRACKED:
            continue
        if noted.owner not in COVERED:
            left_out[VOTES if noted.owner == VOTE_PROGRAM else NO_PROTOCOL] += 1
            continue
        kind = account_kinds.kind_of(noted.owner, noted.size, noted.first_data)
        if kind is None:
            found.add(NO_KIND, text(address), "one", _class(noted))
        elif kind.is_stored:
            wanted[kind.name][text(address)] = _noted(noted)
            of_wallets |= {kind.name} if kind.is_of_wallet else set()
        else:
            left_out[kind.name] += 1
    here = _by_kind(state, _of_programs(stored, stored.whole))
    for name in wanted.keys() | here.keys():
        found.maps(name, wanted[name], here[name])
    there = _by_kind(state, _of_programs(stored, stored.rows))
    for name in of_wallets | there.keys():
        expected = wanted[name] if name in of_wallets else {}
        found.maps(in_clickhouse(name), expected, there[name])
    return left_out


def _of_programs(stored: StoredAccounts, versions: Mapping[bytes, Version]) -> dict[bytes, Version]:
    """Return the versions of programs that are covered whole, if they are alive."""
    of_program: defaultdict[bytes, dict[bytes, Version]] = defaultdict(dict)
    for address, each in versions.items():
        of_program[each.owner][address] = each
    alive: dict[bytes, Version] = {}
    for program in COVERED:
        alive |= stored.alive(program, of_program[program])
    return alive


def _by_kind(state: AccountState, versions: Mapping[bytes, Version]) -> defaultdict[str, Rows]:
    found: defaultdict[str, Rows] = defaultdict(dict)
    for address, each in versions.items():
        kind = account_kinds.kind_of(each.owner, each.size, each.first_data)
        name = NO_KIND if kind is None else kind.name
        found[name][text(address)] = _stored(state, address, each)
    return found


def _asked_for(state: AccountState, stored: StoredAccounts, found: Differences) -> set[str]:
    """Compare what is kept because somebody asked for it; return the addresses."""
    asked, whole = stored.asked, stored.whole
    chain = _Named({a: noted for a, noted in state.accounts.items() if noted.lamports})
    here, rows = _Named(whole), _Named(stored.rows)
    compared: set[str] = set()
    for wallet in sorted(asked.wallets):
        wanted = _all_noted(chain.of_holder[wallet])
        alive = stored.alive(wallet, here.of_holder[wallet])
        there = stored.alive(wallet, rows.of_holder[wallet])
        found.maps(OF_WALLET, wanted, _all_stored(state, alive))
        found.maps(in_clickhouse(OF_WALLET), wanted, _all_stored(state, there))
        # Which leads readers to them.
        listed = {text(address): True for address in stored.found_by[wallet] & alive.keys()}
        found.maps(FOUND_BY, dict.fromkeys(wanted, True), listed)
        compared |= {*wanted, text(wallet)}
    for mint in sorted(asked.mints):
        subject, wanted = mint_account_of(mint), _all_noted(chain.of_mint[mint])
        alive = stored.alive(subject, here.of_mint[mint])
        found.maps(METADATA, wanted, _all_stored(state, alive))
        compared |= {*wanted, *_by_address(MINT, subject, [mint], state, stored, found)}
    for mint in sorted(asked.holders):
        subject, accounts = largest_of(mint), stored.largest[mint]
        compared |= _by_address(LARGEST, subject, accounts, state, stored, found)
    for address in sorted(asked.accounts):
        subject = followed_of(address)
        compared |= _by_address(FOLLOWED, subject, [address], state, stored, found)
    return compared


def _by_address(
    kind: str,
    subject: bytes,
    addresses: Collection[bytes],
    state: AccountState,
    stored: StoredAccounts,
    found: Differences,
) -> set[str]:
    """Compare the accounts at addresses, which are alive by the coverage of a subject."""
    wanted = _all_noted(
        {
            address: noted
            for address in addresses
            if (noted := state.accounts.get(address)) is not None and noted.lamports
        }
    )
    of_tokens = {
        text(address): wanted[text(address)]
        for address in addresses
        if text(address) in wanted and _is_token_account(state.accounts[address])
    }
    for name, expected, store in (
        (kind, wanted, stored.whole),
        (in_clickhouse(kind), of_tokens, stored.rows),
    ):
        versions = {address: store[address] for address in addresses if address in store}
        found.maps(name, expected, _all_stored(state, stored.alive(subject, versions)))
    return {*wanted}


def _is_token_account(account: Noted | Version) -> bool:
    return account_kinds.is_token_account(account.owner, account.size)


class _Named(Generic[A]):
    """Token accounts by their holders, and metadata by mints, of the chain or of a store."""

    def __init__(self, accounts: Mapping[bytes, A]) -> None:
        self.of_holder: defaultdict[bytes, dict[bytes, A]] = defaultdict(dict)
        self.of_mint: defaultdict[bytes, dict[bytes, A]] = defaultdict(dict)
        for address, each in accounts.items():
            if _is_token_account(each):
                self.of_holder[each.first_data[HOLDER_AT]][address] = each
            elif each.owner == METAPLEX_PROGRAM:
                self.of_mint[each.first_data[METADATA_MINT_AT]][address] = each


def compare_at_slots(
    file: Path,
    canonical: set[int],
    rolled_back: set[int],
    stored: StoredAccounts,
    found: Differences,
) -> int:
    """Note which stored versions the chain did not have at the end of the slots they name.

    Closings are versions without lamports. Versions of slots that were left are not alive, or are
    of accounts nobody keeps; their number is returned.
    """
    left = 0
    wanted: set[account_states.Version] = set()
    settled: dict[str, dict[account_states.Version, Version]] = {}
    for kind, store in ((AT_ITS_SLOT, stored.here), (in_clickhouse(AT_ITS_SLOT), stored.rows)):
        versions = {(address, each.slot): each for address, each in store.items()}
        settled[kind] = {at: v for at, v in versions.items() if v.slot not in rolled_back}
        left += len(versions) - len(settled[kind])
        wanted |= settled[kind].keys()
    at_slots = account_states.versions_at(file, canonical, wanted)
    for kind, versions in settled.items():
        found.maps(
            kind,
            {_place(at): _noted_alone(at_slots[at]) for at in versions},
            {_place(at): _stored_alone(each) for at, each in versions.items()},
        )
    for wallet in stored.asked.wallets:
        # No stream brings a wallet's own lamports: they are those of the slot of the answer.
        own = stored.here.get(wallet)
        if own is None:
            found.add(LAMPORTS, text(wallet), "stored, or a closing", "none")
        elif own.slot not in rolled_back:
            there = at_slots[wallet, own.slot]
            expected = {text(wallet): there.lamports if there else 0}
            found.maps(LAMPORTS, expected, {text(wallet): own.lamports})
    return left


def _place(version: account_states.Version) -> tuple[str, int]:
    return text(version[0]), version[1]


def _class(noted: Noted) -> tuple[str, int, str]:
    return text(noted.owner), noted.size, noted.first_data[:8].hex()


def _all_noted(accounts: Mapping[bytes, Noted]) -> Rows:
    return {text(address): _noted(noted) for address, noted in accounts.items()}


def _noted(noted: Noted) -> Row:
    return _noted_alone(noted) | {"slot": noted.slot}


def _noted_alone(noted: Noted | None) -> Row:
    """Return what is expected of a version but for its slot; of a closing nothing."""
    if noted is None or not noted.lamports:
        return {}
    return {
        "owner": text(noted.owner),
        "lamports": noted.lamports,
        "size": noted.size,
        "digest": noted.digest.hex(),
    }


def _all_stored(state: AccountState, versions: Mapping[bytes, Version]) -> Rows:
    return {text(address): _stored(state, address, each) for address, each in versions.items()}


def _stored(state: AccountState, address: bytes, version: Version) -> Row:
    """Return what is stored. An answer of RPC names its own slot, not that of the last write."""
    noted = state.accounts.get(address)
    written = noted.slot if noted is not None else GENESIS
    is_newest = written <= version.slot <= state.last_slot
    return _stored_alone(version) | {"slot": written if is_newest else version.slot}


def _stored_alone(version: Version) -> Row:
    if version.closed:
        return {}
    return {
        "owner": text(version.owner),
        "lamports": version.lamports,
        "size": version.size,
        "digest": version.digest.hex(),
    }
