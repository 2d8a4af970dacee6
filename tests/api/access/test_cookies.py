"""Cookies of requests, and on whose behalf they are sent."""

from __future__ import annotations

import pytest

from api.access.cookies import secret_of

PREFIX = b"name="


@pytest.mark.parametrize(
    ("headers", "found"),
    [
        ([(b"cookie", b"name=a")], "a"),
        ([(b"cookie", b"other=b; name=a; xname=c")], "a"),
        ([(b"cookie", b"name=")], ""),
        ([(b"cookie", b"name=a; name=a")], None),
        ([(b"cookie", b"name=a"), (b"cookie", b"name=b")], None),
        ([(b"cookie", b"xname=a")], None),
        ([(b"cookie", b"\xff=;;=;")], None),
        ([], None),
    ],
)
def test_a_cookie_counts_where_it_is_the_only_one_of_its_name(headers, found):
    assert secret_of(headers, PREFIX) == found


@pytest.mark.parametrize(
    ("site", "counts"),
    [(b"same-origin", True), (b"none", True), (b"same-site", False), (b"cross-site", False),
     (b"", False)],
)  # fmt: skip
def test_it_counts_where_the_page_is_our_own(site, counts):
    cookie, site_header = (b"cookie", b"name=a"), (b"sec-fetch-site", site)
    for headers in ([cookie, site_header], [site_header, cookie]):
        assert (secret_of(headers, PREFIX) == "a") is counts
