"""Images are known by their bytes; what is none, or too large to draw, is refused."""

from __future__ import annotations

import zlib
from contextlib import suppress
from struct import pack

import pytest
from hypothesis import given
from hypothesis import strategies as st

from api.metadata.failures import Failed
from api.metadata.raster import Raster, recognise


def png(width, height):
    ihdr = b"IHDR" + pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + pack(">I", 13) + ihdr + pack(">I", zlib.crc32(ihdr))


def gif(width, height):
    return b"GIF89a" + pack("<HH", width, height) + bytes(3) + frame(width, height) + b";"


def frame(width, height, left=0, top=0):
    place = pack("<HHHH", left, top, width, height)
    return b"," + place + b"\0" + b"\2" + b"\2xx\0"  # no colors of its own; one part of two bytes


def jpeg(width, height):
    segment = b"\xff\xe0" + pack(">H", 16) + b"JFIF\0" + bytes(9)
    frame = b"\xff\xff\xc2" + pack(">HBHHB", 11, 8, height, width, 1) + bytes(3)
    return b"\xff\xd8" + segment + frame


def webp(kind, body):
    chunk = kind + pack("<I", len(body)) + body
    return b"RIFF" + pack("<I", 4 + len(chunk)) + b"WEBP" + chunk + bytes(16)


def webp_lossy(width, height):
    return webp(b"VP8 ", b"\0\0\0\x9d\x01\x2a" + pack("<HH", width, height))


def webp_lossless(width, height):
    return webp(b"VP8L", b"\x2f" + pack("<I", (height - 1) << 14 | (width - 1)))


def webp_extended(width, height):
    size = (width - 1).to_bytes(3, "little") + (height - 1).to_bytes(3, "little")
    return webp(b"VP8X", bytes(4) + size)


MAKERS = {
    png: "image/png",
    gif: "image/gif",
    jpeg: "image/jpeg",
    webp_lossy: "image/webp",
    webp_lossless: "image/webp",
    webp_extended: "image/webp",
}


@pytest.mark.parametrize("make", MAKERS)
def test_kind_and_dimensions(make):
    assert recognise(make(300, 200)) == Raster(MAKERS[make], 300, 200)


@pytest.mark.parametrize("make", [png, gif, jpeg, webp_lossless, webp_extended])
def test_too_many_pixels(make):
    for width, height in ((16_383, 1), (5_000, 5_000)):
        with pytest.raises(Failed) as caught:
            recognise(make(width, height))
        assert caught.value.reason == "too_many_pixels"


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"<svg xmlns='http://www.w3.org/2000/svg'/>",
        b"<?xml version='1.0'?><svg/>",
        b"<!doctype html><script>alert(1)</script>",
        b"BM" + bytes(60),
        b"\0\0\x01\0" + bytes(60),
        b"\0\0\0\x1cftypavif" + bytes(60),
        png(1, 0),
        gif(0, 1),
        jpeg(0, 5),
        png(9, 9)[:20],
        jpeg(9, 9)[:24],
        b"\xff\xd8\xff\xda" + bytes(60),
        b"\xff\xd8" + b"\xff\xe0\x00\x02" * 200_000 + jpeg(9, 9)[2:],
        b"\xff\xd8" + b"\xff" * 900_000 + jpeg(9, 9)[2:],
        webp(b"ALPH", bytes(20)),
    ],
)
def test_what_is_no_raster_image(data):
    with pytest.raises(Failed) as caught:
        recognise(data)
    assert caught.value.reason == "not_an_image"


@given(
    st.sampled_from([b"", b"\x89PNG\r\n\x1a\n", b"GIF89a", b"\xff\xd8\xff", b"RIFF\0\0\0\0WEBP"]),
    st.binary(max_size=200),
)
def test_any_bytes_are_an_image_or_refused(begin, rest):
    with suppress(Failed):
        found = recognise(begin + rest)
        assert found.width > 0
        assert found.height > 0


def test_a_gif_is_as_large_as_its_largest_frame():
    small = b"GIF89a" + pack("<HH", 96, 96) + b"\x80\0\0" + bytes(6)  # two colors
    note = b"!\xfe\3abc\0"
    assert recognise(small + note + frame(96, 96) + b";") == Raster("image/gif", 96, 96)
    assert recognise(small + frame(200, 10, 5, 300) + b";") == Raster("image/gif", 205, 310)
    with pytest.raises(Failed, match="pixels"):
        recognise(small + frame(12_000, 12_000) + b";")
    for cut in (small, small + frame(9, 9), small + b"!\xfe" + b"\1x" * 20_000 + b"\0;"):
        with pytest.raises(Failed, match="no PNG"):
            recognise(cut)


def test_a_jpeg_has_no_segment_of_a_marker_that_is_none():
    hidden = b"\xff\xc0\0\x11\x08" + pack(">HH", 60_000, 60_000) + bytes(10)
    shown = b"\xff\xc0\0\x11\x08" + pack(">HH", 96, 96) + bytes(10)
    start = b"\xff\xd8"
    with pytest.raises(Failed, match="no PNG"):
        recognise(start + b"\xff\x00" + pack(">H", 2 + len(hidden)) + hidden + shown)
