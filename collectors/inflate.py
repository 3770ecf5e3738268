"""Bodies out of their Content-Encoding, never beyond the limit: a bomb is stopped while it inflates."""

from __future__ import annotations

import sys
import zlib
from typing import Protocol

from collectors.errors import TooLarge, Undecodable, UnsupportedMedia

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

_GZIP, _ZLIB, _RAW = 31, 15, -15  # zlib's wbits
# RFC 8878 asks decoders for 8 MiB; a frame that asks for more could make each connection hold 2 GiB.
_ZSTD_OPTIONS: dict[int, int] = {zstd.DecompressionParameter.window_log_max: 23}
ENCODINGS = ("gzip", "deflate", "zstd")


class _Stream(Protocol):
    """What zlib's and zstd's decompressors have in common."""

    @property
    def eof(self) -> bool: ...

    @property
    def unused_data(self) -> bytes: ...

    def decompress(self, data: bytes, max_length: int = ..., /) -> bytes: ...


class Inflater:
    """Takes a body's chunks as they come, gives the inflated body. limit: bytes, before and after."""

    def __init__(self, encoding: str, limit: int) -> None:
        """Raises UnsupportedMedia for an encoding that is none of identity, gzip, deflate and zstd."""
        encoding = encoding.strip().lower().removeprefix("x-")
        if encoding not in {"", "identity", "none", *ENCODINGS}:
            raise UnsupportedMedia(f"Content-Encoding {encoding[:40]!r} is not known; send {', '.join(ENCODINGS)} or none")
        self._encoding = encoding if encoding in ENCODINGS else ""
        self._limit = limit
        self._parts: list[bytes] = []
        self._received = 0
        self.size = 0
        self._raw_deflate = False
        self._stream: _Stream | None = None

    def feed(self, chunk: bytes) -> int:
        """Take a chunk; return how many bytes it gave. Raises TooLarge or Undecodable."""
        self._received += len(chunk)
        if self._received > self._limit:
            raise TooLarge(f"the body is larger than {self._limit} bytes")
        before = self.size
        if not self._encoding:
            self._add(chunk)
        else:
            try:
                self._inflate(chunk)
            except (zlib.error, zstd.ZstdError) as error:
                raise Undecodable(f"the body is not what its Content-Encoding says ({error})") from error
        return self.size - before

    def _inflate(self, chunk: bytes) -> None:
        while chunk:
            if self._stream is None or self._stream.eof:  # the first chunk, or another member or frame
                self._stream = self._new_stream()
            try:
                self._add(self._stream.decompress(chunk, self._limit - self.size + 1))
            except zlib.error:
                if self._encoding != "deflate" or self._raw_deflate or self.size or self._received != len(chunk):
                    raise
                self._raw_deflate = True  # some senders' deflate has no zlib header
                self._stream = None
                continue
            chunk = self._stream.unused_data

    def _new_stream(self) -> _Stream:
        if self._encoding == "zstd":
            return zstd.ZstdDecompressor(options=_ZSTD_OPTIONS)
        return zlib.decompressobj(_GZIP if self._encoding == "gzip" else _RAW if self._raw_deflate else _ZLIB)

    def _add(self, part: bytes) -> None:
        self.size += len(part)
        if self.size > self._limit:
            raise TooLarge(f"the body is larger than {self._limit} bytes after decompression")
        self._parts.append(part)

    def body(self) -> bytes:
        """Return the whole body. Raises Undecodable when it was cut short."""
        if self._stream is not None and not self._stream.eof:
            raise Undecodable("the compressed body was cut short")
        return b"".join(self._parts)
