"""Frames as the server sends them, read back by a client of another make."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from websockets.frames import Close, Opcode
from websockets.protocol import CLIENT, Protocol

from stream_gateway.frames import close_frame, ping_frame, pong_frame, text_frame


def read(data):
    """Return the frames that a client of `websockets` sees."""
    client = Protocol(CLIENT, max_size=None)
    client.receive_data(data)
    assert client.parser_exc is None
    return client.events_received()


@pytest.mark.parametrize("size", [0, 1, 125, 126, 127, 65_535, 65_536, 1_000_000])
def test_text_of_any_length_comes_out_as_it_went_in(size):
    payload = b"x" * size
    [frame] = read(text_frame(payload))
    assert (frame.opcode, frame.data, frame.fin) == (Opcode.TEXT, payload, True)
    assert (frame.rsv1, frame.rsv2, frame.rsv3) == (False, False, False)


def test_frames_may_be_joined():
    payloads = [b"{}", "ÿ€𝄞".encode(), b"x" * 300]
    frames = read(b"".join(map(text_frame, payloads)))
    assert [frame.data for frame in frames] == payloads


SIZES = st.integers(0, 300) | st.integers(65_530, 65_540)


@given(
    st.lists(SIZES, max_size=5), st.lists(st.integers(0, 2**18), max_size=8), st.binary(max_size=1)
)
def test_frames_cut_anywhere_come_out_as_they_went_in(sizes, cuts, filler):
    payloads = [(filler or b"x") * size for size in sizes]
    sent = b"".join(map(text_frame, payloads))
    client = Protocol(CLIENT, max_size=None)
    places = [0, *sorted(cut % (len(sent) + 1) for cut in cuts), len(sent)]
    for start, end in pairwise(places):
        client.receive_data(sent[start:end])
    assert client.parser_exc is None
    assert [frame.data for frame in client.events_received()] == payloads


def test_a_close_frame_has_code_and_reason():
    [frame] = read(close_frame(4008, "too slow"))
    assert frame.opcode is Opcode.CLOSE
    assert Close.parse(frame.data) == Close(4008, "too slow")


@pytest.mark.parametrize("letter", ["x", "é", "€", "𝄞"])
def test_a_long_reason_is_cut_between_characters(letter):
    [frame] = read(close_frame(1011, letter * 200))
    close = Close.parse(frame.data)
    assert close.reason == letter * (123 // len(letter.encode()))


def test_pings_and_pongs():
    assert [(f.opcode, f.data) for f in read(ping_frame() + pong_frame(b"y" * 125))] == [
        (Opcode.PING, b""),
        (Opcode.PONG, b"y" * 125),
    ]
