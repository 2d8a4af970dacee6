"""Account writes laid over the accounts of the start are the ledger's state, slot by slot."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from infra.chain.market import Knobs, Market
from infra.chain.market.market import RETIRE_EVERY_SLOTS
from infra.chain.market.runtime.programs import PROGRAMS, TOKEN
from infra.chain.source import (
    Account,
    AccountWrite,
    ChainTransaction,
    SlotCompleted,
    SlotStarted,
    SlotTransactions,
)
from schemas.proto.geyser_pb2 import SubscribeUpdateTransactionInfo
from schemas.solana.addresses import METAPLEX_PROGRAM, SYSTEM_PROGRAM
from schemas.solana.token_accounts import read_metadata, read_mint

pytestmark = pytest.mark.slow  # runs a market

State = dict[bytes, Account]
_PROGRAMS = {program.address for program in PROGRAMS}


def lay(state: State, writes: Iterable[AccountWrite]) -> None:
    """Apply writes as a follower of the chain does; a closed account is not there."""
    for write in writes:
        if write.lamports:
            state[write.address] = Account(write.owner, write.lamports, write.data)
        else:
            assert (write.owner, write.data) == (SYSTEM_PROGRAM, b"")
            state.pop(write.address, None)


def ledger_state(market: Market) -> State:
    """Return what the simulation holds, account by account."""
    found: State = {}
    for address in market.world.ledger.lamports:
        if address not in _PROGRAMS and (account := market.account(address)) is not None:
            found[address] = account
    return found


def replayed(market: Market, slots: int) -> Iterator[tuple[SlotCompleted, State]]:
    """Yield each slot's end and the state by the writes of its own fork; dead slots have none."""
    states: dict[int, State] = {}
    start: State = {}
    lay(start, market.genesis_accounts())
    version = 0
    last = market.knobs.start_slot + slots
    for _, event in market.stream():
        if isinstance(event, SlotStarted):
            if event.slot >= last:
                return
            states[event.slot] = dict(states.get(event.parent_slot, start))
        elif isinstance(event, SlotTransactions):
            for transaction in event.transactions:
                for write in transaction.writes:
                    assert write.write_version > version
                    version = write.write_version
                lay(states[event.slot], transaction.writes)
        elif isinstance(event, SlotCompleted):
            lay(states[event.header.slot], event.writes)
            yield event, states[event.header.slot]


@settings(max_examples=4, deadline=None, phases=[Phase.generate])
@given(
    seed=st.integers(0, 2**32),
    forks=st.sampled_from([0.0, 0.3]),
    failed=st.sampled_from([0.0, 0.5]),
    rolled_back=st.sampled_from([0.0, 0.6]),
)
def test_writes_over_the_start_are_the_ledger_at_every_slot(seed, forks, failed, rolled_back):
    knobs = Knobs(
        seed=seed, rate=150, wallets=60, forks=forks, failed=failed, rolled_back=rolled_back
    )
    market = Market(knobs)
    ends = 0
    for _, state in replayed(market, 40):  # a fork's ledger is taken back after its last end
        assert state == ledger_state(market)
        ends += 1
    assert ends > 20


def test_an_epoch_that_begins_on_a_fork_is_taken_back():
    begun_twice = 0
    for seed in range(12):
        knobs = Knobs(seed=seed, start_slot=400_000_098, rate=20, wallets=20, forks=0.6)
        market = Market(knobs)
        begun = 0
        for event, state in replayed(market, 8):
            assert state == ledger_state(market)
            begun += bool(event.rewards)
        begun_twice += begun > 1
    assert begun_twice > 2


def test_dead_coins_are_forgotten_and_closed_in_the_same_slot():
    """A chain that runs for long keeps a bounded number of coins."""
    knobs = Knobs(seed=21, rate=600, wallets=60, curves_kept=12, pools_kept=3, forks=0)
    market = Market(knobs)
    closed: set[bytes] = set()
    seen: set[bytes] = set()
    for event, state in replayed(market, RETIRE_EVERY_SLOTS + 10):
        forgotten = {write.address for write in event.writes if not write.lamports}
        if forgotten or event.header.slot % 10 == 0:  # what is not closed stays a difference
            assert state == ledger_state(market)
        closed |= forgotten
        seen |= market.world.launched.keys()
    assert len(closed) > 100
    gone = seen - market.world.launched.keys()
    assert len(gone) > 20
    for coin in gone:
        assert market.account(coin) is None
        assert not market.world.directory.by_mint.get(coin)
    assert all(token.mint.address not in gone for token in market.world.ledger.tokens.values())


def test_a_failed_transaction_writes_its_payer_alone():
    market = Market(Knobs(seed=8, rate=300, wallets=60, failed=0.5))
    counts = Counter[bool]()
    for event in market.generate(20):
        for transaction in getattr(event, "transactions", ()):
            counts[transaction.failed] += 1
            if transaction.failed:
                info = SubscribeUpdateTransactionInfo.FromString(transaction.info)
                payer = info.transaction.message.account_keys[0]
                assert [write.address for write in transaction.writes] == [payer]
    assert min(counts.values()) > 100


def test_written_lamports_are_the_post_balances():
    """Of every account that a transaction names and whose lamports changed there is a write."""
    for transaction in _transactions(Market(Knobs(seed=9, rate=300, wallets=60)), 12):
        info = SubscribeUpdateTransactionInfo.FromString(transaction.info)
        meta = info.meta
        keys = [
            *info.transaction.message.account_keys,
            *meta.loaded_writable_addresses,
            *meta.loaded_readonly_addresses,
        ]
        post = dict(zip(keys, meta.post_balances, strict=True))
        written = {write.address: write.lamports for write in transaction.writes}
        assert written.items() <= post.items()


def test_mints_and_metadata_are_written_when_they_are_made():
    market = Market(Knobs(seed=4, rate=600, wallets=60))
    mints: dict[bytes, str] = {}
    described = 0
    for transaction in _transactions(market, 40):
        for write in transaction.writes:
            mint = market.world.ledger.mints.get(write.address)
            if write.owner == METAPLEX_PROGRAM:
                named = write.data[33:65]
                found = read_metadata(named, write.owner, write.data)
                assert found.name == market.world.ledger.mints[named].name
                described += 1
            elif mint is not None:
                assert read_mint(write.owner, write.data).decimals == mint.decimals
                mints[write.address] = mint.program.name
    assert described > 3
    assert len(mints) > described
    assert len(set(mints.values())) == 2
    assert TOKEN.name in mints.values()


@pytest.mark.parametrize("seed", [690529155, 3680869869])
def test_a_supply_stays_within_what_a_mint_can_note(seed):
    """Ten times what these seeds' largest pools hold would be more than a u64."""
    market = Market(Knobs(seed=seed))
    assert max(mint.supply_raw for mint in market.world.ledger.mints.values()) == (1 << 64) - 1
    assert len(list(market.genesis_accounts())) > len(market.world.ledger.mints)


def test_a_market_without_accounts_writes_none_and_is_the_same_otherwise():
    knobs = Knobs(seed=3, rate=100, wallets=60)
    bare = Market(knobs, accounts=False)
    assert list(bare.genesis_accounts()) == []
    full = _transactions(Market(knobs), 10)
    for one, other in zip(_transactions(bare, 10), full, strict=True):
        assert one.writes == ()
        assert (one.info, one.accounts) == (other.info, other.accounts)


def _transactions(market: Market, slots: int) -> Iterator[ChainTransaction]:
    for event in market.generate(slots):
        if isinstance(event, SlotTransactions):
            yield from event.transactions
