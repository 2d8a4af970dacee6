"""An x402 facilitator for trying pay per call: the official code, before the local chain.

`soltape up` runs it on loopback. It verifies and settles payments of simulated dollars, and pays
the fees of their transactions from a wallet whose key anybody knows: it is worth nothing elsewhere,
so it refuses to start before any other chain.
"""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, Final

import aiohttp
import click
import orjson
import structlog
import uvloop
from aiohttp import web
from pydantic import ValidationError

from infra.chain import demo_wallets
from infra.hosts import Hosts
from infra.local import extra
from infra.local.process import PortInUse
from infra.settings import LOOPBACK, Settings, SettingsError, load
from infra.telemetry import configure_logging
from schemas.solana.networks import SIMULATED

if TYPE_CHECKING:
    from x402 import x402FacilitatorSync

log = structlog.get_logger(__name__)

NETWORK: Final = "solana:EtWTRABZaYq6iMfeYKouRu166VU2xqa1"
"""What simulated payments are said to be on: devnet, so that no real wallet pays by mistake."""
PORT: Final = 4022
_HOSTS: Final = Hosts(LOOPBACK)
_MAX_REQUEST_BYTES: Final = 32 << 10
_AT_ONCE: Final = 16
"""Settlements wait for the chain in a thread each."""
_NODE_WITHIN_S: Final = 10.0

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class WrongChain(Exception):
    """The node is not that of the simulated chain."""


class Facilitator:
    """The three paths of a facilitator, answered by package `x402`."""

    def __init__(self, rpc_url: str) -> None:
        from x402 import x402FacilitatorSync
        from x402.mechanisms.svm import FacilitatorKeypairSigner
        from x402.mechanisms.svm.exact import register_exact_svm_facilitator

        self._code: x402FacilitatorSync = x402FacilitatorSync()
        signer = FacilitatorKeypairSigner(demo_wallets.keypair(demo_wallets.FEE_PAYER), rpc_url)
        register_exact_svm_facilitator(self._code, signer, NETWORK)
        self._running = asyncio.Semaphore(_AT_ONCE)

    def application(self) -> web.Application:
        """Return it over HTTP."""
        application = web.Application(
            client_max_size=_MAX_REQUEST_BYTES, middlewares=[_no_page_of_others]
        )
        application.router.add_get("/supported", self._supported)
        application.router.add_post("/verify", self._verify)
        application.router.add_post("/settle", self._settle)
        return application

    async def _supported(self, _: web.Request) -> web.Response:
        return _json(self._code.get_supported())

    async def _verify(self, request: web.Request) -> web.Response:
        return await self._run(self._code.verify, request)

    async def _settle(self, request: web.Request) -> web.Response:
        return await self._run(self._code.settle, request)

    async def _run(self, method: Callable[..., Any], request: web.Request) -> web.Response:
        from x402.schemas.helpers import parse_payment_payload, parse_payment_requirements

        try:
            asked = orjson.loads(await request.read())
            payload = parse_payment_payload(asked["paymentPayload"])
            wanted = parse_payment_requirements(asked["x402Version"], asked["paymentRequirements"])
        except (ValueError, TypeError, KeyError, ValidationError) as error:
            raise web.HTTPBadRequest(text=f"not a question of x402: {error!r}"[:500]) from None
        async with self._running:
            return _json(await asyncio.to_thread(method, payload, wanted))


@web.middleware
async def _no_page_of_others(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Refuse what a web page sends: it names itself, its site, or this machine by another name."""
    if not _HOSTS.accepts(request.host):
        raise web.HTTPMisdirectedRequest(text="the facilitator answers to this machine's names")
    if (
        "Origin" in request.headers
        or request.headers.get("Sec-Fetch-Site", "none") not in ("none", "same-origin")
        or (request.method == "POST" and request.content_type != "application/json")
    ):
        raise web.HTTPForbidden(text="the facilitator answers no web page")
    return await handler(request)


def _json(model: Any) -> web.Response:
    body = model.model_dump_json(by_alias=True, exclude_none=True)
    return web.Response(text=body, content_type="application/json")


async def _check_chain(rpc_url: str) -> None:
    """Raise WrongChain unless the node is that of the simulated chain."""
    call = {"jsonrpc": "2.0", "id": 1, "method": "getGenesisHash"}
    timeout = aiohttp.ClientTimeout(total=_NODE_WITHIN_S)
    try:
        async with (
            aiohttp.ClientSession(timeout=timeout) as client,
            client.post(rpc_url, json=call) as answer,
        ):
            found = orjson.loads(await answer.read()).get("result")
    except (aiohttp.ClientError, TimeoutError, OSError, ValueError, AttributeError) as error:
        raise WrongChain(f"RPC_ENDPOINT does not answer: {type(error).__name__}") from None
    if found != SIMULATED:
        raise WrongChain(
            "RPC_ENDPOINT is not the simulated chain; elsewhere set X402_FACILITATOR_URL to a "
            "facilitator of that network"
        )


async def _serve(rpc_url: str, port: int) -> None:
    await _check_chain(rpc_url)
    runner = web.AppRunner(Facilitator(rpc_url).application(), access_log=None)
    await runner.setup()
    ended = asyncio.Event()
    for each in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(each, ended.set)
    try:
        try:
            await web.TCPSite(runner, LOOPBACK, port).start()
        except OSError:
            raise PortInUse(LOOPBACK, port, "--port") from None
        log.info("facilitator serves", address=f"http://{LOOPBACK}:{port}", network=NETWORK)
        await ended.wait()
    finally:
        await runner.cleanup()


@click.command()
@click.option(
    "--port", type=click.IntRange(0, 65535), default=PORT, show_default=True, help="On loopback."
)
def facilitator(port: int) -> None:
    """Settle payments of simulated dollars, so that pay per call can be tried.

    It runs the facilitator of package x402 before the simulated chain that RPC_ENDPOINT leads to,
    on this machine only. `soltape up` starts it. Point the API at it with X402_FACILITATOR_URL;
    for real payments use a facilitator of your network instead.
    """
    settings: Settings = load()
    configure_logging(settings, "facilitator")
    extra.require("solana")
    if settings.rpc_endpoint is None:
        raise SettingsError("RPC_ENDPOINT is not set: the facilitator asks that node")
    try:
        uvloop.run(_serve(settings.rpc_endpoint, port))
    except WrongChain as error:
        raise click.ClickException(str(error)) from None
