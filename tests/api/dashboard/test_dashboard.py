"""Who is at home: callers from this machine itself."""

import pytest
from fastapi import Request

from api.dashboard import routes as dashboard


@pytest.mark.parametrize(
    ("client", "is_at_home"),
    [
        ("127.0.0.1", True),
        ("127.8.9.1", True),
        ("::1", True),
        ("::ffff:127.0.0.1", True),
        ("192.0.2.7", False),
        ("10.0.0.1", False),
        ("::ffff:192.0.2.7", False),
        ("", False),
        (None, False),
    ],
)
def test_the_address_of_the_caller_counts_whatever_he_says(client, is_at_home):
    request = Request(
        {
            "type": "http",
            "headers": [(b"host", b"127.0.0.1:8000")],
            "client": None if client is None else (client, 50_000),
        }
    )
    assert dashboard._is_at_home(request) is is_at_home
