"""Run a command that ends with the process that asked for it, even if that is killed.

Started as a script, with nothing but the standard library:
`python -I -S tether.py PARENT_PID COMMAND [ARGUMENT...]`, as the leader of a process group.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence

_PR_SET_PDEATHSIG = 1  # linux/prctl.h
_LOOK_EVERY_S = 0.2


def tethered(command: Sequence[str]) -> list[str]:
    """Return the command that runs another one, which ends with this process.

    On Linux it ends with the thread that starts it; elsewhere it must lead its process group.
    """
    return [sys.executable, "-I", "-S", __file__, str(os.getpid()), *command]


def become(parent: int, command: list[str]) -> None:
    """Replace this process by the command; the kernel kills it when the parent ends (Linux)."""
    import ctypes

    if ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL) != 0:
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_PDEATHSIG) failed")
    if os.getppid() != parent:  # it ended before the kernel knew the wish
        sys.exit(1)
    try:
        os.execvp(command[0], command)  # noqa: S606 - the command is the supervisor's
    except OSError as error:
        sys.exit(f"{command[0]}: {error.strerror}")


def watch(parent: int, command: list[str]) -> int:
    """Run the command and return its exit status; kill the group when the parent ends."""
    child = subprocess.Popen(command)
    # Signals go to the whole group: the command heeds them, and its end is ours.
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: None)
    while (status := child.poll()) is None:
        if os.getppid() != parent:
            os.killpg(0, signal.SIGKILL)
        time.sleep(_LOOK_EVERY_S)
    return status if status >= 0 else 128 - status


if __name__ == "__main__":
    if sys.platform == "linux":
        become(int(sys.argv[1]), sys.argv[2:])
    sys.exit(watch(int(sys.argv[1]), sys.argv[2:]))
