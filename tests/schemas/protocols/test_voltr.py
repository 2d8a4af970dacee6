"""Shares of Voltr's vaults, and withdrawals that were requested."""

from __future__ import annotations

import base64
import json
import struct
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.protocols import voltr
from schemas.protocols.contract import Account, Held, Kind, Position, Unreadable, World
from schemas.protocols.mint import MINT
from schemas.solana.addresses import key, text
from tests.support.exploring import examples

CORPUS = Path(__file__).parents[4] / "shared" / "corpus" / "transactions.jsonl"
WALLET, VAULT, SHARES, ASSET, REQUEST, OTHER = (bytes([n]) * 32 for n in range(1, 7))
NOW = 1_790_000_000
YEAR = 365 * 86_400
U64 = st.integers(0, 2**64 - 1)


def account(kind: Kind, address: bytes, fields: dict[int, bytes], slot: int = 50) -> Account:
    assert kind.size is not None
    data = bytearray(kind.size)
    data[: len(kind.tag)] = kind.tag
    for at, value in fields.items():
        data[at : at + len(value)] = value
    return Account(address, kind, 1, bytes(data), slot)


def u64(value: int) -> bytes:
    return struct.pack("<Q", value)


def vault(
    total: int,
    *,
    locked: tuple[int, int, int] = (0, 0, 0),  # profit, its report, in how long it is free
    fees: tuple[int, int, int] = (0, 0, 0),  # not harvested: manager's, admin's, protocol's
    management: tuple[int, int, int, int] = (0, 0, 0, 0),  # bps of the three, last charged
    redemption_bps: int = 0,
    dead: int = 0,
) -> Account:
    return account(
        voltr.VAULT,
        VAULT,
        {
            104: ASSET,
            168: u64(total),
            272: SHARES,
            448: u64(locked[2]),
            516: struct.pack("<HHHHHH", *management[:2], redemption_bps, 0, 0, management[2]),
            568: u64(management[3]),
            576: b"".join(map(u64, fees)),
            616: u64(dead),
            672: u64(locked[0]) + u64(locked[1]),
        },
    )


def mint(supply: int) -> Account:
    return account(MINT, SHARES, {36: u64(supply), 44: b"\x09\x01"}, slot=40)


def request(shares: int, asset: int, from_s: int, user: bytes = WALLET) -> Account:
    bits = (asset << 48).to_bytes(16, "little")
    body = u64(shares) + bits + u64(from_s)
    return account(voltr.REQUEST, REQUEST, {8: VAULT, 40: user, 72: body})


def read(own: list[Account], shares: int, *chain: Account) -> list[Position]:
    there = {each.address: each for each in chain}
    reading = voltr.read(Held(WALLET, own, {SHARES: shares} if shares else {}), World(9, NOW, 3))
    try:
        wanted = next(reading)
        for _ in range(3):
            wanted = reading.send({each: there[each] for each in wanted if each in there})
    except StopIteration as end:
        found: list[Position] = end.value
        return found
    raise AssertionError("more rounds than vaults and mints need")


def lines(position: Position) -> list[tuple[str, bytes, int | None]]:
    return [(each.role.value, each.mint, each.amount_raw) for each in position.assets]


def worth(of: Account, shares: int, supply: int) -> int | None:
    [found] = read([of], shares, mint(supply))
    [line] = found.assets
    return line.amount_raw


def test_shares_are_their_part_of_the_vault() -> None:
    [found] = read([vault(1_001)], 10, mint(500))
    assert lines(found) == [("supply", ASSET, 20)]
    assert found.stands_for == {SHARES: 10}
    assert found.market == VAULT
    assert found.reference_slot == 40


def test_a_vault_is_an_open_market_and_counts_where_it_is_verified() -> None:
    """What it has is what its admin's adaptors say, and anybody can open one and send shares."""
    found = read([vault(10**15), request(10, 99, NOW)], 20, vault(10**15), mint(500))
    assert [each.open_markets for each in found] == [[VAULT]] * 2
    [lost] = read([request(10, 99, NOW)], 0)
    assert lost.open_markets == [VAULT]
    known = voltr.PROTOCOL.verified_markets
    assert key("3maCuTJVPteZ2dFA8dADxz2EbpJHfoAG5txYhXDs6gNQ") in known
    assert len(known) == 6


def test_fees_that_were_not_harvested_and_dead_weight_are_shares_too() -> None:
    assert worth(vault(1_000, fees=(100, 50, 25), dead=325), 100, 500) == 100


@pytest.mark.parametrize(
    ("report", "lasts", "expected"),
    [
        (NOW - 75, 100, 900),  # a quarter of 400 is locked
        (NOW - 100, 100, 1_000),
        (NOW - 1, 0, 1_000),  # profit counts at once
        (NOW, 0, 1_000),
        (NOW + 9, 100, 600),  # a clock behind the report: all of it
    ],
)
def test_profit_counts_little_by_little(report: int, lasts: int, expected: int) -> None:
    assert worth(vault(1_000, locked=(400, report, lasts)), 7, 7) == expected


def test_a_redemption_fee_is_taken_off() -> None:
    assert worth(vault(1_000, redemption_bps=25), 7, 7) == 997  # 997.5


def test_the_management_fee_since_it_was_charged_adds_shares() -> None:
    charged = vault(1_000, management=(500, 300, 200, NOW - YEAR))
    assert worth(charged, 90, 90) == 900  # a tenth of the assets is the fee: 10 shares of 100
    assert worth(vault(1_000, management=(500, 300, 200, 0)), 90, 90) == 1_000
    assert worth(vault(1_000, management=(500, 300, 200, NOW + 5)), 90, 90) == 1_000


@pytest.mark.parametrize(
    ("of", "why"),
    [
        (vault(1_000, management=(10_000, 0, 0, NOW - YEAR)), "management fee"),
        (vault(1_000, management=(9_000, 9_000, 9_000, NOW - 9 * YEAR)), "management fee"),
        (vault(1_000, locked=(1_001, NOW, 9)), "more profit"),
        (vault(1_000, redemption_bps=10_001), "redemption_fee"),
    ],
)
def test_a_vault_that_leaves_nothing_to_withdraw_pays_nothing(of: Account, why: str) -> None:
    """Anybody opens a vault, sets its fees and sends its shares: none of it makes a sum unknown."""
    found = read([of, request(10, 99, NOW)], 20, of, mint(500))
    assert [lines(each) for each in found] == [[("supply", ASSET, 0)]] * 2
    for position in found:
        [named] = position.unsupported_fields
        assert why in named
    assert found[0].stands_for == {SHARES: 20}


def test_without_the_mint_the_amount_is_not_known() -> None:
    [found] = read([vault(1_000)], 10)
    assert lines(found) == [("supply", ASSET, None)]
    assert found.missing == [SHARES]
    assert found.unsupported_fields


def test_a_vault_without_shares_of_the_wallet_is_no_position() -> None:
    assert read([vault(1_000)], 0, mint(5)) == []


@pytest.mark.parametrize(("from_s", "role"), [(NOW + 1, "pending"), (NOW, "supply")])
def test_a_request_pays_what_it_was_made_for_at_most(from_s: int, role: str) -> None:
    for asked, paid in ((19, 19), (30, 20)):
        [found] = read([request(10, asked, from_s)], 0, vault(1_000), mint(500))
        assert lines(found) == [(role, ASSET, paid)]
        assert found.stands_for == {}  # its shares are in escrow, not the wallet's
        [lock] = found.locks
        free = role == "supply"
        assert (lock.locked_raw, lock.claimable_raw) == ((0, paid) if free else (paid, 0))
        assert lock.ends_ms == from_s * 1000


def test_shares_and_a_request_are_two_positions() -> None:
    found = read([vault(1_000), request(10, 99, NOW)], 20, vault(1_000), mint(500))
    assert [lines(each) for each in found] == [
        [("supply", ASSET, 40)],
        [("supply", ASSET, 20)],
    ]
    assert len({each.account.address for each in found}) == 2


def test_a_request_without_its_vault_says_what_it_lacks() -> None:
    [found] = read([request(10, 99, NOW)], 0)
    assert found.assets == []
    assert found.missing == [VAULT]
    assert found.unsupported_fields


def test_an_empty_request_and_another_wallets_are_no_positions() -> None:
    own = [request(0, 5, NOW), request(5, 5, NOW, OTHER)]
    assert read(own, 0, vault(1_000), mint(500)) == []


@pytest.mark.parametrize(
    ("own", "chain"),
    [
        (vault(1_000), mint(9)),  # fewer than the wallet has
        (vault(1_000), vault(1)._replace(address=SHARES)),
        (vault(1_000), account(MINT, SHARES, {})),
        (vault(1_000)._replace(data=voltr.VAULT.tag), mint(500)),
        (request(1, 1, 1)._replace(data=voltr.REQUEST.tag), mint(500)),
        (request(1, 1, 1), mint(500)._replace(address=VAULT)),
    ],
)
def test_hostile_accounts_are_unreadable(own: Account, chain: Account) -> None:
    with pytest.raises(Unreadable) as raised:
        read([own], 10, chain)
    assert raised.value.account in (own.address, chain.address)


def test_any_bytes_are_read_or_unreadable() -> None:
    for fill in (b"\0", b"\xff", b"\1"):
        for tagged in (voltr.VAULT, voltr.REQUEST):
            assert tagged.size is not None
            body = fill * (tagged.size - 8)
            own = Account(VAULT, tagged, 1, tagged.tag + body, 5)
            there = Account(fill * 32, voltr.VAULT, 1, voltr.VAULT.tag + fill * 920, 5)
            held = Held(fill * 32, [own], {fill * 32: 2**64 - 1})
            reading = voltr.read(held, World(1, 2**40, 1))
            try:
                next(reading)
                reading.send({fill * 32: there})
                reading.send({fill * 32: there})
            except (StopIteration, Unreadable):
                continue
            raise AssertionError("it goes on")


@given(U64, U64, U64, U64, st.integers(0, 10_000), st.integers(0, 10_000))
@examples(300)
def test_a_vault_never_owes_more_than_it_has(
    shares: int, others: int, total: int, locked: int, redemption_bps: int, management_bps: int
) -> None:
    supply = min(shares + others, 2**64 - 1)
    of = vault(
        total,
        locked=(min(locked, total), NOW - 3, 7),
        redemption_bps=redemption_bps,
        management=(management_bps, 0, 0, NOW - YEAR // 2),
    )
    mine = min(shares, supply)
    found = read([of], mine, mint(supply))
    assert sum(each.amount_raw or 0 for position in found for each in position.assets) <= total


@pytest.mark.skipif(not CORPUS.exists(), reason="the corpus of real transactions is not here")
def test_real_events_keep_decimals_with_48_bits_of_fraction() -> None:
    """The high-water mark that `WithdrawStrategyEvent` has is the vault's assets by its shares."""
    tag = bytes.fromhex("702d10acaa2116d4")
    marks = []
    for line in CORPUS.read_text().splitlines():
        if text(voltr.PROGRAM) not in line:
            continue
        for log in json.loads(line)["meta"]["logMessages"]:
            event = base64.b64decode(log.removeprefix("Program data: ")) if "data: " in log else b""
            if event.startswith(tag):
                total, supply = struct.unpack_from("<QxxxxxxxxQ", event, 216)
                mark = int.from_bytes(event[256:272], "little")
                marks.append(((total << 48) // supply, mark))
    assert marks
    assert [computed for computed, _ in marks] == [seen for _, seen in marks]
