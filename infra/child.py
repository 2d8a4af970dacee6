"""One supervised child process: started in order, watched, restarted with a reason, stopped."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final, Never

from infra import tether
from infra.process import NotReady, Process

LOG_MAX_BYTES: Final = 8 * 1024**2
BACKOFF_MAX_S: Final = 30.0
_BACKOFF_FIRST_S: Final = 0.5
_STEADY_S: Final = 60.0  # having run so long, a child begins with the first pause again
_ATTEMPTS: Final = 3  # to serve for the first time
_ASK_TIMEOUT_S: Final = 10.0
_LOOK_EVERY_S: Final = 0.1
_TETHER: Final = (sys.executable, "-I", "-S", tether.__file__)
_ANSI: Final = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")


class NeverServed(Exception):  # noqa: N818 - says what is the case
    """A child did not come to serve, however often it was started."""


class Child:
    """Keeps one process running.

    `after` are the children that must serve before it starts. When one of `restart_with` ends, it
    is stopped and started anew: that system has forgotten what the child relies on.
    """

    def __init__(
        self,
        process: Process,
        log: Path,
        say: Callable[[str], None],
        after: Sequence[Child] = (),
        restart_with: Sequence[Child] = (),
    ) -> None:
        self.name = process.name
        self.process = process
        self.log = log
        self.after = tuple(after)
        self.served = asyncio.Event()
        self.starts = 0
        self._restart_with = tuple(restart_with)
        self._say = say
        self._popen: subprocess.Popen[bytes] | None = None
        self._log_start = 0
        self._ever_served = False

    async def keep_running(self) -> Never:
        """Start the process, and again whenever it ends, each time after a longer pause.

        Raises NeverServed if it does not serve after three starts. Cancelling leaves it running.
        """
        _put_aside(self.log)
        failures = 0
        while True:
            for other in self.after:
                await other.served.wait()
            began = time.monotonic()
            reason = await self._run()
            self.served.clear()
            if time.monotonic() - began >= _STEADY_S:
                failures = 0
            failures += 1
            if failures >= _ATTEMPTS and not self._ever_served:
                remedy = f"\n{self.process.remedy}" if self.process.remedy else ""
                raise NeverServed(f"{self.name} {reason}\nIts log: {self.log}{remedy}")
            pause_s = min(_BACKOFF_FIRST_S * 2 ** (failures - 1), BACKOFF_MAX_S)
            self._say(f"{self.name} {reason}; starting it again in {pause_s:g} s")
            await asyncio.sleep(pause_s)

    async def _run(self) -> str:
        """Run it once; return why it ended."""
        relied_on = [(other, other.starts) for other in self._restart_with]
        try:
            popen = self._start()
        except OSError as error:
            return f"cannot be started: {error}"
        deadline = began = time.monotonic()
        deadline += self.process.ready_timeout_s
        while popen.poll() is None:
            if not self.served.is_set():
                missing = await self._ask()
                if missing is None and popen.poll() is None:
                    self.served.set()
                    self._ever_served = True
                elif missing is not None and time.monotonic() > deadline:
                    await self.end(2.0)
                    return f"did not serve within {time.monotonic() - began:.0f} s: {missing}"
            for other, starts in relied_on:
                if other.starts != starts or not other.served.is_set():
                    await self.end(2.0)
                    return f"was stopped, for {other.name} forgot everything as it ended"
            _keep_bounded(self.log)
            await asyncio.sleep(_LOOK_EVERY_S)
        self.kill()  # what it may have started itself
        # The last line tells the reason, unless it was killed from outside amid its work.
        last = "" if popen.returncode == -signal.SIGKILL else self._last_line()
        return f"ended with {_how(popen.returncode)}" + (f": {last}" if last else "")

    def _start(self) -> subprocess.Popen[bytes]:
        with self.log.open("ab") as log:
            self._log_start = log.tell()
            self._popen = subprocess.Popen(
                [*_TETHER, str(os.getpid()), *self.process.command],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env={**os.environ, "PYTHONUNBUFFERED": "1", **self.process.env},
                start_new_session=True,  # Ctrl-C is ours alone, and signals reach its children
            )
        self.starts += 1
        return self._popen

    async def _ask(self) -> str | None:
        """Return what is missing, None when it serves."""
        try:
            async with asyncio.timeout(_ASK_TIMEOUT_S):
                await self.process.ready()
        except NotReady as error:
            return str(error)
        except TimeoutError:
            return f"no answer within {_ASK_TIMEOUT_S:g} s"
        return None

    @property
    def pid(self) -> int | None:
        """The process, which leads its group; None while none runs."""
        return self._popen.pid if self._popen and self._popen.poll() is None else None

    async def end(self, within_s: float) -> bool:
        """Ask it to stop, then kill it; return whether it stopped by itself."""
        self._signal(signal.SIGTERM)
        deadline = time.monotonic() + within_s
        while self.pid is not None and time.monotonic() < deadline:  # noqa: ASYNC110 - waitpid has no event
            await asyncio.sleep(0.02)
        by_itself = self.pid is None
        self.kill()
        return by_itself

    def kill(self) -> None:
        """End the process and all it has started, now."""
        self._signal(signal.SIGKILL)
        if self._popen:
            self._popen.wait()
            self._popen = None  # its id may be another's from here on

    def _signal(self, number: signal.Signals) -> None:
        if self._popen:
            with suppress(ProcessLookupError, PermissionError):  # macOS: a zombie gives the latter
                os.killpg(self._popen.pid, number)

    def _last_line(self) -> str:
        with self.log.open("rb") as log:
            end = log.seek(0, os.SEEK_END)
            log.seek(max(min(self._log_start, end), end - 4096))
            lines = _ANSI.sub("", log.read().decode(errors="replace")).strip().splitlines()
        return lines[-1].strip()[:300] if lines else ""


def _how(returncode: int) -> str:
    if returncode < 0:
        try:
            return signal.Signals(-returncode).name
        except ValueError:
            return f"signal {-returncode}"
    return f"exit code {returncode}"


def _put_aside(log: Path) -> None:
    log.parent.mkdir(parents=True, exist_ok=True)
    if log.exists():
        log.replace(log.with_suffix(".log.1"))


def _keep_bounded(log: Path) -> None:
    """Empty a log that has grown too long; its content moves to the file put aside.

    The child appends, so it writes on at the new end. A line written in between may be lost.
    """
    if log.stat().st_size > LOG_MAX_BYTES:
        log.with_suffix(".log.1").write_bytes(log.read_bytes())
        os.truncate(log, 0)
