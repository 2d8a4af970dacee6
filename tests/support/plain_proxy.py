"""A reverse proxy as nginx is without settings (`proxy_pass http://upstream;`), in a process.

It sends the upstream's address as Host and adds no header that names the client.
`python -m tests.support.plain_proxy PORT UPSTREAM`
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from aiohttp import ClientSession, web

from infra.local.process import free_port
from tests.support.systems import bound
from tests.support.waiting import eventually

_ROOT = Path(__file__).parents[2]
_OF_ONE_HOP = {"connection", "host", "keep-alive", "transfer-encoding", "upgrade"}


@contextmanager
def proxied(upstream: str) -> Iterator[str]:
    """Run a proxy in front of an address; yield its own."""
    port = free_port()
    command = [sys.executable, "-m", __name__, str(port), upstream]
    process = subprocess.Popen(bound(command), cwd=_ROOT, stdout=subprocess.PIPE)
    try:
        assert process.stdout is not None
        line = eventually(process.stdout.readline)
        assert b"Running on" in line, line
        yield f"http://127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait(60)


async def _pass_on(request: web.Request) -> web.Response:
    session: ClientSession = request.app["session"]
    headers = [
        (name, value) for name, value in request.headers.items() if name.lower() not in _OF_ONE_HOP
    ]
    async with session.request(
        request.method,
        request.app["upstream"] + request.raw_path,
        headers=headers,
        data=await request.read(),
        allow_redirects=False,
        skip_auto_headers=("accept", "accept-encoding", "user-agent", "content-type"),
    ) as answer:
        response = web.Response(status=answer.status, body=await answer.read())
        response.headers.clear()
        for name, value in answer.headers.items():
            if name.lower() not in _OF_ONE_HOP | {"content-length"}:
                response.headers.add(name, value)
        return response


async def _sessions(app: web.Application) -> Iterator[None]:
    async with ClientSession(auto_decompress=False) as app["session"]:
        yield


def main(port: int, upstream: str) -> None:
    app = web.Application()
    app["upstream"] = upstream
    app.cleanup_ctx.append(_sessions)
    app.router.add_route("*", "/{path:.*}", _pass_on)
    web.run_app(app, host="127.0.0.1", port=port)


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2])
