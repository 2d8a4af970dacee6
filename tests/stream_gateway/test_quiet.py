"""When a pipeline counts as quiet; the clock is the test's."""

from __future__ import annotations

import pytest

from stream_gateway.quiet import BACK, QUIET, QUIET_AFTER_S, PipelineWatch


class Listener:
    def __init__(self) -> None:
        self.now_s = 1000.0
        self.codes: list[str] = []
        self.watch = PipelineWatch(lambda code, text: self.codes.append(code), lambda: self.now_s)

    def passes(self, seconds: float, *, is_away: bool = False) -> list[str]:
        """Let time pass, looking each second; return the codes sent since the last call."""
        for _ in range(int(seconds)):
            self.now_s += 1
            self.watch.look(is_away=is_away)
        codes, self.codes = self.codes, []
        return codes


@pytest.fixture
def listener() -> Listener:
    return Listener()


def test_slots_that_come_keep_it_from_being_quiet(listener: Listener) -> None:
    for _ in range(20):
        assert listener.passes(QUIET_AFTER_S - 1) == []
        listener.watch.heard()
    assert not listener.watch.is_quiet


def test_quiet_is_sent_once_and_so_is_its_end(listener: Listener) -> None:
    assert listener.passes(QUIET_AFTER_S - 1) == []
    assert listener.passes(1) == [QUIET]
    assert listener.watch.is_quiet
    assert listener.passes(100) == []
    listener.watch.heard()
    listener.watch.heard()
    assert listener.passes(1) == [BACK]
    assert listener.passes(QUIET_AFTER_S) == [QUIET]


def test_time_without_redis_does_not_count(listener: Listener) -> None:
    assert listener.passes(QUIET_AFTER_S - 1) == []
    assert listener.passes(100, is_away=True) == []
    assert listener.passes(QUIET_AFTER_S - 1) == []
    assert listener.passes(1) == [QUIET]
