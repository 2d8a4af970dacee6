"""What the commands of a flush change, by name."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.agents.settled.changes import ALL_TRACKED, members, parse

raw = st.binary(max_size=40)  # raw addresses hold zero bytes
keys = st.sampled_from(["pos:{w3}:abc", "bal:{w3}:abc", "top:{w3}"])


def test_a_field_that_is_set_once_is_named_and_its_value_is_not():
    found = parse(members([("HSETNX", "cover:{a1}:floor", "hole", 143)]))
    assert found.hashes == {b"cover:{a1}:floor": [b"hole"]}


@given(
    hashes=st.dictionaries(keys, st.lists(raw, min_size=1, unique=True)),
    removed=st.dictionaries(keys, st.lists(raw, min_size=1, unique=True)),
)
def test_fields_are_named_whatever_their_bytes(hashes, removed):
    commands = [
        ("HSET", key, *(part for name in fields for part in (name, b"value")))
        for key, fields in hashes.items()
    ]
    commands += [("HDEL", key, *fields) for key, fields in removed.items()]
    found = parse(members(commands)).hashes
    expected = {}
    for changes in (hashes, removed):
        for key, fields in changes.items():
            expected.setdefault(key.encode(), set()).update(fields)
    assert {key: set(fields) for key, fields in found.items()} == expected


def test_each_command_of_books():
    found = parse(
        [
            ALL_TRACKED,
            *members(
                [
                    ("ZADD", "top:{w3}", 5, b"a", 7.5, "b"),
                    ("ZADD", "top:{w3}", "GT", 5, b"\0"),
                    ("SETBIT", "away:{w3}", 2**20, 1),
                    ("ZREM", "top:{w3}", b"c"),
                    ("SADD", "cold:{w3}", b"d"),
                    ("SREM", "cold:{w3}", "e"),
                    ("SET", "clock:{w3}", 12),
                    ("UNLINK", "lots:1", "lots:2"),
                    ("UNLINK", "market:1", "metadata:1"),  # which is beside the books
                    ("SET", "metadata:1", b"{}", "NX"),
                    ("ZREMRANGEBYSCORE", "traders", "-inf", "(30"),
                    ("ZREMRANGEBYSCORE", "traders", "-inf", "(29.5"),
                    ("EXPIRE", "metadata:1", 60),
                ]
            ),
        ]
    )
    assert found.zsets == {b"top:{w3}": [b"a", b"b", b"\0", b"c"]}
    assert found.bits == {b"away:{w3}": [b"1048576"]}
    assert found.sets == {b"cold:{w3}": [b"d", b"e"]}
    assert found.strings == [b"clock:{w3}"]
    assert found.gone == [b"lots:1", b"lots:2", b"market:1"]
    assert found.trimmed == {b"traders": 30.0}


@pytest.mark.parametrize(
    "command", [("INCR", "x"), ("ZREMRANGEBYSCORE", "x", "1", "(5"), ("RENAME", "a", "b")]
)
def test_a_command_that_no_checkpoint_can_follow_is_refused(command):
    with pytest.raises(ValueError, match=command[0]):
        members([command])
