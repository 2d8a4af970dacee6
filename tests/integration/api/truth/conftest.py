"""What the tests of truth share: the oracle, a client, and what is found to differ."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from pipeline.chaos.differences import Differences
from pipeline.chaos.values import MONEY
from tests.support.api.asking import Asker
from tests.support.api.history_figures import all_days
from tests.support.api.oracle import Known, known
from tests.support.api.simulation import SEED, WALLETS, Simulation
from tests.support.api.token_figures import TokenFigures, coins_of
from tests.support.api.wallet_figures import Figures, WalletFigures


@pytest.fixture(scope="module")
def truth(simulation: Simulation) -> Known:
    found = known(simulation.truth, simulation.first_slot, simulation.last_slot)
    assert found.last_slot == simulation.last_slot
    assert len(found.wallets) > 200
    assert len(found.mints) > 50
    assert sum(map(len, found.swaps_of_mint.values())) > 1_500
    assert len(all_days(found)) == 2, "midnight falls into the run"
    return found


@pytest.fixture(scope="module")
def ask(simulated: Any, truth: Known) -> Iterator[Asker]:
    places = {mint: truth.decimals(mint) for mint in truth.mints}
    asker = Asker(simulated.url, simulated.key, truth.last_slot, truth.now_ms, places)
    try:
        yield asker
    finally:
        asker.close()


@pytest.fixture(scope="module")
def prices(ask: Asker, truth: Known) -> dict[str, Figures]:
    """What the API says a token costs: the one thing that is not computed again here."""
    return {
        mint: ask.get("/api/tokens/{mint}/price", mint=mint)
        for mint in sorted({*truth.mints, *MONEY})
    }


@pytest.fixture(scope="module")
def wallets(truth: Known, prices: dict[str, Figures]) -> WalletFigures:
    return WalletFigures(truth, prices)


@pytest.fixture(scope="module")
def tokens(truth: Known) -> TokenFigures:
    uris = (token.get("uri") for token in truth.markets.tokens.values())
    origin = next(filter(None, uris)).partition("/metadata/")[0]  # the chain serves all of it
    return TokenFigures(truth, coins_of(SEED, WALLETS, origin) | truth.unseen)


@pytest.fixture
def found() -> Iterator[Differences]:
    """Differences; a test that has compared nothing fails as well as one that found some."""
    noted = Differences()
    yield noted
    assert not noted.total, [str(each) for each in noted.examples[:10]] + [dict(noted.counts)]
    assert noted.compared
