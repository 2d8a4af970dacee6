"""The index finds exactly what the filters take, and looks at nothing else."""

from __future__ import annotations

from collections import defaultdict

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas import channels
from schemas.channels import Fall
from schemas.money import WSOL
from stream_gateway.subscriptions import BY_NAME, Filter, Index
from tests.support.exploring import SLOW, examples

LEVELS = (0.9, 1.0, 1.1, 1.5)
SLUGS = st.sampled_from(["pump-fun", "pump-swap", "orca-whirlpool", ""])
ADDRESSES = st.sampled_from([f"address-{n}" for n in range(6)])


def some(values):
    return st.frozensets(values, max_size=4)


FILTERS = {
    "swaps": st.builds(
        Filter, st.just("swaps"), dexes=some(SLUGS), tokens=some(ADDRESSES), wallets=some(ADDRESSES)
    ),
    "creations": st.builds(Filter, st.just("creations"), platforms=some(SLUGS)),
    "prices": st.builds(Filter, st.just("prices"), mints=some(ADDRESSES)),
    "status": st.builds(Filter, st.just("status")),
    "positions": st.builds(
        Filter,
        st.just("positions"),
        wallets=st.frozensets(ADDRESSES, min_size=1, max_size=4),
        health_below=st.none() | st.sampled_from(LEVELS),
    ),
    "trending-pairs": st.builds(Filter, st.just("trending-pairs"), dexes=some(SLUGS)),
}
VALUES = {
    "dex": SLUGS,
    "platform": SLUGS,
    "mint": ADDRESSES,
    "quote_mint": ADDRESSES,
    "wallet": ADDRESSES,
    "creator": ADDRESSES,
    "signature": ADDRESSES,
    "event_index": st.integers(0, 5),
    "slot": st.integers(0, 9),
    "status": st.sampled_from(["confirmed", "orphaned"]),
    "kind": st.just("health_below"),
    "fell": st.none()
    | st.builds(
        lambda to, since: Fall(to, since).text,
        st.sampled_from(LEVELS),
        st.none() | st.sampled_from(LEVELS),
    ),
}


def takes(chosen, event):
    """What PROTOCOL.md promises of a filter, value by value."""
    event_fields = dict(zip(BY_NAME[chosen.channel].index, event, strict=True))
    sides = {event_fields.get("mint"), event_fields.get("quote_mint")}
    return (
        (not chosen.wallets or event_fields["wallet"] in chosen.wallets)
        and (not chosen.tokens or bool(sides & chosen.tokens))
        and (not chosen.dexes or event_fields["dex"] in chosen.dexes)
        and (not chosen.platforms or event_fields["platform"] in chosen.platforms)
        and (not chosen.mints or event_fields["mint"] in chosen.mints)
        and (
            event_fields.get("fell") is None
            or _is_crossed(chosen.health_below, event_fields["fell"])
        )
    )


def _is_crossed(threshold, fell):
    to, _, since = fell.partition(" ")
    return (
        threshold is not None and float(to) < threshold and (not since or float(since) >= threshold)
    )


@st.composite
def markets(draw):
    """A channel, filters of many members, those who leave again, and events."""
    name = draw(st.sampled_from(sorted(FILTERS)))
    members = draw(st.lists(FILTERS[name], max_size=12))
    leaving = draw(st.frozensets(st.integers(0, 11)))
    event = st.tuples(*(VALUES[value] for value in BY_NAME[name].index))
    return name, members, leaving, draw(st.lists(event, max_size=8))


@given(markets())
def test_the_index_finds_what_each_filter_takes(market):
    name, members, leaving, events = market
    index = Index(BY_NAME[name])
    groups = {member: index.add(chosen, member) for member, chosen in enumerate(members)}
    for member in leaving & groups.keys():
        index.remove(groups.pop(member), member)
    found = defaultdict(list)
    if index.everything:
        for member in index.everything.members:
            found[member] = list(range(len(events)))
    for group, numbers in index.match(events).items():
        for member in group.members:
            assert member not in found
            found[member] = numbers
    for member in groups:
        assert [members[member].matches(event) for event in events] == [
            takes(members[member], event) for event in events
        ]
        wanted = [n for n, event in enumerate(events) if takes(members[member], event)]
        assert found[member] == wanted
    assert found.keys() <= groups.keys()


@given(markets())
@examples(fuzz_factor=SLOW)
def test_a_client_that_left_leaves_nothing_behind(market):
    name, members, _, events = market
    index = Index(BY_NAME[name])
    for member, chosen in enumerate(members):
        index.remove(index.add(chosen, member), member)
    assert list(index) == []
    assert index.everything is None
    assert index.match(events) == {}
    # private `_tables`: an empty table that stays is a leak that no answer shows.
    assert not any(index._tables.values())


class Counted(tuple):
    """An event's index that counts how often it is looked at."""

    looks = 0

    def __getitem__(self, place):
        Counted.looks += 1
        return super().__getitem__(place)


def looks(filters, event):
    index = Index(channels.SWAPS)
    for member, chosen in enumerate(filters):
        index.add(chosen, member)
    Counted.looks = 0
    index.match([Counted(event)])
    return Counted.looks


def test_a_client_with_another_filter_is_never_looked_at():
    event = ("pump-fun", "mint", "wallet", "", "signature", 0, WSOL)
    one = [
        Filter("swaps", wallets=frozenset(["wallet"]), dexes=frozenset(["pump-fun"])),
        Filter("swaps", tokens=frozenset(["mint"])),
        Filter("swaps", tokens=frozenset([WSOL]), dexes=frozenset(["pump-fun"])),
        Filter("swaps", dexes=frozenset(["pump-fun"])),
    ]
    others = [
        Filter("swaps", wallets=frozenset([f"w{n}"]), dexes=frozenset(["pump-fun"]))
        for n in range(500)
    ]
    others += [
        Filter("swaps", tokens=frozenset([f"m{n}"]), dexes=frozenset(["pump-fun"]))
        for n in range(10_000)
    ]
    assert looks(one, event) > 0
    assert looks(one + others, event) == looks(one, event)


def test_a_token_is_found_on_either_side_of_a_swap_and_once():
    index = Index(channels.SWAPS)
    both = index.add(Filter("swaps", tokens=frozenset(["mint", WSOL])), 1)
    sol = index.add(Filter("swaps", tokens=frozenset([WSOL])), 2)
    coin = index.add(Filter("swaps", tokens=frozenset(["coin"])), 3)
    events = [
        ("pump-fun", mint, "wallet", "", "signature", 0, quote)
        for mint, quote in (("mint", WSOL), (WSOL, "dollar"), ("coin", "mint"), ("coin", "dollar"))
    ]
    assert index.match(events) == {both: [0, 1, 2], sol: [0, 1], coin: [2, 3]}


def test_equal_filters_share_a_group():
    index = Index(channels.SWAPS)
    first = index.add(Filter("swaps", dexes=frozenset(["a", "b"])), 1)
    second = index.add(Filter("swaps", dexes=frozenset(["b", "a"])), 2)
    assert first is second
    assert first.members == (1, 2)


def test_a_filter_the_channel_lacks_is_an_error():
    with pytest.raises(ValueError, match="prices cannot be filtered by wallets"):
        Filter("prices", wallets=frozenset(["w"]))
    with pytest.raises(ValueError, match="no channel 'trades'"):
        Filter("trades")


def test_filters_are_shown_in_the_words_of_clients():
    chosen = Filter(
        "swaps",
        dexes=frozenset(["b", "a"]),
        tokens=frozenset(["m"]),
        wallets=frozenset(["y", "x"]),
    )
    assert chosen.as_fields() == {"wallets": ["x", "y"], "token": "m", "dex": ["a", "b"]}
    assert Filter("swaps").as_fields() == {}
    assert Filter("creations", platforms=frozenset(["p"])).as_fields() == {"platforms": ["p"]}
    assert Filter("prices", mints=frozenset(["m"])).as_fields() == {"mints": ["m"]}
    assert Filter("trending-pairs", dexes=frozenset(["p"])).as_fields() == {"dex": ["p"]}


@pytest.mark.parametrize(
    ("channel", "given"),
    [("positions", {}), ("swaps", {"health_below": 1.1}), ("prices", {"wallets": {"a"}})],
)
def test_a_filter_that_a_channel_does_not_have_is_refused(channel, given):
    with pytest.raises(ValueError, match=channel):
        Filter(channel, **given)


@pytest.mark.parametrize("fell", ["", "x", "1.0 x", 7])
def test_a_fall_of_another_form_is_nobody_s(fell):
    chosen = Filter("positions", wallets=frozenset({"w"}), health_below=1.1)
    assert not chosen.matches(("w", "health_below", fell))
