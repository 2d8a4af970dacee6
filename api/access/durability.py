"""What becomes of the keys when their Redis stops: what it says of itself, in words."""

from __future__ import annotations

from typing import Final

from redis.exceptions import ResponseError

from api.access.script import Asks
from infra.redis.asks import Pipelined

WAIT_MS: Final = 2_000  # for the disk
_UNSURE: Final = "it does not say whether it keeps anything on disk"


async def doubts(redis: Pipelined) -> list[str]:
    """Return why keys that were written just now may be lost; nothing: they are on disk.

    To be asked on the connections that wrote. Raises RedisError where Redis does not answer.
    """
    found = [doubt for server in await redis.servers() for doubt in await _doubts(server)]
    return list(dict.fromkeys(found))


async def _doubts(redis: Asks) -> list[str]:
    try:
        [persistence] = await redis.ask([("INFO", "persistence")])
        [memory] = await redis.ask([("INFO", "memory")])
    except ResponseError:  # not allowed to us
        return [_UNSURE]
    kept, room = _fields(persistence), _fields(memory)
    found = []
    if kept.get("aof_enabled") == "1":
        if kept.get("aof_last_write_status", "ok") != "ok":
            found.append("it cannot write its append-only file")
        elif not await _on_disk(redis):
            found.append(f"its append-only file was not on disk within {WAIT_MS // 1000} s")
    elif kept.get("aof_enabled") == "0":
        found.append(await _without_log(redis))
    else:
        found.append(_UNSURE)
    if room.get("maxmemory", "0") != "0" and room.get("maxmemory_policy", "").startswith("allkeys"):
        found.append(
            f"when it is full it forgets keys as it likes (maxmemory-policy "
            f"{room['maxmemory_policy']}, noeviction is right)"
        )
    return found


async def _on_disk(redis: Asks) -> bool:
    try:
        [(here, _)] = await redis.ask([("WAITAOF", 1, 0, WAIT_MS)])
    except ResponseError:  # older than Redis 7.2: the file is there, when it is synced is unknown
        return True
    return bool(here)


async def _without_log(redis: Asks) -> str:
    try:
        [answer] = await redis.ask([("CONFIG", "GET", "save")])
    except ResponseError:
        return "it keeps no append-only file"
    saves = answer.get(b"save", b"").decode()
    if saves:
        return f"it keeps snapshots only (save {saves}): what came after the last one is lost"
    return "it keeps nothing on disk: all keys are lost when it stops"


def _fields(info: bytes | str) -> dict[str, str]:
    text = info.decode() if isinstance(info, bytes) else info
    pairs = (line.partition(":") for line in text.splitlines())
    return {name: value for name, _, value in pairs}
