"""Which user or key pays for a request."""

from __future__ import annotations

from api.access.holders import Holder, Holders

KEY, USER = "a" * 64, "b" * 64


def test_a_key_pays_for_itself_until_it_is_known_to_be_a_users():
    holders = Holders()
    alone = holders.of(KEY)
    assert (alone.payer, alone.tag, alone.own) == (KEY, f"{{{KEY}}}", ())
    known = holders.learn(KEY, USER)
    assert known == holders.of(KEY) == Holder(KEY, USER)
    assert (known.payer, known.tag) == (USER, f"{{{USER}}}")
    assert known.own == (f"access:{{{USER}}}:key:{KEY}",)


def test_all_that_is_looked_at_in_one_step_is_under_one_tag():
    known = Holder(KEY, USER)
    assert all(known.tag in name for name in known.own)
