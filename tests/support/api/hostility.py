"""Requests that nobody should send: seeded, so that a failure comes again.

Texts that try to reach a store carry `MARK`, which must never be seen there.
"""

from __future__ import annotations

import json
import string
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from random import Random
from urllib.parse import quote, quote_from_bytes

from tests.support.api.hostile_texts import (
    BROKEN_BODY,
    ESCAPED,
    HEADERS,
    INJECTIONS,
    MARK,
    METHODS,
    ODD,
    TYPES,
)


@dataclass(frozen=True, slots=True)
class Operation:
    """A path of the API, its parameters and what they are called."""

    method: str
    template: str
    query: tuple[str, ...]
    body: tuple[str, ...]  # names of the body's members


class Hostility:
    """Makes requests; `good` gives a valid value of a path parameter."""

    def __init__(
        self, seed: int, operations: Sequence[Operation], good: Callable[[str], str], key: str
    ) -> None:
        self._random = Random(seed)
        self._operations = operations
        self._good = good
        self._key = key

    def injections(self) -> Iterator[bytes]:
        """Yield every text that tries to reach a store, in every parameter of every operation."""
        for operation in self._operations:
            for text in INJECTIONS:
                bad = quote(text + MARK, safe="")
                valid = self._valid_body(operation)
                for name in self._names(operation):
                    path = self._path(operation, name, bad)
                    yield self._request(operation.method, path, valid)
                for name in operation.query:
                    path = f"{self._path(operation)}?{quote(name)}={bad}"
                    yield self._request(operation.method, path, valid)
                for name in operation.body:
                    for value in (text + MARK, [text + MARK], {text: MARK}):
                        body = json.loads(valid or b"{}") | {name: value}
                        yield self._request("POST", operation.template, json.dumps(body).encode())

    def requests(self, count: int) -> Iterator[bytes]:
        """Yield so many requests, at random."""
        kinds = (
            (30, self._bad_parameter),
            (15, self._bad_query),
            (20, self._bad_body),
            (15, self._bad_path),
            (10, self._bad_header),
            (5, self._bad_key),
            (5, self._bad_http),
        )
        makers = [maker for share, maker in kinds for _ in range(share)]
        for _ in range(count):
            yield self._random.choice(makers)()

    # Texts.

    def _text(self) -> str:
        """Return a hostile text, not escaped."""
        random = self._random
        kind = random.random()
        if kind < 0.4:
            text = random.choice(INJECTIONS)
            return random.choice((text + MARK, MARK + text, f"{MARK}{text}{MARK}"))
        if kind < 0.6:
            return random.choice(ODD)
        if kind < 0.8:  # nearly valid
            text = self._good(random.choice(("wallet", "mint")))
            return random.choice(
                (
                    text[:-1],
                    text + "1",
                    text + "\n",
                    "\t" + text,
                    text + "\x00",
                    text.lower(),
                    text[::-1],
                    text[:20] + "0" + text[21:],
                    text + random.choice(INJECTIONS) + MARK,
                    text.replace(text[5], "\u0430"),
                )
            )
        length = random.choice((1, 3, 32, 44, 300))
        return "".join(
            chr(random.choice((random.randrange(128), random.randrange(0xD800), 0x1F600)))
            for _ in range(length)
        )

    def _escaped(self) -> str:
        """Return a hostile text as part of a path or query; may break the rules of escapes."""
        random = self._random
        if random.random() < 0.25:
            return random.choice(ESCAPED) + random.choice(("", MARK, "%00" + MARK))
        if random.random() < 0.1:
            return quote_from_bytes(random.randbytes(random.choice((1, 8, 33))))
        return quote(self._text(), safe="")

    # Requests.

    def _path(self, operation: Operation, bad: str = "", escaped: str = "") -> str:
        """Return the path of an operation, all parameters valid but the one named, or all."""
        path = operation.template
        while "{" in path:
            before, _, rest = path.partition("{")
            name, _, after = rest.partition("}")
            value = (escaped or self._escaped()) if name == bad else self._good(name)
            path = f"{before}{value.replace('{', '%7b')}{after}"
        return path

    def _names(self, operation: Operation) -> list[str]:
        return [part.partition("}")[0] for part in operation.template.split("{")[1:]]

    def _bad_parameter(self) -> bytes:
        operation = self._random.choice([o for o in self._operations if "{" in o.template])
        path = self._path(operation, self._random.choice(self._names(operation)))
        return self._request(operation.method, path, self._valid_body(operation))

    def _bad_query(self) -> bytes:
        operation = self._random.choice([o for o in self._operations if o.method == "GET"])
        names = [*operation.query, *operation.query, "x", self._escaped(), "limit", "cursor"]
        pairs = [
            f"{self._random.choice(names)}={self._escaped()}"
            for _ in range(self._random.choice((1, 1, 2, 5)))
        ]
        return self._request("GET", f"{self._path(operation)}?{'&'.join(pairs)}")

    def _bad_path(self) -> bytes:
        random = self._random
        operation = random.choice(self._operations)
        parts = self._path(operation).split("/")
        for _ in range(random.choice((1, 1, 2))):
            place = random.randrange(len(parts))
            change = random.random()
            if change < 0.5:
                parts[place] = self._escaped()
            elif change < 0.7:
                parts.insert(place, self._escaped())
            elif len(parts) > 1:
                parts.pop(place)
        path = "/" + "/".join(parts).lstrip("/") if random.random() < 0.9 else "/".join(parts)
        return self._request(random.choice(METHODS), path or "/")

    def _valid_body(self, operation: Operation) -> bytes | None:
        if operation.method != "POST":
            return None
        return json.dumps(
            {name: [self._good(name.rstrip("s"))] for name in operation.body}
        ).encode()

    def _bad_body(self) -> bytes:
        random = self._random
        operation = random.choice([o for o in self._operations if o.method == "POST"])
        return self._request(
            "POST",
            self._path(operation),
            self._body(operation),
            {"content-type": random.choice(("application/json",) * 8 + TYPES)},
        )

    def _body(self, operation: Operation) -> bytes:
        random = self._random
        name = random.choice(operation.body or ("x",))
        address = self._good(name.rstrip("s"))
        deep = random.choice((20, 200, 5_000))
        return random.choice(
            (
                b"",
                b"null",
                b"[]",
                b"{}",
                b"{",
                b'"',
                b"NaN",
                b"\xff\xfe{\x00}\x00",
                b"\xef\xbb\xbf{}",
                random.randbytes(100),
                b"[" * deep + b"]" * deep,
                b'{"a":' * deep + b"1" + b"}" * deep,
                f'{{"{name}": NaN}}'.encode(),
                f'{{"{name}": [Infinity, -Infinity, 1e400, {"9" * 500}]}}'.encode(),
                f'{{"{name}": ["\\ud800"]}}'.encode(),
                f'{{"{name}": ["{address}"], "{name}": "{MARK}"}}'.encode(),
                f'{{"{name}": ["{address}"], "{name}": ["{address}"]}}'.encode(),
                f'{{"{name}": ["{address}"], "__proto__": {{"{MARK}": 1}}}}'.encode(),
                json.dumps({name: self._value()}).encode(),
                json.dumps({name: [self._value()]}).encode(),
                json.dumps({name: [address, self._text()]}).encode(),
                json.dumps({name: [address] * random.choice((2, 101, 3_000))}).encode(),
                json.dumps({name: [address], self._text(): self._value()}).encode(),
                json.dumps({each: [self._text()] for each in operation.body}).encode(),
                json.dumps(self._value()).encode(),
            )
        )

    def _value(self) -> object:
        random = self._random
        return random.choice(
            (
                *(None, True, 0, -1, 1.5, 2**70, "", [], {}, [[]], [{}], [None]),
                self._text(),
                {self._text(): self._text()},
                {"$gt": ""},
                [self._text()] * 3,
                "x" * 20_000,
            )
        )

    def _bad_header(self) -> bytes:
        random = self._random
        name = random.choice(HEADERS)
        raw = self._text().encode("utf-8", "replace")
        value = bytes(byte for byte in raw if byte not in b"\r\n\x00")[:4_000]
        if random.random() < 0.1:
            value = b"x" * random.choice((9_000, 70_000, 300_000))
        lines = [name.encode() + b": " + value]
        if random.random() < 0.1:
            lines = [b"x-%d: y" % number for number in range(random.choice((150, 2_000)))]
        path = self._path(random.choice([o for o in self._operations if o.method == "GET"]))
        return self._request("GET", path, lines=lines)

    def _bad_key(self) -> bytes:
        random = self._random
        key = self._key
        place = random.randrange(len(key))
        other = random.choice(string.ascii_letters + string.digits)
        tampered = random.choice(
            (
                "",
                " ",
                key[:-1],
                key + "x",
                key.upper(),
                key[:place] + other + key[place + 1 :],
                key[: len(key) // 2],
                key[::-1],
                f"{key},{key}",
                f'"{key}"',
                f"Bearer {key}x",
                f"{key[:8]}{MARK}*",
                "x" * 5_000,
                random.choice(INJECTIONS).replace("\r", "").replace("\n", "") + MARK,
            )
        )
        path = self._path(random.choice([o for o in self._operations if o.method == "GET"]))
        value = tampered.encode("utf-8").replace(b"\x00", b"")
        head = f"GET {path} HTTP/1.1\r\nhost: localhost\r\n".encode()
        return head + b"x-api-key: " + value + b"\r\n\r\n"

    def _bad_http(self) -> bytes:
        random = self._random
        path = self._path(random.choice([o for o in self._operations if o.method == "GET"]))
        key = self._key
        host = f"host: localhost\r\nx-api-key: {key}\r\n"
        return random.choice(
            (
                f"GET {path}\r\n\r\n",
                f"GET {path} HTTP/9.9\r\n{host}\r\n",
                f"GET  {path}  HTTP/1.1\r\n{host}\r\n",
                f"GET {path} HTTP/1.1\r\n{host}x y: z\r\n\r\n",
                f"GET {path} HTTP/1.1\r\n{host}: z\r\n\r\n",
                f"GET {path} HTTP/1.1\r\n{host}a: b\r\n c\r\n\r\n",
                f"GET {path} HTTP/1.1\r\n{host}a: b\x00c\r\n\r\n",
                f"GET {path} HTTP/1.1\r\n{host}content-length: -1\r\n\r\n",
                f"GET {path} HTTP/1.1\r\n{host}content-length: 1e3\r\n\r\n",
                f"GET {path}\x01 HTTP/1.1\r\n{host}\r\n",
                f"GET /{'a' * 70_000} HTTP/1.1\r\n{host}\r\n",
                f"GET http://evil.example{path} HTTP/1.1\r\n{host}\r\n",
                f"GET evil.example:80 HTTP/1.1\r\n{host}\r\n",
                f"OPTIONS * HTTP/1.1\r\n{host}\r\n",
                f"CONNECT 127.0.0.1:6379 HTTP/1.1\r\n{host}\r\n",
                f"{MARK} {path} HTTP/1.1\r\n{host}\r\n",
                "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
                "*1\r\n$8\r\nFLUSHALL\r\n",
                "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n",
                f"POST {path} HTTP/1.1\r\n{host}content-length: 3\r\ntransfer-encoding: chunked"
                f"\r\n\r\n0\r\n\r\n",
                f"POST {path} HTTP/1.1\r\n{host}{BROKEN_BODY.decode()}abc\r\n",
                f"POST {path} HTTP/1.1\r\n{host}transfer-encoding: x, chunked\r\n\r\n0\r\n\r\n",
                f"GET {path} HTTP/1.1\r\n{host}upgrade: h2c\r\nconnection: upgrade\r\n\r\n",
                f"GET {path} HTTP/1.1\r\n{host}upgrade: websocket\r\nconnection: upgrade\r\n\r\n",
                f"GET {path} HTTP/1.1\r\n{host}expect: 100-continue\r\n\r\n",
            )
        ).encode("latin-1")

    def _request(
        self,
        method: str,
        path: str,
        body: bytes | None = None,
        headers: dict[str, str] | None = None,
        lines: Sequence[bytes] = (),
    ) -> bytes:
        head = [f"{method} {path} HTTP/1.1", "host: localhost", f"x-api-key: {self._key}"]
        if body is not None:
            head.append(f"content-length: {len(body)}")
            headers = {"content-type": "application/json"} | (headers or {})
        head += [f"{name}: {value}" for name, value in (headers or {}).items()]
        raw = b"\r\n".join([*(line.encode("utf-8", "replace") for line in head), *lines])
        return raw + b"\r\n\r\n" + (body or b"")
