"""Account filters: derived from kinds, shared by connections, adapted to a node's refusals."""

from __future__ import annotations

import pytest

from pipeline.ingest.accounts.subscription import CLOSED, Subscription, wanted_kinds
from schemas.proto.geyser_pb2 import CONFIRMED
from schemas.protocols.contract import Kind
from schemas.protocols.registry import KINDS
from schemas.solana.addresses import SYSTEM_PROGRAM, text

ALL = [kind for of_program in KINDS.values() for kind in of_program]
SYSTEM = text(SYSTEM_PROGRAM)
TOO_MANY = "failed to create filter: Max amount of filters/data_slices reached, only 1 allowed"
NO_SYSTEM = f"failed to create filter: Pubkey {SYSTEM} in filters is not allowed"


def names(subscription: Subscription) -> list[set[str]]:
    return [
        set(subscription.request(n, None).accounts) - {CLOSED} for n in range(subscription.streams)
    ]


def test_each_kind_is_a_filter_of_its_program_tag_and_size():
    accounts = Subscription(ALL, "kind", 1).request(0, 7).accounts
    assert len(accounts) == len(ALL) + 1
    for number, kind in enumerate(ALL):
        asked = accounts[str(number)]
        assert list(asked.account) == [text(each) for each in kind.addresses]
        if kind.addresses:
            continue
        assert list(asked.owner) == [text(kind.program)]
        sizes = [each.datasize for each in asked.filters if each.HasField("datasize")]
        tags = [(e.memcmp.offset, e.memcmp.bytes) for e in asked.filters if e.HasField("memcmp")]
        assert sizes == ([kind.size] if kind.size is not None else [])
        assert tags == ([(kind.tag_at, kind.tag)] if kind.tag else [])


def test_closed_accounts_are_those_of_the_system_program_without_lamports():
    closed = Subscription(ALL, "kind", 1).request(0, None).accounts[CLOSED]
    assert list(closed.owner) == [SYSTEM]
    assert [each.lamports.eq for each in closed.filters] == [0]


@pytest.mark.parametrize("streams", [1, 2, 3, 50])
@pytest.mark.parametrize("mode", ["kind", "owner"])
def test_connections_share_the_filters_and_all_have_slots_at_confirmed(streams, mode):
    subscription = Subscription(ALL, mode, streams)
    shares = names(subscription)
    assert all(shares)
    assert sum(map(len, shares)) == len(set().union(*shares))
    for number in range(subscription.streams):
        request = subscription.request(number, 9)
        assert request.commitment == CONFIRMED
        assert request.from_slot == 9
        assert request.slots
        assert request.blocks_meta
        assert (CLOSED in request.accounts) == (number == 0)


def test_ten_programs_are_a_filter():
    kinds = [Kind(f"kind{n}", bytes([n]) * 32, size=1) for n in range(1, 24)]
    accounts = Subscription(kinds, "owner", 1).request(0, None).accounts
    owners = [list(asked.owner) for name, asked in accounts.items() if name != CLOSED]
    assert sorted(map(len, owners)) == [3, 10, 10]
    assert sorted(owner for share in owners for owner in share) == sorted(
        text(kind.program) for kind in kinds
    )


def test_a_group_that_is_not_wanted_is_not_subscribed():
    kinds = wanted_kinds(ALL, ["positions"])
    assert {kind.group for kind in kinds} == {"positions"}
    accounts = Subscription(kinds, "kind", 1).request(0, None).accounts
    assert {owner for asked in accounts.values() for owner in asked.owner} == {
        *(text(kind.program) for kind in kinds if not kind.addresses),
        SYSTEM,
    }


def test_many_protocols_fit_into_the_names_that_a_node_takes():
    """Yellowstone refuses a request with more than 4,096 bytes of them, or 32 in one."""
    kinds = [Kind(f"a_kind_with_a_long_name_{n}", bytes([n]) * 32, size=1) for n in range(256)]
    accounts = Subscription(kinds, "kind", 1).request(0, None).accounts
    assert len(accounts) == len(kinds) + 1
    assert sum(map(len, accounts)) < 4096 // 2


def test_too_many_filters_by_kind_ask_for_filters_by_owner():
    subscription = Subscription(ALL, "kind", 1)
    said = subscription.explain(TOO_MANY)
    assert said == "this endpoint allows 1 account filter; set ACCOUNT_FILTERS=owner"


def test_too_many_filters_by_owner_leave_closings_to_balances_then_ask_for_streams():
    subscription = Subscription(ALL, "owner", 1)
    assert "balances" in subscription.explain(TOO_MANY)
    request = subscription.request(0, None)
    assert CLOSED not in request.accounts
    assert list(request.transactions[CLOSED].account_include) == sorted(
        {text(kind.program) for kind in ALL}
    )
    assert not request.transactions[CLOSED].failed
    kinds = [Kind(f"kind{n}", bytes([n]) * 32, size=1) for n in range(1, 24)]
    subscription = Subscription(kinds, "owner", 1)
    subscription.explain(TOO_MANY)
    assert subscription.explain(TOO_MANY).endswith("3 are needed; set ACCOUNT_STREAMS=3")


def test_a_node_that_refuses_the_system_program_gets_a_filter_on_transactions():
    subscription = Subscription(ALL, "kind", 1)
    assert "balances of transactions" in subscription.explain(NO_SYSTEM)
    request = subscription.request(0, None)
    assert CLOSED not in request.accounts
    assert CLOSED in request.transactions


def test_another_refusal_is_passed_on():
    assert Subscription(ALL, "kind", 1).explain("too many connections") == "too many connections"
