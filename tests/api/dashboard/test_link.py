"""A page of somebody else cannot spend a user's guesses at one-time links."""

from __future__ import annotations

from typing import Any

import pytest

from api.dashboard import link


class Sessions:
    """Spends every token, and notes it."""

    def __init__(self) -> None:
        self.spent: list[str] = []

    async def begin(self, token: str, *_: Any) -> bool:
        self.spent.append(token)
        return True


@pytest.mark.parametrize(
    ("destination", "status"),
    [("", 303), ("document", 303), ("image", 403), ("iframe", 403), ("empty", 403)],
)
async def test_a_link_is_spent_where_it_is_opened_as_a_document(destination, status):
    sessions: Any = Sessions()
    answer = await link.opened(sessions, "token", "127.0.0.1", destination)
    assert answer.status_code == status
    assert sessions.spent == (["token"] if status == 303 else [])
