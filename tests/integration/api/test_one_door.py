"""One service behind four doors: a key, a payment, a session and the tools get the same answers.

The stores hold a finished market with positions, and nothing writes to them.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import orjson
import pytest

from api.access import register, users
from api.access.users import Identity
from api.accounts.coverage import GROUP
from api.mcp import calls
from api.mcp.cutting import MOST_BYTES, cut
from api.mcp.tools import TOOLS
from infra.bench.api.data import stores
from infra.bench.api.endpoints import read_pairs
from infra.bench.api.positions import data
from infra.bench.api.world import World
from infra.clickhouse.client import connect
from infra.redis.asks import connect_pipelined
from infra.settings import Settings
from schemas.plans import ENTERPRISE
from schemas.redis_keys import WATERMARK, account_tags
from tests.integration.api.mcp import test_local, test_node_client
from tests.integration.api.mcp.test_attacks import ACCEPT, call
from tests.integration.api.mcp.test_python_client import session_of
from tests.support.api.in_process import asked
from tests.support.api.issuing import issuing
from tests.support.api.paying import NETWORK, PayWorld, pay
from tests.support.api.served import Served, served
from tests.support.api.signing_in import Person, query_of, signin_settings

pytestmark = pytest.mark.slow

WORLD = World(10_000)
PATIENT_S = 60.0
AS_OF = frozenset({"as_of_ms", "as_of_slot"})
POSITIONS = re.compile(r"/\{wallet\}/(p\d\d/|all-(?!dex)|staking/|analyze|networth)")

Ask = Callable[[str, str, Any], httpx.Response]


@pytest.fixture(scope="module")
def world() -> Iterator[PayWorld]:
    found = PayWorld()
    yield found
    found.close()


@pytest.fixture(scope="module")
def issuer() -> Iterator[Any]:
    with issuing() as running:
        yield running


@pytest.fixture(scope="module")
def api(world: PayWorld, issuer: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """An API with all doors open."""
    with pytest.MonkeyPatch.context() as patch, stores(tmp_path_factory.mktemp("s")) as filled:
        patch.setattr(data, "WALLETS", 1)
        filled.fill(WORLD, with_positions=True)
        asyncio.run(keep_lane_alive(filled.settings))
        settings = filled.settings.model_copy(
            update={
                **signin_settings(issuer),
                "api_timeout_s": PATIENT_S,
                "metadata_fetch": False,
                "x402_facilitator_url": world.url,
                "rpc_endpoint": world.rpc_url,
                "pay_to": world.seller,
                "pay_network": NETWORK,
            }
        )
        with served(settings, tmp_path_factory.mktemp("one-door")) as running:
            yield running


async def keep_lane_alive(settings: Settings) -> None:
    """Have the lane of accounts moved within the next hour; else it stalls 15 s after the filling.

    What `/holdings` says of a lane that stalled is not what it said a moment before.
    """
    redis = connect_pipelined(settings)
    in_an_hour_ms = int(time.time() * 1000) + 3_600_000
    names = [WATERMARK.make(tag=tag, group=GROUP) for tag in account_tags()]
    await redis.ask([("HSET", name, "at_ms", in_an_hour_ms) for name in names])
    await redis.aclose()


@pytest.fixture(scope="module")
def wallets(api: Served) -> dict[str, str]:
    """A wallet that trades, with its token, and two with positions: in two protocols, in many."""
    with connect(api.settings) as clickhouse:
        [(trader, mint), *_] = read_pairs(clickhouse, 1)
    of = data.wallets(WORLD)
    return {"trader": trader, "mint": mint, "holder": of.both[0], "many": of.many[0]}


@pytest.fixture(scope="module")
def paths(api: Served, wallets: dict[str, str]) -> list[str]:
    """Every path of a wallet, for one that has content."""
    document = httpx.get(f"{api.url}/openapi.json", timeout=PATIENT_S).json()
    whose = {
        path: wallets["holder" if POSITIONS.search(path) else "trader"]
        for path, methods in document["paths"].items()
        if path.startswith("/api/wallets/") and "get" in methods
    }
    assert len(whose) >= 80
    return [path.format(wallet=wallet, mint=wallets["mint"]) for path, wallet in whose.items()]


@pytest.fixture(scope="module")
def by_key(api: Served) -> Iterator[Ask]:
    with httpx.Client(timeout=PATIENT_S, headers={"x-api-key": api.key}) as client:
        yield lambda method, path, body: client.request(method, api.url + path, json=body)


@pytest.fixture(scope="module")
def by_payment(api: Served, world: PayWorld, wallets: dict[str, str]) -> Iterator[Ask]:
    sold = f"{api.url}/pay/api/wallets/{wallets['trader']}/pnl/summary"
    with httpx.Client(timeout=PATIENT_S) as client:

        def ask(method: str, path: str, body: Any) -> httpx.Response:
            headers = {"payment-signature": pay(world, sold)}
            url = f"{api.url}/pay{path}"
            return client.request(method, url, json=body, headers=headers)

        yield ask


@pytest.fixture(scope="module")
def by_session(api: Served, issuer: Any) -> Iterator[Ask]:
    issuer.claims = {"sub": "reader"}
    with Person(api) as person:
        asked = query_of(person.begin())
        issuer.nonce = asked["nonce"]
        params = {"code": "c", "state": asked["state"]}
        assert person.client.get("/signin/callback", params=params).status_code == 303
        user = Identity(issuer.issuer, "reader", "").fingerprint

        async def give() -> None:
            redis = register.connect(api.settings)
            await users.set_plan(redis, user, ENTERPRISE.name)
            await redis.aclose()

        asyncio.run(give())
        yield lambda method, path, body: person.client.request(method, path, json=body)


def test_a_payment_and_a_session_are_answered_as_a_key_is(
    paths: list[str],
    wallets: dict[str, str],
    by_key: Ask,
    by_payment: Ask,
    by_session: Ask,
) -> None:
    batch = {"wallets": [wallets["trader"], wallets["holder"]], "include": ["pnl"]}
    asked: list[tuple[str, str, Any]] = [("GET", path, None) for path in paths]
    asked.append(("POST", "/api/wallets/batch", batch))
    different = {}
    said = {}
    for each in asked:
        wanted = what_it_says(by_key(*each))
        said[each[1]] = wanted
        for door, ask in (("payment", by_payment), ("session", by_session)):
            found = what_it_says(ask(*each))
            if found != wanted:
                different[each[1], door] = list(differences(wanted, found))
    assert different == {}
    assert {status for status, _ in said.values()} == {200}
    # There is something to say.
    for path, member in (
        (f"{wallets['holder']}/all-lending", "positions"),
        (f"{wallets['holder']}/all-lp", "positions"),
        (f"{wallets['trader']}", "positions"),
        (f"{wallets['trader']}/{wallets['mint']}/lots", "matches"),
        (f"{wallets['trader']}/swaps", "swaps"),
    ):
        assert said[f"/api/wallets/{path}"][1][member], path


@pytest.fixture(scope="module")
def by_rest(wallets: dict[str, str], by_key: Ask) -> dict[str, bytes]:
    """The answer of REST to each of the ten tools, of a wallet with positions in 12 protocols."""
    assert len(TOOLS) == 10
    answers = {
        tool.name: by_key("GET", f"/api/wallets/{wallets['many']}/{tool.path}", None)
        for tool in TOOLS
    }
    assert {each.status_code for each in answers.values()} == {200}
    return {name: each.content for name, each in answers.items()}


@pytest.mark.parametrize("transport", ["http", "sse"])
async def test_the_tools_say_what_rest_says(
    api: Served, wallets: dict[str, str], by_rest: dict[str, bytes], transport: str
) -> None:
    async with session_of(api.url, api.key, transport) as session:
        for name, rest in by_rest.items():
            result = await session.call_tool(name, {"wallet": wallets["many"]})
            assert not result.is_error, result
            says_as_rest(result.structured_content, rest)


@pytest.mark.node
@pytest.mark.parametrize("transport", ["http", "sse"])
def test_the_tools_say_to_the_client_of_node_what_rest_says(
    request: pytest.FixtureRequest,
    api: Served,
    wallets: dict[str, str],
    by_rest: dict[str, bytes],
    transport: str,
) -> None:
    folder = test_node_client.installed(request)
    asked_for = [[name, wallets["many"]] for name in by_rest]
    _, *results = test_node_client.run(folder, api.url, api.key, transport, asked_for)
    for result, rest in zip(results, by_rest.values(), strict=True):
        assert not result.get("isError"), result
        says_as_rest(of_javascript(result["structuredContent"]), rest)


def of_javascript(value: Any) -> Any:
    """Return what JavaScript read and wrote: doubles of 2^53 and more came as integers."""
    if isinstance(value, dict):
        return {name: of_javascript(each) for name, each in value.items()}
    if isinstance(value, list):
        return [of_javascript(each) for each in value]
    return float(value) if isinstance(value, int) and abs(value) >= 2**53 else value


def says_as_rest(found: Any, rest: bytes) -> None:
    whole, shortened = cut(rest)
    assert found["cut"] == shortened, found["rest"]
    assert list(differences(still(whole), still(found["answer"]))) == [], found["rest"]


async def test_the_tools_say_all_that_rest_says_before_it_is_cut(
    api: Served, wallets: dict[str, str], by_rest: dict[str, bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert max(map(len, by_rest.values())) > MOST_BYTES  # else there is nothing to cut
    monkeypatch.setattr(calls, "MOST_BYTES", 2**30)
    async with asked(api.settings, api.key) as (http, _):
        for name, rest in by_rest.items():
            answer = await http.post(
                "/mcp", headers=ACCEPT, json=call(name, wallets["many"]), timeout=PATIENT_S
            )
            result = answer.json()["result"]
            assert not result["isError"], result
            found = result["structuredContent"]
            assert found["cut"] == []
            assert list(differences(still(orjson.loads(rest)), still(found["answer"]))) == [], name


async def test_the_local_tools_say_what_rest_says(
    api: Served, wallets: dict[str, str], by_key: Ask, tmp_path: Path
) -> None:
    """The six: the two others answer of the product, not of wallets."""
    trader, mint = wallets["trader"], wallets["mint"]
    redis = {"REDIS_URL": str(api.settings.redis_url)}
    redis["CLICKHOUSE_URL"] = str(api.settings.clickhouse_url)
    async with test_local.local(tmp_path, **redis) as session:
        for name, arguments, path in (
            ("get_token_info", {"mint": mint}, f"/api/tokens/{mint}"),
            (
                "get_token_leaderboard",
                {"mint": mint, "limit": 5},
                f"/api/tokens/{mint}/leaderboard?limit=5",
            ),
            ("get_wallet_positions", {"wallet": trader}, f"/api/wallets/{trader}?limit=50"),
            (
                "get_wallet_token_position",
                {"wallet": trader, "mint": mint},
                f"/api/wallets/{trader}/{mint}",
            ),
        ):
            is_answered, found = await test_local.called(session, name, **arguments)
            assert is_answered, found
            rest = await asyncio.to_thread(by_key, "GET", path, None)
            assert rest.status_code == 200, path
            whole, shortened = cut(rest.content)
            assert found["cut"] == shortened, name
            assert list(differences(still(whole), still(found["answer"]))) == [], name


def what_it_says(answer: httpx.Response) -> tuple[int, Any]:
    """Return status and JSON of an answer, without what moves with time."""
    return answer.status_code, still(answer.json())


def differences(wanted: Any, found: Any, at: str = "") -> Iterator[str]:
    """Yield where two answers differ, and what each says there."""
    if isinstance(wanted, dict) and isinstance(found, dict):
        for name in wanted.keys() | found.keys():
            yield from differences(wanted.get(name), found.get(name), f"{at}.{name}")
    elif isinstance(wanted, list | tuple) and isinstance(found, list | tuple):
        if len(wanted) != len(found):
            yield f"{at}: {len(wanted)} members, and {len(found)}"
        for index, (one, other) in enumerate(zip(wanted, found, strict=False)):
            yield from differences(one, other, f"{at}[{index}]")
    elif wanted != found:
        yield f"{at}: {wanted!r}, and {found!r}"


def still(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: still(each) for name, each in value.items() if name not in AS_OF}
    return [still(each) for each in value] if isinstance(value, list) else value
