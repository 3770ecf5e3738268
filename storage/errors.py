"""StorageError
├── permanent
│   ├── StoreMissing    there is no such database yet
│   │   └── StoreGone   there was one: it was deleted or replaced while it was open
│   ├── StoreCorrupt    the file is not a database, or is damaged
│   ├── SchemaTooNew    written by a newer program
│   ├── SchemaTooOld    waits for its writer to migrate it
│   ├── StoreReadOnly   the file or its folder cannot be written
│   ├── InvalidStoreUrl a URL of an unknown kind
│   ├── BackupInvalid   no back-up, or not what was backed up, or its folder cannot be used
│   └── UnknownAct      there is no act of this id
└── retryable
    ├── StoreBusy       locked longer than the timeout
    ├── InUse           a process has open what is to be replaced
    └── StoreFull       no space left on the device
"""

from __future__ import annotations


class StorageError(Exception):
    """Base of all the storage's errors. Messages name the file and what to do next."""

    retryable = False


class StoreMissing(StorageError):
    """There is no such database yet."""


class StoreGone(StoreMissing):
    """There was a database: its file was deleted or replaced while it was open."""


class StoreCorrupt(StorageError):
    """The file is not a database, or is damaged."""


class SchemaTooNew(StorageError):
    """The database was written by a newer program."""


class SchemaTooOld(StorageError):
    """The database waits for its writer to migrate it."""


class StoreReadOnly(StorageError):
    """The file or its folder cannot be written."""


class InvalidStoreUrl(StorageError):
    """The URL is of an unknown kind."""


class BackupInvalid(StorageError):
    """A folder is no back-up, or not what was backed up."""


class UnknownAct(StorageError):
    """There is no act of this id."""


class InUse(StorageError):
    """A process has open what is to be replaced."""

    retryable = True


class StoreBusy(StorageError):
    """Locked longer than the timeout."""

    retryable = True


class StoreFull(StorageError):
    """No space left on the device."""

    retryable = True
