"""Topics and commits: what a restart finds, and how much the broker writes down for it."""

import resource
from contextlib import contextmanager

import pytest

from infra.kafka.broker import store as module
from infra.kafka.broker.store import Shape, Store, TopicExists

MAX_BYTES = 1 << 20


def test_a_restart_finds_topics_and_the_last_commits(tmp_path):
    store = Store(tmp_path, MAX_BYTES)
    store.create("trades", Shape(2, 1000))
    with pytest.raises(TopicExists):
        store.create("trades", Shape(2))
    store.commit("group", "trades", 0, 5, "")
    store.commit("group", "trades", 0, 7, "note")
    store.commit("group", "trades", 1, 9, "")
    store.close()
    with (tmp_path / "commits.jsonl").open("ab") as file:
        file.write(b'["group","trades",0,8')  # as a crash leaves it
    again = Store(tmp_path, MAX_BYTES)
    assert again.shapes == {"trades": Shape(2, 1000)}
    assert again.committed("group", "trades", 0) == (7, "note")
    assert again.committed("group", "trades", 1) == (9, "")
    assert again.committed("group", "trades", 2) == (-1, "")
    again.delete("trades")
    again.close()
    assert Store(tmp_path, MAX_BYTES).shapes == {}


def test_commits_do_not_fill_the_disk(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "MAX_COMMIT_LINES", 10)
    store = Store(tmp_path, MAX_BYTES)
    for offset in range(1000):
        store.commit("group", "trades", offset % 3, offset, "")
    assert len((tmp_path / "commits.jsonl").read_bytes().splitlines()) <= 3 + 10
    store.close()
    again = Store(tmp_path, MAX_BYTES)
    assert [again.committed("group", "trades", n)[0] for n in range(3)] == [999, 997, 998]


@contextmanager
def files_of_at_most(size):
    """Let this process write no larger files: as on a full disk."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_commits_outlive_a_full_disk(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "MAX_COMMIT_LINES", 10)
    store = Store(tmp_path, MAX_BYTES)
    path = tmp_path / "commits.jsonl"
    for offset in range(10):
        store.commit("group", "trades", offset, offset, "")
    with files_of_at_most(path.stat().st_size + 5), pytest.raises(OSError, match="part of a line"):
        store.commit("group", "trades", 0, 100, "")
    assert store.committed("group", "trades", 0) == (0, "")
    (tmp_path / "commits.new").mkdir()  # the lines cannot be written anew
    for offset in range(20):
        store.commit("group", "trades", 1, offset, "")
    (tmp_path / "commits.new").rmdir()
    store.commit("group", "trades", 0, 101, "")
    assert len(path.read_bytes().splitlines()) == 10
    store.close()
    again = Store(tmp_path, MAX_BYTES)
    assert [again.committed("group", "trades", n)[0] for n in range(3)] == [101, 19, 2]
    again.close()
