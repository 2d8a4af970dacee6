"""Answers about tokens name the gaps of the tape that they rest on."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest

from api.app import create_app
from infra.local.process import free_port
from infra.redis.client import connect
from infra.settings import Settings
from schemas.events import Side
from schemas.redis_keys import QUARANTINE, mint_tag, wallet_tag
from schemas.topics import SETTLED_BY_MINT
from tests.support.api.gaps import clear_gaps, insert_gaps, lost, missing, rolled_back

UNKNOWN = {
    "missing_slots": None,
    "lost_slots": None,
    "rolled_back_slots": None,
    "quarantined": None,
}


def counts(missing_slots: int, lost_slots: int, rolled_back_slots: int) -> dict[str, int]:
    return {
        "missing_slots": missing_slots,
        "lost_slots": lost_slots,
        "rolled_back_slots": rolled_back_slots,
        "quarantined": 0,
    }


@pytest.fixture(autouse=True)
async def no_gaps_remain(token_settings: Settings) -> AsyncIterator[None]:
    await clear_gaps(token_settings)
    yield
    await clear_gaps(token_settings)


class Asking:
    """An application of one test: it has not read any gaps yet."""

    def __init__(self, settings: Settings, key: str) -> None:
        self._app = create_app(settings)
        self._client = httpx.AsyncClient(
            transport=httpx.ASGITransport(self._app),
            base_url="http://localhost",
            headers={"x-api-key": key},
        )

    async def __aenter__(self) -> Asking:
        self._lifespan = self._app.router.lifespan_context(self._app)
        await self._lifespan.__aenter__()
        return self

    async def __aexit__(self, *error: Any) -> None:
        await self._client.aclose()
        await self._lifespan.__aexit__(*error)

    async def gaps(self, path: str) -> Any:
        """Return what an answer says of gaps."""
        return self._read(await self.answer(path))

    async def posted_gaps(self, path: str, body: Any) -> Any:
        return self._read(await self.posted(path, body))

    async def answer(self, path: str) -> httpx.Response:
        return await self._client.get(f"/api/tokens{path}")

    async def posted(self, path: str, body: Any) -> httpx.Response:
        return await self._client.post(f"/api/tokens{path}", json=body)

    @staticmethod
    def _read(answer: httpx.Response) -> Any:
        assert answer.status_code == 200, answer.text
        answered = answer.json()
        assert "as_of_slot" in answered
        return answered["gaps"]

    async def of_market(self, mint: str, paths: tuple[str, ...] = ("/candles", "/pools")) -> Any:
        """Return what every answer about a token's market says of gaps."""
        found = [await self.gaps(f"/{mint}{path}") for path in ("", "/price", "/holders", *paths)]
        found.append(await self.posted_gaps("/batch", {"mints": [mint]}))
        assert all(each == found[0] for each in found), found
        return found[0]

    async def of_traders(self, mint: str) -> Any:
        found = await self.gaps(f"/{mint}/leaderboard")
        batch = await self.posted_gaps("/leaderboard/batch", {"mints": [mint]})
        assert found == batch
        return found


@pytest.fixture
async def asking(token_settings: Settings, served: Any) -> AsyncIterator[Asking]:
    async with Asking(token_settings, served.key) as asking:
        yield asking


@pytest.fixture
async def mints(chain: Any) -> list[str]:
    """Two tokens of different partitions."""
    found = [chain.address()]
    while len(found) < 2:
        if SETTLED_BY_MINT.partition(mint := chain.address()) != partition(found[0]):
            found.append(mint)
    for mint in found:
        chain.create(mint)
        chain.trade(mint, chain.address(), Side.BUY, 10**12, 10**9)
    await chain.settle()
    return found


def partition(mint: str) -> int:
    return SETTLED_BY_MINT.partition(mint)


async def test_no_gap_is_null(mints: list[str], asking: Asking) -> None:
    assert await asking.of_market(mints[0]) is None
    assert await asking.of_traders(mints[0]) is None
    assert await asking.gaps(f"/{mints[0]}/swaps") is None
    assert await asking.gaps("/trending") is None


async def test_an_answer_names_what_it_rests_on(
    mints: list[str], asking: Asking, token_settings: Settings
) -> None:
    here, there = mints
    await insert_gaps(
        token_settings,
        lost(500, 502, f"market {partition(here)}"),
        lost(500, 503, "pnl 1"), lost(500, 500, "pnl 6"),
        lost(500, 506, "store 2"),
    )  # fmt: skip
    assert await asking.of_market(here) == counts(0, 3, 0)
    assert await asking.of_market(there) is None
    assert await asking.posted_gaps("/batch", {"mints": mints}) == counts(0, 3, 0)
    assert await asking.gaps("/trending") == counts(0, 3, 0)
    for mint in mints:
        assert await asking.of_traders(mint) == counts(0, 5, 0)
        assert await asking.gaps(f"/{mint}/swaps") == counts(0, 7, 0)


async def test_missing_and_rolled_back_slots_are_in_every_answer(
    mints: list[str], asking: Asking, token_settings: Settings
) -> None:
    await insert_gaps(
        token_settings,
        missing(500, 509), missing(505, 511),
        rolled_back(600, 600, "a", "b"), rolled_back(610, 611),
    )  # fmt: skip
    for mint in mints:
        assert await asking.of_market(mint) == counts(12, 0, 3)
        assert await asking.of_traders(mint) == counts(12, 0, 3)
        assert await asking.gaps(f"/{mint}/swaps") == counts(12, 0, 3)
    assert await asking.gaps("/trending") == counts(12, 0, 3)


async def test_without_clickhouse_the_counts_are_unknown_and_the_answers_given(
    mints: list[str], token_settings: Settings, served: Any
) -> None:
    await insert_gaps(token_settings, missing(500, 509))
    away = token_settings.model_copy(update={"clickhouse_url": f"http://127.0.0.1:{free_port()}"})
    async with Asking(away, served.key) as asking:
        assert await asking.of_market(mints[0], paths=("/pools",)) == UNKNOWN
        assert await asking.of_traders(mints[0]) == UNKNOWN
        assert await asking.gaps("/trending") == UNKNOWN


async def test_what_is_in_quarantine_is_left_out_and_named(
    mints: list[str], asking: Asking, chain: Any, token_settings: Settings
) -> None:
    here, there = mints
    winner, other = chain.address(), chain.address()
    for wallet, lamports in ((winner, 4 * 10**9), (other, 3 * 10**9)):
        chain.trade(there, wallet, Side.BUY, 10**10, 10**9)
        await chain.settle()
        chain.trade(there, wallet, Side.SELL, 10**10, lamports)
        await chain.settle()
    records = {
        QUARANTINE.make(tag=mint_tag(here), group="market"): here,
        QUARANTINE.make(tag=wallet_tag(winner), group="pnl"): winner,
    }
    redis = connect(token_settings)
    try:
        for key, name in records.items():
            await redis.hset(key, name, b"{}")  # type: ignore[misc]
        named = counts(0, 0, 0) | {"quarantined": 1}
        assert await asking.gaps("/trending") == named
        for path in ("", "/holders", "/candles", "/pools"):
            answer = await asking.answer(f"/{here}{path}")
            assert (answer.status_code, answer.json()["code"]) == (503, "quarantined"), path
        assert await asking.gaps(f"/{here}/price") == named
        assert await asking.of_market(there) is None
        batch = (await asking.posted("/batch", {"mints": mints})).json()
        assert [token["mint"] for token in batch["tokens"]] == [there]
        assert batch["gaps"] == named
        board = (await asking.answer(f"/{there}/leaderboard")).json()
        assert [each["wallet"] for each in board["traders"]] == [other]
        assert board["gaps"] == named
    finally:
        await redis.unlink(*records)
        await redis.aclose()
