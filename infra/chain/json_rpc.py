"""JSON-RPC over HTTP from the local chain's history, with a validator's error codes."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

import orjson
import structlog
import zstandard
from aiohttp import web

from infra.chain import metrics
from infra.chain.history import History, SlotRecord
from infra.chain.source import Account, ChainTransaction, Source
from infra.hosts import Hosts
from schemas.proto.geyser_pb2 import (
    CONFIRMED,
    FINALIZED,
    PROCESSED,
    CommitmentLevel,
    SubscribeUpdateTransactionInfo,
)
from schemas.solana import base58
from schemas.solana.rpc_json import Encoding, transaction_to_json

log = structlog.get_logger(__name__)

_PARSE_ERROR: Final = -32700
_INVALID_REQUEST: Final = -32600
_METHOD_NOT_FOUND: Final = -32601
_INVALID_PARAMS: Final = -32602
_INTERNAL_ERROR: Final = -32603
_BLOCK_CLEANED_UP: Final = -32001
_BLOCK_NOT_AVAILABLE: Final = -32004
_SLOT_SKIPPED: Final = -32007
_UNSUPPORTED_TRANSACTION_VERSION: Final = -32015

_HOSTS: Final = Hosts("127.0.0.1")
_MAX_REQUEST_BYTES: Final = 50 << 10
_MAX_BATCH: Final = 100
_MAX_ACCOUNTS: Final = 100
_MAX_BASE58_ACCOUNT_BYTES: Final = 128
_MAX_BLOCK_RANGE: Final = 500_000
_VERSION: Final = {"solana-core": "3.0.0", "feature-set": 0}
_COMMITMENTS: Final = {"processed": PROCESSED, "confirmed": CONFIRMED, "finalized": FINALIZED}

Params = list[Any]
Method = Callable[[Params], Awaitable[Any]]


class RpcError(Exception):
    """A JSON-RPC error object."""

    def __init__(self, code: int, message: str, data: Any = None) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.data = data

    def to_json(self) -> dict[str, Any]:
        """Return the error object."""
        error: dict[str, Any] = {"code": self.code, "message": self.message}
        if self.data is not None:
            error["data"] = self.data
        return error


def rpc_application(history: History, source: Source) -> web.Application:
    """Return the HTTP application."""
    methods = RpcMethods(history, source).methods()

    async def post(request: web.Request) -> web.Response:
        try:
            body = orjson.loads(await request.read())
        except orjson.JSONDecodeError:
            return _json(_failed(None, RpcError(_PARSE_ERROR, "Parse error")))
        if not isinstance(body, list):
            return _json(await _answer(methods, body))
        if not body or len(body) > _MAX_BATCH:
            error = RpcError(_INVALID_REQUEST, f"A batch holds 1 to {_MAX_BATCH} calls")
            return _json(_failed(None, error))
        return _json([await _answer(methods, call) for call in body])

    async def health(_: web.Request) -> web.Response:
        return web.Response(text="ok")

    application = web.Application(client_max_size=_MAX_REQUEST_BYTES, middlewares=[_own_names])
    application.router.add_post("/", post)
    application.router.add_get("/health", health)
    return application


@web.middleware
async def _own_names(
    request: web.Request, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]
) -> web.StreamResponse:
    if not _HOSTS.accepts(request.host):
        raise web.HTTPMisdirectedRequest(text="the local chain answers to this machine's names")
    return await handler(request)


async def _answer(methods: Mapping[str, Method], call: Any) -> dict[str, Any]:
    call_id = call.get("id") if isinstance(call, dict) else None
    name = call.get("method") if isinstance(call, dict) else None
    if not isinstance(call, dict) or call.get("jsonrpc") != "2.0" or not isinstance(name, str):
        return _failed(call_id, RpcError(_INVALID_REQUEST, "Invalid request"))
    method = methods.get(name)
    label = name if method else "unknown"
    try:
        if method is None:
            raise RpcError(_METHOD_NOT_FOUND, "Method not found")
        params = call.get("params")
        if params is not None and not isinstance(params, list):
            raise RpcError(_INVALID_PARAMS, "Invalid params: a list is expected.")
        result = await method(params or [])
    except RpcError as error:
        metrics.rpc_call(label, str(error.code))
        return _failed(call_id, error)
    except Exception:
        log.exception("rpc_failed", method=name)
        metrics.rpc_call(label, str(_INTERNAL_ERROR))
        return _failed(call_id, RpcError(_INTERNAL_ERROR, "Internal error"))
    metrics.rpc_call(label, "ok")
    return {"jsonrpc": "2.0", "result": result, "id": call_id}


def _failed(call_id: Any, error: RpcError) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "error": error.to_json(), "id": call_id}


def _json(body: Any) -> web.Response:
    return web.Response(body=orjson.dumps(body), content_type="application/json")


class RpcMethods:
    """The methods, by the names they are called with."""

    def __init__(self, history: History, source: Source) -> None:
        self._history = history
        self._source = source

    def methods(self) -> dict[str, Method]:
        """Return every method that is served."""
        return {
            "getAccountInfo": self._get_account_info,
            "getBlock": self._get_block,
            "getBlocks": self._get_blocks,
            "getFirstAvailableBlock": self._get_first_available_block,
            "getGenesisHash": self._get_genesis_hash,
            "getHealth": self._get_health,
            "getMultipleAccounts": self._get_multiple_accounts,
            "getSlot": self._get_slot,
            "getTokenSupply": self._get_token_supply,
            "getTransaction": self._get_transaction,
            "getVersion": self._get_version,
        }

    async def _get_health(self, _: Params) -> str:
        return "ok"

    async def _get_genesis_hash(self, _: Params) -> str:
        return self._source.genesis_hash

    async def _get_version(self, _: Params) -> dict[str, Any]:
        return _VERSION

    async def _get_slot(self, params: Params) -> int:
        return self._tip_slot(_commitment(_config(params, 0)))

    async def _get_first_available_block(self, _: Params) -> int:
        return self._history.first_block()

    async def _get_blocks(self, params: Params) -> list[int]:
        first = _slot(params, 0)
        # The end may be left out: getBlocks(start, config).
        has_end = len(params) > 1 and not isinstance(params[1], dict)
        config = _config(params, 2 if has_end else 1)
        commitment = _at_least_confirmed(config)
        tip = self._tip_slot(commitment)
        last = tip if not has_end or params[1] is None else min(_slot(params, 1), tip)
        if last - first > _MAX_BLOCK_RANGE:
            raise _invalid(f"Slot range too large; max {_MAX_BLOCK_RANGE}")
        return [record.slot for record in self._history.blocks(first, last, commitment)]

    async def _get_block(self, params: Params) -> dict[str, Any]:
        slot = _slot(params, 0)
        config = _config(params, 1)
        commitment = _at_least_confirmed(config)
        encoding = _encoding(config)
        details = config.get("transactionDetails", "full")
        if details not in ("full", "signatures", "none"):
            raise _invalid(f"transactionDetails {details!r} is not full, signatures or none")
        versions = _knows_versions(config)
        record = self._block(slot, commitment)
        if details != "full":
            return _block_json(record, details, None, config)
        # Thousands of transactions to JSON: beside the loop, so that streams go on.
        transactions = await asyncio.to_thread(
            lambda: [_transaction_json(item, encoding, versions) for item in record.transactions]
        )
        return _block_json(record, details, transactions, config)

    async def _get_transaction(self, params: Params) -> dict[str, Any] | None:
        signature = _decode(params, 0, 64, "signature")
        # An encoding may stand in the place of the configuration: RPC's oldest form.
        config = {"encoding": params[1]} if _is_text(params, 1) else _config(params, 1)
        encoding = _encoding(config)
        found = self._history.transaction(signature, _at_least_confirmed(config))
        if found is None:
            return None
        record, transaction = found
        assert record.header is not None
        return {
            "slot": record.slot,
            "blockTime": record.header.block_time,
            "transactionIndex": transaction.index,
            **_transaction_json(transaction, encoding, _knows_versions(config)),
        }

    async def _get_account_info(self, params: Params) -> dict[str, Any]:
        address = _decode(params, 0, 32, "pubkey")
        config = _config(params, 1)
        return self._with_context(config, self._account(address, config))

    async def _get_multiple_accounts(self, params: Params) -> dict[str, Any]:
        addresses = params[0] if params else None
        if not isinstance(addresses, list):
            raise _invalid("a list of pubkeys is expected.")
        if len(addresses) > _MAX_ACCOUNTS:
            raise _invalid(f"Too many inputs provided; max {_MAX_ACCOUNTS}")
        config = _config(params, 1)
        accounts = [
            self._account(_decode(addresses, index, 32, "pubkey"), config)
            for index in range(len(addresses))
        ]
        return self._with_context(config, accounts)

    async def _get_token_supply(self, params: Params) -> dict[str, Any]:
        mint = _decode(params, 0, 32, "pubkey")
        config = _config(params, 1)
        supply = self._source.token_supply(mint)
        if supply is None:
            raise _invalid("could not find account")
        amount = f"{supply.amount_raw:0{supply.decimals + 1}d}"
        whole, fraction = amount[: len(amount) - supply.decimals], amount[-supply.decimals :]
        text = f"{whole}.{fraction}".rstrip("0").rstrip(".") if supply.decimals else amount
        value = {
            "amount": str(supply.amount_raw),
            "decimals": supply.decimals,
            "uiAmount": float(supply.amount_raw) / float(10**supply.decimals),
            "uiAmountString": text,
        }
        return self._with_context(config, value)

    def _with_context(self, config: Mapping[str, Any], value: Any) -> dict[str, Any]:
        slot = self._tip_slot(_commitment(config))
        return {"context": {"slot": slot, "apiVersion": _VERSION["solana-core"]}, "value": value}

    def _account(self, address: bytes, config: Mapping[str, Any]) -> dict[str, Any] | None:
        account = self._source.account(address)
        return None if account is None else _account_json(account, config)

    def _tip_slot(self, commitment: CommitmentLevel) -> int:
        tip = self._history.tip(commitment)
        return 0 if tip is None else tip.slot

    def _block(self, slot: int, commitment: CommitmentLevel) -> SlotRecord:
        record = self._history.block(slot, commitment)
        if record is not None:
            return record
        tip = self._tip_slot(commitment)
        first = self._history.first_block()
        if slot > tip:
            raise RpcError(_BLOCK_NOT_AVAILABLE, f"Block not available for slot {slot}")
        if slot < first:
            raise RpcError(
                _BLOCK_CLEANED_UP,
                f"Block {slot} cleaned up, does not exist on node. First available block: {first}",
            )
        raise RpcError(
            _SLOT_SKIPPED,
            f"Slot {slot} was skipped, or missing due to ledger jump to recent snapshot",
        )


def _block_json(
    record: SlotRecord,
    details: str,
    transactions: list[dict[str, Any]] | None,
    config: Mapping[str, Any],
) -> dict[str, Any]:
    header = record.header
    assert header is not None
    block: dict[str, Any] = {
        "blockhash": header.blockhash,
        "previousBlockhash": header.parent_blockhash,
        "parentSlot": header.parent_slot,
        "blockTime": header.block_time,
        "blockHeight": header.block_height,
    }
    if transactions is not None:
        block["transactions"] = transactions
    elif details == "signatures":
        block["signatures"] = [base58.encode(item.signature) for item in record.transactions]
    if config.get("rewards", True):
        block["rewards"] = []
    return block


def _transaction_json(
    transaction: ChainTransaction, encoding: Encoding, versions: bool
) -> dict[str, Any]:
    info = SubscribeUpdateTransactionInfo.FromString(transaction.info)
    out = transaction_to_json(info, encoding)
    if versions:
        return out
    if info.transaction.message.versioned:
        raise RpcError(
            _UNSUPPORTED_TRANSACTION_VERSION,
            "Transaction version (0) is not supported by the requesting client. Please try "
            "the request again with the following configuration parameter: "
            '"maxSupportedTransactionVersion": 0',
        )
    del out["version"]  # told only to those who say that they know versions
    return out


def _account_json(account: Account, config: Mapping[str, Any]) -> dict[str, Any]:
    encoding = config.get("encoding", "base58")
    data = account.data
    match config.get("dataSlice"):
        case None:
            pass
        case {"offset": int(offset), "length": int(length)} if offset >= 0 and length >= 0:
            data = data[offset : offset + length]
        case _:
            raise _invalid("dataSlice: offset and length are whole numbers")
    match encoding:
        case "base64" | "jsonParsed":  # what cannot be parsed comes as base64
            encoded = [base64.b64encode(data).decode(), "base64"]
        case "base64+zstd":
            encoded = [base64.b64encode(zstandard.compress(data)).decode(), encoding]
        case "base58":
            if len(data) > _MAX_BASE58_ACCOUNT_BYTES:
                raise RpcError(
                    _INVALID_REQUEST,
                    "Encoded binary (base 58) data should be less than "
                    f"{_MAX_BASE58_ACCOUNT_BYTES} bytes, please use Base64 encoding.",
                )
            encoded = [base58.encode(data), encoding]
        case _:
            raise _invalid(f"encoding {encoding!r} is not base58, base64 or base64+zstd")
    return {
        "lamports": account.lamports,
        "owner": base58.encode(account.owner),
        "data": encoded,
        "executable": account.executable,
        "rentEpoch": 2**64 - 1,
        "space": len(account.data),
    }


def _invalid(message: str) -> RpcError:
    return RpcError(_INVALID_PARAMS, f"Invalid params: {message}")


def _is_text(params: Params, index: int) -> bool:
    return len(params) > index and isinstance(params[index], str)


def _is_size(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**64


def _config(params: Params, index: int) -> Mapping[str, Any]:
    config = params[index] if len(params) > index else None
    if config is None:
        return {}
    if not isinstance(config, dict):
        raise _invalid("the configuration is an object.")
    return config


def _slot(params: Params, index: int) -> int:
    value = params[index] if len(params) > index else None
    if not _is_size(value):
        raise _invalid("a slot number is expected.")
    assert isinstance(value, int)
    return value


def _decode(params: Params, index: int, length: int, what: str) -> bytes:
    value = params[index] if len(params) > index else None
    if not isinstance(value, str):
        raise _invalid(f"a {what} in base58 is expected.")
    try:
        data = base58.decode(value)
    except ValueError:
        raise _invalid(f"Invalid {what}: {value[:100]}") from None
    if len(data) != length:
        raise _invalid(f"Invalid {what}: {len(data)} bytes, {length} are expected")
    return data


def _commitment(config: Mapping[str, Any]) -> CommitmentLevel:
    name = config.get("commitment", "finalized")
    commitment = _COMMITMENTS.get(name) if isinstance(name, str) else None
    if commitment is None:
        raise _invalid(f"commitment {name!r} is not one of {', '.join(_COMMITMENTS)}")
    return commitment


def _at_least_confirmed(config: Mapping[str, Any]) -> CommitmentLevel:
    commitment = _commitment(config)
    if commitment == PROCESSED:
        raise RpcError(_INVALID_PARAMS, "Method does not support commitment below `confirmed`")
    return commitment


def _encoding(config: Mapping[str, Any]) -> Encoding:
    match config.get("encoding", "json"):
        case "json":
            return "json"
        case "base64":
            return "base64"
        case "base58":
            return "base58"
        case other:
            raise _invalid(f"encoding {other!r} is not served here: json, base64 or base58")


def _knows_versions(config: Mapping[str, Any]) -> bool:
    version = config.get("maxSupportedTransactionVersion")
    if version is not None and not (_is_size(version) and version <= 255):
        raise _invalid("maxSupportedTransactionVersion is a number from 0 to 255")
    return version is not None
