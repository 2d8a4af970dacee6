"""What a request costs where its path alone does not say."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from starlette.types import Receive, Scope


@dataclass(frozen=True, slots=True)
class Priced:
    """A request whose body was read to know its price."""

    cost: int  # credits
    receive: Receive  # gives the body once more
    answers_refusals: bool
    """Whether the route says itself that the key is refused, or that the rate or the credits are
    used up. It then finds that Problem as `refusal` in the request's state, and no `grant`."""


Price = Callable[[Scope, Receive, str], Awaitable[Priced]]
"""Prices a request of a key, known by its fingerprint; raises Problem to refuse it unpaid."""
