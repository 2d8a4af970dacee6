"""A chain that only moves one token, and the official facilitator code in front of it.

The chain keeps balances, checks signatures and blockhashes, and answers the JSON-RPC methods that
x402's client and facilitator call. Both servers run in one thread with a loop of its own.
"""

from __future__ import annotations

import asyncio
import threading
import time
from base64 import b64decode, b64encode
from collections.abc import Callable, Coroutine
from hashlib import sha256
from typing import Any

import httpx
import orjson
from aiohttp import web
from pydantic import ValidationError
from solders.hash import Hash
from solders.keypair import Keypair
from solders.message import to_bytes_versioned
from solders.transaction import VersionedTransaction

from schemas.solana import base58
from schemas.solana.addresses import TOKEN_PROGRAM, text

NETWORK = "solana:5eykt4UsFv8P8NJdTREpY1vzqKqZKvdp"
USDC = "EPjFWdd5AufqSSqeM2qN1xzybapC8G4wEGGkZwyTDt1v"
_MINT_BYTES = 82


class TokenChain:
    """Balances of token accounts by address, and the transactions that moved them."""

    def __init__(self) -> None:
        self.balances: dict[str, int] = {}
        self.owners: dict[str, str] = {}  # of token accounts, where known
        self.landed: dict[str, VersionedTransaction] = {}  # by signature, oldest first
        self.metas: dict[str, dict[str, Any]] = {}  # by signature
        self.messages: set[bytes] = set()
        self.blockhash = Hash(sha256(b"0").digest())
        self.valid = {str(self.blockhash)}
        self.is_down = False  # for lookups of transactions
        self.looks = 0

    def advance(self) -> None:
        """Let all blockhashes expire, and have a new one."""
        self.blockhash = Hash(sha256(bytes(self.blockhash)).digest())
        self.valid = {str(self.blockhash)}

    def refusal(self, transaction: VersionedTransaction, *, signed: bool = True) -> str | None:
        """Return why a transaction would fail, or None."""
        message = transaction.message
        if signed and not all(transaction.verify_with_results()):
            return "SignatureFailure"
        if bytes(to_bytes_versioned(message)) in self.messages:
            return "AlreadyProcessed"
        if str(message.recent_blockhash) not in self.valid:
            return "BlockhashNotFound"
        return self._moves(transaction, really=False)

    def send(self, wire: bytes) -> str:
        """Put a transaction on the chain; return its signature; raises ValueError."""
        transaction = VersionedTransaction.from_bytes(wire)
        if refusal := self.refusal(transaction):
            raise ValueError(refusal)
        had = self._balances(transaction)
        self._moves(transaction, really=True)
        self.messages.add(bytes(to_bytes_versioned(transaction.message)))
        signature = str(transaction.signatures[0])
        self.landed[signature] = transaction
        has = self._balances(transaction)
        meta = {"err": None, "preTokenBalances": had, "postTokenBalances": has}
        self.metas[signature] = {"meta": meta, "slot": len(self.landed)}
        return signature

    def _balances(self, transaction: VersionedTransaction) -> list[dict[str, Any]]:
        return [
            {
                "accountIndex": index,
                "owner": self.owners.get(str(key), ""),
                "uiTokenAmount": {"amount": str(self.balances[str(key)])},
            }
            for index, key in enumerate(transaction.message.account_keys)
            if str(key) in self.balances
        ]

    def _moves(self, transaction: VersionedTransaction, *, really: bool) -> str | None:
        keys = [str(each) for each in transaction.message.account_keys]
        for instruction in transaction.message.instructions:
            if keys[instruction.program_id_index] != text(TOKEN_PROGRAM):
                continue
            source, _, destination, _ = (keys[at] for at in instruction.accounts[:4])
            amount = int.from_bytes(instruction.data[1:9], "little")
            if destination not in self.balances or self.balances.get(source, 0) < amount:
                return "InsufficientFunds"
            if really:
                self.balances[source] -= amount
                self.balances[destination] += amount
        return None

    async def answer(self, request: web.Request) -> web.Response:
        """Answer one call."""
        call = await request.json()
        self.looks += call["method"] == "getSignaturesForAddress"
        if self.is_down and call["method"] == "getSignaturesForAddress":
            raise web.HTTPBadGateway
        try:
            result = getattr(self, f"_{call['method']}")(*call.get("params", []))
        except ValueError as error:
            problem: dict[str, Any] = {"code": -32002, "message": str(error)}
            return web.json_response({"jsonrpc": "2.0", "id": call["id"], "error": problem})
        return web.json_response({"jsonrpc": "2.0", "id": call["id"], "result": result})

    def _getAccountInfo(self, address: str, *_: Any) -> Any:
        data = bytearray(_MINT_BYTES)
        data[44] = 6
        value = {
            "data": [b64encode(data).decode(), "base64"],
            "executable": False,
            "lamports": 1,
            "owner": text(TOKEN_PROGRAM),
            "rentEpoch": 0,
            "space": _MINT_BYTES,
        }
        return {"context": {"slot": 1}, "value": value if address == USDC else None}

    def _getLatestBlockhash(self, *_: Any) -> Any:
        value = {"blockhash": str(self.blockhash), "lastValidBlockHeight": 150}
        return {"context": {"slot": 1}, "value": value}

    def _isBlockhashValid(self, blockhash: str, *_: Any) -> Any:
        return {"context": {"slot": 1}, "value": blockhash in self.valid}

    def _simulateTransaction(self, wire: str, *_: Any) -> Any:
        refusal = self.refusal(VersionedTransaction.from_bytes(_bytes(wire)))
        value = {"err": refusal and _error(refusal), "logs": [], "unitsConsumed": 1}
        return {"context": {"slot": 1}, "value": value}

    def _sendTransaction(self, wire: str, *_: Any) -> Any:
        return self.send(_bytes(wire))

    def _getSignatureStatuses(self, signatures: list[str], *_: Any) -> Any:
        status = {
            "slot": 1,
            "confirmations": None,
            "err": None,
            "status": {"Ok": None},
            "confirmationStatus": "finalized",
        }
        value = [status if each in self.landed else None for each in signatures]
        return {"context": {"slot": 1}, "value": value}

    def _getSignaturesForAddress(self, address: str, config: dict[str, Any]) -> Any:
        found = [
            {"signature": signature, "slot": self.metas[signature]["slot"], "err": None}
            for signature, transaction in reversed(self.landed.items())
            if address in [str(each) for each in transaction.message.account_keys]
        ]
        signatures = [each["signature"] for each in found]
        begin = signatures.index(config["before"]) + 1 if "before" in config else 0
        end = signatures.index(config["until"]) if "until" in config else len(found)
        return found[begin:end][: config.get("limit", 1_000)]

    def _getSlot(self, *_: Any) -> Any:
        return len(self.landed)

    def _getFirstAvailableBlock(self) -> Any:
        return 0

    def _getTransaction(self, signature: str, *_: Any) -> Any:
        found = self.landed.get(signature)
        wire = found and [b64encode(bytes(found)).decode(), "base64"]
        if wire is None:
            return None
        return {"transaction": wire, "blockTime": int(time.time()), **self.metas[signature]}


class Desk:
    """The official facilitator of package x402, by HTTP. Tests may make it fail."""

    def __init__(self, fee_payer: Keypair, rpc_url: str) -> None:
        from x402 import x402FacilitatorSync
        from x402.mechanisms.svm import FacilitatorKeypairSigner
        from x402.mechanisms.svm.exact import register_exact_svm_facilitator

        self._code = x402FacilitatorSync()
        signer = FacilitatorKeypairSigner(fee_payer, rpc_url)
        register_exact_svm_facilitator(self._code, signer, NETWORK)
        self.settled = 0
        self.is_down = False
        self.lose_settle_answers = False
        self.settle_delay_s = 0.0
        self.pause_s: Callable[[], float] = lambda: 0.0  # before each step, and after the last
        self.verified = 0
        self.may_verify = threading.Event()
        self.may_verify.set()
        self.may_say_settled = threading.Event()
        self.may_say_settled.set()
        self.before_settle: Callable[[], None] | None = None

    async def supported(self, _: web.Request) -> web.Response:
        """Answer /supported."""
        self._check()
        return _json(self._code.get_supported())

    async def verify(self, request: web.Request) -> web.Response:
        """Answer /verify."""
        self._check()
        self.verified += 1
        await asyncio.to_thread(self.may_verify.wait)
        await asyncio.sleep(self.pause_s())
        return _json(await self._run(self._code.verify, request))

    async def settle(self, request: web.Request) -> web.Response:
        """Answer /settle."""
        self._check()
        if self.before_settle is not None:
            self.before_settle()
        await asyncio.sleep(self.pause_s())
        answer = await self._run(self._code.settle, request)
        self.settled += answer.success
        await asyncio.to_thread(self.may_say_settled.wait)
        await asyncio.sleep(self.settle_delay_s + self.pause_s())
        if self.lose_settle_answers:
            raise web.HTTPBadGateway
        return _json(answer)

    def _check(self) -> None:
        if self.is_down:
            raise web.HTTPBadGateway

    async def _run(self, method: Callable[..., Any], request: web.Request) -> Any:
        from x402.schemas.helpers import parse_payment_payload, parse_payment_requirements

        asked = await request.json()
        try:
            payload = parse_payment_payload(asked["paymentPayload"])
        except ValidationError:
            raise web.HTTPBadRequest(text="no payment") from None
        wanted = parse_payment_requirements(asked["x402Version"], asked["paymentRequirements"])
        return await asyncio.to_thread(method, payload, wanted)


class PayWorld:
    """A chain, a facilitator and their wallets: `rpc_url`, `url`."""

    def __init__(self) -> None:
        from x402.mechanisms.svm.utils import derive_ata

        self._ata = derive_ata
        self.chain = TokenChain()
        self.seller = str(Keypair().pubkey())
        self.fee_payer = Keypair()
        self._endow(self.seller, 0)
        self._loop = asyncio.new_event_loop()
        threading.Thread(target=self._loop.run_forever, daemon=True).start()
        self.rpc_url = self._serve([("POST", "/", self.chain.answer)])
        self.desk = Desk(self.fee_payer, self.rpc_url)
        self.url = self._serve(
            [
                ("GET", "/supported", self.desk.supported),
                ("POST", "/verify", self.desk.verify),
                ("POST", "/settle", self.desk.settle),
            ]
        )

    def wallet(self, usdc_raw: int = 1_000_000) -> Keypair:
        """Return a new wallet with tokens."""
        wallet = Keypair()
        self._endow(str(wallet.pubkey()), usdc_raw)
        return wallet

    def _endow(self, owner: str, usdc_raw: int) -> None:
        account = self._ata(owner, USDC)
        self.chain.balances[account] = usdc_raw
        self.chain.owners[account] = owner

    def owned_raw(self, wallet: Keypair) -> int:
        """Return what a wallet has."""
        return self.chain.balances[self._ata(str(wallet.pubkey()), USDC)]

    @property
    def revenue_raw(self) -> int:
        """What the seller has."""
        return self.chain.balances[self._ata(self.seller, USDC)]

    def _serve(self, routes: list[tuple[str, str, Any]]) -> str:
        async def start() -> str:
            application = web.Application()
            for method, path, handler in routes:
                application.router.add_route(method, path, handler)
            runner = web.AppRunner(application, access_log=None)
            await runner.setup()
            site = web.TCPSite(runner, "127.0.0.1", 0)
            await site.start()
            host, port = runner.addresses[0][:2]
            return f"http://{host}:{port}"

        return self._run(start())

    def _run(self, work: Coroutine[Any, Any, str]) -> str:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(240)

    def close(self) -> None:
        """End both servers."""
        self._loop.call_soon_threadsafe(self._loop.stop)


def challenge(url: str) -> dict[str, Any]:
    """Return what a path asks to be paid."""
    answer = httpx.get(url)
    assert answer.status_code == 402, answer.text
    found: dict[str, Any] = orjson.loads(b64decode(answer.headers["payment-required"]))
    assert found == answer.json()
    return found


def pay(world: PayWorld, url: str, wallet: Keypair | None = None, **changed: Any) -> str:
    """Return the header of a payment that the official client makes for a challenge."""
    from x402.mechanisms.svm import KeypairSigner
    from x402.mechanisms.svm.exact import ExactSvmClientScheme
    from x402.schemas import PaymentPayload, PaymentRequired

    asked = PaymentRequired.model_validate(challenge(url))
    accepted = asked.accepts[0]
    wanted = accepted.model_copy(update=changed)
    signer = KeypairSigner(wallet or world.wallet())
    inner = ExactSvmClientScheme(signer, world.rpc_url).create_payment_payload(wanted)
    payload = PaymentPayload(payload=inner, accepted=accepted, resource=asked.resource)
    return b64encode(payload.model_dump_json(by_alias=True, exclude_none=True).encode()).decode()


def _bytes(wire: str) -> bytes:
    try:
        return b64decode(wire, validate=True)
    except ValueError:
        return base58.decode(wire)


def _error(refusal: str) -> Any:
    if refusal == "InsufficientFunds":
        return {"InstructionError": [2, {"Custom": 1}]}
    return refusal


def _json(model: Any) -> web.Response:
    body = model.model_dump_json(by_alias=True, exclude_none=True)
    return web.Response(text=body, content_type="application/json")
