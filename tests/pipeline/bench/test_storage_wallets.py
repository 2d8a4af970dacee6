"""`soltape bench storage --wallets`: its bars, and that the books keep them at a small scale."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from click.testing import CliRunner

from infra.redis.families import Family
from infra.settings import Settings
from pipeline.bench import storage as bench
from pipeline.bench import storage_wallets
from pipeline.bench.storage_wallets import Held
from schemas.redis_keys import BALANCES, POSITIONS, TOP_OF_MINT, WALLET_TOTALS

MIB = 1 << 20
FIXED = 32 * MIB
WALLETS = 6_000
A_FEW = 64  # entries of a family: partitions, and the one wallet that goes on to the end


def held(by_day: list[int], *, days: int, wallets: int = 1_000_000, fixed: int = FIXED) -> Held:
    return Held(fixed, by_day, days=days, level_from=2, wallets=wallets)


def test_days_that_are_level_are_flat():
    level = [50, 100, 130, 131, 130, 129, 130, 131]
    found = held([MIB * each for each in [*level, 90, 20, 1]], days=len(level))
    assert found.growth == pytest.approx(0, abs=0.01)
    assert found.is_flat
    assert found.broken() == []


def test_days_that_gain_a_little_each_are_not():
    level = [50, 100, *(130 + 2 * n for n in range(8))]
    found = held([MIB * each for each in [*level, 90, 20, 1]], days=len(level))
    assert found.growth == pytest.approx(14 / 137)
    assert found.is_flat is False
    assert found.broken() == ["flat: Redis grows by 10.2% on level days (5%)"]


def test_few_days_do_not_say_whether_it_is_flat():
    found = held([10 * MIB, 20 * MIB, 90 * MIB, 200 * MIB, MIB], days=4)
    assert (found.growth, found.is_flat) == (None, None)
    assert found.broken() == []


def test_a_wallet_leaves_what_is_there_at_the_end_and_its_share_of_what_was_at_the_start():
    by_day = [MIB] * 5 + [2_000_000]
    assert held(by_day, days=5, fixed=30_000_000).bytes_a_wallet == 2 + 30
    # What is there from the start is for a million, however few are played.
    assert held(by_day, days=5, fixed=30_000_000, wallets=100_000).bytes_a_wallet == 20 + 30
    assert held(by_day, days=5, fixed=30_000_000, wallets=2_000_000).bytes_a_wallet == 1 + 15


def test_more_than_sixty_bytes_a_wallet_are_named():
    found = held([MIB] * 5 + [30_100_000], days=5, fixed=30_000_000)
    assert found.broken() == ["bytes_a_wallet: a wallet at rest leaves 60.1 B (60 B)"]
    assert held([MIB] * 5 + [30_000_000], days=5, fixed=30_000_000).broken() == []


def test_a_broken_bar_is_printed_and_fails_the_command(monkeypatch: pytest.MonkeyPatch):
    @contextmanager
    def no_stores() -> Iterator[None]:
        yield

    def measured(_: Settings, wallets: int, days: int) -> tuple[Held, dict[str, Family]]:
        assert (wallets, days) == (1_000, 4)
        growing = Held(0, [MIB * n for n in range(1, 6)], days, level_from=1, wallets=wallets)
        return growing, {TOP_OF_MINT.pattern: Family(3, 4, 5)}

    monkeypatch.setattr(bench, "embedded_stores", no_stores)
    monkeypatch.setattr(storage_wallets, "measure", measured)
    run = CliRunner().invoke(bench.storage, ["--wallets", "1000", "--days", "4"])
    assert run.exit_code == 1
    line = json.loads(run.stdout)
    assert (line["flat"], line["bytes_a_wallet"]) == (False, 5242.9)
    assert line["limits"] == {"bytes_a_wallet": 60.0, "growth_pct": 5.0}
    assert line["families"] == {TOP_OF_MINT.pattern: {"keys": 3, "entries": 4, "bytes": 5}}
    assert "flat: Redis grows by 66.7% on level days (5%); bytes_a_wallet: " in run.stderr


@pytest.mark.slow
@pytest.mark.processes
def test_wallets_at_rest_leave_no_balance_total_rank_or_mark_in_redis():
    run = CliRunner().invoke(bench.storage, ["--wallets", str(WALLETS), "--days", "12"])
    assert run.exit_code == 0, run.output
    line = json.loads(run.stdout)
    assert line["flat"] is True
    assert line["bytes_a_wallet"] <= line["limits"]["bytes_a_wallet"]
    assert line["wallets"] >= WALLETS
    assert max(line["mib_by_day"]) > 20 * line["mib_by_day"][-1]  # they had been there
    entries = {pattern: family["entries"] for pattern, family in line["families"].items()}
    assert {pattern for pattern, count in entries.items() if count > A_FEW} == set()
    for key in (BALANCES, POSITIONS, TOP_OF_MINT, WALLET_TOTALS):
        assert entries.get(key.pattern, 0) <= 1  # of the wallet, and the token, that go on
