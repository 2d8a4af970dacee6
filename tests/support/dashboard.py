"""Looking at the dashboard: a page of it in a browser, and all that goes wrong there."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import urllib.request
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import psutil
from playwright.sync_api import BrowserContext, ConsoleMessage, Locator, Page, Request, WebSocket

SEED = 20_261  # of the simulated market
STRANGER = "stranger.example"
"""A foreign name that the browser resolves to this machine."""
_OURS = {"http", "ws"}
_ANSWERS_WITHIN_MS = 90_000  # a click, on a busy machine


@dataclass
class Up:
    """A running `soltape up`."""

    pid: int
    folder: Path
    addresses: dict[str, str] = field(default_factory=dict)

    @property
    def url(self) -> str:
        """Where the page is."""
        return f"http://127.0.0.1:{self.addresses['API_PORT']}"

    @property
    def key(self) -> str:
        return (self.folder / "demo-key").read_text().strip()

    def link(self) -> str:
        """Print a one-time link to the page."""
        done = subprocess.run(
            [sys.executable, "-m", "infra.cli", "keys", "link"],
            cwd=self.folder,
            env={**os.environ, "SOLTAPE_DATA": str(self.folder)},
            capture_output=True,
            text=True,
            timeout=400,
            check=True,
        )
        return done.stdout.strip()

    def gateway(self) -> psutil.Process | None:
        """The process of the gateway that runs now."""
        for child in psutil.Process(self.pid).children():
            if child.cmdline()[-1:] == ["gateway"]:
                return child
        return None


class Visit:
    """A page in a browser of its own. `troubles` has what no page may do, but for what is expected:
    words in the console, exceptions, files that do not come, and talk with any other server.
    """

    def __init__(self, context: BrowserContext, url: str, hosts: set[str]) -> None:
        self.context = context
        context.set_default_timeout(_ANSWERS_WITHIN_MS)
        self.page = context.new_page()
        self.url = url
        self._hosts = hosts
        # A store that takes seconds to answer, on a busy machine: pages say so and ask again.
        self._expected = [
            "Failed to load resource: .* a status of 503 ",
            "Error during WebSocket handshake: Unexpected response code: 503",
            "WebSocket is closed before the connection is established",  # it took too long
        ]
        self._troubles: list[str] = []
        self.page.on("console", self._said)
        self.page.on("pageerror", lambda error: self._troubles.append(f"exception: {error}"))
        self.page.on("request", self._asked)
        self.page.on("requestfailed", self._failed)
        self.page.on("websocket", self._connected)

    def expects(self, pattern: str) -> None:
        """Say what will go wrong because the test makes it so: a regular expression."""
        self._expected.append(pattern)

    @property
    def troubles(self) -> list[str]:
        return [
            trouble
            for trouble in self._troubles
            if not any(re.search(pattern, trouble) for pattern in self._expected)
        ]

    def go(self, path: str) -> Page:
        """Show a page of the dashboard: "trending", "token/<mint>"."""
        self.page.goto(f"{self.url}/#/{path}")
        return self.page

    def overflow_px(self) -> int:
        """By how much the page is wider than what shows it."""
        wider: int = self.page.evaluate(
            "document.documentElement.scrollWidth - document.documentElement.clientWidth"
        )
        return wider

    def _said(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning"):
            at = message.location["url"]  # of a file that did not come, its own
            self._troubles.append(f"console {message.type}: {message.text} ({at})")

    def _asked(self, request: Request) -> None:
        self._check_host(request.url)

    def _connected(self, socket: WebSocket) -> None:
        self._check_host(socket.url)

    def _check_host(self, url: str) -> None:
        parts = urlsplit(url)
        if parts.scheme not in _OURS or parts.netloc not in self._hosts:
            self._troubles.append(f"asked elsewhere: {url}")

    def _failed(self, request: Request) -> None:
        # Leaving a page ends its requests.
        if request.failure != "net::ERR_ABORTED":
            self._troubles.append(f"failed: {request.url}: {request.failure}")


def ask(up: Up, path: str) -> Any:
    """Return what the API answers."""
    request = urllib.request.Request(up.url + path, headers={"x-api-key": up.key})
    with urllib.request.urlopen(request, timeout=240) as answer:
        return json.load(answer)


def rows(page: Page, caption: str) -> Locator:
    """The rows of a table, found by its caption."""
    return page.get_by_role("table", name=caption).locator("tbody tr:not(.notice)")


def loading(page: Page) -> Locator:
    """What is still being loaded, as far as it is seen."""
    return page.get_by_text("Loading …").locator("visible=true")


def texts_of(page: Page, selector: str) -> list[str]:
    """What all elements say that fit a selector, all at one time."""
    found: list[str] = page.evaluate(
        "selector => [...document.querySelectorAll(selector)].map(each => each.textContent)",
        selector,
    )
    return found


def focused(page: Page) -> dict[str, Any]:
    """Say what has the focus: its tag, what it is called, and whether that is seen."""
    focus: dict[str, Any] = page.evaluate(
        """() => {
          const at = document.activeElement;
          const look = getComputedStyle(at);
          const label = at.getAttribute("aria-label") ?? at.labels?.[0]?.textContent;
          return {
            tag: at.tagName.toLowerCase(),
            name: (label ?? at.textContent ?? "").trim().slice(0, 40),
            seen: look.outlineStyle !== "none" && parseFloat(look.outlineWidth) > 0,
          };
        }"""
    )
    return focus
