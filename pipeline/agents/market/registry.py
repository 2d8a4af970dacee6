"""What tokens are whose creation was not seen: asked of RPC, beside the stream and never in it.

Answers go to Redis (`METADATA`) and ClickHouse (`token_metadata`), not into the deterministic
state: replaying the tape gives the same bytes with and without RPC. Who reads puts what the
chain's events say first. RPC is asked for a mint once, and again when it moves after some months;
for one that has no account after a day, for one that it refuses after some minutes. Redis has an
answer for as long as the mint's market, which takes it along when it is put away and brings it
back (`cold`).
"""

from __future__ import annotations

import asyncio
import time
from base64 import b64decode
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

import orjson
import structlog
from cachetools import FIFOCache, TTLCache
from prometheus_client import Counter, Gauge
from redis.asyncio import Redis
from redis.exceptions import RedisError

from infra.backoff import Backoff
from infra.settings import Settings
from infra.solana_rpc import client as rpc
from pipeline.sinks.clickhouse import ClickHouseSink
from schemas.redis_keys import MARKET, METADATA, mint_tag
from schemas.rows import TOKEN_METADATA
from schemas.solana.addresses import key, text
from schemas.solana.token_accounts import (
    BadAccount,
    Metadata,
    metadata_address,
    read_metadata,
    read_mint,
)
from schemas.times import DAY_S

log = structlog.get_logger(__name__)

ASKED: Final = Counter(
    "soltape_registry_mints_total",
    "Mints asked of RPC, by outcome: found, absent, bad_account, refused, queue_full, retry.",
    ["outcome"],
)
WAITING: Final = Gauge("soltape_registry_waiting_mints", "Mints that wait to be asked of RPC.")

MINTS_A_CALL: Final = 50  # two accounts each: getMultipleAccounts takes a hundred
CALLS_PER_S: Final = 5.0
MAX_WAITING: Final = 10_000
MAX_KNOWN: Final = 20_000
STAYS_TRUE_S: Final = {"absent": DAY_S, "found": 90 * DAY_S}
REFUSED_FOR_S: Final = 300.0
BACKOFF_S: Final = (0.5, 60.0)
MAX_TEXT: Final = 512  # of a name, symbol or URI; longer ones are cut

# An answer that comes when its market has left Redis, or before that comes, must not stay there.
_KEEP: Final = """
redis.call('SET', KEYS[1], ARGV[1])
if redis.call('EXISTS', KEYS[2]) == 0 then redis.call('EXPIRE', KEYS[1], ARGV[2]) end
"""


@dataclass(frozen=True, slots=True)
class Known:
    """What RPC said of a mint."""

    name: str
    symbol: str
    uri: str
    decimals: int | None
    supply_raw: int | None
    token_program: str
    status: str  # found, absent
    asked_ms: int


class Registry:
    """Asks for tokens. `ask` costs nothing; `run` does the work."""

    def __init__(self, settings: Settings, redis: Redis, clickhouse: ClickHouseSink) -> None:
        self._endpoint = settings.rpc_endpoint
        self._redis = redis
        self._keep_one = redis.register_script(_KEEP)
        self._clickhouse = clickhouse
        self._waiting: dict[str, None] = {}
        self._known: FIFOCache[str, Known] = FIFOCache(MAX_KNOWN)
        self._refused: TTLCache[str, None] = TTLCache(MAX_KNOWN, REFUSED_FOR_S)
        self._asked = asyncio.Event()
        self._pace = rpc.Pace(CALLS_PER_S)
        self._reported = False
        self._task: asyncio.Task[None] | None = None

    def start(self, stop: Callable[[str], None]) -> None:
        """Begin to work, if that has not been done; `stop` ends the process where that fails."""
        if self._task is None:
            self._task = asyncio.create_task(self.run())
            self._task.add_done_callback(lambda task: _ended(task, stop))

    def close(self) -> None:
        """Stop working."""
        if self._task is not None:
            self._task.cancel()
            self._task = None

    def ask(self, mint: str) -> None:
        """Have a mint looked up, if it has not been yet; a full queue lets it pass.

        A caller may repeat it at each trade: RPC is asked as seldom as the module says.
        """
        if self._endpoint is None:
            if not self._reported:
                self._reported = True
                log.warning(
                    "no RPC_ENDPOINT: names of tokens whose creation was not seen stay unknown"
                )
            return
        known = self._known.get(mint)
        if mint in self._waiting or (known is not None and not _is_stale(known)):
            return
        if mint in self._refused:
            return
        if len(self._waiting) >= MAX_WAITING:
            ASKED.labels("queue_full").inc()
            return
        self._waiting[mint] = None
        WAITING.set(len(self._waiting))
        self._asked.set()

    def known(self, mint: str) -> Known | None:
        """Return what is known of a mint, if that is at hand."""
        return self._known.get(mint)

    def woken(self, mint: str, known: Known | None) -> None:
        """Take what ClickHouse has of a mint whose market comes back; without, ask of it anew."""
        if known is None:
            self._known.pop(mint, None)
        else:
            self._known[mint] = known

    async def run(self) -> None:
        """Look up what is asked for, until cancelled."""
        if self._endpoint is None:
            return
        async with rpc.session() as http:
            while True:
                await self._asked.wait()
                mints = list(self._waiting)[:MINTS_A_CALL]
                await self._retry(http, mints)
                for mint in mints:
                    self._waiting.pop(mint, None)
                WAITING.set(len(self._waiting))
                if not self._waiting:
                    self._asked.clear()

    async def _retry(self, http: Any, mints: list[str]) -> None:
        backoff = Backoff(*BACKOFF_S)
        while True:
            try:
                await self._look_up(http, mints)
                return
            except (rpc.NotNow, RedisError) as failure:
                ASKED.labels("retry").inc()
                log.warning("token metadata: will ask again", detail=str(failure))
            except rpc.RpcRefused as refusal:
                ASKED.labels("refused").inc(len(mints))
                log.warning("token metadata: RPC refuses", detail=str(refusal))
                return
            await backoff.wait()

    async def _look_up(self, http: Any, mints: list[str]) -> None:
        missing = await self._from_store(mints)
        if not missing:
            return
        await self._pace.wait()
        keys = [key(mint) for mint in missing]
        addresses = [*missing, *(text(metadata_address(mint)) for mint in keys)]
        options = {"encoding": "base64", "commitment": "confirmed"}
        assert self._endpoint is not None
        try:
            answer = await rpc.call(
                http, self._endpoint, "getMultipleAccounts", [addresses, options]
            )
        except rpc.RpcRefused:
            self._refused.update(dict.fromkeys(missing))
            raise
        accounts = _accounts(answer, len(addresses))
        now_ms = time.time_ns() // 1_000_000
        found = {
            mint: self._read(mint, accounts[at], accounts[at + len(missing)], now_ms)
            for at, mint in enumerate(missing)
        }
        await self.keep(found)

    async def _from_store(self, mints: Sequence[str]) -> list[str]:
        """Take what was asked for in an earlier life; return what was not, or not found."""
        pipe = self._redis.pipeline(transaction=False)
        for mint in mints:
            pipe.get(METADATA.make(tag=mint_tag(mint), mint=mint))
        missing = []
        for mint, value in zip(mints, await pipe.execute(), strict=True):
            try:
                stored = Known(**orjson.loads(value)) if value else None
            except (TypeError, ValueError):  # no record: RPC is asked again
                stored = None
            if stored and not _is_stale(stored):
                self._known[mint] = stored
            else:
                missing.append(mint)
        return missing

    def _read(
        self,
        mint: str,
        account: tuple[bytes, bytes] | None,
        metaplex: tuple[bytes, bytes] | None,
        now_ms: int,
    ) -> Known:
        decimals = supply_raw = metadata = None
        program = ""
        try:
            if account is not None:
                owner, data = account
                read = read_mint(owner, data)
                decimals, supply_raw, metadata = read.decimals, read.supply_raw, read.metadata
                program = text(owner)
            if metadata is None and metaplex is not None:
                metadata = read_metadata(key(mint), *metaplex)
        except BadAccount as error:
            ASKED.labels("bad_account").inc()
            log.warning("token account not understood", mint=mint, reason=str(error))
        metadata = metadata or Metadata("", "", "")
        status = "found" if decimals is not None else "absent"
        ASKED.labels(status).inc()
        return Known(
            metadata.name[:MAX_TEXT],
            metadata.symbol[:MAX_TEXT],
            metadata.uri[:MAX_TEXT],
            decimals,
            supply_raw,
            program,
            status,
            now_ms,
        )

    async def keep(self, found: dict[str, Known]) -> None:
        """Write what RPC said of mints to the stores; raises RedisError."""
        pipe = self._redis.pipeline(transaction=False)
        rows = []
        for mint, known in found.items():
            keys = [key.make(tag=mint_tag(mint), mint=mint) for key in (METADATA, MARKET)]
            values: list[Any] = [packed_metadata(known), METADATA.ttl_s]
            await self._keep_one(keys, values, client=pipe)
            if known.status == "found":
                rows.append(
                    (
                        mint,
                        known.name,
                        known.symbol,
                        known.uri,
                        known.decimals,
                        known.supply_raw,
                        known.token_program,
                        known.asked_ms,
                    )
                )
        self._known.update(found)
        # First the rows: a mint that Redis has is not asked for again.
        if rows:
            token = f"registry-{rows[0][0]}-{rows[0][-1]}"
            await self._clickhouse.insert(TOKEN_METADATA.name, rows, token)
        await pipe.execute()


def packed_metadata(known: Known) -> bytes:
    """Return what RPC said as METADATA has it."""
    return orjson.dumps(asdict(known))


def _is_stale(known: Known) -> bool:
    """Return whether to ask for a mint again."""
    return known.asked_ms < (time.time() - STAYS_TRUE_S[known.status]) * 1000


def _ended(task: asyncio.Task[None], stop: Callable[[str], None]) -> None:
    if not task.cancelled() and (error := task.exception()):
        stop(f"token registry: {type(error).__name__}: {error}")


def _accounts(answer: Any, count: int) -> list[tuple[bytes, bytes] | None]:
    """Return (owner, data) of each account of an answer; raises NotNow for one of another form."""
    try:
        values = answer["value"]
        if len(values) != count:
            raise ValueError(f"{len(values)} accounts for {count} addresses")
        return [
            None if value is None else (key(value["owner"]), b64decode(value["data"][0]))
            for value in values
        ]
    except (KeyError, TypeError, ValueError, IndexError) as error:
        raise rpc.NotNow(f"getMultipleAccounts: the answer cannot be read: {error!r}") from None
