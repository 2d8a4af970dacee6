"""Results are made once an answer, and keep no answer that the services gave up."""

from __future__ import annotations

from typing import Any, cast
from weakref import ref

import orjson

from api.access.grants import Grant
from api.http.encoding import Encoded
from api.mcp.calls import RESULTS, Calls
from api.mcp.cutting import MOST_BYTES
from api.mcp.tools import TOOLS
from schemas.plans import ENTERPRISE
from schemas.solana.base58 import encode

HOLDINGS = next(each for each in TOOLS if each.path == "holdings")
LARGE = orjson.dumps({"tokens": [{"name": '"' * 100}] * 5_000})
STATE: dict[str, Any] = {"grant": Grant("0" * 64, ENTERPRISE, "", 1, 1, 0, 1), "request_id": ""}


class Wallets:
    """Answers what it has; a service, of which nothing else is asked."""

    def __init__(self) -> None:
        self.has = Encoded(LARGE)

    async def holdings(self, *_: object) -> Encoded:
        return self.has


class Services:
    def __init__(self) -> None:
        self.wallets = Wallets()


def wallet(number: int) -> str:
    return encode(number.to_bytes(32, "big"))


async def test_one_answer_has_one_result_and_a_new_one_another() -> None:
    services = Services()
    calls = Calls(cast(Any, services))
    first = await calls.answer(HOLDINGS, wallet(1), STATE)
    assert await calls.answer(HOLDINGS, wallet(1), STATE) is first
    services.wallets.has = Encoded(b'{"tokens":[]}')
    found = await calls.answer(HOLDINGS, wallet(1), STATE)
    assert orjson.loads(found.json)["answer"] == {"tokens": []}


async def test_an_answer_that_the_services_gave_up_is_not_kept() -> None:
    services = Services()
    calls = Calls(cast(Any, services))
    result = await calls.answer(HOLDINGS, wallet(1), STATE)
    given_up = ref(services.wallets.has)
    services.wallets.has = Encoded(LARGE)
    assert given_up() is None
    # Quotes are what takes most room: a backslash in the answer, three in the text.
    assert len(result.json) + len(result.wire) < 4.5 * MOST_BYTES
    # private `_results`: no answer shows how many results are kept.
    kept = calls._results.kept
    services.wallets.has = Encoded(b'{"tokens":[]}')
    for number in range(RESULTS + 2):
        await calls.answer(HOLDINGS, wallet(number), STATE)
        assert len(kept) <= RESULTS
    await calls.answer(HOLDINGS, wallet(RESULTS), STATE)
    assert len(kept) == RESULTS


async def test_names_are_plain_for_agents_and_as_on_the_chain_for_rest() -> None:
    services = Services()
    body = orjson.dumps({"tokens": [{"name": "\u202eBuy\U000e0041 me"}] * 5_000})
    for shown in (body, b'{"tokens":[{"name":"\xe2\x80\xaeBuy me"}]}'):
        services.wallets.has = Encoded(shown)
        result = await Calls(cast(Any, services)).answer(HOLDINGS, wallet(1), STATE)
        [first, *_] = orjson.loads(result.json)["answer"]["tokens"]
        assert first == {"name": "Buy me"}
        assert result.for_package().structured_content == orjson.loads(result.json)
        assert services.wallets.has.body is shown
