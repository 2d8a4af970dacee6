"""A second door: a few lines that answer a wallet from the services, without FastAPI."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

from api.http.errors import Problem
from api.services import Services
from tests.integration.api.wallets.test_wallet_paths import NOBODY


async def tool(services: Services, name: str, **asked: Any) -> bytes:
    """Answer a call by name, as a door that speaks another protocol would."""
    try:
        return (await getattr(services.wallets, name)(**asked)).body
    except Problem as problem:
        return problem.body("the-call", "wallets")


async def test_a_second_door_says_what_rest_says(make_books, ask, settings, tape):
    made = tape(3)
    books = await make_books()
    await books.play(made.slots(40))
    services = Services(settings)
    try:
        for wallet in (*made.wallets[:3], NOBODY):
            for path, name, asked in (
                ("?limit=7", "positions", {"limit": 7}),
                ("/all-dex", "newest", {"limit": 50}),
                ("/portfolio", "portfolio", {}),
                ("/pnl/summary", "summary", {}),
            ):
                rest = await ask.client.get(f"/api/wallets/{wallet}{path}")
                assert rest.status_code == 200
                assert await tool(services, name, wallet=wallet, **asked) == rest.content
        refused = await tool(services, "position", wallet=NOBODY, mint=made.mints[0])
        assert b'"code":"no_position"' in refused
    finally:
        await services.close()


def test_the_services_load_without_fastapi():
    program = (
        "import sys, api.services; "
        "sys.exit(' '.join({'fastapi', 'starlette', 'uvicorn'} & {*sys.modules}) or None)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert (done.returncode, done.stderr.strip()) == (0, "")
