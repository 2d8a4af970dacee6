"""A small node whose accounts are known at every slot: Yellowstone at confirmed, and JSON-RPC.

It speaks the real protocols and misbehaves on request: broken streams behind which another node
answers, repeated and reordered updates, slots that no stream has, blocks that RPC has not.
"""

from __future__ import annotations

import asyncio
from base64 import b64encode
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from random import Random
from typing import Any

import grpc
import grpc.aio
from aiohttp import web

from infra.local.process import free_port
from schemas.proto import geyser_pb2 as geyser
from schemas.proto.geyser_pb2 import SubscribeUpdate, SubscribeUpdateTransactionInfo
from schemas.solana import base58
from schemas.solana.addresses import (
    CLOCK,
    STAKE_PROGRAM,
    SYSTEM_PROGRAM,
    SYSVAR_PROGRAM,
    TOKEN_PROGRAM,
    key,
    text,
)
from schemas.solana.rpc_json import transaction_to_json

GENESIS = 1_000
WALLETS = [bytes([1, n]) + bytes(30) for n in range(12)]
MINTS = [bytes([2, n]) + bytes(30) for n in range(4)]
RENT = 2_039_280
LEAN = "/lean"  # of the RPC of a provider that has no getProgramAccounts


@dataclass(frozen=True)
class Held:
    """An account at the end of a slot."""

    owner: bytes
    lamports: int
    data: bytes


@dataclass
class Bank:
    """A slot: what it changed, None for a closing, and all accounts at its end."""

    slot: int
    parent: int
    changed: dict[bytes, Held | None]
    accounts: dict[bytes, Held]
    transaction: SubscribeUpdateTransactionInfo
    rewarded: tuple[bytes, ...] = ()  # stake accounts that the bank paid, in no transaction


def token(mint: bytes, owner: bytes, amount: int) -> Held:
    data = mint + owner + amount.to_bytes(8, "little") + bytes(36) + b"\1" + bytes(56)
    return Held(TOKEN_PROGRAM, RENT, data)


def stake(wallet: bytes, lamports: int) -> Held:
    return Held(STAKE_PROGRAM, lamports, bytes(12) + wallet + wallet + bytes(124))


@dataclass
class AccountNode:
    """A chain made up from a seed; `live` makes its slots one after the other."""

    seed: int
    slot_s: float = 0.08
    refuses_system: bool = False
    disconnect_chance: float = 0.0
    banks: list[Bank] = field(default_factory=list)
    lost: set[int] = field(default_factory=set)  # slots that no stream has
    blocks_lost: set[int] = field(default_factory=set)
    withheld: set[str] = field(default_factory=set)  # RPC methods that have no answer now
    calls: dict[str, int] = field(default_factory=dict)
    requests: list[geyser.SubscribeRequest] = field(default_factory=list)
    streams: int = 0
    largest: int = 20  # token accounts that getTokenLargestAccounts returns

    def __post_init__(self) -> None:
        self._random = Random(self.seed)
        self._queues: dict[asyncio.Queue[int | None], geyser.SubscribeRequest] = {}
        accounts: dict[bytes, Held] = {w: Held(SYSTEM_PROGRAM, 10**9, b"") for w in WALLETS}
        accounts[CLOCK] = Held(SYSVAR_PROGRAM, 1, bytes(40))
        for mint in MINTS:
            accounts[mint] = Held(TOKEN_PROGRAM, 1, bytes(82))
        for number in range(60):
            accounts[bytes([3, number]) + bytes(30)] = self._made(number)
        nothing = SubscribeUpdateTransactionInfo()
        self.banks.append(Bank(GENESIS, GENESIS - 1, {}, accounts, nothing))

    def _made(self, number: int) -> Held:
        wallet = self._random.choice(WALLETS)
        if number % 3 == 0:
            return stake(wallet, self._random.randrange(1, 10**9))
        return token(self._random.choice(MINTS), wallet, self._random.randrange(10**9))

    @property
    def tip(self) -> Bank:
        return self.banks[-1]

    def at(self, slot: int) -> Bank:
        return next(bank for bank in self.banks if bank.slot == slot)

    async def live(self) -> None:
        """Make slots until cancelled."""
        while True:
            await asyncio.sleep(self.slot_s)
            self.step()

    def step(self) -> None:
        """Make one slot, confirmed at once, and send it."""
        random, before = self._random, self.tip
        slot = before.slot + 1 + (random.random() < 0.1)
        accounts = dict(before.accounts)
        by_bank: dict[bytes, Held | None] = {CLOCK: Held(SYSVAR_PROGRAM, 1, slot.to_bytes(40))}
        stakes = [a for a, held in before.accounts.items() if held.owner == STAKE_PROGRAM]
        rewarded = tuple(random.sample(stakes, min(len(stakes), random.randrange(3))))
        for address in rewarded:
            by_bank[address] = stake(random.choice(WALLETS), random.randrange(1, 10**9))
        changed: dict[bytes, Held | None] = {}
        for _ in range(random.randrange(1, 8)):
            number = random.randrange(60)
            address = bytes([3, number]) + bytes(30)
            gone = address in accounts and random.random() < 0.2
            changed[address] = None if gone else self._made(number)
        wallet = random.choice(WALLETS)
        changed[wallet] = Held(SYSTEM_PROGRAM, random.randrange(1, 10**9), b"")
        changed = {address: held for address, held in changed.items() if address not in by_bank}
        info = self._transaction(slot, before.accounts, changed)
        changed = by_bank | changed
        for address, held in changed.items():
            if held is None:
                accounts.pop(address, None)
            else:
                accounts[address] = held
        self.banks.append(Bank(slot, before.slot, changed, accounts, info, rewarded))
        for queue in list(self._queues):
            queue.put_nowait(slot)
            if random.random() < self.disconnect_chance:
                queue.put_nowait(None)

    def disconnect(self) -> None:
        for queue in self._queues:
            queue.put_nowait(None)

    def _transaction(
        self, slot: int, before: dict[bytes, Held], changed: dict[bytes, Held | None]
    ) -> SubscribeUpdateTransactionInfo:
        signature = slot.to_bytes(64)
        info = SubscribeUpdateTransactionInfo(signature=signature, index=0)
        info.transaction.signatures.append(signature)
        message = info.transaction.message
        keys = [*changed, TOKEN_PROGRAM, STAKE_PROGRAM]
        message.account_keys.extend(keys)
        message.header.num_required_signatures = 1
        message.header.num_readonly_unsigned_accounts = 2
        message.recent_blockhash = bytes(32)
        for at, address in enumerate(keys):
            old, new = before.get(address), changed.get(address)
            info.meta.pre_balances.append(old.lamports if old else 0)
            info.meta.post_balances.append(new.lamports if new else 0)
            for balances, held in (
                (info.meta.pre_token_balances, old),
                (info.meta.post_token_balances, new),
            ):
                if held is not None and len(held.data) == 165:
                    balance = balances.add(
                        account_index=at,
                        mint=text(held.data[:32]),
                        owner=text(held.data[32:64]),
                        program_id=text(TOKEN_PROGRAM),
                    )
                    balance.ui_token_amount.amount = str(int.from_bytes(held.data[64:72], "little"))
        return info

    # Yellowstone.

    async def subscribe(self, requests: Any, context: grpc.aio.ServicerContext) -> Any:
        request = await anext(requests)
        self.requests.append(request)
        system = text(SYSTEM_PROGRAM)
        if self.refuses_system and any(system in f.owner for f in request.accounts.values()):
            await context.abort(
                grpc.StatusCode.INVALID_ARGUMENT,
                f"failed to create filter: Pubkey {system} in filters is not allowed",
            )
        self.streams += 1
        offset = self._random.randrange(10**6)  # write versions are this connection's node's
        queue: asyncio.Queue[int | None] = asyncio.Queue()
        if request.HasField("from_slot"):
            for bank in self.banks:
                if bank.slot >= request.from_slot:
                    queue.put_nowait(bank.slot)
        self._queues[queue] = request
        pinging = asyncio.create_task(_drain(requests))
        try:
            yield SubscribeUpdate(ping=geyser.SubscribeUpdatePing())
            while (slot := await queue.get()) is not None:
                if slot not in self.lost:
                    for update in self._updates(self.at(slot), request, offset):
                        yield update
            await context.abort(grpc.StatusCode.INTERNAL, "lagged")
        finally:
            pinging.cancel()
            del self._queues[queue]

    def _updates(
        self, bank: Bank, request: geyser.SubscribeRequest, offset: int
    ) -> Iterator[SubscribeUpdate]:
        found = []
        for count, (address, held) in enumerate(bank.changed.items()):
            shown = held or Held(SYSTEM_PROGRAM, 0, b"")
            if any(_matches(f, address, shown) for f in request.accounts.values()):
                account = geyser.SubscribeUpdateAccountInfo(
                    pubkey=address,
                    lamports=shown.lamports,
                    owner=shown.owner,
                    data=shown.data,
                    write_version=offset + bank.slot * 100 + count,
                )
                update = geyser.SubscribeUpdateAccount(account=account, slot=bank.slot)
                found.append(SubscribeUpdate(account=update))
        found += [each for each in found if self._random.random() < 0.2]
        self._random.shuffle(found)
        yield from found
        if request.transactions:
            transaction = geyser.SubscribeUpdateTransaction(
                slot=bank.slot, transaction=bank.transaction
            )
            yield SubscribeUpdate(transaction=transaction)
        meta = geyser.SubscribeUpdateBlockMeta(
            slot=bank.slot, parent_slot=bank.parent, blockhash=f"hash{bank.slot}"
        )
        meta.block_time.timestamp = 1_700_000_000 + bank.slot
        yield SubscribeUpdate(block_meta=meta)
        status = geyser.SubscribeUpdateSlot(
            slot=bank.slot, parent=bank.parent, status=geyser.SLOT_CONFIRMED
        )
        yield SubscribeUpdate(slot=status)

    # JSON-RPC.

    async def rpc(self, request: web.Request) -> web.Response:
        call = await request.json()
        method, params = call["method"], call.get("params") or []
        self.calls[method] = self.calls.get(method, 0) + 1
        if method in self.withheld:
            raise web.HTTPServiceUnavailable
        answer: dict[str, Any] = {"jsonrpc": "2.0", "id": call["id"]}
        try:
            if method == "getProgramAccounts" and request.path == LEAN:
                raise LookupError(-32010, "excluded from account secondary indexes")
            answer["result"] = self._answer(method, params)
        except LookupError as error:
            answer["error"] = {"code": error.args[0], "message": error.args[1]}
        return web.json_response(answer)

    def _answer(self, method: str, params: list[Any]) -> Any:
        accounts = self.tip.accounts
        context = {"slot": self.tip.slot}
        if method == "getMultipleAccounts":
            found = [accounts.get(key(each)) for each in params[0]]
            return {"context": context, "value": [held and _json(held) for held in found]}
        if method == "getTokenLargestAccounts":
            mint = key(params[0])
            if mint not in accounts:
                raise LookupError(-32602, "Invalid param: could not find mint")
            amounts = [
                (int.from_bytes(h.data[64:72], "little"), a)
                for a, h in accounts.items()
                if h.owner == TOKEN_PROGRAM and len(h.data) == 165 and h.data[:32] == mint
            ]
            largest = sorted(amounts, reverse=True)[: self.largest]
            found_raw = [{"address": text(a), "amount": str(amount)} for amount, a in largest]
            return {"context": context, "value": found_raw}
        if method == "getTokenAccountsByOwner":
            wallet, program = key(params[0]), key(params[1]["programId"])
            listed = {
                a: h for a, h in accounts.items() if h.owner == program and h.data[32:64] == wallet
            }
            return {"context": context, "value": _listed(listed)}
        if method == "getProgramAccounts":
            program, filters = key(params[0]), params[1]["filters"]
            listed = {
                a: h
                for a, h in accounts.items()
                if h.owner == program and all(_passes(h.data, each) for each in filters)
            }
            return {"context": context, "value": _listed(listed)}
        if method == "getFirstAvailableBlock":
            return max(self.blocks_lost, default=GENESIS - 1) + 1
        if method == "getBlock":
            bank = next((each for each in self.banks if each.slot == params[0]), None)
            if bank is None:
                raise LookupError(-32007, f"Slot {params[0]} was skipped")
            if bank.slot in self.blocks_lost:
                raise LookupError(-32001, f"Block {bank.slot} cleaned up")
            return {
                "blockhash": f"hash{bank.slot}",
                "parentSlot": bank.parent,
                "blockTime": 1_700_000_000 + bank.slot,
                "transactions": [transaction_to_json(bank.transaction)],
                "rewards": [
                    {"pubkey": text(each), "lamports": 1, "rewardType": "Staking"}
                    for each in (bank.rewarded if params[1]["rewards"] else ())
                ],
            }
        raise LookupError(-32601, "Method not found")

    @asynccontextmanager
    async def serve(self) -> AsyncIterator[dict[str, str]]:
        """Serve both; yields the settings that lead here."""
        server = grpc.aio.server()
        handler = grpc.stream_stream_rpc_method_handler(
            self.subscribe,
            request_deserializer=geyser.SubscribeRequest.FromString,
            response_serializer=SubscribeUpdate.SerializeToString,
        )
        server.add_generic_rpc_handlers(
            (grpc.method_handlers_generic_handler("geyser.Geyser", {"Subscribe": handler}),)
        )
        port = server.add_insecure_port("127.0.0.1:0")
        await server.start()
        app = web.Application()
        app.router.add_post("/", self.rpc)
        app.router.add_post(LEAN, self.rpc)
        runner = web.AppRunner(app)
        await runner.setup()
        rpc_port = free_port()
        await web.TCPSite(runner, "127.0.0.1", rpc_port).start()
        live = asyncio.create_task(self.live())
        try:
            yield {
                "GEYSER_ENDPOINT": f"http://127.0.0.1:{port}",
                "GEYSER_BACKOFF_MAX_S": "0.5",
                "INGEST_TAKEOVER_S": "1",
                "RPC_ENDPOINT": f"http://127.0.0.1:{rpc_port}",
            }
        finally:
            live.cancel()
            await server.stop(None)
            await runner.cleanup()


async def _drain(requests: Any) -> None:
    async for _ in requests:
        pass


def _matches(f: geyser.SubscribeRequestFilterAccounts, address: bytes, held: Held) -> bool:
    if f.account and text(address) not in f.account:
        return False
    if f.owner and text(held.owner) not in f.owner:
        return False
    for each in f.filters:
        if each.HasField("datasize") and len(held.data) != each.datasize:
            return False
        if each.HasField("memcmp"):
            at, wanted = each.memcmp.offset, each.memcmp.bytes
            if held.data[at : at + len(wanted)] != wanted:
                return False
        if each.HasField("lamports") and held.lamports != each.lamports.eq:
            return False
    return True


def _passes(data: bytes, each: dict[str, Any]) -> bool:
    if "dataSize" in each:
        return bool(len(data) == each["dataSize"])
    wanted = base58.decode(each["memcmp"]["bytes"])
    at = each["memcmp"]["offset"]
    return bool(data[at : at + len(wanted)] == wanted)


def _json(held: Held) -> dict[str, Any]:
    return {
        "lamports": held.lamports,
        "owner": text(held.owner),
        "data": [b64encode(held.data).decode(), "base64"],
        "executable": False,
        "rentEpoch": 0,
    }


def _listed(found: dict[bytes, Held]) -> list[dict[str, Any]]:
    return [{"pubkey": text(address), "account": _json(held)} for address, held in found.items()]
