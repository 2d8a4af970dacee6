"""Net worth over time, from the snapshots of `soltape watch`. Nothing is filled in."""

from __future__ import annotations

from typing import Any, Final

from api.accounts.following import Following, FollowState
from api.analysis.answers import NetWorthOverTime, NetWorthPoint, NotTracked
from api.http.encoding import Encoded
from api.http.errors import INVALID_PARAMETER, Problem
from api.http.windows import backwards
from api.stores.caches import SingleFlight
from api.stores.clients import Stores
from api.stores.settled import read_settled
from infra.clickhouse.sql import load
from schemas.account_reading import GROUP
from schemas.amounts import text, usd
from schemas.redis_keys import TRACKED_WALLETS, account_tags
from schemas.solana.addresses import key
from schemas.times import DAY_MS, HOUR_MS

INTERVALS_MS: Final = {"1h": HOUR_MS, "4h": 4 * HOUR_MS, "1d": DAY_MS}
DEFAULT_POINTS: Final = 300
MOST_POINTS: Final = 1_500
RETENTION_DAYS: Final = 400

_POINTS: Final = load(__package__, "networth")
_SINCE: Final = load(__package__, "networth_since")
_REFUSED: Final[dict[FollowState, NotTracked]] = {
    FollowState.NOT_INGESTED: "not_ingested",
    FollowState.LANE_STALLED: "lane_stalled",
    FollowState.KEY_LIMIT: "key_limit",
    FollowState.LIMIT: "limit",
    FollowState.NOT_ASKED: "not_asked",
    FollowState.TOO_MANY_ACCOUNTS: "too_many_accounts",
}


class NetWorthService:
    """Encoded answers, read once for identical requests under way. Every method raises Problem."""

    def __init__(self, stores: Stores, following: Following) -> None:
        self._stores = stores
        self._following = following
        self._reads = SingleFlight()

    async def over_time(
        self, wallet: str, interval: str, from_ms: int | None, to_ms: int | None, holder: str
    ) -> Encoded:
        """Return a wallet's net worth by interval (`answers.NetWorthOverTime`); have it tracked.

        `holder` is the fingerprint of the key, on whose account it is asked for.
        """
        return await self._reads.get(self._read, wallet, interval, from_ms, to_ms, holder)

    async def _read(
        self, wallet: str, interval: str, from_ms: int | None, to_ms: int | None, holder: str
    ) -> NetWorthOverTime:
        standing = await self._following.follow("wallet", key(wallet), holder, 0)
        now = await read_settled(self._stores, GROUP, account_tags())
        [score] = await self._stores.ask([("ZSCORE", TRACKED_WALLETS.make(), key(wallet))])
        length_ms = INTERVALS_MS[interval]
        start_ms, end_ms = _range(length_ms, from_ms, to_ms, now.time_ms)
        asked = {"wallet": wallet, "interval_ms": length_ms, "from_ms": start_ms, "to_ms": end_ms}
        rows = await self._stores.query(_POINTS, asked)
        since = await self._stores.query(_SINCE, {"wallet": wallet})
        return {
            "wallet": wallet,
            "interval": interval,
            "interval_ms": length_ms,
            "from_ms": start_ms,
            "to_ms": end_ms,
            "points": [_point(row) for row in rows],
            "since_ms": since[0]["time_ms"] if since else None,
            "is_tracked": score is not None,
            "not_tracked_reason": None if score is not None else _REFUSED.get(standing, "pending"),
            "retention_days": RETENTION_DAYS,
            "as_of_slot": now.slot,
            "as_of_ms": now.time_ms,
        }


def _range(length_ms: int, from_ms: int | None, to_ms: int | None, now_ms: int) -> tuple[int, int]:
    """Return the whole intervals that a range touches, by default the last ones of the chain."""
    last_ms = now_ms + 1 if to_ms is None else to_ms
    end_ms = -(-last_ms // length_ms) * length_ms
    if from_ms is None:
        return max(0, end_ms - DEFAULT_POINTS * length_ms), end_ms
    if from_ms >= last_ms:
        raise backwards(from_ms, last_ms)
    start_ms = from_ms - from_ms % length_ms
    if (count := (end_ms - start_ms) // length_ms) > MOST_POINTS:
        raise Problem(
            INVALID_PARAMETER,
            f"`from` and `to` must span at most {MOST_POINTS} intervals "
            f"({MOST_POINTS * length_ms} ms), got {count}",
        )
    return start_ms, end_ms


def _point(row: dict[str, Any]) -> NetWorthPoint:
    worth, assets, debts = (row[f"{name}_usd_micros"] for name in ("net_worth", "assets", "debts"))
    return {
        "start_ms": row["start_ms"],
        "time_ms": row["time_ms"],
        "slot": row["slot"],
        "net_worth_usd": usd(worth),
        "net_worth_usd_micros": text(worth),
        "assets_usd": usd(assets),
        "assets_usd_micros": text(assets),
        "debts_usd": usd(debts),
        "debts_usd_micros": text(debts),
        "is_complete": bool(row["is_complete"]),
        "reasons": row["reasons"],
        "unpriced": row["unpriced"],
        "pending_routes": row["pending_routes"],
    }
