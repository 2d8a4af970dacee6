"""The baseline: one FastAPI route without anything, on the API's server, that has every answer.

    python -m api.http.bare <file>

The file has the answers, JSON of path -> body; address and port are those of the settings.
"""

from __future__ import annotations

import sys
from pathlib import Path

import orjson
from fastapi import FastAPI, Request, Response

from api.server import listen, run, server_of
from infra.settings import load


def create(answers: dict[str, str]) -> FastAPI:
    """Return the application."""
    bodies = {path: body.encode() for path, body in answers.items()}
    app = FastAPI()

    @app.api_route("/{path:path}", methods=["GET", "POST"])
    async def answer(request: Request) -> Response:
        return Response(bodies[request.scope["path"]], media_type="application/json")

    return app


if __name__ == "__main__":
    body = orjson.loads(Path(sys.argv[1]).read_bytes())
    settings = load()
    run(server_of(create(body), settings), listen(settings))
