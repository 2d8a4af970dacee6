"""Which clients take gzip, and what they get."""

import gzip

import pytest

from api.http.compression import accepts_gzip, compress


@pytest.mark.parametrize(
    ("header", "takes"),
    [
        (b"gzip", True),
        (b"GZIP", True),
        (b"deflate, gzip;q=0.5, br", True),
        (b"*", True),
        (b"br, *;q=0.1", True),
        (b"", False),
        (b"identity", False),
        (b"br", False),
        (b"gzip;q=0", False),
        (b"gzip;q=0.0, *", False),
        (b"gzip;q=none", False),
        (b"xgzip", False),
        (b"*;q=0", False),
    ],
)
def test_gzip_is_for_clients_that_take_it(header, takes):
    assert accepts_gzip(header) is takes


@pytest.mark.parametrize("size", [0, 5_000, 500_000])
async def test_what_is_compressed_is_the_same_again(size):
    body = bytes(range(250)) * (size // 250)
    packed = await compress(body)
    assert gzip.decompress(packed) == body
