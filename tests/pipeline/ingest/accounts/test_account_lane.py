"""From settled accounts and RPC answers to batches: what is let through, and what it says."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.ingest.accounts import selection as selection_module
from pipeline.ingest.accounts.asked import Answer, AnswerQueue
from pipeline.ingest.accounts.batches import Composed, compose
from pipeline.ingest.accounts.coverage import Coverage
from pipeline.ingest.accounts.holes import keys_to_ask
from pipeline.ingest.accounts.ledger import SettledAccounts, Update
from pipeline.ingest.accounts.mending import Mending, mending
from pipeline.ingest.accounts.selection import Selection
from pipeline.ingest.accounts.tail import tail_of
from pipeline.ingest.accounts.tracked import Asked, Tracked
from pipeline.ingest.accounts.updates import closed_by, closing, writable_keys
from schemas.accounts import MOST_OF_WALLET, decompress, followed_of, largest_of
from schemas.proto.geyser_pb2 import SubscribeUpdateTransactionInfo
from schemas.proto.tape_pb2 import AccountVersion, Covered, SlotBatch
from schemas.protocols.native_stake import STAKE
from schemas.protocols.registry import KINDS
from schemas.solana.addresses import (
    METAPLEX_PROGRAM,
    STAKE_PROGRAM,
    SYSTEM_PROGRAM,
    TOKEN_PROGRAM,
    text,
)
from schemas.topics import SETTLED_ACCOUNTS
from tests.support.exploring import examples

WALLET, OTHER, MINT, ACCOUNT, STAKED = (bytes([n]) * 32 for n in range(1, 6))
LARGEST = largest_of(MINT)
GROUPS = ("positions", "arrays", "tokens")


def token(owner: bytes, amount: int = 5, address: bytes = ACCOUNT, version: int = 1) -> Update:
    data = MINT + owner + amount.to_bytes(8, "little") + bytes(93)
    return Update(address, TOKEN_PROGRAM, 2_039_280, data, version)


def stake(wallet: bytes, lamports: int = 9) -> Update:
    data = bytes(12) + OTHER + wallet + bytes(124)
    return Update(STAKED, STAKE_PROGRAM, lamports, data, 1)


def settled(slot: int, *updates: Update) -> SettledAccounts:
    ordered = tuple(sorted(updates, key=lambda each: each.address))
    return SettledAccounts(slot, slot - 1, "h", 400 * slot, ordered, True)


def made(selection: Selection, slot: SettledAccounts, *answers: Answer, **options) -> Composed:
    withdrawn = options.pop("withdrawn", list)
    return asyncio.run(compose(slot, selection, answers, withdrawn, **options))


def versions(composed: Composed) -> dict[bytes, AccountVersion]:
    found = {}
    for partition, batch in enumerate(composed.batches):
        addresses = [each.address for each in batch.accounts]
        assert addresses == sorted(set(addresses))
        for each in batch.accounts:
            assert SETTLED_ACCOUNTS.partition(text(each.address)) == partition
            found[each.address] = each
    return found


def test_positions_pass_with_their_bytes_and_the_wallets_they_name():
    selection = Selection(Tracked(10), GROUPS)
    found = versions(made(selection, settled(7, stake(WALLET))))
    assert list(found) == [STAKED]
    version = found[STAKED]
    assert decompress(version.data, version.size) == stake(WALLET).data
    assert list(version.found_by) == sorted([WALLET, OTHER])
    assert not version.HasField("asked_slot")


def test_every_partition_has_every_slot():
    composed = made(Selection(Tracked(10), GROUPS), settled(7))
    assert [batch.slot for batch in composed.batches] == [7] * SETTLED_ACCOUNTS.partitions
    assert all(batch.complete for batch in composed.batches)


def test_token_accounts_pass_for_tracked_wallets_alone():
    tracked = Tracked(10)
    selection = Selection(tracked, GROUPS)
    assert not versions(made(selection, settled(7, token(WALLET))))
    tracked.wallets.ask(WALLET, 1)
    assert list(versions(made(selection, settled(8, token(WALLET))))) == [ACCOUNT]
    assert not versions(made(Selection(tracked, ["positions"]), settled(8, token(WALLET))))


def test_the_own_account_of_a_tracked_wallet_passes_whatever_program_has_it():
    curve = bytes(range(32))  # a program that nothing is subscribed to of
    update = Update(WALLET, curve, 9, b"its data", 1)
    tracked = Tracked(10)
    selection = Selection(tracked, GROUPS)
    assert selection.asked(update, 7) is None
    tracked.wallets.ask(WALLET, 1)
    found = selection.asked(update, 7)
    assert found is not None
    assert (found.program, found.lamports, found.size, found.data) == (curve, 9, 0, b"")
    assert (list(found.found_by), found.asked_slot) == ([], 7)


def test_a_token_account_that_changes_hands_is_followed_once_more():
    tracked = Tracked(10, [(WALLET, 1)])
    selection = Selection(tracked, GROUPS)
    made(selection, settled(7, token(WALLET)))
    moved = versions(made(selection, settled(8, token(OTHER))))
    assert list(moved[ACCOUNT].found_by) == [OTHER]
    assert not versions(made(selection, settled(9, token(OTHER, 6))))


def test_a_mint_passes_where_it_is_tracked():
    data = bytes(82)
    update = Update(MINT, TOKEN_PROGRAM, 1, data, 1)
    assert not versions(made(Selection(Tracked(10), GROUPS), settled(7, update)))
    tracked = Tracked(10, (), [(MINT, 1)])
    assert list(versions(made(Selection(tracked, GROUPS), settled(7, update)))) == [MINT]


def largest(slot: int, *updates: Update) -> Answer:
    accounts = [each.address for each in updates]
    covered = Covered(kind=Covered.HOLDERS, address=LARGEST, slot=slot, accounts=accounts)
    return Answer.of([(slot, each) for each in updates], [covered], LARGEST, slot)


def test_the_largest_accounts_pass_from_their_list_on_and_leave_with_the_next():
    tracked = Tracked(100)
    selection = Selection(tracked, GROUPS)
    tracked.ask_holders(MINT, 1)
    first, second = token(WALLET, 9), token(OTHER, 8, STAKED)
    assert not versions(made(selection, settled(6, first)))
    tracked.follow_largest(LARGEST, [ACCOUNT, STAKED])
    assert list(versions(made(selection, settled(7, first)))) == [ACCOUNT]
    made(selection, settled(8), largest(7, first, second))
    tracked.follow_largest(LARGEST, [ACCOUNT])
    composed = made(selection, settled(9), largest(8, first))
    gone, kept = composed.covered
    assert (gone.kind, gone.address) == (Covered.HOLDERS, STAKED)
    assert not gone.HasField("slot")
    assert not gone.reason
    assert list(kept.accounts) == [ACCOUNT]
    assert not versions(made(selection, settled(10, second)))
    assert list(versions(made(selection, settled(10, first)))) == [ACCOUNT]


def test_an_account_that_is_made_again_for_another_mint_leaves_one_list_and_stays_in_the_other():
    other = largest_of(OTHER)
    tracked = Tracked(100)
    for mint, subject in ((MINT, LARGEST), (OTHER, other)):
        tracked.ask_holders(mint, 1)
        assert not tracked.keep_largest(subject, [ACCOUNT])
    assert not tracked.forget_holders(MINT)
    assert tracked.follows(ACCOUNT)
    assert tracked.keep_largest(other, [STAKED]) == [ACCOUNT]
    assert not tracked.follows(ACCOUNT)


def test_an_account_of_a_tracked_wallet_stays_when_it_is_among_the_largest_no_more():
    tracked = Tracked(100)
    selection = Selection(tracked, GROUPS)
    tracked.ask_holders(MINT, 1)
    tracked.follow_largest(LARGEST, [ACCOUNT])
    made(selection, settled(8), largest(7, token(WALLET)))
    left = [Covered(kind=Covered.HOLDERS, address=each) for each in tracked.forget_holders(MINT)]
    assert [each.address for each in left] == [ACCOUNT]
    # The wallet's answer comes with the slot that would let the account go.
    tracked.wallets.ask(WALLET, 1)
    covered = Covered(kind=Covered.WALLET, address=WALLET, slot=8)
    answer = Answer.of([(8, token(WALLET))], [covered], WALLET)
    composed = made(selection, settled(9), answer, withdrawn=lambda: left)
    assert composed.covered == [covered]
    assert list(versions(composed)) == [ACCOUNT]
    # And the other way round: what a wallet let go first is a mint's still.
    tracked.ask_holders(MINT, 2)
    tracked.follow_largest(LARGEST, [ACCOUNT])
    tracked.forget_wallet(WALLET)
    assert tracked.follows(ACCOUNT)


def test_holders_of_as_many_mints_are_kept_as_there_is_room_for_accounts():
    tracked = Tracked(60)
    mints = [bytes([n]) * 32 for n in range(10, 16)]
    left = [each for at, mint in enumerate(mints) for each in tracked.ask_holders(mint, at)]
    assert left == mints[:3]
    assert [tracked.mint_of(largest_of(each)) for each in mints[3:]] == mints[3:]
    for mint in left:
        tracked.follow_largest(largest_of(mint), [mint])
        assert tracked.forget_holders(mint) == [mint]
        assert tracked.mint_of(largest_of(mint)) is None
    late = largest(7, token(WALLET))
    composed = made(Selection(tracked, GROUPS), settled(8), late)
    assert not composed.covered, "nobody keeps that mint's"


@pytest.mark.parametrize("owner", [SYSTEM_PROGRAM, STAKE_PROGRAM])
def test_both_forms_of_a_closing_are_one(owner):
    update = Update(STAKED, owner, 0, b"", 4)
    version = versions(made(Selection(Tracked(10), GROUPS), settled(7, update)))[STAKED]
    assert version.closed
    assert not version.data


def test_an_answer_goes_with_its_slot_and_yields_to_the_slots_own_version():
    tracked = Tracked(10, [(WALLET, 1)])
    selection = Selection(tracked, GROUPS)
    covered = Covered(kind=Covered.WALLET, address=WALLET, slot=6)
    answer = Answer.of([(6, token(WALLET, 1)), (7, token(WALLET, 2, STAKED))], [covered], WALLET)
    assert answer.ready_slot == 7
    composed = made(selection, settled(8, token(WALLET, 3)), answer)
    found = versions(composed)
    assert not found[ACCOUNT].HasField("asked_slot")
    assert found[STAKED].asked_slot == 7
    assert all(list(batch.covered) == [covered] for batch in composed.batches)


def test_an_answer_that_a_dropped_version_outdates_is_asked_again():
    tracked = Tracked(10)
    selection = Selection(tracked, GROUPS)
    tracked.wallets.ask(WALLET, 1)
    made(selection, settled(7, token(OTHER)))  # changed hands before it was followed
    late = Answer.of([(6, token(WALLET))], [Covered(kind=0, address=WALLET, slot=6)], WALLET)
    composed = made(selection, settled(8), late)
    assert composed.again == [WALLET]
    assert not composed.covered
    assert not versions(composed)


def test_nothing_is_covered_from_before_what_is_lost():
    selection = Selection(Tracked(10, [(WALLET, 1)]), GROUPS)
    answer = Answer.of((), [Covered(kind=Covered.WALLET, address=WALLET, slot=6)], WALLET)
    composed = made(selection, settled(9), answer, lost_to=lambda: 7)
    assert (composed.again, composed.covered) == ([WALLET], [])


def test_what_left_meanwhile_is_not_covered():
    tracked = Tracked(10, [(WALLET, 1)])
    answer = Answer.of((), [Covered(kind=Covered.WALLET, address=OTHER, slot=6)], OTHER)
    gone = Covered(kind=Covered.WALLET, address=OTHER, reason="left")
    composed = made(
        Selection(tracked, GROUPS), settled(9), answer, withdrawn=lambda: [gone], complete=False
    )
    assert composed.covered == [gone]
    assert not any(batch.complete for batch in composed.batches)


@examples()
@given(
    st.lists(st.tuples(st.integers(0, 9), st.integers(0, 50), st.booleans()), max_size=30),
    st.integers(1, 60),
)
def test_answers_leave_once_and_not_before_their_slot(answers, most_bytes):
    queue = AnswerQueue()
    for number, (slot, size, bulk) in enumerate(answers):
        update = Update(bytes([number]), STAKE_PROGRAM, 1, bytes(size), 1)
        queue.put(Answer.of([(slot, update)]), bulk=bulk)
    left: list[tuple[int, int]] = []
    for slot in range(10 + 51 * 30):
        for answer in queue.take(slot, most_bytes):
            assert answer.ready_slot <= slot
            left.append((answer.updates[0][1].address[0], slot))
        if not len(queue):
            break
    assert sorted(number for number, _ in left) == list(range(len(answers)))
    assert queue.bytes == 0
    in_bulk = [number for number, _ in left if answers[number][2]]
    assert in_bulk == sorted(in_bulk)


@examples()
@given(st.lists(st.tuples(st.integers(0, 12), st.integers(0, 99))), st.integers(1, 5))
def test_the_least_recently_asked_leaves(asks, most):
    asked = Asked(most)
    oracle: list[bytes] = []
    for number, at_ms in asks:
        address = bytes([number])
        if address in oracle:
            oracle.remove(address)
        oracle.append(address)
        left = asked.ask(address, at_ms)
        assert left == oracle[:-most]
        oracle = oracle[-most:]
        assert len(asked) == len(oracle)
        assert list(asked) == oracle[::-1]


def transaction(
    keys: list[bytes], writable_signed: int = 1, writable: int = 1
) -> SubscribeUpdateTransactionInfo:
    """One signer; then `writable` others that can be written, the rest cannot."""
    info = SubscribeUpdateTransactionInfo()
    message = info.transaction.message
    message.account_keys.extend(keys)
    message.header.num_required_signatures = 1
    message.header.num_readonly_signed_accounts = 1 - writable_signed
    message.header.num_readonly_unsigned_accounts = len(keys) - 1 - writable
    return info


def test_writable_keys_are_those_of_the_header_and_the_loaded_ones():
    info = transaction([WALLET, ACCOUNT, OTHER, TOKEN_PROGRAM], writable=1)
    info.meta.loaded_writable_addresses.append(STAKED)
    info.meta.loaded_readonly_addresses.append(MINT)
    assert writable_keys(info) == [WALLET, ACCOUNT, STAKED]


def test_an_account_whose_lamports_end_at_nothing_is_closed():
    info = transaction([WALLET, ACCOUNT, OTHER])
    info.meta.pre_balances.extend([5, 7, 0])
    info.meta.post_balances.extend([12, 0, 0])
    assert list(closed_by(info)) == [closing(ACCOUNT)]


def test_a_hole_asks_for_all_that_a_position_program_may_have_written():
    info = transaction([WALLET, STAKED, STAKE_PROGRAM])
    programs = {STAKE_PROGRAM, TOKEN_PROGRAM}
    assert keys_to_ask([info], programs, Tracked(1)) == {WALLET, STAKED}


def test_a_hole_asks_for_the_tokens_of_tracked_wallets_alone():
    info = transaction([OTHER, ACCOUNT, STAKED, TOKEN_PROGRAM], writable=2)
    for at, owner in ((1, WALLET), (2, OTHER)):
        info.meta.post_token_balances.add(account_index=at, owner=text(owner))
    programs = {STAKE_PROGRAM, TOKEN_PROGRAM}
    assert keys_to_ask([info], programs, Tracked(1)) == set()
    assert keys_to_ask([info], programs, Tracked(1, [(WALLET, 1)])) == {ACCOUNT}
    followed = Tracked(1, [(OTHER, 1)])
    followed.follow(ACCOUNT, [OTHER])
    assert keys_to_ask([info], programs, followed) == {ACCOUNT, STAKED}


def batches(slot: int, *covered: Covered) -> SlotBatch:
    return SlotBatch(slot=slot, parent=slot - 1, block_time_ms=slot, covered=covered)


def test_a_restart_goes_on_after_the_slot_that_all_partitions_have():
    covered = Covered(kind=Covered.WALLET, address=WALLET, slot=9)
    found = {n: [batches(10), batches(11)] for n in range(SETTLED_ACCOUNTS.partitions)}
    found[3].append(batches(12, covered))
    tail = tail_of(found)
    assert tail.settled == 11
    assert tail.block_time_ms == 11
    assert [each.slot for each in tail.unfinal] == [10, 11]
    assert tail.has(3, 12)
    assert not tail.has(2, 12)
    assert tail.broken == [covered]


def test_a_lane_that_was_begun_amid_its_first_slot_begins_with_it():
    tail = tail_of({0: [batches(12)]})
    assert (tail.settled, tail.some_empty) == (11, True)


def test_a_restart_names_the_slots_whose_holes_may_not_be_mended():
    def lane(*complete: bool) -> dict[int, list[SlotBatch]]:
        of_one = [
            SlotBatch(slot=10 + at, parent=9 + at, complete=each)
            for at, each in enumerate(complete)
        ]
        return {n: [*of_one] for n in range(SETTLED_ACCOUNTS.partitions)}

    assert tail_of(lane(False, True, True)).unmended == ()
    tail = tail_of(lane(True, False, False))
    assert (tail.unmended, tail.is_all_unmended) == ((10, 11, 12), False)
    assert tail_of(lane(False, False)).is_all_unmended
    # Beyond what all partitions have is written again; one partition's word is enough.
    torn = lane(True, True)
    torn[3][1].complete = False
    torn[3].append(SlotBatch(slot=12, parent=11))
    assert tail_of(torn).unmended == (10, 11)


def test_no_slot_is_complete_until_the_last_answer_about_a_hole_goes_with_one():
    queue, open_holes = AnswerQueue(), Mending()
    open_holes.begin()  # a block is asked for
    assert not open_holes.is_done_with([])
    for number in range(3):  # its accounts come in three answers of 100 bytes
        open_holes.begin()
        update = token(WALLET, address=number.to_bytes(32, "little"))
        queue.put(replace(Answer.of([(7, update)], mends=True), size=100))
    queue.put(Answer.of([(7, token(WALLET))]))  # about no hole
    open_holes.end()
    complete = []
    for slot in range(6, 11):
        answers = queue.take(slot, 150)
        complete.append(open_holes.is_done_with(answers))
        open_holes.end(mending(answers))
    assert complete == [False, False, True, True, True]


def test_programs_without_coverage_are_bootstrapped_and_a_loss_begins_again():
    coverage = Coverage(KINDS[STAKE_PROGRAM], [])
    assert coverage.lacking() == [STAKE.program]
    given = Covered(kind=Covered.PROGRAM, address=STAKE_PROGRAM, slot=5)
    coverage.note([given])
    assert coverage.lacking() == []
    assert coverage.withdraw()
    assert not coverage.withdraw()
    assert coverage.lacking() == [STAKE_PROGRAM]
    assert coverage.is_void(STAKE_PROGRAM)
    coverage.asked_anew(STAKE_PROGRAM)
    assert not coverage.is_void(STAKE_PROGRAM)


def test_an_answer_older_than_what_is_forgotten_is_asked_again(monkeypatch):
    monkeypatch.setattr(selection_module, "DROPPED_MOST", 3)
    tracked = Tracked(10)
    selection = Selection(tracked, GROUPS)
    others = [token(OTHER, address=bytes([9, n]) * 16) for n in range(4)]
    made(selection, settled(11, token(OTHER)))  # it was the wallet's, and nobody followed it
    made(selection, settled(12, *others))
    tracked.wallets.ask(WALLET, 1)
    given = Covered(kind=Covered.WALLET, address=WALLET, slot=10)
    answer = Answer.of([(10, token(WALLET))], [given], WALLET)
    composed = made(selection, settled(13), answer)
    assert composed.again == [WALLET]
    assert not composed.covered
    assert not versions(composed)
    later = Answer.of([(12, token(WALLET))], [given], WALLET)
    assert made(selection, settled(13), later).again == []


def test_a_loss_is_one_short_record_however_much_was_covered():
    everything = [
        Covered(kind=Covered.WALLET, address=n.to_bytes(32), slot=5) for n in range(1, 1_000)
    ]
    coverage = Coverage(KINDS[STAKE_PROGRAM], everything)
    coverage.note([Covered(kind=Covered.PROGRAM, address=STAKE_PROGRAM, slot=5)])
    loss = Covered(kind=Covered.ALL, reason="slots were lost")
    given = Covered(kind=Covered.PROGRAM, address=STAKE_PROGRAM, slot=9)
    coverage.note([loss])
    assert coverage.lacking() == [STAKE_PROGRAM]
    coverage.note([loss, given])
    assert coverage.lacking() == []
    # Of a slot in the log, what is withdrawn comes first.
    batch = SlotBatch(slot=12, parent=11, covered=[given, loss])
    tail = tail_of({key: [batch] for key in range(SETTLED_ACCOUNTS.partitions)})
    assert tail.covered == [loss, given]
    after = Coverage(KINDS[STAKE_PROGRAM], [], tail, floor=7)
    assert after.lacking() == []
    assert after.floor == 12, "that the agent has yet to apply it is no other loss"


def test_a_wallet_whose_token_accounts_grow_past_the_bound_is_noted():
    tracked = Tracked(10, [(WALLET, 1)])
    selection = Selection(tracked, GROUPS)

    def open_account(number: int) -> Update:
        return token(WALLET, address=number.to_bytes(32, "little"))

    for number in range(MOST_OF_WALLET):
        assert selection.of_slot(open_account(number), 7) is not None
    selection.of_slot(closing(bytes(32)), 8)
    selection.of_slot(open_account(MOST_OF_WALLET), 9)
    assert tracked.take_overgrown() == []
    selection.of_slot(open_account(MOST_OF_WALLET + 1), 10)
    assert tracked.take_overgrown() == [WALLET]
    assert tracked.take_overgrown() == []


async def test_others_come_in_between_while_a_large_answer_is_composed():
    tracked = Tracked(10, [(WALLET, 1)])
    updates = [(6, token(WALLET, address=n.to_bytes(32, "little"))) for n in range(2_000)]
    turns = 0

    async def turn() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    other = asyncio.create_task(turn())
    answer = Answer.of(updates, [], WALLET)
    composed = await compose(settled(7), Selection(tracked, GROUPS), [answer], list)
    other.cancel()
    assert composed.versions == 2_000
    assert turns >= 2 * 2_000 // 200


def followed(slot: int, update: Update) -> Answer:
    subject = followed_of(update.address)
    covered = Covered(kind=Covered.ACCOUNT, address=subject, slot=slot)
    return Answer.of([(slot, update)], [covered], subject, slot)


def test_an_account_that_is_asked_for_by_its_address_passes_whoever_owns_it():
    tracked = Tracked(100)
    selection = Selection(tracked, GROUPS)
    assert not versions(made(selection, settled(5, token(WALLET))))
    assert not tracked.ask_account(ACCOUNT, 1)
    composed = made(selection, settled(8), followed(7, token(WALLET)))
    assert composed.covered == [Covered(kind=Covered.ACCOUNT, address=followed_of(ACCOUNT), slot=7)]
    for slot, owner in ((9, WALLET), (10, OTHER)):
        assert list(versions(made(selection, settled(slot, token(owner))))) == [ACCOUNT]
    assert versions(made(selection, settled(11, closing(ACCOUNT))))[ACCOUNT].closed
    assert list(versions(made(selection, settled(12, token(OTHER))))) == [ACCOUNT]
    assert not versions(made(selection, settled(12, token(OTHER, address=STAKED))))


def test_an_answer_that_is_older_than_what_was_left_out_covers_no_account():
    tracked = Tracked(100)
    selection = Selection(tracked, GROUPS)
    made(selection, settled(8, token(WALLET)))  # nobody follows it yet
    tracked.ask_account(ACCOUNT, 1)
    composed = made(selection, settled(9), followed(7, token(WALLET)))
    assert composed.again == [followed_of(ACCOUNT)]
    assert not composed.covered
    assert not versions(composed)


def test_the_account_least_recently_asked_for_leaves_and_passes_no_more():
    tracked = Tracked(2)
    selection = Selection(tracked, GROUPS)
    for at_ms, account in enumerate((ACCOUNT, STAKED)):
        assert not tracked.ask_account(account, at_ms)
    assert not tracked.ask_account(ACCOUNT, 2)
    assert tracked.ask_account(OTHER, 3) == [STAKED]
    tracked.forget_account(STAKED)
    assert not tracked.keeps(STAKED)
    assert tracked.account_of(followed_of(STAKED)) is None
    assert not versions(made(selection, settled(7, token(WALLET, address=STAKED))))
    assert not made(selection, settled(8), followed(7, token(WALLET, address=STAKED))).covered
    tracked.ask_holders(MINT, 1)
    tracked.follow_largest(LARGEST, [ACCOUNT])
    tracked.forget_account(ACCOUNT)
    assert tracked.keeps(ACCOUNT), "it is among a mint's largest"
    assert list(versions(made(selection, settled(9, token(WALLET))))) == [ACCOUNT]


def test_another_process_follows_the_accounts_that_redis_names():
    tracked = Tracked(10, accounts=[(ACCOUNT, 5)])
    assert tracked.account_of(followed_of(ACCOUNT)) == ACCOUNT
    assert list(versions(made(Selection(tracked, GROUPS), settled(9, token(WALLET))))) == [ACCOUNT]


def mint(address: bytes = MINT) -> Update:
    return Update(address, TOKEN_PROGRAM, 1_461_600, bytes(44) + b"\6\1" + bytes(36), 1)


def test_a_mint_passes_as_a_wallet_of_its_own_too():
    """Its lamports are the wallet's; its token accounts are kept for the wallet alone."""
    tracked = Tracked(10)
    selection = Selection(tracked, GROUPS)
    tracked.ask_mint(MINT, 1)
    assert list(versions(made(selection, settled(7, mint(), token(MINT))))) == [MINT]
    metadata = Update(STAKED, METAPLEX_PROGRAM, 9, b"\4" + WALLET + MINT + bytes(50), 1)
    assert list(versions(made(selection, settled(8, metadata)))) == [STAKED]
    tracked = Tracked(10, [(MINT, 1)])
    selection = Selection(tracked, GROUPS)
    assert [*versions(made(selection, settled(7, mint(), token(MINT))))] == [MINT, ACCOUNT]


def test_an_account_goes_when_nobody_keeps_it_as_anything():
    tracked = Tracked(10)
    selection = Selection(tracked, GROUPS)
    gone = Covered(kind=Covered.HOLDERS, address=MINT)
    for kept in (tracked.wallets, tracked.mints, tracked.accounts):
        kept.ask(MINT, 1)
        assert not selection.lets_go(gone)
        kept.discard(MINT)
        assert selection.lets_go(gone)
