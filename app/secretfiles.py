"""Folders and secret files: made with the right modes at once, and by one process only."""

from __future__ import annotations

import contextlib
import os
import secrets
import stat
import tempfile
from pathlib import Path

from app.errors import ConfigError


def make_folder(folder: Path, *, setting: str) -> None:
    """Make the folder (0700) where there is none. Raises ConfigError when it cannot be made or written."""
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except FileExistsError as error:
        raise ConfigError(f"{setting}: {folder} is a file; expected a folder (set CACHESCOPE_{setting.upper()})") from error
    except OSError as error:
        raise ConfigError(
            f"{setting}: cannot make {folder}: {error.strerror} (set CACHESCOPE_{setting.upper()} to a folder you own)"
        ) from error
    if not os.access(folder, os.R_OK | os.W_OK | os.X_OK):
        raise ConfigError(f"{setting}: {folder} cannot be written (set CACHESCOPE_{setting.upper()} to a folder you own)")


def read_or_make_secret(file: Path, *, setting: str) -> str:
    """Return the file's secret; make the file (0600, 64 hex digits) when there is none. Raises ConfigError.

    Two processes that start at once agree: the link to the final name succeeds for one of them, the other reads that one's.
    """
    found = _read_secret(file, setting)
    if found:
        return found
    make_folder(file.parent, setting="data_dir")
    try:
        with tempfile.NamedTemporaryFile("w", dir=file.parent, prefix=f".{file.name}-") as draft:
            draft.write(secrets.token_hex(32))
            draft.flush()
            os.fsync(draft.fileno())
            with contextlib.suppress(FileExistsError):
                os.link(draft.name, file)
    except OSError as error:
        raise ConfigError(f"{setting}: cannot make {file}: {error.strerror}") from error
    return _read_secret(file, setting)


def _read_secret(file: Path, setting: str) -> str:
    try:
        with file.open(encoding="ascii") as opened:
            mode = stat.S_IMODE(os.fstat(opened.fileno()).st_mode)
            text = opened.read().strip()
    except FileNotFoundError:
        return ""
    except OSError as error:
        raise ConfigError(f"{setting}: cannot read {file}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"{setting}: {file} is not what Cachescope wrote; remove it to make a new one") from error
    if mode & 0o077:
        raise ConfigError(f"{setting}: {file} can be read by others; run: chmod 600 '{file}'")
    if len(text) < 32:
        raise ConfigError(f"{setting}: {file} holds fewer than 32 characters; remove it to make a new one")
    return text
