import pytest

from infra.clickhouse.errors import QueryError
from infra.clickhouse.sessions import Sessions


def test_a_session_keeps_its_statements_latest_last():
    sessions = Sessions()
    with sessions.enter("a", 60, must_exist=False) as session:
        for sql in ("SET x = 1", "SET x = 2", "SET x = 1"):
            session.remember(sql)
    with sessions.enter("a", 60, must_exist=True) as session:
        assert list(session.statements) == ["SET x = 2", "SET x = 1"]


def test_a_session_serves_one_request_at_a_time():
    sessions = Sessions()
    with (
        sessions.enter("a", 60, must_exist=False),
        sessions.enter("b", 60, must_exist=False),
        pytest.raises(QueryError, match="locked") as caught,
        sessions.enter("a", 60, must_exist=False),
    ):
        pass
    assert caught.value.code == 373
    with sessions.enter("a", 60, must_exist=True):
        pass


def test_an_idle_session_is_forgotten():
    sessions = Sessions()
    with sessions.enter("a", -1, must_exist=False) as session:
        session.remember("SET x = 1")
    with (
        pytest.raises(QueryError, match="not found") as caught,
        sessions.enter("a", 60, must_exist=True),
    ):
        pass
    assert caught.value.code == 372
    with sessions.enter("a", 60, must_exist=False) as session:
        assert not session.statements


def test_a_session_cannot_grow_without_end():
    with Sessions().enter("a", 60, must_exist=False) as session:
        for i in range(200):
            session.remember(f"SET x = {i}")
        with pytest.raises(QueryError, match="at most 200"):
            session.remember("SET x = 200")
