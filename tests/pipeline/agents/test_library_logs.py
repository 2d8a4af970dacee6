"""Library log lines: one of a kind in a while, without tracebacks; ours are left alone."""

from __future__ import annotations

import logging

import pytest

from pipeline.agents import library_logs
from pipeline.agents.library_logs import EVERY_S, OncePerKind


def line(name: str, text: str, *arguments: object, failed: Exception | None = None):
    exc_info = (type(failed), failed, None) if failed else None
    return logging.LogRecord(name, logging.ERROR, "file", 1, text, arguments, exc_info)


def test_a_kind_is_written_once_in_ten_seconds(monkeypatch: pytest.MonkeyPatch):
    now = 1000.0
    monkeypatch.setattr(library_logs.time, "monotonic", lambda: now)
    once = OncePerKind()
    assert once.filter(line("aiokafka.conn", "no connection to %s", "a"))
    assert not once.filter(line("aiokafka.conn", "no connection to %s", "b"))
    assert once.filter(line("aiokafka.conn", "another kind"))
    assert once.filter(line("faust.app", "no connection to %s", "a"))
    now += EVERY_S
    assert once.filter(line("aiokafka.conn", "no connection to %s", "a"))


def test_a_traceback_becomes_its_last_line():
    record = line("mode.services", "Crashed %s", "x", failed=ValueError("why"))
    assert OncePerKind().filter(record)
    assert record.getMessage() == "Crashed x: ValueError('why')"
    assert record.exc_info is None


def test_our_own_lines_all_pass():
    once = OncePerKind()
    record = line("pipeline.agents", "same", failed=ValueError("why"))
    assert once.filter(record)
    assert once.filter(record)
    assert record.exc_info
