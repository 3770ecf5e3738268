"""Bytes of the disk that are kept for what must be written when it is full: a purge has to hide what a full store still serves."""

from __future__ import annotations

import contextlib
import os
import shutil
from pathlib import Path

_LEAST_BYTES = 256 * 1024  # a change of a record takes some 20 kB of the log
_MOST_BYTES = 16 * 1024 * 1024


class Reserve:
    """A file beside the cache file `path`, for all its users.

    Twice the log's size: what is in the log must fit into the cache file, so that the log can begin anew. Nothing here fails:
    without a reserve a full disk takes no records.
    """

    def __init__(self, path: Path) -> None:
        self.path = path.with_name(f"{path.name}-reserve")
        self._log = path.with_name(f"{path.name}-wal")

    def keep(self) -> None:
        """Take the bytes that are not taken yet, where the disk has them twice: they are not to be what fills it."""
        if not hasattr(os, "posix_fallocate"):
            return  # macOS
        with contextlib.suppress(OSError):
            wanted = min(max(2 * _size(self._log), _LEAST_BYTES), _MOST_BYTES)
            if _size(self.path) >= wanted or shutil.disk_usage(self.path.parent).free < 2 * wanted:
                return
            descriptor = os.open(self.path, os.O_WRONLY | os.O_CREAT, 0o600)
            try:
                os.posix_fallocate(descriptor, 0, wanted)  # a file without blocks would keep nothing
            finally:
                os.close(descriptor)

    def give(self) -> bool:
        """Give the bytes back to the disk; return whether there were any."""
        try:
            self.path.unlink()
        except OSError:
            return False
        return True


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0
