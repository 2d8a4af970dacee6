"""One alert a crossing: each threshold against a trigger of its own, whatever comes and ends."""

from __future__ import annotations

from collections.abc import Container
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from api.positions import records
from api.positions.prices import Prices
from api.tokens.reader import Tokens
from api.watch import crossings
from api.watch.crossings import HYSTERESIS, Alert, At, Seen, advance
from schemas import channels
from schemas.solana.addresses import CLOCK
from stream_gateway.subscriptions import Filter
from tests.schemas.protocols import test_native_stake as native_stake
from tests.schemas.protocols.test_native_stake import NOW_S
from tests.support.exploring import examples
from tests.support.stake import clock_data, stake_data

WALLET = "GD5R41t3VPHdqJqg4vGHuMBzdZL8NnWui2wRWpY5kfZw"
OTHER = "57zapx5j1To9vp6D1X49yUcnhimYzUpy1onGx6rgFgXU"
PROTOCOLS = {"p01", "p14"}
THRESHOLDS = (0.9, 1.0, 1.05, 1.1, 1.12, 1.5, 3.0, 100.0)


def record(name: str = "a", **given: Any) -> Any:
    base = {
        "position_id": name,
        "protocol": "p01",
        "route": "lending",
        "market": "m",
        "is_verified_market": True,
        "assets": [{"role": "borrow", "amount_raw": "1"}],
        "health": None,
        "margin": None,
        "perp": None,
        "range": None,
        "locks": [],
        "unsupported_fields": [],
    }
    return base | given


def lacking(whole: Any) -> Any:
    """A position without an account that it needs: what it has there is in no line."""
    # private `_PARTIAL`: the mark of such a position in an answer.
    return whole | {"assets": [], "unsupported_fields": [records._PARTIAL]}


def loan(factor: float | None, name: str = "a", **given: Any) -> Any:
    return record(name, health={"health_factor": factor}, **given)


def account(collateral: float | None, needed: float | None, health_pct: float | None = 50) -> Any:
    margin = {"collateral_usd": collateral, "maintenance_usd": needed, "health_pct": health_pct}
    return record(margin=margin)


def bet(side: str, price: float | None, end: float | None = 100.0, leverage: Any = 3.0) -> Any:
    perp = {"side": side, "leverage": leverage, "mark_price_usd": price}
    return record(perp=perp | {"liquidation_price_usd": end})


def liquidity(
    current: int | None, lower: int = 0, upper: int = 100, amount_raw: str | None = "1"
) -> Any:
    inside = None if current is None else lower <= current <= upper
    return record(
        assets=[
            {"role": "supply", "amount_raw": amount_raw},
            {"role": "reward", "amount_raw": "7"},
        ],
        range={
            "is_in_range": inside,
            "lower_index": lower,
            "upper_index": upper,
            "current_index": current,
            "lower": 1.0,
            "upper": 2.0,
            "current": 9.5,
        },
    )


def locked(*ends: int, kind: str = "escrow", name: str = "a") -> Any:
    locks = [{"kind": kind, "ends_ms": end, "ends_slot": None} for end in ends]
    return record(name, locks=locks)


class Watcher:
    """The stored bytes of a wallet and the alerts sent: it may end after any look."""

    def __init__(self) -> None:
        self.known: dict[str, Seen] = {}
        self.alerts: list[Alert] = []
        self.slot = 0

    def look(self, *records: Any, time_ms: int = 0, partial: Container[str] = ()) -> list[Alert]:
        self.slot += 1
        at = At(self.slot, time_ms)
        change = advance(WALLET, self.known, records, at, partial=partial)
        again = advance(WALLET, self.known, records, at, partial=partial)
        assert again.alerts == change.alerts, "an attempt that was killed finds the same"
        self.known |= {name: Seen.unpack(seen.pack()) for name, seen in change.put.items()}
        for name in change.gone:
            del self.known[name]
        self.alerts += change.alerts
        return change.alerts

    def alerts_of(self, threshold: float | None, wallet: str = WALLET) -> list[str]:
        """Ids of the alerts that a client with a threshold gets, by the gateway's own filter."""
        chosen = Filter("positions", wallets=frozenset({wallet}), health_below=threshold)
        return [
            alert.alert_id
            for alert in self.alerts
            if chosen.matches(channels.position_event(alert.data, alert.fell).index)
        ]


class Trigger:
    """One threshold, the obvious way."""

    def __init__(self, threshold: float) -> None:
        self.threshold = threshold
        self.has_gone_off = False
        self.count = 0

    def look(self, factor: float | None) -> None:
        if factor is None:
            return
        if factor < self.threshold:
            self.count += not self.has_gone_off
            self.has_gone_off = True
        elif factor / (1 + HYSTERESIS) >= self.threshold:
            self.has_gone_off = False


FACTORS = st.one_of(
    st.none(),
    st.just("incomplete"),
    st.floats(0.8, 1.6),
    st.sampled_from([each * (1 + e) for each in THRESHOLDS for e in (-0.001, 0, 0.01, 0.02, 0.03)]),
)


@given(steps=st.lists(FACTORS, max_size=40))
@examples(300)
def test_each_threshold_alerts_once_a_crossing_whenever_the_watcher_ends(steps: list[Any]) -> None:
    watcher, triggers = Watcher(), [Trigger(each) for each in THRESHOLDS]
    for step in steps:
        if step == "incomplete":
            watcher.look(partial=PROTOCOLS)
        else:
            watcher.look(loan(step))
            for trigger in triggers:
                trigger.look(step)
        assert [len(watcher.alerts_of(each.threshold)) for each in triggers] == [
            each.count for each in triggers
        ]
    ids = [alert.alert_id for alert in watcher.alerts]
    assert len(ids) == len(set(ids))
    assert watcher.alerts_of(None) == []
    assert watcher.alerts_of(1.1, OTHER) == []


def test_a_position_first_seen_below_a_threshold_alerts() -> None:
    watcher = Watcher()
    [alert] = watcher.look(loan(1.05))
    assert (alert.kind, alert.unit, alert.value, alert.threshold) == (
        *("health_below", "ratio", 1.05),
        None,
    )
    assert len(watcher.alerts_of(1.1)) == 1
    assert watcher.alerts_of(1.0) == []
    assert watcher.look(loan(250.0, "b")) == [], "nobody's threshold is so high"


def test_a_margin_that_falls_alerts_as_a_loan_does() -> None:
    watcher = Watcher()
    assert watcher.look(account(500.0, 4.0)) == []
    [alert] = watcher.look(account(42.0, 40.0))
    assert (alert.kind, alert.unit, alert.value) == ("health_below", "ratio", 1.05)
    assert watcher.look(account(None, None)) == []
    assert watcher.look(account(43.0, 40.0)) == [], "not well above it again"
    assert (len(watcher.alerts_of(1.1)), len(watcher.alerts_of(1.0))) == (1, 0)
    [alert] = watcher.look(account(60.0, 40.0, 0.0))
    assert alert.value == 1.0, "it is being liquidated, whatever backs it"
    watcher.look(account(5.0, 0.0))  # no bet and no loan any more
    watcher.look(account(42.0, 40.0))
    assert len(watcher.alerts_of(1.1)) == 2
    assert watcher.look(account(-1.0, 40.0))[0].value == 0.0


@pytest.mark.parametrize(("side", "prices"), [("long", (300, 105, 99)), ("short", (30, 95, 101))])
def test_a_bet_with_its_own_collateral_alerts_as_its_liquidation_comes_near(
    side: str, prices: tuple[float, ...]
) -> None:
    watcher = Watcher()
    far, near, over = prices
    watcher.look(bet(side, far))
    assert watcher.alerts_of(1.1) == []
    watcher.look(bet(side, near))
    watcher.look(bet(side, None))
    watcher.look(bet(side, near, None))
    assert (len(watcher.alerts_of(1.1)), watcher.alerts_of(1.0)) == (1, [])
    watcher.look(bet(side, over))
    assert (len(watcher.alerts_of(1.1)), len(watcher.alerts_of(1.0))) == (1, 1)
    assert Watcher().look(bet(side, near, leverage=None)) == [], "its account's margin alerts"


def test_a_debt_that_was_paid_is_another_one_when_it_is_taken_again() -> None:
    watcher = Watcher()
    watcher.look(loan(1.05))
    watcher.look(loan(None))  # not known
    watcher.look(loan(1.05))
    assert len(watcher.alerts_of(1.1)) == 1
    watcher.look(loan(None, assets=[{"role": "borrow", "amount_raw": "0"}]))
    watcher.look(loan(1.05))
    assert len(watcher.alerts_of(1.1)) == 2


def test_a_debt_in_a_bank_that_is_not_known_is_not_paid() -> None:
    watcher = Watcher()
    watcher.look(loan(1.05))
    watcher.look(lacking(loan(None)), partial=PROTOCOLS)
    assert watcher.look(loan(1.05)) == []
    assert len(watcher.alerts_of(1.1)) == 1


def test_a_range_is_left_though_the_pool_was_not_known_before() -> None:
    watcher, held = Watcher(), locked(900)["locks"]
    watcher.look(liquidity(50) | {"locks": held})
    assert watcher.look(lacking(locked(900)), partial=PROTOCOLS) == []
    assert len(watcher.look(liquidity(101) | {"locks": held})) == 1


def test_a_lock_ends_though_an_account_of_the_position_was_not_known_before() -> None:
    whole = loan(1.3, locks=locked(100)["locks"])
    unknown = lacking(loan(None))
    for last in (whole, unknown):
        watcher = Watcher()
        watcher.look(whole, time_ms=90)
        assert watcher.look(unknown, time_ms=95, partial=PROTOCOLS) == []
        [alert] = watcher.look(last, time_ms=101, partial=PROTOCOLS)
        assert (alert.kind, alert.threshold) == ("lock_ended", 100)
        assert watcher.look(last, time_ms=102, partial=PROTOCOLS) == []


def test_what_an_incomplete_reading_lacks_is_kept_and_what_a_whole_one_lacks_is_gone() -> None:
    watcher = Watcher()
    watcher.look(loan(1.05), loan(1.3, "b"))
    watcher.look(loan(1.05), partial=PROTOCOLS)
    assert {*watcher.known} == {"p01/lending/a", "p01/lending/b"}
    watcher.look(loan(1.05))
    assert {*watcher.known} == {"p01/lending/a"}


def test_a_protocol_that_cannot_be_read_keeps_no_position_of_another() -> None:
    watcher = Watcher()
    broken = loan(1.3, "b", protocol="p14")
    watcher.look(loan(1.05), broken)
    watcher.look(partial={"p14"})
    assert {*watcher.known} == {"p14/lending/b"}
    for number in range(300):  # opened and closed again while another protocol stays broken
        assert len(watcher.look(loan(0.9, str(number)), partial={"p14"})) == 1
    assert len(watcher.known) == 2


def test_what_a_closed_position_had_names_it_whatever_its_route() -> None:
    watcher = Watcher()
    lock = locked(100) | {"protocol": "p14", "route": "v2/strategy-vaults"}
    assert watcher.look(lock, time_ms=99) == []
    [alert] = watcher.look(time_ms=101)
    named = [alert.data[name] for name in ("protocol", "route", "position_id")]
    assert named == ["p14", "v2/strategy-vaults", "a"]


def test_a_position_without_liquidity_leaves_no_range() -> None:
    watcher = Watcher()
    watcher.look(liquidity(50))
    assert watcher.look(liquidity(50, amount_raw="0")) == []
    assert watcher.look(liquidity(101, amount_raw="0")) == []
    assert watcher.look(liquidity(101)) == []  # what is added outside was not inside before
    watcher.look(liquidity(50))
    assert len(watcher.look(liquidity(101, amount_raw=None))) == 1  # may have some


def test_leaving_a_range_alerts_once_until_the_price_is_well_inside() -> None:
    watcher = Watcher()
    for current in (50, None, 100):
        assert watcher.look(liquidity(current)) == []
    [alert] = watcher.look(liquidity(101))
    assert (alert.kind, alert.unit, alert.value, alert.threshold) == ("range_left", "price", 9.5, 2)
    for current in (99, 101, 100, 150, None, 101):
        assert watcher.look(liquidity(current)) == [], current
    watcher.look(liquidity(98))
    [alert] = watcher.look(liquidity(-1))
    assert alert.threshold == 1


def test_a_range_that_was_never_seen_inside_is_not_left() -> None:
    watcher = Watcher()
    assert watcher.look(liquidity(101)) == []
    assert watcher.look(liquidity(50)) == []
    assert len(watcher.look(liquidity(101))) == 1


def test_a_range_of_one_bin_is_armed_again_inside() -> None:
    watcher = Watcher()
    for _ in range(2):
        watcher.look(liquidity(5, 5, 5))
        assert len(watcher.look(liquidity(6, 5, 5))) == 1


def test_a_lock_that_has_ended_alerts_whether_it_is_still_listed_or_not() -> None:
    for after in ([locked(100)], [locked()], []):
        watcher = Watcher()
        assert watcher.look(locked(100), time_ms=99) == []
        [alert] = watcher.look(*after, time_ms=101)
        fields = (alert.kind, alert.unit, alert.value, alert.threshold)
        assert fields == ("lock_ended", "ms", 101, 100)
        assert watcher.look(*after, time_ms=102) == []


def test_a_lock_that_was_over_when_first_seen_does_not_alert() -> None:
    assert Watcher().look(locked(100), time_ms=100) == []


def test_a_lock_that_is_extended_or_withdrawn_early_does_not_alert() -> None:
    watcher = Watcher()
    watcher.look(locked(100, 500), time_ms=90)
    assert watcher.look(locked(200, 500), time_ms=150) == []
    assert watcher.look(locked(500), time_ms=180) == []
    assert len(watcher.look(locked(), time_ms=501)) == 1


def test_of_many_locks_those_that_end_first_alert_in_turn() -> None:
    watcher = Watcher()
    ends = range(10, 10 * 30, 10)
    for now in range(0, 300, 5):
        watcher.look(locked(*(each for each in ends if each > now)), time_ms=now)
    assert [alert.threshold for alert in watcher.alerts] == list(ends)


def test_the_lockup_of_a_stake_account_ends() -> None:
    prices = Prices(Tokens({}, 0, 0, 0, None), frozenset(), {})
    data = stake_data(native_stake.WALLET, locked_until_s=NOW_S + 1)
    watcher = Watcher()
    # The chain's clock may be ahead of the slot that all partitions have.
    for clock_s, time_s, ended in (
        (NOW_S, NOW_S, 0),
        (NOW_S + 1, NOW_S, 0),
        (NOW_S + 1, NOW_S + 1, 1),
        (NOW_S + 2, NOW_S + 2, 0),
    ):
        clock = native_stake.references()
        clock[CLOCK] = clock[CLOCK]._replace(data=clock_data(5000, native_stake.EPOCH, clock_s))
        position = native_stake.read_one(data, 7, clock)
        found = records.record("staking", position, prices)
        alerts = watcher.look(found, time_ms=time_s * 1000)
        assert [each.kind for each in alerts] == ["lock_ended"] * ended, clock_s


def test_locks_that_end_by_slot() -> None:
    watcher = Watcher()
    lock = {"kind": "cooldown", "ends_ms": None, "ends_slot": 2}
    assert watcher.look(record(locks=[lock])) == []
    [alert] = watcher.look(record(locks=[lock]))
    assert (alert.unit, alert.value, alert.threshold) == ("slot", 2, 2)


def test_more_positions_than_are_watched_push_none_out_that_is() -> None:
    watcher = Watcher()
    watcher.look(loan(1.3, "z"))
    watcher.look(*(loan(1.3, str(each)) for each in range(300)), loan(1.3, "z"))
    assert len(watcher.known) == crossings.MOST_POSITIONS
    assert "p01/lending/z" in watcher.known


def test_positions_that_may_be_gone_count_as_long_as_no_reading_is_whole() -> None:
    watcher = Watcher()
    for look in range(4):
        watcher.look(*(loan(1.3, f"{look}-{each}") for each in range(150)), partial=PROTOCOLS)
        assert len(watcher.known) <= crossings.MOST_POSITIONS
    assert "p01/lending/0-0" in watcher.known
    watcher.look(*(loan(1.3, f"z-{each}") for each in range(150)))
    assert watcher.known.keys() == {f"p01/lending/z-{each}" for each in range(150)}


@pytest.mark.parametrize("fallen", [loan(0.5), account(1.0, 40.0), bet("long", 90.0)])
def test_a_market_that_a_stranger_opened_alerts_nobody(fallen: Any) -> None:
    """Its opener sets the oracle, and can give an account in it to any wallet."""
    watcher, unverified = Watcher(), {"is_verified_market": False}
    assert watcher.look(fallen | unverified) == []
    assert watcher.known == {}
    opened = (liquidity(50) | unverified, locked(100) | unverified)
    for now, each in enumerate((*opened, liquidity(101) | unverified)):
        assert watcher.look(each, time_ms=99 * now) == []
    assert len(watcher.look(fallen)) == 1, "the same in a verified market"


@pytest.mark.parametrize("partial", [(), PROTOCOLS])
def test_a_market_that_is_not_verified_any_more_is_forgotten(partial: Container[str]) -> None:
    watcher = Watcher()
    watcher.look(loan(1.3, locks=locked(100)["locks"]), time_ms=99)
    fallen = loan(0.5, locks=locked(100)["locks"], is_verified_market=False)
    assert watcher.look(fallen, time_ms=101, partial=partial) == []
    assert watcher.known == {}


def test_positions_in_a_stranger_s_market_take_no_room_from_others() -> None:
    watcher = Watcher()
    given = [loan(1.3, str(each), is_verified_market=False) for each in range(300)]
    watcher.look(*given, loan(1.3, "z"))
    assert watcher.known.keys() == {"p01/lending/z"}


@pytest.mark.parametrize("data", [b"", b"[]", b"{}", b"[1,2,3]", b'["m",1,0,1.0,true,[[1]]]'])
def test_state_of_another_form_is_refused_in_words(data: bytes) -> None:
    with pytest.raises(ValueError, match="no state of a position"):
        Seen.unpack(data)
