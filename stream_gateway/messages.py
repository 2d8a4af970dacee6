"""Messages from and to clients, as JSON: parsed into values, or refused in words.

A client sends one object a text frame. A field that is null counts as left out; one that is not
known is refused, as a typo must not widen a subscription unseen. Whatever is refused changes
nothing. `PROTOCOL.md` describes all of it for people.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

import orjson

from schemas import channels
from schemas.plans import Plan
from schemas.solana.addresses import NoAddress, check
from schemas.vocabulary import Slugs, is_slug
from stream_gateway.frames import text_frame
from stream_gateway.subscriptions import Filter

MAX_WALLETS: Final = 100
MAX_MINTS: Final = 100
MAX_SLUGS: Final = 100
MAX_REQUEST_ID: Final = 64
_SHOWN: Final = 64  # characters of a value that is repeated in an answer
_MAX_ID: Final = 64  # characters
_MAX_NUMBER: Final = 2**63 - 1
_AN_ID: Final = "1763730000123-0-4"

TRENDING: Final = channels.TRENDING.channel
POSITIONS: Final = channels.POSITIONS.channel
MAX_HEALTH_BELOW: Final = 100
MAIN_CHANNELS: Final = tuple(each.channel for each in channels.ALL if each != channels.TRENDING)
ALL_PLATFORMS: Final = "*"
_ACTIONS: Final = ("subscribe", "unsubscribe", "ping")
_COMMON: Final = ("action", "channel", "request_id")
FILTERS: Final[Mapping[str, tuple[str, ...]]] = {
    "swaps": ("dex", "token", "wallets", "since"),
    "creations": ("platforms", "since"),
    "prices": ("mints", "since", "snapshot"),
    "status": ("since",),
    POSITIONS: ("wallets", "health_below", "since"),
    TRENDING: ("dex", "since"),
}

Endpoint = Literal["main", "trending"]
Lag = Literal["slow", "budget"]
"""Why events were dropped: the client reads too slowly, or its key has had its bytes."""


class Refused(Exception):
    """A message is not accepted; the code is stable, the message says what is."""

    def __init__(self, code: str, message: str, accepted: Sequence[str] | None = None) -> None:
        super().__init__(f"{code}: {message}")
        self.code = code
        self.message = message
        self.accepted = accepted
        self.channel: str | None = None
        self.request_id: str | None = None


@dataclass(frozen=True, slots=True)
class Subscribe:
    """Events of a channel from now on, or from the event after `since`."""

    filter: Filter
    since: str | None
    snapshot: bool
    request_id: str | None


@dataclass(frozen=True, slots=True)
class Unsubscribe:
    """No more events of a channel."""

    channel: str
    request_id: str | None


@dataclass(frozen=True, slots=True)
class Ping:
    """Answer, please."""

    request_id: str | None


Message = Subscribe | Unsubscribe | Ping


def parse(payload: bytes, endpoint: Endpoint, plan: Plan, slugs: Slugs | None) -> Message:
    """Return what a client says; raises Refused.

    `slugs` are the venues and platforms there are; None while that is not known: then every slug
    that is made like one passes.
    """
    try:
        value = orjson.loads(payload)
    except orjson.JSONDecodeError as error:
        raise Refused("bad_json", f"a frame must be one JSON object: {error}") from None
    if not isinstance(value, dict):
        raise Refused("not_an_object", f"a frame must be a JSON object, got {_shown(value)}")
    fields = {name: value for name, value in value.items() if value is not None}
    request_id = channel = None
    try:
        request_id = _request_id(fields.get("request_id"))
        action = _action(fields)
        if action == "ping":
            _check_fields(fields, ("action", "request_id"))
            return Ping(request_id)
        channel = _channel(fields.get("channel"), endpoint)
        if action == "unsubscribe":
            _check_fields(fields, _COMMON)
            return Unsubscribe(channel, request_id)
        _check_fields(fields, (*_COMMON, *FILTERS[channel]))
        return _subscribe(fields, channel, request_id, plan, slugs)
    except Refused as refused:
        refused.channel = channel
        refused.request_id = request_id
        raise


def _request_id(value: Any) -> str | None:
    if value is None or (isinstance(value, str) and len(value) <= MAX_REQUEST_ID):
        return value
    accepted = f"text of at most {MAX_REQUEST_ID} characters"
    raise Refused("wrong_type", f"`request_id` must be {accepted}, got {_shown(value)}")


def _action(fields: Mapping[str, Any]) -> str:
    action = fields.get("action")
    if not isinstance(action, str) or action not in _ACTIONS:
        raise _none_of("unknown_action", "action", action, _ACTIONS)
    return action


def _channel(value: Any, endpoint: Endpoint) -> str:
    if endpoint == "trending":
        if value not in (None, TRENDING):
            raise _none_of("unknown_channel", "channel", value, (TRENDING,))
        return TRENDING
    if value == TRENDING:
        raise Refused(
            "unknown_channel", f"'{TRENDING}' is at the path /ws/trending-pairs", MAIN_CHANNELS
        )
    if not isinstance(value, str) or value not in MAIN_CHANNELS:
        raise _none_of("unknown_channel", "channel", value, MAIN_CHANNELS)
    return value


def _check_fields(fields: Mapping[str, Any], accepted: Sequence[str]) -> None:
    for name in fields:
        if name not in accepted:
            known = ", ".join(f"`{each}`" for each in accepted)
            message = f"{_shown(name)} is not a field of this message; its fields are {known}"
            raise Refused("unknown_field", message, accepted)


def _none_of(code: str, name: str, value: Any, accepted: Sequence[str]) -> Refused:
    """Return the refusal of a field that must be one of some words."""
    words = "one of " * (len(accepted) > 1) + ", ".join(f"'{each}'" for each in accepted)
    if value is None:
        return Refused(code, f"`{name}` is required: {words}", accepted)
    return Refused(code, f"`{name}` must be {words}, got {_shown(value)}", accepted)


def _subscribe(
    fields: Mapping[str, Any],
    channel: str,
    request_id: str | None,
    plan: Plan,
    slugs: Slugs | None,
) -> Subscribe:
    since = _since(fields.get("since"))
    snapshot = False
    match channel:
        case "swaps":
            chosen = Filter(
                channel,
                dexes=_slugs(
                    fields, "dex", "unknown_dex", slugs.dexes if slugs else None, one=True
                ),
                tokens=_token(fields.get("token")),
                wallets=_wallets(fields, plan),
            )
        case "creations":
            chosen = Filter(
                channel,
                platforms=_slugs(
                    fields, "platforms", "unknown_platform", slugs.platforms if slugs else None
                ),
            )
        case "prices":
            chosen = Filter(channel, mints=_addresses(fields, "mints", "too_many_mints", MAX_MINTS))
            snapshot = _flag(fields, "snapshot")
            if snapshot and not chosen.mints:
                raise Refused(
                    "snapshot_needs_mints", "`snapshot` needs `mints`: the tokens it is of"
                )
            if snapshot and since is not None:
                raise Refused("bad_since", "send `snapshot` or `since`, not both")
        case "status":
            chosen = Filter(channel)
        case channels.POSITIONS.channel:
            chosen = _positions(fields, plan)
        case _:
            chosen = _trending(fields, slugs)
    return Subscribe(chosen, since, snapshot, request_id)


def _trending(fields: Mapping[str, Any], slugs: Slugs | None) -> Filter:
    accepted = (ALL_PLATFORMS, *(slugs.platforms if slugs else ()))
    if "dex" not in fields:
        raise Refused("wrong_type", '`dex` is required: "*" or an array of platforms', accepted)
    if fields["dex"] == ALL_PLATFORMS:
        return Filter(TRENDING)
    platforms = slugs.platforms if slugs else None
    return Filter(TRENDING, dexes=_slugs(fields, "dex", "unknown_platform", platforms))


def _positions(fields: Mapping[str, Any], plan: Plan) -> Filter:
    if "wallets" not in fields:
        raise Refused("wrong_type", "`wallets` is required: the wallets whose positions to watch")
    wallets = _wallets(fields, plan)
    below = fields.get("health_below")
    if below is None:
        return Filter(POSITIONS, wallets=wallets)
    is_number = isinstance(below, int | float) and not isinstance(below, bool)
    if not is_number or not 0 < below <= MAX_HEALTH_BELOW:
        raise Refused(
            "wrong_type",
            f"`health_below` must be a number above 0, at most {MAX_HEALTH_BELOW}, "
            f"got {_shown(below)}",
        )
    return Filter(POSITIONS, wallets=wallets, health_below=float(below))


def _since(value: Any) -> str | None:
    if value is None:
        return None
    message = f"`since` must be the `id` of an event, such as {_AN_ID}, got {_shown(value)}"
    if not isinstance(value, str):
        raise Refused("wrong_type", message)
    try:
        if len(value) > _MAX_ID:
            raise ValueError
        channels.parse_event_id(value)
        if any(int(part) > _MAX_NUMBER for part in value.split("-")):
            raise ValueError
    except ValueError:
        raise Refused("bad_since", message) from None
    return value


def _slugs(
    fields: Mapping[str, Any],
    name: str,
    code: str,
    known: Collection[str] | None,
    *,
    one: bool = False,
) -> frozenset[str]:
    """Return the slugs of a field: an array of them or, where one may stand alone, a text."""
    value = fields.get(name)
    if one and isinstance(value, str):
        value = [value]
    slugs = _texts(value, name, MAX_SLUGS, "wrong_type")
    accepted = sorted(known) if known else None
    for slug in slugs:
        if not (slug in known if known else is_slug(slug)):
            raise Refused(code, f"`{name}` has the unknown value {_shown(slug)}", accepted)
    return frozenset(slugs)


def _token(value: Any) -> frozenset[str]:
    if value is None:
        return frozenset()
    if not isinstance(value, str):
        raise Refused("wrong_type", f"`token` must be the address of one mint, got {_shown(value)}")
    return frozenset((_address(value, "token"),))


def _wallets(fields: Mapping[str, Any], plan: Plan) -> frozenset[str]:
    if "wallets" in fields and not plan.wallet_filters:
        raise Refused(
            "not_in_plan",
            f"`wallets` needs the plan business or enterprise; this key has the plan {plan.name}",
        )
    return _addresses(fields, "wallets", "too_many_wallets", min(plan.wallet_filters, MAX_WALLETS))


def _addresses(fields: Mapping[str, Any], name: str, code: str, most: int) -> frozenset[str]:
    texts = _texts(fields.get(name), name, most, code)
    return frozenset(_address(text, f"{name}[{place}]") for place, text in enumerate(texts))


def _address(text: str, name: str) -> str:
    try:
        return check(text)
    except NoAddress as reason:
        raise Refused("invalid_address", f"`{name}` {reason}, got {_shown(text)}") from None


def _texts(value: Any, name: str, most: int, code: str) -> list[str]:
    """Return a field that is an array of texts; nothing where it was left out."""
    if value is None:
        return []
    if not isinstance(value, list) or not all(isinstance(each, str) for each in value):
        raise Refused("wrong_type", f"`{name}` must be an array of texts, got {_shown(value)}")
    if not value:
        raise Refused("wrong_type", f"`{name}` must not be empty; leave it out for all")
    if len(value) > most:
        raise Refused(code, f"`{name}` must have at most {most} items, got {len(value)}")
    return value


def _flag(fields: Mapping[str, Any], name: str) -> bool:
    value = fields.get(name, False)
    if not isinstance(value, bool):
        raise Refused("wrong_type", f"`{name}` must be true or false, got {_shown(value)}")
    return value


def _shown(value: Any) -> str:
    """Return a value as an error repeats it."""
    match value:
        case str():
            return repr(value if len(value) <= _SHOWN else f"{value[:_SHOWN]}...")
        case list():
            return f"an array of {len(value)}"
        case dict():
            return "an object"
        case _:
            return orjson.dumps(value).decode()


# Messages to clients: whole frames.


def subscribed(request: Subscribe, *, replaces: bool) -> bytes:
    """Return the answer to a subscription, with the filter that is in effect."""
    return _frame(
        {
            "type": "subscribed",
            "channel": request.filter.channel,
            "filter": request.filter.as_fields(),
            "replaces": replaces,
        },
        since=request.since,
        request_id=request.request_id,
    )


def unsubscribed(request: Unsubscribe) -> bytes:
    """Return the answer to the end of a subscription."""
    return _frame(
        {"type": "unsubscribed", "channel": request.channel}, request_id=request.request_id
    )


def pong(request: Ping) -> bytes:
    """Return the answer to a ping."""
    return _frame(
        {"type": "pong", "timestamp": time.time_ns() // 1_000_000}, request_id=request.request_id
    )


def error(refused: Refused) -> bytes:
    """Return why a message is not accepted."""
    return _frame(
        {"type": "error", "code": refused.code, "message": refused.message},
        accepted=refused.accepted,
        channel=refused.channel,
        request_id=refused.request_id,
    )


def gap(channel: str, reason: str, after: str | None, before: str | None, message: str) -> bytes:
    """Return that events between two ids are or may be lost; None: that end is not known."""
    return _frame(
        {
            "type": "gap",
            "channel": channel,
            "reason": reason,
            "after": after,
            "before": before,
            "message": message,
        }
    )


def lagging(dropped: int, reason: Lag) -> bytes:
    """Return how many events were dropped, and why."""
    return _frame({"type": "lagging", "channel": None, "dropped": dropped, "reason": reason})


def notice(code: str, message: str) -> bytes:
    """Return what everybody is to know of the source of events."""
    return _frame({"type": "notice", "code": code, "message": message})


def _frame(message: dict[str, Any], **optional: Any) -> bytes:
    message |= {name: value for name, value in optional.items() if value is not None}
    return text_frame(orjson.dumps(message))
