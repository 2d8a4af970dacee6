"""Why a sign-in did not work, in words for the user: none of them come from outside."""

from __future__ import annotations

from typing import Final


class Failed(Exception):
    """A sign-in ends here. `reason` is of `REASONS`; `detail` is for the log alone."""

    def __init__(self, reason: str, detail: str = "") -> None:
        super().__init__(f"{reason}: {detail}" if detail else reason)
        self.reason = reason
        self.detail = detail

    @property
    def status(self) -> int:
        """The HTTP status of the answer."""
        return REASONS[self.reason][0]

    @property
    def words(self) -> str:
        """What the page says."""
        return REASONS[self.reason][1]


REASONS: Final[dict[str, tuple[int, str]]] = {
    "stale": (
        403,
        "This sign-in was not begun in this browser, took more than ten minutes, or was finished "
        "before.",
    ),
    "denied": (403, "The identity provider did not let you in, or you did not agree."),
    "issuer": (403, "The answer is from another identity provider than the one you were sent to."),
    "code": (403, "The identity provider no longer accepts the code of this sign-in."),
    "token": (403, "What the identity provider says of you could not be verified."),
    "refused": (403, "This service takes no new accounts now, or yours is suspended."),
    "malformed": (400, "The address is not one that an identity provider leads to."),
    "embedded": (403, "Signing in is a page of its own: another page cannot load it as a part."),
    "often": (429, "Too many sign-ins of you or your address. Try again in some minutes."),
    "busy": (503, "Too many people sign in at this moment. Try again in a few seconds."),
    "provider": (503, "The identity provider does not answer as it should. Try again later."),
}
