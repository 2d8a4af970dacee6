"""A reading over real stores that asks for the pool whose share a farm holds, by the mint."""

# ruff: noqa: F401, F811 - the fixtures are of another file

from __future__ import annotations

import pytest

from schemas.protocols import registry
from schemas.protocols.contract import (
    Asset,
    Held,
    Position,
    Protocol,
    Reading,
    Role,
    Route,
    Shape,
    World,
    issuer_of,
)
from schemas.solana.addresses import text
from tests.integration.api.positions.test_aggregates import (
    COIN,
    LOAN,
    NFT,
    POOLS,
    POSITION,
    Ask,
    Stocked,
    _protocols,
    ask,
    chain,
    client,
)


def read(held: Held, world: World) -> Reading:
    """Return as many coins of the pool of the NFT as a loan of the wallet supplies."""
    stakes = [*held.of(LOAN)]
    found = yield [issuer_of(NFT, POSITION), issuer_of(COIN, POSITION)]
    pool = found.get(issuer_of(NFT, POSITION))
    assert issuer_of(COIN, POSITION) not in found
    amount = None if pool is None else pool.data[36] * stakes[0].data[36]
    return [
        Position("liquidity", each, assets=[Asset(Role.SUPPLY, COIN, amount)]) for each in stakes
    ]


STAKES = Protocol(
    "stakes",
    (LOAN, POSITION),
    (Route("liquidity", Shape.LIQUIDITY, "Stakes"),),
    read,
    reads_tokens=True,
)


@pytest.fixture
def _stakes(monkeypatch: pytest.MonkeyPatch, _protocols: None) -> None:
    own = [each for each in registry.ALL if each.name in {"native_stake", "token", "clock"}]
    everything = (*own, STAKES)
    monkeypatch.setattr(registry, "ALL", everything)
    monkeypatch.setattr(registry, "SLUGS", registry.by_slug({"p21": "stakes"}, everything))
    monkeypatch.setattr(registry, "KINDS", registry.by_program(everything))


@pytest.mark.usefixtures("_stakes")
async def test_a_mint_that_the_wallet_has_not_leads_to_its_pool(chain: Stocked, ask: Ask) -> None:
    wallet = chain.address()
    await chain.covers(wallet)
    await chain.loan(wallet, 3, 0, chain.address())
    [unknown] = (await ask(wallet, "p21/liquidity"))["positions"]
    assert unknown["assets"][0]["amount_raw"] is None
    pool = await chain.position(NFT, 7)
    wallet = chain.address()
    await chain.covers(wallet)
    await chain.loan(wallet, 3, 0, chain.address())
    answer = await ask(wallet, "p21/liquidity")
    [found] = answer["positions"]
    assert (found["assets"][0]["mint"], found["assets"][0]["amount_raw"]) == (text(COIN), "21")
    assert found["position_id"] != text(pool)
    assert answer["errors"] == []
    await chain.position(NFT, 9)
    wallet = chain.address()
    await chain.covers(wallet)
    await chain.loan(wallet, 3, 0, chain.address())
    [unsure] = (await ask(wallet, "p21/liquidity"))["positions"]
    assert unsure["assets"][0]["amount_raw"] is None, "two accounts say that the mint is theirs"
