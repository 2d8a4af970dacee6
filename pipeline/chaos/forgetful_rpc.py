"""JSON-RPC of the chain as one role sees it, which may have forgotten blocks that others have."""

from __future__ import annotations

from typing import Any, Final

import aiohttp
import orjson
from aiohttp import web

from pipeline.chaos.balancer import HOST

_CLEANED_UP: Final = -32001  # as in Agave's rpc-client-api custom_error.rs
_TIMEOUT_S: Final = 60.0
_MOST_BYTES: Final = 1 << 20  # of a request


class ForgetfulRpc:
    """Passes calls on, until `forget` says from which block on; an async context manager."""

    def __init__(self, port: int, endpoint: str) -> None:
        self._port = port
        self._endpoint = endpoint
        self._first_block = 0
        self._runner: web.AppRunner | None = None
        self._http: aiohttp.ClientSession | None = None

    async def __aenter__(self) -> ForgetfulRpc:
        self._http = aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=_TIMEOUT_S))
        application = web.Application(client_max_size=_MOST_BYTES)
        application.router.add_post("/", self._serve)
        self._runner = web.AppRunner(application, access_log=None)
        await self._runner.setup()
        await web.TCPSite(self._runner, HOST, self._port).start()
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._runner is not None:
            await self._runner.cleanup()
        if self._http is not None:
            await self._http.close()

    def forget(self, first_block: int) -> None:
        """Have no block before one; 0: have all that the chain has."""
        self._first_block = first_block

    async def _serve(self, request: web.Request) -> web.StreamResponse:
        assert self._http is not None
        body = await request.read()
        forgotten = self._forgotten(orjson.loads(body)) if self._first_block else None
        if forgotten is not None:
            return web.json_response(body=orjson.dumps(forgotten))
        headers = {"content-type": "application/json"}
        try:
            async with self._http.post(self._endpoint, data=body, headers=headers) as answer:
                content = await answer.read()
                return web.Response(
                    status=answer.status, body=content, content_type="application/json"
                )
        except (aiohttp.ClientError, TimeoutError):  # the chain does not run
            return web.Response(status=502)

    def _forgotten(self, call: Any) -> dict[str, Any] | None:
        """Return the answer about what is forgotten, None where a call is about other things."""
        answer = {"jsonrpc": "2.0", "id": call.get("id")}
        if call["method"] == "getFirstAvailableBlock":
            return answer | {"result": self._first_block}
        if call["method"] == "getBlock" and call["params"][0] < self._first_block:
            said = (
                f"Block {call['params'][0]} cleaned up, does not exist on node. "
                f"First available block: {self._first_block}"
            )
            return answer | {"error": {"code": _CLEANED_UP, "message": said}}
        return None
