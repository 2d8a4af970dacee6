"""The positions of demo wallets as the API answers them, compared with what the chain has.

The API is asked over HTTP with a key, as a user asks: every route that is supported, every
aggregate, and the analysis. When the market has come to rest its accounts are read from the chain's
RPC (`readings`), and its ledger says what the programs that run believe (`figures`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any, Final

from infra.chain.demo_wallets import WALLETS
from infra.solana_rpc.client import call, session
from pipeline.chaos import figures, readings
from pipeline.chaos.differences import Differences
from pipeline.chaos.door import Ask, Door
from pipeline.chaos.figures import Figures
from pipeline.chaos.fleet import Plan
from pipeline.chaos.readings import ROUTES, ChainAccounts, Row, answered
from pipeline.chaos.watch import FINAL_SLOTS, SETTLE_S, Watch, last_settled
from schemas.topics import SETTLED_ACCOUNTS

ANSWER: Final = "answer about positions"
POSITION: Final = "protocol position"
AGGREGATED: Final = "position of an aggregate"
KINDS: Final = (POSITION, AGGREGATED, figures.KIND)
"""Of what counts as a position that was compared."""
_UNTIL_KNOWN_S: Final = SETTLE_S
_AGAIN_S: Final = 1.0
_BUSY: Final = 503  # no answer, as when a store does not answer in time on a busy machine
_TRIES: Final = 20
_NOT_YET: Final = "not known yet"  # of a field that will be known once it was asked for
_OF_WALLET: Final = "/api/wallets/{wallet}/"
_ANALYSIS: Final = "analyze"


class DemoPositions:
    """Asks for positions at the end of a run, and compares them."""

    def __init__(self, planned: Plan) -> None:
        self._plan = planned
        self._chain: ChainAccounts | None = None

    async def until_known(self, watch: Watch) -> None:
        """Ask for all until the API knows all that it needs; what it never does is compared so."""
        async with Door(self._plan) as ask:
            asked = await _all(ask)
            waiting = [_path(wallet, each) for wallet in WALLETS for each in asked]

            async def known() -> bool:
                nonlocal waiting
                waiting = [path for path in waiting if _lacks(*await ask(path))]
                if waiting:
                    await asyncio.sleep(_AGAIN_S)
                return not waiting

            try:
                await watch.until(known, _UNTIL_KNOWN_S, "")
            except TimeoutError:
                return

    async def until_rest(self, rest: Callable[[], None], watch: Watch) -> None:
        """Let the market rest, wait until that is final, and read its accounts.

        Raises TimeoutError, and what RPC does.
        """
        endpoint = self._plan.settings.rpc_endpoint or ""
        rest()
        async with session() as http:
            first: int = await call(http, endpoint, "getSlot", [{"commitment": "processed"}])

        async def final() -> bool:
            lanes = [await watch.progress(each) or 0 for each in ("ingest", "ingest-accounts")]
            return min(lanes) > first + FINAL_SLOTS

        await watch.until(final, SETTLE_S, "the market's rest on the settled lanes")
        self._chain = await readings.taken(endpoint, WALLETS)

    async def compare(self, found: Differences) -> None:
        """Compare all answers with the chain at the last slot of the lane, which is in Redis."""
        if self._chain is None or self._plan.positions is None:
            return
        last = await last_settled(self._plan, SETTLED_ACCOUNTS)
        of_ledger = await asyncio.to_thread(figures.read, self._plan.positions, last)
        if of_ledger is None:
            found.add(ANSWER, f"slot {last}", "figures of the ledger", "none")
            return
        async with Door(self._plan) as ask:
            await compare(ask, self._chain, of_ledger, found)


async def compare(ask: Ask, chain: ChainAccounts, of_ledger: Figures, found: Differences) -> None:
    """Note where answers about demo wallets differ from the chain's accounts and ledger."""
    world = chain.world(of_ledger.slot, of_ledger.time_s)
    if not (others := await _aggregates(ask)):
        found.add(ANSWER, "aggregates", "some", "none")
    by_name: dict[figures.Position, Row] = {}
    for wallet in WALLETS:
        rows = chain.rows(wallet, world)
        for (slug, route), wanted in rows.items():
            answer = await _answer(ask, wallet, f"{slug}/{route}", world.slot, found)
            if answer is None:
                continue
            key = wallet, slug, route
            given = answer["positions"]
            _compare(POSITION, key, wanted, {each["position_id"]: each for each in given}, found)
            for each in given:
                by_name[wallet, answer["name"], route, each["position_id"]] = each
        for name in (*others, _ANALYSIS):
            answer = await _answer(ask, wallet, name, world.slot, found)
            if answer is not None:
                _compare_all(wallet, name, rows, answer, found)
    figures.compare(of_ledger, by_name, found)


async def _answer(ask: Ask, wallet: str, what: str, slot: int, found: Differences) -> Any:
    """Return an answer, None where it is none; note what it lacks, and of when it is."""
    status, answer = await _patiently(ask, _path(wallet, what))
    found.compared[ANSWER] += 1
    if status != 200:
        found.add(ANSWER, (wallet, what), 200, (status, answer))
        return None
    if lacks := _lacks(status, answer):
        found.add(ANSWER, (wallet, what), "complete", lacks)
    if what != _ANALYSIS and answer["as_of_slot"] != slot:  # that is of several lanes
        found.add(ANSWER, (wallet, what, "as_of_slot"), slot, answer["as_of_slot"])
    return answer


async def _patiently(ask: Ask, path: str) -> tuple[int, Any]:
    """Return status and answer of a path; ask again while the API is too busy."""
    for _ in range(_TRIES):
        status, answer = await ask(path)
        if status != _BUSY:
            break
        await asyncio.sleep(_AGAIN_S)
    return status, answer


def _compare_all(
    wallet: str,
    name: str,
    rows: Mapping[tuple[str, str], Mapping[str, Row]],
    answer: Mapping[str, Any],
    found: Differences,
) -> None:
    """Compare the positions of several routes: those that the answer says it has."""
    if name == _ANALYSIS:
        routes = set(rows)
    else:
        routes = {(each["protocol"], of) for each in answer["protocols"] for of in each["routes"]}
    given: dict[tuple[str, str], dict[str, Row]] = {route: {} for route in routes}
    for each in answer["positions"]:
        given.setdefault((each["protocol"], each["route"]), {})[each["position_id"]] = each
    for (slug, route), positions in given.items():
        wanted = rows.get((slug, route), {}) if (slug, route) in routes else {}
        _compare(AGGREGATED, (wallet, name, slug, route), wanted, positions, found)


def _compare(
    kind: str,
    key: tuple[str, ...],
    wanted: Mapping[str, Row],
    given: Mapping[str, Mapping[str, Any]],
    found: Differences,
) -> None:
    """Compare position by position, of those that are there field by field."""
    got = {}
    for at, position in given.items():
        row = answered(position)
        fields = wanted.get(at, row).keys()
        got[*key, at] = {name: value for name, value in row.items() if name in fields}
    found.maps(kind, {(*key, at): row for at, row in wanted.items()}, got)


def _lacks(status: int, answer: Any) -> Any:
    """Return what an answer lacks, nothing where it is complete."""
    if status != 200:
        return [status]
    if answer["errors"]:
        return answer["errors"]
    # What an aggregate has pending is so for everybody; an analysis is about more than positions.
    if not ("pending" in answer or answer["is_complete"]):
        return ["is_complete is false"]
    fields = (text for each in answer["positions"] for text in each["unsupported_fields"])
    return [text for text in fields if _NOT_YET in text]


async def _aggregates(ask: Ask) -> list[str]:
    status, described = await _patiently(ask, "/openapi.json")
    if status != 200:
        raise TimeoutError(f"the API's own description: {status} {described}")
    return sorted(
        path.removeprefix(_OF_WALLET)
        for path, methods in described["paths"].items()
        if path.startswith(f"{_OF_WALLET}all-")
        and any("positions" in tag for tag in methods["get"]["tags"])
    )


async def _all(ask: Ask) -> list[str]:
    routes = [f"{slug}/{route}" for slug, route in ROUTES]
    return [*routes, *await _aggregates(ask), _ANALYSIS]


def _path(wallet: str, what: str) -> str:
    return f"{_OF_WALLET.format(wallet=wallet)}{what}"
