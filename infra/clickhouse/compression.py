"""HTTP bodies in lz4, zstd, gzip and deflate, piece by piece."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator
from typing import Final, Protocol

import lz4.frame
import zstandard

from infra.clickhouse.errors import Code, refusal

# A piece this small cannot inflate to more than about 256 MB, whatever is sent.
_PIECE_BYTES: Final = 8 * 1024


class _Inflating(Protocol):
    @property
    def eof(self) -> bool: ...
    @property
    def unused_data(self) -> bytes: ...
    def decompress(self, data: bytes, /) -> bytes: ...


class _Deflating(Protocol):
    def compress(self, data: bytes, /) -> bytes: ...
    def flush(self) -> bytes: ...


_DECOMPRESSORS: Final[dict[str, Callable[[], _Inflating]]] = {
    "lz4": lz4.frame.LZ4FrameDecompressor,
    "zstd": lambda: zstandard.ZstdDecompressor().decompressobj(),
    "gzip": lambda: zlib.decompressobj(wbits=31),
    "deflate": lambda: zlib.decompressobj(),
}
_COMPRESSORS: Final[dict[str, Callable[[], _Deflating]]] = {
    "zstd": lambda: zstandard.ZstdCompressor(level=1).compressobj(),
    "gzip": lambda: zlib.compressobj(level=1, wbits=31),
    "deflate": lambda: zlib.compressobj(level=1),
}


class Decompressor:
    """A compressed body, made plain as it comes in. Several frames may follow one another."""

    def __init__(self, encoding: str) -> None:
        if encoding not in _DECOMPRESSORS:
            raise refusal(
                Code.UNKNOWN_COMPRESSION_METHOD,
                f"Unknown compression method {encoding!r}: "
                f"Content-Encoding may be {', '.join(_DECOMPRESSORS)}",
            )
        self._encoding = encoding
        self._new = _DECOMPRESSORS[encoding]
        self._frame: _Inflating | None = None

    def pieces(self, data: bytes) -> Iterator[bytes]:
        """Yield what these bytes hold. Raises QueryError if they are not what was declared."""
        for start in range(0, len(data), _PIECE_BYTES):
            rest = data[start : start + _PIECE_BYTES]
            while rest:
                self._frame = self._frame or self._new()
                try:
                    plain = self._frame.decompress(rest)
                except (RuntimeError, zstandard.ZstdError, zlib.error) as error:
                    raise refusal(
                        Code.CANNOT_DECOMPRESS, f"The body is not valid {self._encoding}: {error}"
                    ) from None
                rest = b""
                if self._frame.eof:
                    rest, self._frame = self._frame.unused_data, None
                if plain:
                    yield plain

    def finish(self) -> None:
        """Raise QueryError if the last frame was cut short."""
        if self._frame is not None:
            raise refusal(Code.CANNOT_DECOMPRESS, f"The {self._encoding} body is cut short")


class Compressor:
    """An answer, compressed as it goes out."""

    def __init__(self, encoding: str) -> None:
        self.encoding = encoding
        self._deflating = _Lz4() if encoding == "lz4" else _COMPRESSORS[encoding]()

    @classmethod
    def accepted(cls, accept_encoding: str) -> Compressor | None:
        """Return one for the first encoding of an Accept-Encoding header that we know."""
        for item in accept_encoding.lower().split(","):
            name, _, quality = item.strip().partition(";")
            if (name == "lz4" or name in _COMPRESSORS) and quality.strip() not in ("q=0", "q=0.0"):
                return cls(name)
        return None

    def compress(self, data: bytes) -> bytes:
        """Return the next compressed bytes; often none yet."""
        return self._deflating.compress(data)

    def finish(self) -> bytes:
        """Return the last compressed bytes."""
        return self._deflating.flush()

    def whole(self, data: bytes) -> bytes:
        """Return an answer that is there already, compressed."""
        return self.compress(data) + self.finish()


class _Lz4:
    """One lz4 frame; the library wants it begun before the first bytes."""

    def __init__(self) -> None:
        self._frame = lz4.frame.LZ4FrameCompressor()
        self._begun = False

    def compress(self, data: bytes) -> bytes:
        begin = b"" if self._begun else self._frame.begin()
        self._begun = True
        compressed: bytes = begin + self._frame.compress(data)
        return compressed

    def flush(self) -> bytes:
        begin = b"" if self._begun else self._frame.begin()
        self._begun = True
        last: bytes = begin + self._frame.flush()
        return last
