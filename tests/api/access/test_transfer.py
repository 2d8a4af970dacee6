"""Keys as lines: there and back, and what is none."""

import io

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from api.access import transfer
from api.access.keys import Record, new, parse
from api.access.restoring import Account
from api.access.transfer import BadLine
from api.access.users import Identity, User
from schemas.plans import PLANS
from tests.support.exploring import SLOW, examples

times = st.integers(0, 253_402_300_799_999)
words = st.text(
    st.characters(categories=["L", "N", "P", "Zs"]).filter(str.isprintable), max_size=40
)
months = st.builds("{:04d}-{:02d}".format, st.integers(2000, 2200), st.integers(1, 12))
records = st.builds(
    Record,
    fingerprint=st.text("0123456789abcdef", min_size=64, max_size=64),
    name=words,
    plan=st.sampled_from(list(PLANS)),
    owner=words,
    last4=st.text("abcXYZ019", min_size=4, max_size=4),
    created_ms=times,
    last_used_ms=st.none() | times,
    revoked_ms=st.none() | times,
    credits=st.dictionaries(months, st.integers(0, 2**53 - 1), max_size=4),
)


texts = st.text(st.characters(codec="utf-8").filter(str.isprintable), max_size=40)
user_keys = st.builds(
    Record,
    fingerprint=st.text("0123456789abcdef", min_size=64, max_size=64),
    name=words,
    plan=st.just(""),
    owner=st.just(""),
    last4=st.text("abcXYZ019", min_size=4, max_size=4),
    created_ms=times,
    last_used_ms=st.none() | times,
    revoked_ms=st.none() | times,
)


@st.composite
def accounts(draw):
    issuer, subject = draw(texts), draw(texts)
    user = User(
        Identity(issuer, subject, "").fingerprint,
        *(draw(texts), draw(st.sampled_from(list(PLANS))), issuer, subject),
        *(draw(times), draw(times), draw(st.none() | times)),
        draw(st.dictionaries(months, st.integers(0, 2**53 - 1), max_size=4)),
    )
    return Account(user, tuple(draw(st.lists(user_keys, max_size=3))))


def read(*lines):
    return list(transfer.read(io.BytesIO(b"\n".join(lines))))


@given(st.lists(records, max_size=5), st.lists(accounts(), max_size=3))
@examples(fuzz_factor=SLOW)
def test_what_is_written_is_read(written, users):
    lines = b"".join(transfer.write(written, users))
    assert list(transfer.read(io.BytesIO(lines))) == [*written, *users]


def test_a_file_of_keys_has_no_key():
    text = new()
    record = Record(parse(text), "name", "pro", "ann", text[-4:], 1)
    assert text[8:-4].encode() not in b"".join(transfer.write([record]))


GOOD = {
    "fingerprint": "ab" * 32,
    "name": "name",
    "plan": "free",
    "owner": "",
    "last4": "aB3d",
    "created_ms": 1,
    "last_used_ms": None,
    "revoked_ms": None,
    "credits": {"2026-11": 5},
}


OF_KEY = {name: GOOD[name] for name in ("fingerprint", "name", "last4", "created_ms",
                                        "last_used_ms", "revoked_ms")}  # fmt: skip
USER = {
    "user": Identity("https://issuer", "ann", "").fingerprint,
    "name": "ann@example.com",
    "plan": "free",
    "issuer": "https://issuer",
    "subject": "ann",
    "created_ms": 1,
    "signed_in_ms": 2,
    "suspended_ms": None,
    "credits": {"2026-11": 5},
    "keys": [OF_KEY],
}


def test_a_user_is_a_line_with_their_keys():
    [found] = read(orjson.dumps(USER))
    assert isinstance(found, Account)
    assert [each.fingerprint for each in found.keys] == [GOOD["fingerprint"]]


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (b"{", "line 3: no JSON"),
        (b"[]", "line 3: "),
        (b"null", "line 3: "),
        (b"\xff", "line 3: no JSON"),
        (orjson.dumps({}), "line 3: fingerprint"),
        (orjson.dumps(GOOD | {"fingerprint": "AB" * 32}), "line 3: fingerprint"),
        (orjson.dumps(GOOD | {"fingerprint": "ab" * 32 + "\n"}), "line 3: fingerprint"),
        (orjson.dumps(GOOD | {"fingerprint": "ab"}), "line 3: fingerprint"),
        (orjson.dumps(GOOD | {"plan": "gold"}), "line 3: plan: there is no plan 'gold', only free"),
        (orjson.dumps(GOOD | {"name": "a\x1b[2J"}), "line 3: name: it has characters that"),
        (orjson.dumps(GOOD | {"created_ms": -1}), "line 3: created_ms"),
        (orjson.dumps(GOOD | {"created_ms": "1"}), "line 3: created_ms"),
        (orjson.dumps(GOOD | {"created_ms": True}), "line 3: created_ms"),
        (orjson.dumps(GOOD | {"created_ms": 10**15}), "line 3: created_ms"),
        (orjson.dumps(GOOD | {"credits": {"2026-13": 1}}), "line 3: credits"),
        (orjson.dumps(GOOD | {"credits": {"2026-11": 2**53}}), "line 3: credits"),
        (orjson.dumps(GOOD | {"credits": {"2026-11": -1}}), "line 3: credits"),
        (orjson.dumps(GOOD | {"admin": True}), "line 3: admin"),
        (orjson.dumps({"user": 1}), "line 3: user"),
        (orjson.dumps(USER | {"subject": "bob"}), "line 3: user is not what this issuer and"),
        (orjson.dumps(USER | {"plan": "gold"}), "line 3: plan: there is no plan 'gold'"),
        (orjson.dumps(USER | {"suspended_ms": "x"}), "line 3: suspended_ms"),
        (orjson.dumps(USER | {"name": "a\x1b[2J"}), "line 3: name: it has characters that"),
        (orjson.dumps(USER | {"keys": [GOOD]}), "line 3: keys.0.plan"),
        (orjson.dumps(USER | {"keys": [OF_KEY] * 31}), "line 3: keys"),
        (orjson.dumps(USER | {"keys": [OF_KEY | {"fingerprint": "x"}]}), "line 3: keys.0.fing"),
    ],
)
def test_a_line_that_is_none_of_ours_is_named_with_the_reason(line, reason):
    good = orjson.dumps(GOOD)
    first, bad, last = read(good, b"", line, good)
    assert isinstance(first, Record)
    assert isinstance(bad, BadLine)
    assert str(bad).startswith(reason)
    assert isinstance(last, Record)
