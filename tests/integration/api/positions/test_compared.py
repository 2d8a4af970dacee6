"""The comparison of `soltape chaos` over demo wallets: nothing differs, and a wrong byte is found.

The accounts are the chain's own at its beginning, stored as agent `accounts` stores them.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from functools import lru_cache
from typing import Any

import httpx
import pytest

from api.services import Services
from infra.chain.demo_wallets import ADDRESSES
from infra.chain.market.runtime.marginfi import LendingAccount
from infra.chain.market.runtime.programs import MARGINFI
from infra.chain.market.runtime.stake import EPOCH_SLOTS
from infra.chain.market.world.figures import figures
from infra.redis.client import connect
from infra.settings import Settings
from pipeline.chaos.differences import Differences
from pipeline.chaos.figures import KIND as IN_LEDGER
from pipeline.chaos.figures import Figures, of_record
from pipeline.chaos.positions import AGGREGATED, ANSWER, POSITION, compare
from pipeline.chaos.readings import ROUTES, ChainAccounts
from schemas.accounts import StoredAccount, compress, pack, unpack
from schemas.redis_keys import ACCOUNT, COVERED, account_tag, account_tags
from schemas.solana.addresses import text
from tests.infra.chain.market.test_still import market
from tests.integration.api.positions.test_demo_wallets import NOW, door

__all__ = ["door"]  # the fixture

pytestmark = pytest.mark.slow

LENDER = ADDRESSES["lender-1"]
Door = tuple[httpx.AsyncClient, Services]


@lru_cache(maxsize=1)
def chain() -> ChainAccounts:
    found = ChainAccounts(EPOCH_SLOTS, tokens={at: Counter() for at in ADDRESSES.values()})
    for write in market().genesis_accounts():
        found.add(write.address, write.owner, write.lamports, write.data, NOW.slot)
    for token in market().world.ledger.tokens.values():
        if token.owner in found.tokens:
            found.tokens[token.owner][token.mint.address] += token.amount_raw
    return found


@lru_cache(maxsize=1)
def of_ledger() -> Figures:
    positions = figures(market().world.ledger, ADDRESSES.values(), NOW.slot, NOW.time_s)
    return of_record({"slot": NOW.slot, "time_s": NOW.time_s, "positions": positions})


async def compared(door: Door) -> Differences:
    async def ask(path: str) -> tuple[int, Any]:
        answer = await door[0].get(path)
        return answer.status_code, answer.json()

    found = Differences()
    await compare(ask, chain(), of_ledger(), found)
    return found


async def store(settings: Settings, address: bytes, data: bytes) -> None:
    """Put other bytes into a stored account."""
    name = ACCOUNT.make(tag=account_tag(text(address)), address=text(address))
    redis = connect(settings)
    stored = unpack(await redis.get(name))
    changed = StoredAccount(stored.slot, stored.lamports, stored.program, len(data), compress(data))
    await redis.set(name, pack(changed))
    await redis.aclose()


async def test_nothing_differs(door: Door) -> None:
    found = await compared(door)
    assert found.examples == []
    assert found.total == 0
    assert found.compared[ANSWER] > 3 * len(ROUTES)
    assert min(found.compared[kind] for kind in (POSITION, AGGREGATED)) > 60
    programs = {protocol for _, protocol, _, _ in of_ledger().positions}
    assert programs == {
        *("marginfi", "kamino", "whirlpools", "raydium_clmm", "raydium_cpmm", "raydium_amm_v4"),
        *("meteora_dlmm", "meteora_damm_v2", "native_stake", "jupiter_perps", "drift"),
    }
    assert found.compared[IN_LEDGER] == len(of_ledger().positions) > 12


async def test_wrong_shares_in_redis_are_found(door: Door, settings: Settings) -> None:
    at, account = next(
        (at, each)
        for at, each in market().world.ledger.natives.items()
        if isinstance(each, LendingAccount) and each.authority == LENDER
    )
    balances = [replace(each, debts=each.debts + each.debts // 1_000) for each in account.balances]
    await store(settings, at, replace(account, balances=tuple(balances)).data())
    found = await compared(door)
    assert {*found.counts} == {POSITION, AGGREGATED, IN_LEDGER}
    [wrong] = [each for each in found.examples if each.kind == POSITION]
    assert wrong.key == str((text(LENDER), "p02", "lending", text(at)))
    for name in ("assets", "health.ltv"):
        assert name in wrong.expected
        assert name in wrong.found
    assert "range" not in wrong.expected


async def test_a_wrong_amount_of_a_still_account_is_found(door: Door, settings: Settings) -> None:
    [*own] = [
        each
        for each in chain().accounts.values()
        if each is not None and each.kind.name == "streamflow_entry"
    ]
    data = bytearray(own[0].data)
    data[108] ^= 1  # its amount
    await store(settings, own[0].address, bytes(data))
    found = await compared(door)
    assert found.counts[POSITION] == 1
    assert IN_LEDGER not in found.counts


async def test_a_position_that_redis_lacks_is_found(door: Door, settings: Settings) -> None:
    [*own] = [each for each in of_ledger().positions if each[1] == "jupiter_perps"]
    wallet, _, _, at = own[0]
    redis = connect(settings)
    await redis.delete(ACCOUNT.make(tag=account_tag(at), address=at))
    await redis.aclose()
    found = await compared(door)
    assert (found.counts[POSITION], found.counts[IN_LEDGER]) == (1, 1)
    [lacking] = [each for each in found.examples if each.kind == POSITION]
    assert (wallet in lacking.key, lacking.found) == (True, "None")


async def test_missing_coverage_is_found(door: Door, settings: Settings) -> None:
    redis = connect(settings)
    for tag in account_tags():
        await redis.delete(COVERED.make(tag=tag, address=text(MARGINFI.address)))
    await redis.aclose()
    found = await compared(door)
    assert {*found.counts} == {ANSWER}
    [route] = [each for each in found.examples if f"{text(LENDER)}', 'p02/lending'" in each.key]
    assert "not_covered" in route.found
