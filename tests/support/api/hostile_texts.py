"""Texts that try to break out of where they stand, or that are nearly what is expected.

Those that try to reach a store are sent with `MARK`, which must never be seen there.
"""

from __future__ import annotations

MARK = "zqevilqz"
BROKEN_BODY = b"transfer-encoding: chunked\r\n\r\nzz\r\n"

INJECTIONS = (
    "' OR 1=1 -- ",
    "'; DROP TABLE swaps; -- ",
    '" OR ""="',
    "') UNION ALL SELECT name FROM system.tables -- ",
    "1; SELECT sleep(3)",
    "{wallet:String}",
    "{x:Identifier}",
    "\\' OR 1=1 /*",
    "*",
    "?",
    "[a-z]*",
    "{m0}",
    "pos:{w0}:*",
    "{w0}\r\nFLUSHALL\r\n",
    "\r\n*1\r\n$8\r\nFLUSHALL\r\n",
    "\nCONFIG SET dir /tmp\n",
    "\r\nX-Injected: 1\r\n\r\n<script>",
    "redis.call('FLUSHALL')",
    "${jndi:ldap://127.0.0.1/x}",
    "{{7*7}}",
    "{0.__class__.__mro__}",
    "%s%s%n",
    "$(id)",
    "`id`",
    "| id",
    "<script>alert(1)</script>",
    "../../../../etc/passwd",
    "..\\..\\windows\\win.ini",
    "....//....//etc/passwd",
    "file:///etc/passwd",
    "//evil.example/",
    "\x00",
    "\x1b[31m",
    "\u202e\u2066",
    "\ufeff",
    "\U0001d54f\u0301" * 5,
)
ODD = (
    "",
    " ",
    "0",
    "-1",
    "-0",
    "+1",
    "1.5",
    "1e3",
    "1e309",
    "-1e309",
    "NaN",
    "nan",
    "Infinity",
    "-inf",
    "0x10",
    "1_000",
    "\u0661\u0662",
    "9" * 400,
    str(2**31),
    str(2**63),
    str(2**64),
    str(-(2**63) - 1),
    "true",
    "null",
    "None",
    "undefined",
    "[]",
    "{}",
    "1,2",
    "1m;1h",
    "a" * 5_000,
    "1" * 32,
    "1" * 44,
    "z" * 44,
    "0OIl" * 10,
    "batch",
    "leaderboard",
    "trending",
    "openapi.json",
)
# Already escaped, as a path may carry them.
ESCAPED = (
    *("%00", "%0d%0aSet-Cookie:%20x=1", "%2e%2e%2f", "..%2f", "%252e%252e%252f", "%c0%ae%c0%ae%2f"),
    *("%", "%g1", "%u002e", "%ff%fe", "%ed%a0%80", "%f4%90%80%80", "%5c..%5c", "%2f", "%3f", "%23"),
    *(";a=b", "@", ":80", ".", "..", "...", "~", "%20", "+", "&", "=", "#", "?", "//", "\\"),
)
METHODS = ("GET",) * 12 + ("POST", "PUT", "DELETE", "PATCH", "HEAD", "OPTIONS", "TRACE", "QUERY")
TYPES = (
    "",
    "text/plain",
    "application/x-www-form-urlencoded",
    "multipart/form-data; boundary=x",
    "application/json; charset=utf-16",
    "application/xml",
    f"application/json{MARK}",
)
HEADERS = (
    *("accept", "accept-encoding", "if-none-match", "if-modified-since", "range", "origin"),
    *("cookie", "authorization", "referer", "user-agent", "x-forwarded-for", "x-forwarded-host"),
    *("x-request-id", "x-http-method-override", "content-type", "te", "forwarded", "via", "host"),
    *("access-control-request-method", "x-original-url", "x-api-key"),
)
