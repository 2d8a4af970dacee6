"""Asking the API as a client does, and holding each answer against the document it publishes.

`Asker.get("/api/wallets/{wallet}", wallet=...)` returns the JSON of a 200 after these checks:
it fits the schema of that operation, nothing undocumented is in it, it is complete up to the last
settled slot and rests on no gap, and wherever there is a raw integer, the human number beside it is
the same amount.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from copy import deepcopy
from dataclasses import dataclass
from fractions import Fraction
from math import isclose
from typing import Any
from urllib.parse import quote

import httpx
import jsonschema_rs

from pipeline.chaos.differences import Differences

Json = Any
SOL_DECIMALS = 9
USD_DECIMALS = 6

CACHE_EXPIRES_S = 1.1  # longer than an answer is cached
_REFERENCE = re.compile(r'"#/components/schemas/([^"/]+)')


class Asker:
    """A client with a key; `asked` counts the operations."""

    def __init__(
        self, url: str, key: str, slot: int, time_ms: int, decimals: dict[str, int | None]
    ) -> None:
        self.client = httpx.Client(base_url=url, headers={"x-api-key": key}, timeout=120)
        self.asked: Counter[str] = Counter()
        self.document = self.client.get("/openapi.json").raise_for_status().json()
        self._up_to = {"as_of_slot": slot, "as_of_ms": time_ms}
        self.as_of = self._up_to | {"gaps": None}
        self._decimals = decimals  # by mint, to read amounts of several tokens in one answer
        self._validators: dict[tuple[str, str, int], jsonschema_rs.Validator] = {}

    def close(self) -> None:
        """Give the connection back."""
        self.client.close()

    def get(self, template: str, /, status: int = 200, **values: Any) -> Json:
        """Ask; what the path does not name goes into the query."""
        return self._answer("get", template, status, values, None)

    def post(self, template: str, body: Json, /, status: int = 200) -> Json:
        """Ask with a body."""
        return self._answer("post", template, status, {}, body)

    def pages(self, template: str, /, **values: Any) -> Iterator[Json]:
        """Walk all pages of a list, each from the cursor of the one before."""
        seen = set()
        while True:
            answer = self.get(template, **values)
            yield answer
            page = answer["page"]
            assert page["has_more"] == (page["next_cursor"] is not None)
            if not page["has_more"]:
                return
            assert page["next_cursor"] not in seen, "the pages go round in a circle"
            seen.add(page["next_cursor"])
            values["cursor"] = page["next_cursor"]

    def _answer(
        self, method: str, template: str, status: int, values: dict[str, Any], body: Json
    ) -> Json:
        self.asked[f"{method} {template}"] += 1
        path, query = template, {}
        for name, value in values.items():
            if f"{{{name}}}" in template:
                path = path.replace(f"{{{name}}}", quote(str(value), safe=""))
            elif value is not None:
                query[name] = value
        answer = self.client.request(method, path, params=query, json=body)
        shown = f"{method} {path} {query} {body}: {answer.status_code} {answer.text[:500]}"
        assert answer.status_code == status, shown
        body = answer.json()
        problems = [
            f"{'/'.join(map(str, error.instance_path))}: {error.message}"
            for error in self._validator(method, template, status).iter_errors(body)
        ]
        assert not problems, (shown, problems[:5])
        if status == 200:
            assert body.items() >= self._up_to.items(), shown
            assert body.get("gaps") is None, shown
            beside = list(unlike(body, None, self._decimals))
            assert not beside, (shown, beside[:5])
        return body

    def _validator(self, method: str, template: str, status: int) -> jsonschema_rs.Validator:
        key = method, template, status
        if key not in self._validators:
            self._validators[key] = validator(self.document, *key)
        return self._validators[key]


def validator(document: Json, method: str, template: str, status: int) -> jsonschema_rs.Validator:
    """Return a check that a JSON is what the document says of an answer, and no more."""
    answer = resolved(document, document["paths"][template][method]["responses"][str(status)])
    [media] = answer["content"].values()
    return strict(document["components"], media["schema"])


def strict(components: Json, schema: Json) -> jsonschema_rs.Validator:
    """Return a check of a schema that allows no more than it names, in it and what it refers to."""
    used: dict[str, Json] = {}
    waiting = [own := closed(schema)]
    while waiting:
        for name in set(_REFERENCE.findall(json.dumps(waiting.pop()))) - used.keys():
            used[name] = closed(components["schemas"][name])
            waiting.append(used[name])
    return jsonschema_rs.Draft202012Validator({**own, "components": {"schemas": used}})


def resolved(document: Json, part: Json) -> Json:
    """Return a part of a document, or what it refers to."""
    if "$ref" in part:
        for name in part["$ref"].removeprefix("#/").split("/"):
            document = document[name]
        return document
    return part


def closed(schema: Json) -> Json:
    """Return a schema whose objects may have no other properties than it names."""
    schema = deepcopy(schema)
    waiting = [schema]
    while waiting:
        part = waiting.pop()
        if isinstance(part, dict):
            if isinstance(part.get("properties"), dict) and "oneOf" not in part:
                part.setdefault("additionalProperties", False)
            waiting += part.values()
        elif isinstance(part, list):
            waiting += part
    return schema


def unlike(answer: Json, places: int | None, decimals: Mapping[str, int | None]) -> Iterator[str]:
    """Yield what is not the same amount: raw integers and the human numbers beside them.

    `places` are those of the token that what encloses it is about.
    """
    if isinstance(answer, list):
        for part in answer:
            yield from unlike(part, places, decimals)
    if not isinstance(answer, dict):
        return
    if isinstance(answer.get("mint"), str):
        places = decimals.get(answer["mint"], places)
    if isinstance(answer.get("decimals"), int):
        places = answer["decimals"]
    for name, value in answer.items():
        yield from unlike(value, places, decimals)
        if name.endswith(("lamports", "_micros", "_raw")) and not (
            value is None or (isinstance(value, str) and str(int(value)) == value)
        ):
            yield f"{name} is {value!r}: no integer in text"
            continue
        for ending, human, of in (
            ("lamports", "sol", SOL_DECIMALS),
            ("_usd_micros", "_usd", USD_DECIMALS),
            ("_raw", "", answer.get("quote_decimals") if "quote_" in name else places),
        ):
            if not name.endswith(ending):
                continue
            other = name.removesuffix(ending) + human
            if other not in answer:
                continue
            if value is None or of is None:
                if answer[other] is not None:
                    yield f"{name} is {value!r} of {of} places, {other} {answer[other]!r}"
            elif answer[other] != int(value) / 10**of:
                yield f"{name} is {value!r} of {of} places, {other} {answer[other]!r}"


@dataclass(frozen=True, slots=True)
class Near:
    """Equal to what a float of the same figure is; nothing is near to None but None."""

    figure: Fraction | None

    def __eq__(self, other: object) -> bool:
        if self.figure is None or other is None:
            return self.figure is other
        return isinstance(other, float | int) and isclose(float(self.figure), other, rel_tol=1e-9)

    __hash__ = None

    def __repr__(self) -> str:
        return f"near {None if self.figure is None else float(self.figure)}"


def compare(found: Differences, kind: str, key: object, expected: Json, answer: Json) -> None:
    """Note what of an answer, or a part of one, is not as expected.

    Every field must be expected, but for human numbers: `Asker` has
    compared those with the raw amounts beside them.
    """
    found.compared[kind] += 1
    wanted = {name: value for name, value in expected.items() if name not in answer}
    got: dict[str, Any] = {}
    for name, value in answer.items():
        if name in expected:
            if expected[name] != value:
                wanted[name], got[name] = expected[name], value
        elif not raw_of(name) & answer.keys():
            got[name] = value
    if wanted or got:
        found.add(kind, key, wanted, got)


def raw_of(name: str) -> set[str]:
    """Return the names that the raw amount beside a human one may have."""
    names = {f"{name}_raw"}
    if name.endswith("sol"):
        names.add(name.removesuffix("sol") + "lamports")
    if name.endswith("_usd"):
        names.add(name.removesuffix("_usd") + "_usd_micros")
    return names
