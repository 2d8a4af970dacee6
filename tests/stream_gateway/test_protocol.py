"""PROTOCOL.md says what the code does: its tables, codes, numbers and the frames it shows."""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, get_args

import orjson
import pytest

import stream_gateway
from api.access import failures, refusals
from schemas import channels
from schemas.plans import PLANS
from schemas.proto import tape_pb2
from schemas.redis_keys import CONNECTION_LEASE_S
from stream_gateway import (
    admission,
    batches,
    connection,
    messages,
    quiet,
    request,
    snapshots,
)
from stream_gateway.limits import Limits
from stream_gateway.tracking import Watched

FOLDER = Path(stream_gateway.__file__).parent
TEXT = (FOLDER / "PROTOCOL.md").read_text()
FAILURES = Path(failures.__file__)  # raises problems that handshakes answer
LIMITS = Limits()


def section(heading: str) -> str:
    """The text under a heading, up to the next one of its level or a higher one."""
    level = heading.split(" ")[0]
    begin = TEXT.index(f"\n{heading}\n") + len(heading) + 2
    end = re.compile(rf"^#{{1,{len(level)}}} ", re.MULTILINE).search(TEXT, begin)
    return TEXT[begin : end.start() if end else len(TEXT)]


def tables(text: str) -> list[list[list[str]]]:
    """The tables of a text: rows of cells, without their heads."""
    found = re.findall(r"^\|.*\n\|[-|]+\n((?:\|.*\n)+)", text, re.MULTILINE)
    return [
        [
            [cell.strip().strip("`") for cell in row.strip("|").split("|")]
            for row in rows.split("\n")
        ]
        for rows in (table.strip() for table in found)
    ]


def column(text: str, of: int = 0, table: int = 0) -> list[str]:
    return [row[of] for row in tables(text)[table]]


def shown() -> Iterator[dict[str, Any]]:
    """The messages that clients get, of all examples."""
    for line in TEXT.splitlines():
        if line.startswith("< "):
            yield orjson.loads(line[2:])


@cache
def parsed(module: str) -> ast.Module:
    return ast.parse((FOLDER / f"{module}.py").read_text())


def raised_codes(name: str, place: int, *modules: str) -> set[str]:
    """The texts that calls of a function name as an argument, be it through another function."""
    found: set[str] = set()
    through: set[tuple[str, int]] = set()
    for module in modules:
        functions = [n for n in ast.walk(parsed(module)) if isinstance(n, ast.FunctionDef)]
        inside = {id(n): f for f in functions for n in ast.walk(f)}
        for call in ast.walk(parsed(module)):
            if not isinstance(call, ast.Call) or getattr(call.func, "id", None) != name:
                continue
            given = call.args[place]
            if isinstance(given, ast.Constant):
                found.add(str(given.value))
            elif isinstance(given, ast.Name) and id(call) in inside:
                function = inside[id(call)]
                parameters = [each.arg for each in function.args.args]
                if given.id in parameters:
                    through.add((function.name, parameters.index(given.id)))
    for function_name, at in through:
        found |= raised_codes(function_name, at, *modules)
    return found


def problems_of(*files: Path) -> Iterator[refusals.Problem]:
    """The problems of `api.access.refusals` that files make."""
    names = {
        call.func.attr
        for file in files
        for call in ast.walk(ast.parse(file.read_text()))
        if isinstance(call, ast.Call)
        and isinstance(call.func, ast.Attribute)
        and getattr(call.func.value, "id", None) == "refusals"
    }
    for name in sorted(names):
        make = getattr(refusals, name)
        given = inspect.signature(make).parameters.values()
        yield make(*(1 if each.annotation == "int" else "" for each in given))


def test_every_error_code_is_documented_and_no_other() -> None:
    codes = raised_codes("Refused", 0, "messages", "connection", "session", "tracking")
    assert len(codes) > 10
    assert sorted(column(section("## Errors"))) == sorted(codes)


def test_every_refusal_of_a_handshake_is_documented_and_no_other() -> None:
    codes = raised_codes("Refusal", 1, "request", "handshake", "admission")
    codes.add(admission.TOO_MANY_CONNECTIONS)
    problems = [*problems_of(FOLDER / "admission.py", FOLDER / "server.py", FAILURES)]
    codes |= {problem.kind.code for problem in problems}
    table = tables(section("## Connect"))[2]
    assert sorted(row[1] for row in table) == sorted(codes)
    statuses = {row[1]: int(row[0]) for row in table}
    for problem in problems:
        assert statuses[problem.kind.code] == problem.kind.status
    made = (
        request.malformed(),
        request.too_large(),
        request.too_late(1),
        request.full(),
        request.starting(),
        request.stopping(),
    )
    for refusal in made:
        assert statuses[refusal.code] == refusal.status


def test_close_codes() -> None:
    codes = {
        value
        for name, value in vars(connection).items()
        if name.isupper() and not name.startswith("_") and isinstance(value, int)
    }
    assert [int(code) for code in column(section("## Slow clients, silence, the end"), 0, 1)] == (
        sorted(codes)
    )


def test_paths_plans_and_numbers() -> None:
    paths, plans, _ = tables(section("## Connect"))
    assert {row[0].partition("?")[0] for row in paths} == set(request.ENDPOINTS)
    assert re.findall(r"`([a-z-]+)`", f"`{paths[0][1]}`") == list(messages.MAIN_CHANNELS)
    assert paths[1][1] == messages.TRENDING
    for (name, connections, wallets, live, replayed), plan in zip(
        plans, PLANS.values(), strict=True
    ):
        assert name == plan.name
        assert connections == ("agreed" if plan.connections is None else str(plan.connections))
        for documented, most in (
            (live, plan.live_mib_a_minute),
            (replayed, plan.replay_mib_a_minute),
        ):
            assert documented == str(most)
        assert wallets == (str(plan.wallet_filters) if plan.wallet_filters else "none")
    assert f"counts for {CONNECTION_LEASE_S} s more" in TEXT
    assert f"within {LIMITS.handshake_s:g} s" in section("## Connect")
    assert f"`{request.LIVE}`" in TEXT
    assert f"more than {LIMITS.head_bytes // 1024} KiB or {LIMITS.head_fields} fields" in TEXT
    assert column(section("## Slow clients, silence, the end"), 1) == [
        f"{LIMITS.message_bytes // 1024} KiB",
        f"{LIMITS.frames_a_second:g} a second, {LIMITS.frames_at_once:g} at once",
        f"{LIMITS.queue_bytes >> 20} MiB",
        f"{LIMITS.slow_s:g} s",
        f"{LIMITS.lags_a_minute}",
        f"{LIMITS.ping_s:g} s",
        f"{LIMITS.idle_s:g} s",
    ]
    assert f"at most {snapshots.MAX_TOKENS} of them" in TEXT
    assert f"at most {messages.MAX_REQUEST_ID} characters" in TEXT
    subscribing = section("## Subscribe")
    assert f"up to {messages.MAX_WALLETS} wallets" in subscribing
    assert f"up to {messages.MAX_MINTS} mints" in subscribing
    assert f"above 0, at most {messages.MAX_HEALTH_BELOW}:" in subscribing


def test_filters() -> None:
    documented = {(channel, name) for channel, name, _ in tables(section("## Subscribe"))[0]}
    beside = {"since", "snapshot"}
    assert documented == {
        (channel, name)
        for channel, names in messages.FILTERS.items()
        for name in names
        if name not in beside
    }


def test_gaps_and_notices() -> None:
    assert set(column(section("## Resume"))) == set(get_args(batches.Reason))
    codes = column(section("## Notices"))
    others = {quiet.QUIET, quiet.BACK, *Watched}
    assert others <= set(codes)
    source = (FOLDER / "source.py").read_text()
    assert all(f'"{code}"' in source for code in set(codes) - others)


DATA = {
    "swap": channels.swap_event(tape_pb2.Swap(mint="m")),
    "creation": channels.creation_event(tape_pb2.Creation()),
    "price": channels.price_event(tape_pb2.PriceUpdate()),
    "status": channels.status_event(tape_pb2.SlotStatus()),
    "slot_gap": channels.slot_gap_event(tape_pb2.SlotGap()),
    "trending": channels.trending_event(dict.fromkeys(channels.TRENDING_FIELDS)),
    "position_alert": channels.position_event(dict.fromkeys(channels.POSITION_ALERT_FIELDS)),
    "trending_removed": channels.trending_removed_event("m", "pump-fun"),
}
TABLES = {
    "swap": ("### `swap`", 0),
    "creation": ("### `creation`", 0),
    "price": ("### `price`", 0),
    "status": ("### `status`", 0),
    "slot_gap": ("### `status`", 1),
    "trending": ("### `trending`", 0),
    "trending_removed": ("### `trending`", 1),
    "position_alert": ("### `position_alert`", 0),
}


@pytest.mark.parametrize("kind", DATA)
def test_fields_of_events(kind: str) -> None:
    frame = orjson.loads(DATA[kind].frame)
    assert frame["type"] == kind
    heading, table = TABLES[kind]
    assert column(section(heading), 0, table) == list(frame["data"])


WORDS = {"text": str, "integer": int, "number": int | float, "object": dict}


def test_types_of_events() -> None:
    exact = ("reserve_raw", "pool_fee_raw", "sol_value_lamports", "usd_value_micros")
    whole = tape_pb2.Swap(**dict.fromkeys(exact, 2**63))
    for kind, event in {**DATA, "swap": channels.swap_event(whole)}.items():
        data = orjson.loads(event.frame)["data"]
        heading, table = TABLES[kind]
        for name, words in (row[:2] for row in tables(section(heading))[table]):
            if data[name] is not None:
                assert isinstance(data[name], WORDS[words.split(" ")[0]]), (kind, name)


def test_null_is_documented_where_it_may_be() -> None:
    for kind in ("swap", "creation", "price", "status"):
        data = orjson.loads(DATA[kind].frame)["data"]
        heading, table = TABLES[kind]
        types = dict(row[:2] for row in tables(section(heading))[table])
        for name, value in data.items():
            if value is None:
                assert types[name].endswith("or null"), name
            elif isinstance(value, str):
                assert types[name] == "text" or types[name] == "text or null", name


def test_frames_that_are_shown_have_the_fields_of_real_ones() -> None:
    seen = set()
    for frame in shown():
        kind = frame["type"]
        seen.add(kind)
        if kind in DATA:
            real = orjson.loads(DATA[kind].frame)
            assert list(frame) == [*real, "id"]
            assert frame["channel"] == real["channel"]
            assert list(frame["data"]) == list(real["data"])
            channels.parse_event_id(frame["id"])
        elif kind == "snapshot":
            assert list(frame) == ["type", "channel", "data", "as_of_id"]
            channels.parse_event_id(frame["as_of_id"])
    assert seen == {
        *("subscribed", "unsubscribed", "pong", "error", "gap", "lagging", "notice", "snapshot"),
        *("price", "status", "trending_removed", "position_alert"),
    }


def test_what_is_shown_of_gaps_lag_and_notices_is_what_is_sent() -> None:
    for frame in shown():
        line = orjson.dumps(frame)
        match frame["type"]:
            case "gap":
                reason, words = frame["reason"], batches.GAP_TEXTS[frame["reason"]]
                made = messages.gap(
                    frame["channel"], reason, frame["after"], frame["before"], words
                )
            case "lagging":
                made = messages.lagging(frame["dropped"], frame["reason"])
            case "notice":
                made = messages.notice(quiet.QUIET, quiet.QUIET_TEXT)
            case _:
                continue
        assert made.endswith(line)
