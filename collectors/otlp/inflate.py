"""Bodies out of their Content-Encoding, never beyond the limit: a bomb is stopped while it inflates."""

from __future__ import annotations

import zlib

from collectors.errors import TooLarge, Undecodable, UnsupportedMedia

_GZIP, _ZLIB, _RAW = 31, 15, -15  # zlib's wbits


class Inflater:
    """Takes a body's chunks as they come, gives the inflated body. limit: bytes, before and after."""

    def __init__(self, encoding: str, limit: int) -> None:
        """Raises UnsupportedMedia for an encoding that is neither identity, gzip nor deflate."""
        encoding = encoding.strip().lower()
        if encoding not in {"", "identity", "none", "gzip", "x-gzip", "deflate"}:
            raise UnsupportedMedia(f"Content-Encoding {encoding[:40]!r} is not known; send gzip, deflate or none")
        self._limit = limit
        self._parts: list[bytes] = []
        self._received = 0
        self.size = 0
        self._wbits = {"gzip": _GZIP, "x-gzip": _GZIP, "deflate": _ZLIB}.get(encoding, 0)
        self._stream: zlib._Decompress | None = None

    def feed(self, chunk: bytes) -> int:
        """Take a chunk; return how many bytes it gave. Raises TooLarge or Undecodable."""
        self._received += len(chunk)
        if self._received > self._limit:
            raise TooLarge(f"the body is larger than {self._limit} bytes")
        before = self.size
        if not self._wbits:
            self._add(chunk)
        else:
            try:
                self._inflate(chunk)
            except zlib.error as error:
                raise Undecodable(f"the body is not what its Content-Encoding says ({error})") from error
        return self.size - before

    def _inflate(self, chunk: bytes) -> None:
        while chunk:
            if self._stream is None or self._stream.eof:  # the first chunk, or another gzip member
                self._stream = zlib.decompressobj(self._wbits)
            try:
                self._add(self._stream.decompress(chunk, self._limit - self.size + 1))
            except zlib.error:
                if self._wbits != _ZLIB or self.size or self._received != len(chunk):
                    raise
                self._wbits = _RAW  # some senders' deflate has no zlib header
                self._stream = None
                continue
            chunk = self._stream.unused_data

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
