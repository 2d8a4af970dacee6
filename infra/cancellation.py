"""Cancellations that a library keeps from its caller."""

from __future__ import annotations

import asyncio


def raise_if_cancelled() -> None:
    """Raise CancelledError if the current task was cancelled, whoever caught it.

    A loop that goes on after errors of grpc.aio asks this before it goes on: a cancellation that
    comes while a call fails goes to the library's own task and ends there, and the loop sees
    nothing but the call's error (`StreamStreamCall._prepare_rpc` in grpcio 1.85).
    """
    task = asyncio.current_task()
    if task is not None and task.cancelling():
        raise asyncio.CancelledError
