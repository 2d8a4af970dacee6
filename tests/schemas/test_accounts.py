"""The stored form of accounts, read and written by several threads at once.

In a process of its own: a compressor that threads share ends the process it is in.
"""

from __future__ import annotations

import subprocess
import sys

import pytest

PROGRAM = """
from concurrent.futures import ThreadPoolExecutor
from random import Random
from schemas.accounts import compress, decompress

random = Random(1)
accounts = [random.randbytes(size % 90) + bytes(size) for size in range(1, 3_000, 11)]
frames = [compress(each) for each in accounts]

def check(_):
    for _ in range(20):
        for account, frame in zip(accounts, frames, strict=True):
            assert decompress(frame, len(account)) == account
            assert decompress(compress(account), len(account)) == account

with ThreadPoolExecutor(4) as threads:
    list(threads.map(check, range(4)))
print("equal")
"""

pytestmark = pytest.mark.processes


def test_threads_do_not_disturb_each_other() -> None:
    ended = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=False
    )
    assert (ended.returncode, ended.stdout) == (0, "equal\n"), ended.stderr
