"""JSON-RPC over HTTP from the local chain's history and accounts, as a validator answers it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import Any, Final

import orjson
import structlog
from aiohttp import web

from infra.chain import metrics
from infra.chain.account_store import AccountStore
from infra.chain.coin_metadata import CoinMetadata
from infra.chain.history import History, SlotRecord
from infra.chain.rpc_accounts import AccountMethods
from infra.chain.rpc_cluster import ClusterMethods
from infra.chain.rpc_params import (
    INTERNAL_ERROR,
    INVALID_PARAMS,
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
    PARSE_ERROR,
    SLOT_SKIPPED,
    UNSUPPORTED_TRANSACTION_VERSION,
    VERSION,
    Config,
    Params,
    RpcError,
    at_least_confirmed,
    block_cleaned_up,
    block_not_available,
    bytes_at,
    commitment_in,
    config_at,
    invalid,
    is_text,
    is_u64,
    slot_at,
)
from infra.chain.rpc_sending import SendingMethods
from infra.chain.source import ChainTransaction, Describes, Source
from infra.chain.streamed import Streamed, wrapped
from infra.chain.updates import reward_message
from infra.hosts import Hosts
from schemas.proto.geyser_pb2 import CommitmentLevel, SubscribeUpdateTransactionInfo
from schemas.solana import base58
from schemas.solana.rpc_json import Encoding, reward_to_json, transaction_to_json

log = structlog.get_logger(__name__)

_HOSTS: Final = Hosts("127.0.0.1")
_MAX_REQUEST_BYTES: Final = 50 << 10
_MAX_BATCH: Final = 100
_MAX_BLOCK_RANGE: Final = 500_000

Method = Callable[[Params], Awaitable[Any]]


def rpc_application(
    history: History, store: AccountStore, source: Source, *, program_scans: bool = True
) -> web.Application:
    """Return the HTTP application; without `program_scans` it refuses `getProgramAccounts`."""
    accounts = AccountMethods(store, source, program_scans=program_scans)
    cluster = ClusterMethods(history, store, source)
    methods = rpc_methods(history, source, accounts, cluster, SendingMethods(history, source))

    async def post(request: web.Request) -> web.StreamResponse:
        try:
            body = orjson.loads(await request.read())
        except orjson.JSONDecodeError:
            return _json(_failed(None, RpcError(PARSE_ERROR, "Parse error")))
        if not isinstance(body, list):
            answer = await _answer(methods, body)
            return await _stream(request, answer) if isinstance(answer, Streamed) else _json(answer)
        if not body or len(body) > _MAX_BATCH:
            error = RpcError(INVALID_REQUEST, f"A batch holds 1 to {_MAX_BATCH} calls")
            return _json(_failed(None, error))
        return await _stream(request, Streamed(_batch(methods, body)))

    async def health(_: web.Request) -> web.Response:
        return web.Response(text="ok")

    application = web.Application(client_max_size=_MAX_REQUEST_BYTES, middlewares=[_own_names])
    application.router.add_post("/", post)
    application.router.add_get("/health", health)
    if isinstance(source, Describes):
        application.router.add_get("/metadata/{file}", CoinMetadata(source).answer)
    return application


@web.middleware
async def _own_names(
    request: web.Request, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]
) -> web.StreamResponse:
    if not _HOSTS.accepts(request.host):
        raise web.HTTPMisdirectedRequest(text="the local chain answers to this machine's names")
    # As a validator. A page of others sends no JSON without asking first, which is not answered:
    # else it could send transactions of the demo wallets, whose keys anybody knows.
    if request.method == "POST" and request.content_type != "application/json":
        raise web.HTTPUnsupportedMediaType(text="a call is sent as application/json")
    return await handler(request)


async def _batch(methods: Mapping[str, Method], calls: list[Any]) -> AsyncIterator[bytes]:
    """Answer the calls one by one, as the client takes the answers."""
    separator = b"["
    for call in calls:
        yield separator
        answer = await _answer(methods, call)
        if isinstance(answer, Streamed):
            async for part in answer.parts:
                yield part
        else:
            yield answer
        separator = b","
    yield b"]"


async def _answer(methods: Mapping[str, Method], call: Any) -> bytes | Streamed:
    call_id = call.get("id") if isinstance(call, dict) else None
    name = call.get("method") if isinstance(call, dict) else None
    if not isinstance(call, dict) or call.get("jsonrpc") != "2.0" or not isinstance(name, str):
        return _failed(call_id, RpcError(INVALID_REQUEST, "Invalid request"))
    method = methods.get(name)
    label = name if method else "unknown"
    try:
        if method is None:
            raise RpcError(METHOD_NOT_FOUND, "Method not found")
        params = call.get("params")
        if params is not None and not isinstance(params, list):
            raise RpcError(INVALID_PARAMS, "Invalid params: a list is expected.")
        result = await method(params or [])
    except RpcError as error:
        metrics.rpc_call(label, str(error.code))
        return _failed(call_id, error)
    except Exception:
        log.exception("rpc_failed", method=name)
        metrics.rpc_call(label, str(INTERNAL_ERROR))
        return _failed(call_id, RpcError(INTERNAL_ERROR, "Internal error"))
    metrics.rpc_call(label, "ok")
    if isinstance(result, Streamed):
        after = b',"id":' + orjson.dumps(call_id) + b"}"
        return Streamed(wrapped(b'{"jsonrpc":"2.0","result":', result.parts, after))
    return orjson.dumps({"jsonrpc": "2.0", "result": result, "id": call_id})


def _failed(call_id: Any, error: RpcError) -> bytes:
    return orjson.dumps({"jsonrpc": "2.0", "error": error.to_json(), "id": call_id})


def _json(body: bytes) -> web.Response:
    return web.Response(body=body, content_type="application/json")


async def _stream(request: web.Request, answer: Streamed) -> web.StreamResponse:
    """Send an answer in parts, each when the client has taken those before it."""
    response = web.StreamResponse(headers={"Content-Type": "application/json"})
    await response.prepare(request)
    async for part in answer.parts:
        await response.write(part)
    await response.write_eof()
    return response


def rpc_methods(
    history: History,
    source: Source,
    accounts: AccountMethods,
    cluster: ClusterMethods,
    sending: SendingMethods,
) -> dict[str, Method]:
    """Return every method that is served, by its name."""
    return {
        **BlockMethods(history, source).methods(),
        "getAccountInfo": accounts.get_account_info,
        "getBalance": accounts.get_balance,
        "getMultipleAccounts": accounts.get_multiple_accounts,
        "getProgramAccounts": accounts.get_program_accounts,
        "getTokenAccountBalance": accounts.get_token_account_balance,
        "getTokenAccountsByOwner": accounts.get_token_accounts_by_owner,
        "getTokenLargestAccounts": accounts.get_token_largest_accounts,
        "getTokenSupply": accounts.get_token_supply,
        "getEpochInfo": cluster.get_epoch_info,
        "getEpochSchedule": cluster.get_epoch_schedule,
        "getInflationReward": cluster.get_inflation_reward,
        "getVoteAccounts": cluster.get_vote_accounts,
        "getLatestBlockhash": sending.get_latest_blockhash,
        "getSignaturesForAddress": sending.get_signatures_for_address,
        "getSignatureStatuses": sending.get_signature_statuses,
        "isBlockhashValid": sending.is_blockhash_valid,
        "sendTransaction": sending.send_transaction,
        "simulateTransaction": sending.simulate_transaction,
    }


class BlockMethods:
    """Methods about blocks and transactions, by the names they are called with."""

    def __init__(self, history: History, source: Source) -> None:
        self._history = history
        self._source = source

    def methods(self) -> dict[str, Method]:
        """Return these methods."""
        return {
            "getBlock": self._get_block,
            "getBlocks": self._get_blocks,
            "getFirstAvailableBlock": self._get_first_available_block,
            "getGenesisHash": self._get_genesis_hash,
            "getHealth": self._get_health,
            "getSlot": self._get_slot,
            "getTransaction": self._get_transaction,
            "getVersion": self._get_version,
        }

    async def _get_health(self, _: Params) -> str:
        return "ok"

    async def _get_genesis_hash(self, _: Params) -> str:
        return self._source.genesis_hash

    async def _get_version(self, _: Params) -> dict[str, Any]:
        return VERSION

    async def _get_slot(self, params: Params) -> int:
        return self._tip_slot(commitment_in(config_at(params, 0)))

    async def _get_first_available_block(self, _: Params) -> int:
        return self._history.first_block()

    async def _get_blocks(self, params: Params) -> list[int]:
        first = slot_at(params, 0)
        # The end may be left out: getBlocks(start, config).
        has_end = len(params) > 1 and not isinstance(params[1], dict)
        config = config_at(params, 2 if has_end else 1)
        commitment = at_least_confirmed(config)
        tip = self._tip_slot(commitment)
        last = tip if not has_end or params[1] is None else min(slot_at(params, 1), tip)
        if last - first > _MAX_BLOCK_RANGE:
            raise invalid(f"Slot range too large; max {_MAX_BLOCK_RANGE}")
        return [record.slot for record in self._history.blocks(first, last, commitment)]

    async def _get_block(self, params: Params) -> dict[str, Any]:
        slot = slot_at(params, 0)
        config = config_at(params, 1)
        commitment = at_least_confirmed(config)
        encoding = _encoding(config)
        details = config.get("transactionDetails", "full")
        if details not in ("full", "signatures", "none"):
            raise invalid(f"transactionDetails {details!r} is not full, signatures or none")
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
        signature = bytes_at(params, 0, 64, "signature")
        # An encoding may stand in the place of the configuration: RPC's oldest form.
        config = {"encoding": params[1]} if is_text(params, 1) else config_at(params, 1)
        encoding = _encoding(config)
        found = self._history.transaction(signature, at_least_confirmed(config))
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
            raise block_not_available(slot)
        if slot < first:
            raise block_cleaned_up(slot, first)
        raise RpcError(
            SLOT_SKIPPED,
            f"Slot {slot} was skipped, or missing due to ledger jump to recent snapshot",
        )


def _block_json(
    record: SlotRecord,
    details: str,
    transactions: list[dict[str, Any]] | None,
    config: Config,
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
        block["rewards"] = [reward_to_json(reward_message(each)) for each in record.rewards]
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
            UNSUPPORTED_TRANSACTION_VERSION,
            "Transaction version (0) is not supported by the requesting client. Please try "
            "the request again with the following configuration parameter: "
            '"maxSupportedTransactionVersion": 0',
        )
    del out["version"]  # only clients that say so know versions
    return out


def _encoding(config: Config) -> Encoding:
    match config.get("encoding", "json"):
        case "json":
            return "json"
        case "base64":
            return "base64"
        case "base58":
            return "base58"
        case other:
            raise invalid(f"encoding {other!r} is not served here: json, base64 or base58")


def _knows_versions(config: Config) -> bool:
    version = config.get("maxSupportedTransactionVersion")
    if version is not None and not (is_u64(version) and version <= 255):
        raise invalid("maxSupportedTransactionVersion is a number from 0 to 255")
    return version is not None
