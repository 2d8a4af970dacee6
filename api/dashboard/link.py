"""What opening a one-time link answers: the session's cookie and a redirect, or why not."""

from __future__ import annotations

from typing import Final

from fastapi import Response

from api.access.sessions import Sessions

_NO_STORE: Final = {"cache-control": "no-store"}
_STYLE_ONLY: Final = (
    "default-src 'none'; style-src 'self'; img-src 'self'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'"
)
_REFUSED: Final = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>The link is not valid &ndash; Soltape</title>
<link rel="icon" href="icon.svg">
<link rel="stylesheet" href="style.css">
</head>
<body>
<main>
<h1>The link is not valid</h1>
<p>It was opened before, or it has expired: a link lets one browser in, once, within an hour.</p>
<p>For a new one run <code>soltape keys link</code> in the folder of <code>soltape up</code>.</p>
<p><a href="/">Go to the dashboard</a>: a browser that was let in still is, and takes a key too.</p>
</main>
</body>
</html>
"""


async def opened(sessions: Sessions, token: str, address: str, destination: str) -> Response:
    """Spend a link and return the answer.

    `destination` is what a browser says it wants the link for, "" where it does not say. A page of
    anybody can have it load images from here, and so guess in its user's name, until the user's own
    link is refused: only what is opened as a document is spent, and counts.

    Raises Problem while Redis is away, and where too much from the address was refused.
    """
    to_page = Response(None, 303, {**_NO_STORE, "location": "/"})
    if destination in ("", "document") and await sessions.begin(token, to_page, address):
        return to_page
    headers = {**_NO_STORE, "content-security-policy": _STYLE_ONLY}
    return Response(_REFUSED, 403, headers, "text/html")
