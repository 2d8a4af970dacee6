"""Each value of the books goes to the partitions that its addresses have in the new count."""

import pytest

from infra.redis.families import FAMILIES
from pipeline.partitions.lanes import part_of
from pipeline.partitions.raising import RAISED
from pipeline.partitions.refile import SPLIT, CannotSplit, parts, refiled
from schemas.positions import COLD_MARK
from schemas.proto.tape_pb2 import SlotBatch
from schemas.solana.addresses import key
from schemas.topics import SETTLED_BY_MINT, SETTLED_BY_WALLET

OLD, NEW = (SETTLED_BY_WALLET.with_partitions(count) for count in (8, 16))
WALLETS = [
    "So11111111111111111111111111111111111111112",
    "EPjFWdd5AufqSSqeM2qN1xzybapC8G4wEGGkZwyTDt1v",
    "Es9vMFrzaCERmJfrF4H2FYD4KCoNkY11McCe8BenwNYB",
    "TokenkegQfeZyiNwAJbNbGKPFXCWuBvf9Ss623VQ5DA",
]


def row(name, kind, field=b"", value=b"", wallet=WALLETS[0]):
    place = OLD.place_of(wallet)
    return ("pnl", place, name.format(place).encode(), kind, field, value, 7, 0)


def made(rows, wallet=WALLETS[0]):
    return list(refiled(rows, OLD, OLD.partition(wallet), NEW))


def test_there_is_a_rule_for_every_key_of_the_books():
    books = {family for family in FAMILIES if family.owner in RAISED and family.ttl_s is None}
    tagged = {family for family in books if "{tag}" in family.pattern}
    assert SPLIT.keys() == tagged


@pytest.mark.parametrize("wallet", WALLETS)
def test_a_wallets_own_keys_go_with_it(wallet):
    name = f"pos:{{{{w{{}}}}}}:{wallet}"
    assert made([row(name, "hash", b"mint", b"packed", wallet)], wallet) == [
        (
            *("pnl", NEW.place_of(wallet), f"pos:{{w{NEW.place_of(wallet)}}}:{wallet}".encode()),
            *("hash", b"mint", b"packed", 7, 0),
        )
    ]


def test_members_are_sorted_by_their_address_and_the_cold_mark_goes_to_each():
    wallet = WALLETS[1]
    rows = [
        row("top:{{w{}}}:mint", "zset", key(wallet), b"5.0", wallet),
        row("top:{{w{}}}:mint", "zset", COLD_MARK, b"inf", wallet),
        row("traded:{{w{}}}", "zset", key(WALLETS[0]), b"4.0", wallet),
    ]
    found = made(rows, wallet)
    both = [NEW.place(part) for part in parts(OLD, OLD.partition(wallet), NEW)]
    assert [each[1] for each in found] == [NEW.place_of(wallet), *both, *both]
    assert found[1][2] == f"top:{{w{both[0]}}}:mint".encode()


def test_what_no_rule_places_stops_the_raise():
    with pytest.raises(CannotSplit, match="no rule"):
        made([row("new:{{w{}}}:thing", "hash")])
    other = next(each for each in WALLETS if OLD.partition(each) != OLD.partition(WALLETS[0]))
    with pytest.raises(CannotSplit, match="another partition"):
        made([row(f"pos:{{{{w{{}}}}}}:{other}", "hash")])


def test_a_slot_is_split_without_anything_lost_or_doubled():
    for lane in (SETTLED_BY_MINT, SETTLED_BY_WALLET):
        new = lane.with_partitions(32)
        batch = SlotBatch(slot=9, parent=8, block_time_ms=3_600, sol_usd="150")
        for number, address in enumerate(WALLETS):
            batch.balances.add(owner=address, mint=address, amount_raw=number)
            batch.events.add().swap.wallet = address
            batch.events[-1].swap.mint = address
            if lane is SETTLED_BY_WALLET:
                batch.movements.add(wallet=address, received_raw=number)
                batch.funding_payments.add(wallet=address, payment_raw=number)
                batch.perp_changes.add(wallet=address, price_usd_micros=number)
                batch.perp_gaps.add(wallet=address if number else "", event_index=number)
        split = [part_of(batch, new, part) for part in range(32)]
        for part, each in enumerate(split):
            assert (each.slot, each.parent, each.sol_usd) == (9, 8, "150")
            assert {new.partition(one.owner) for one in each.balances} <= {part}
        of_perps = ("funding_payments", "perp_changes", "perp_gaps")
        for name in ("events", "balances", "movements", *of_perps):
            found = [one for each in split for one in getattr(each, name)]
            expected = [*getattr(batch, name)]
            assert sorted(map(str, found)) == sorted(map(str, expected))
