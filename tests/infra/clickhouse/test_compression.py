import gzip
import random
import zlib

import lz4.frame
import pytest
import zstandard

from infra.clickhouse.compression import Compressor, Decompressor
from infra.clickhouse.errors import QueryError

PLAIN = random.Random(1).randbytes(40_000) + bytes(500_000)
COMPRESS = {
    "lz4": lz4.frame.compress,
    "zstd": lambda data: zstandard.ZstdCompressor().compress(data),
    "gzip": gzip.compress,
    "deflate": zlib.compress,
}
DECOMPRESS = {
    "lz4": lz4.frame.decompress,
    "zstd": lambda data: zstandard.ZstdDecompressor().decompressobj().decompress(data),
    "gzip": gzip.decompress,
    "deflate": zlib.decompress,
}


@pytest.mark.parametrize("encoding", COMPRESS)
@pytest.mark.parametrize("size", [1, 777, 10**6])
def test_a_body_of_several_frames_in_pieces_of_any_size(encoding, size):
    body = COMPRESS[encoding](PLAIN) + COMPRESS[encoding](b"tail")
    decompressor = Decompressor(encoding)
    plain = bytearray()
    for start in range(0, len(body), size):
        for piece in decompressor.pieces(body[start : start + size]):
            plain += piece
    decompressor.finish()
    assert plain == PLAIN + b"tail"


@pytest.mark.parametrize("encoding", COMPRESS)
def test_a_body_cut_short_or_broken_is_refused(encoding):
    decompressor = Decompressor(encoding)
    list(decompressor.pieces(COMPRESS[encoding](PLAIN)[:-3]))
    with pytest.raises(QueryError, match="cut short") as caught:
        decompressor.finish()
    assert caught.value.code == 271
    with pytest.raises(QueryError, match=f"not valid {encoding}"):
        list(Decompressor(encoding).pieces(b"\x00\xff" * 100))


def test_an_unknown_encoding_names_what_is_accepted():
    with pytest.raises(QueryError, match="lz4, zstd, gzip, deflate") as caught:
        Decompressor("snappy")
    assert caught.value.code == 89


@pytest.mark.parametrize("encoding", DECOMPRESS)
def test_an_answer_in_pieces_reads_back(encoding):
    compressor = Compressor.accepted(f"br, {encoding};q=1.0")
    assert compressor is not None
    assert compressor.encoding == encoding
    body = compressor.compress(PLAIN[:1000]) + compressor.compress(PLAIN[1000:])
    assert DECOMPRESS[encoding](body + compressor.finish()) == PLAIN


def test_an_empty_answer_is_a_valid_frame():
    compressor = Compressor.accepted("lz4")
    assert compressor is not None
    assert lz4.frame.decompress(compressor.finish()) == b""


@pytest.mark.parametrize("accept", ["", "identity", "br", "gzip;q=0"])
def test_no_encoding_in_common_means_plain(accept):
    assert Compressor.accepted(accept) is None
