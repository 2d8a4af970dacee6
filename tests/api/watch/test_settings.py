"""What `soltape watch` needs before it begins."""

from __future__ import annotations

import asyncio

import pytest

from api.watch import service
from infra.settings import Settings, SettingsError


@pytest.mark.parametrize("lacking", ["pay_to", "rpc_endpoint"])
async def test_books_of_payments_need_a_seller_and_a_node(lacking: str) -> None:
    given = {
        "x402_facilitator_url": "http://127.0.0.1:1",
        "rpc_endpoint": "http://127.0.0.1:1",
        "pay_to": "9WzDXwBbmkg8ZTbNMqUxvQRAyrZzDsGYdLVL9zYtAWWM",
    }
    settings = Settings(_env_file=None, **{**given, lacking: None})
    with pytest.raises(SettingsError, match=lacking.upper()):
        await service.run(settings, asyncio.Event(), {})
