"""Opening the SQLite file, and what keeps it small."""

from __future__ import annotations

import sqlite3
import stat
from collections import Counter
from contextlib import closing
from pathlib import Path

import pytest

from engine.errors import InvalidSetting, StoreCorrupt, TierUnavailable
from engine.tiers import sqlite_file
from engine.tiers.sqlite import SqliteTier
from engine.types import RemovalCause
from tests.conformance.samples import FakeClock, entry, key_of


def opened(path: Path, clock: FakeClock | None = None) -> SqliteTier:
    return SqliteTier(path, timeout_s=30, clock=clock or FakeClock())


async def test_the_file_is_readable_by_its_owner_alone(tmp_path: Path) -> None:
    store = opened(tmp_path / "cache.db")
    await store.put(entry())
    for file in tmp_path.glob("cache.db*"):
        assert stat.S_IMODE(file.stat().st_mode) == 0o600, file
    await store.close()


async def test_a_full_file_gives_its_reserve_for_a_record_and_takes_it_again(tmp_path: Path) -> None:
    store, reserve = opened(tmp_path / "cache.db"), tmp_path / "cache.db-reserve"
    assert reserve.stat().st_blocks * 512 >= 256 * 1024
    for number in range(64):
        await store.put(entry(number, body=b"x" * 10_000))
    await store.put(entry("the 65th", body=b"x"))
    assert reserve.stat().st_size > 1_000_000, "it grows with the log"
    store._connection.execute("PRAGMA max_page_count = 1")
    with pytest.raises(TierUnavailable, match="takes no writes"):
        await store.put(entry("one more", body=b"x" * 100_000))
    assert reserve.exists(), "an entry is not worth it"
    await store.control_put("record:1", "x" * 100_000)
    assert not reserve.exists()
    await store.control_token()
    assert reserve.exists()
    await store.close()


async def test_a_damaged_file_is_refused_with_its_name_and_the_next_step(tmp_path: Path) -> None:
    path = tmp_path / "cache.db"
    path.write_bytes(b"this is no database, " * 1000)
    with pytest.raises(StoreCorrupt, match=r"cache\.db is damaged.*move it"):
        opened(path)
    path.unlink()
    store = opened(path)
    for number in range(200):
        await store.put(entry(number, body=b"x" * 3_000))
    await store.close()
    with path.open("r+b") as file:
        file.truncate(path.stat().st_size // 2)
    with pytest.raises(StoreCorrupt, match="move it"):
        opened(path)


@pytest.mark.parametrize("checked_bytes", [64 * 1024 * 1024, 0], ids=["whole", "small tables"])
async def test_damaged_control_records_are_refused_in_one_line_whatever_the_file_s_size(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, checked_bytes: int
) -> None:
    monkeypatch.setattr(sqlite_file, "_CHECKED_BYTES", checked_bytes)
    path = tmp_path / "cache.db"
    store = opened(path)
    for number in range(40):
        await store.control_put(f"policy:{number}", "x" * 1_000)
    await store.close()
    connection = sqlite3.connect(path)
    root = connection.execute("SELECT rootpage FROM sqlite_master WHERE name = 'control'").fetchone()[0]
    size = connection.execute("PRAGMA page_size").fetchone()[0]
    connection.close()
    with path.open("r+b") as file:
        file.seek((root - 1) * size)
        file.write(b"\xa5" * size)
    with pytest.raises(StoreCorrupt, match=r"is damaged.*move it") as refused:
        opened(path)
    assert "\n" not in str(refused.value)


def test_a_foreign_database_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "other.db"
    with sqlite3.connect(path) as other:
        other.execute("CREATE TABLE t (x)")
    with pytest.raises(StoreCorrupt, match="another program"):
        opened(path)


async def test_a_newer_schema_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "cache.db"
    await opened(path).close()
    other = sqlite3.connect(path)
    other.execute("PRAGMA user_version = 99")
    other.close()
    with pytest.raises(StoreCorrupt, match="newer than this"):
        opened(path)


def test_a_folder_that_is_not_there_is_told(tmp_path: Path) -> None:
    with pytest.raises(InvalidSetting, match="folder"):
        opened(tmp_path / "nowhere" / "cache.db")


async def test_expired_rows_are_purged_by_later_puts(tmp_path: Path) -> None:
    clock = FakeClock()
    store = opened(tmp_path / "cache.db", clock)
    for number in range(500):
        await store.put(entry(number, expires_ms=clock() + 1))
    clock.now_ms += 1
    for number in range(200):
        await store.put(entry(("new", number)))
    other = sqlite3.connect(tmp_path / "cache.db")
    assert other.execute("SELECT count(*) FROM entries").fetchone()[0] == 200
    other.close()
    await store.close()


async def test_expired_rows_go_at_control_polls_without_a_put_and_leave_nothing_in_the_file(tmp_path: Path) -> None:
    path, clock = tmp_path / "cache.db", FakeClock()
    writer = opened(path, clock)
    await writer.put(entry(1, prompt="a very secret prompt", expires_ms=clock() + 1))
    late = FakeClock()
    late.now_ms = clock() + 10
    idle = opened(path, late)
    assert (await idle.scan(entry(1).namespace, "", 10))[0] == []
    assert len((await idle.scan(entry(1).namespace, "", 10, expired=True))[0]) == 1
    await idle.control_token()
    assert (await idle.scan(entry(1).namespace, "", 10, expired=True))[0] == []
    await idle.close()
    await writer.close()
    assert b"a very secret prompt" not in path.read_bytes()


async def test_what_leaves_is_told_by_cause_and_the_file_is_bounded_in_bytes(tmp_path: Path) -> None:
    clock, told = FakeClock(), Counter[RemovalCause]()
    path = tmp_path / "cache.db"
    store = SqliteTier(path, timeout_s=30, clock=clock, max_bytes=2_000_000, removed=lambda cause, count: told.update({cause: count}))
    await store.put(entry("short", expires_ms=clock() + 1))
    await store.put(entry("twice"))
    await store.put(entry("twice"))
    assert told == {RemovalCause.REPLACED: 1}
    clock.now_ms += 1
    for number in range(62):
        await store.put(entry(number))
    assert told == {RemovalCause.REPLACED: 1, RemovalCause.EXPIRED: 1}
    assert await store.delete([key_of("twice"), key_of("nobody")]) == 1
    assert told[RemovalCause.EXPLICIT] == 1
    for number in range(400):
        await store.put(entry(("large", number), body=b"x" * 20_000, expires_ms=clock() + 60_000 + number))
        with closing(sqlite3.connect(path)) as connection:
            assert sqlite_file.used_bytes(connection) < 2_500_000
    assert await store.get(key_of(("large", 399))) is not None
    assert await store.get(key_of(("large", 0))) is None
    assert told[RemovalCause.SIZE] > 300
    await store.close()
