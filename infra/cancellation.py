"""Cancellations that a library catches and does not pass on."""

from __future__ import annotations

import asyncio


def raise_if_cancelled() -> None:
    """Raise CancelledError if cancellation of the current task was requested.

    A retry loop around grpc.aio calls this before it retries. The library awaits the start of a
    call in a task of its own, which catches the cancellation (`StreamStreamCall._prepare_rpc` in
    grpcio 1.85): if the call fails at the same time, the loop gets the call's error instead.
    """
    task = asyncio.current_task()
    if task is not None and task.cancelling():
        raise asyncio.CancelledError
