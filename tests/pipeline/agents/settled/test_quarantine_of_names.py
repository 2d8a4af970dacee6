"""Names that books leave out: recorded once, bounded; and which values cannot be read."""

from __future__ import annotations

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import REGISTRY

from pipeline.agents.settled import quarantine as quarantine_module
from pipeline.agents.settled.quarantine import Quarantine, StoreSpoiled
from pipeline.agents.settled.readable import unreadable
from schemas.markets import Account, Head, pack_account, pack_exact, pack_head
from schemas.positions import (
    COLD_MARK,
    LOT,
    Position,
    WalletDay,
    pack_balance,
    pack_position,
    pack_wallet_day,
)
from schemas.solana.base58 import encode

RAW = bytes(range(32))
WALLET = encode(RAW)


def test_a_name_is_recorded_once_with_the_first_slot_it_lacks() -> None:
    names = Quarantine("pnl", "{w5}")
    assert not names
    assert names.commands() == []
    names.slot = 77
    names.put("a", "pos:{w5}:a mint", ValueError("short"))
    names.slot = 78
    names.put("a", "elsewhere", "another cause")
    [(command, key, name, record)] = names.commands()
    assert (command, key, name) == ("HSET", "quarantine:{w5}:pnl", "a")
    assert orjson.loads(record) == {
        "slot": 77,
        "place": "pos:{w5}:a mint",
        "cause": "ValueError: short",
    }
    assert names.commands() == []
    assert names.fresh() == ["a"]
    assert names.fresh() == []
    assert "a" in names
    labels = {"group": "pnl", "partition": "5"}
    assert REGISTRY.get_sample_value("soltape_agents_quarantined", labels) == 1


def test_too_many_are_no_single_bad_values(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(quarantine_module, "MOST", 3)
    names = Quarantine("market", "{m1}", {"a", "b"})
    names.put("c", "place", "cause")
    names.put("c", "place", "cause")
    with pytest.raises(StoreSpoiled, match="soltape rebuild market --from-checkpoint"):
        names.put("d", "place", "cause")


def row(key: str, field: bytes, value: bytes, is_deleted: int = 0) -> tuple[object, ...]:
    return ("pnl", 3, key.encode(), "hash", field, value, 9, is_deleted)


GOOD = [
    (f"pos:{{w3}}:{WALLET}", RAW, pack_position(Position(), b"")),
    (f"lots:{{w3}}:{WALLET}:{WALLET}:0", b"", LOT.pack(1, 2, 3, 4, 5, 6, 1)),
    (f"bal:{{w3}}:{WALLET}", RAW, pack_balance(RAW, 5, 6, False)),
    ("wallets:{w3}", RAW, pack_wallet_day(WalletDay())),
    ("days:{w3}:20000", RAW, pack_wallet_day(WalletDay(buys=1))),
    (f"market:{{m3}}:{WALLET}", b"head", pack_head(Head(), [])),
    (f"market:{{m3}}:{WALLET}", b"token", b"{}"),
    (f"market:{{m3}}:{WALLET}", b"minutes", b""),
    (f"accounts:{{m3}}:{WALLET}", RAW, pack_account(Account(RAW, 5, False))),
    (f"accounts:{{m3}}:{WALLET}", b"=" + RAW, pack_exact(2**60)),
]


def test_values_as_books_write_them_can_be_read() -> None:
    rows = [row(*each) for each in GOOD]
    rows += [
        row(f"pos:{{w3}}:{WALLET}", COLD_MARK, b""),
        row("wallets:{w3}", RAW, b"", is_deleted=1),
        row("clock:{w3}", b"", b"17"),
    ]
    assert list(unreadable(rows)) == []


@given(st.sampled_from([each for each in GOOD if each[2]]), st.data())
def test_a_value_cut_short_is_named_with_its_wallet_or_mint(
    good: tuple[str, bytes, bytes], data: st.DataObject
) -> None:
    key, field, value = good
    cut = value[: data.draw(st.integers(1, len(value) - 1))]
    [(name, place, _)] = unreadable([row(key, field, cut)])
    assert name == WALLET
    assert place.startswith(key)
