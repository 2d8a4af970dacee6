"""Which bars `soltape bench holdings` fails by."""

from __future__ import annotations

from infra.bench.holdings import GIVES_UP_S, Seen


def seen(*complete_ms: float, late: int = 0, **figures: object) -> Seen:
    """A hundred wallets: those given, the others at once."""
    fast = [1.0] * (100 - len(complete_ms) - late)
    return Seen([*complete_ms, *fast], late=late, **({"compared": 100} | figures))  # type: ignore[arg-type]


def test_within_its_bars_nothing_is_missed():
    assert seen().missed() == []
    assert seen(*[999.0] * 60, 1_900.0, 1_999.0).missed() == []


def test_each_bar_is_named_with_its_figure():
    assert seen(*[1_200.0] * 60).missed() == ["p50 is 1200 ms, at most 1000 are allowed"]
    assert seen(2_100.0, 2_300.0).missed() == ["p99 is 2300 ms, at most 2000 are allowed"]
    one = seen(different=["some wallet"], compared=99)
    assert one.missed() == ["1 of 99 differ from the chain: some wallet"]
    assert seen(compared=0).missed() == ["no wallet could be compared with the chain"]


def test_a_wallet_that_is_never_complete_counts_as_the_slowest():
    slow = seen(late=2)
    assert slow.quantile_ms(1.0) == GIVES_UP_S * 1000
    assert slow.missed() == [f"p99 is {GIVES_UP_S * 1000:.0f} ms, at most 2000 are allowed"]
    assert len(seen(late=100).missed()) == 2, "none is complete"
