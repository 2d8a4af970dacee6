"""The page of a sign-in that did not work: fixed words, and the way to try again."""

from __future__ import annotations

from typing import Final

from fastapi import Response

from api.signin.failures import Failed

_HEADERS: Final = {
    "cache-control": "no-store",
    "content-security-policy": "default-src 'none'; style-src 'self'; img-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
}
_PAGE: Final = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>You are not signed in &ndash; Soltape</title>
<link rel="icon" href="/icon.svg">
<link rel="stylesheet" href="/style.css">
</head>
<body>
<main>
<h1>You are not signed in</h1>
<p>{words}</p>
<p><a href="/signin">Sign in again</a>, or <a href="/">go to the dashboard</a>.</p>
</main>
</body>
</html>
"""


def failed(failure: Failed) -> Response:
    """Return the page of a failure."""
    return Response(_PAGE.format(words=failure.words), failure.status, {**_HEADERS}, "text/html")
