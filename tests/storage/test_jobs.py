from __future__ import annotations

import multiprocessing
from pathlib import Path

from storage import jobs
from storage.store import Store, open_ops
from tests.storage.support import settings

SPAWN = multiprocessing.get_context("spawn")


def enqueue(store: Store, act_id: str = "a", now_ms: int = 1_000, not_before_ms: int = 0) -> jobs.Job:
    return jobs.enqueue(
        store,
        kind="reclaim",
        act_id=act_id,
        namespace="faq",
        parameters={"batch": 500},
        now_ms=now_ms,
        not_before_ms=not_before_ms,
    )


def get(store: Store, job_id: str) -> jobs.Job:
    with store.read() as connection:
        job = jobs.get(connection, job_id)
    assert job is not None
    return job


def claim(store: Store, now_ms: int, lease_ms: int = 1_000) -> jobs.Job:
    job = jobs.claim(store, lease_ms=lease_ms, now_ms=now_ms)
    assert job is not None
    return job


def test_an_act_has_one_job(ops: Store) -> None:
    first = enqueue(ops)
    claim(ops, 2_000)
    again = enqueue(ops, now_ms=3_000)
    assert (again.id, again.state, again.created_ms) == (first.id, "running", 1_000)
    with ops.read() as connection:
        assert jobs.of_act(connection, "a") == again
        assert jobs.of_act(connection, "b") is None
        assert jobs.list_recent(connection) == [again]


def test_the_life_of_a_job(ops: Store) -> None:
    enqueue(ops)
    job = claim(ops, 2_000)
    assert (job.state, job.attempts, job.lease_ms, job.parameters) == ("running", 1, 3_000, {"batch": 500})
    assert jobs.progress(ops, job, {"done": 1, "total": 2}, lease_ms=1_000, now_ms=2_500)
    assert get(ops, job.id).lease_ms == 3_500
    assert jobs.finish(ops, job, now_ms=2_600)
    done = get(ops, job.id)
    assert (done.state, done.progress, done.finished_ms) == ("done", {"done": 1, "total": 2}, 2_600)
    assert not jobs.finish(ops, job, now_ms=2_700, progress={"done": 9})
    assert jobs.claim(ops, lease_ms=1, now_ms=99_000) is None


def test_the_oldest_due_job_comes_first(ops: Store) -> None:
    enqueue(ops, "later", 1_000, not_before_ms=9_000)
    enqueue(ops, "second", 3_000)
    enqueue(ops, "first", 2_000)
    assert [claim(ops, 4_000).act_id, claim(ops, 4_000).act_id] == ["first", "second"]
    assert jobs.claim(ops, lease_ms=1_000, now_ms=4_000) is None
    assert claim(ops, 9_000, 10_000).act_id in ("later", "first")


def test_a_dead_workers_job_goes_to_another_whose_word_alone_counts(ops: Store) -> None:
    enqueue(ops)
    dead = claim(ops, 2_000)
    assert jobs.claim(ops, lease_ms=1_000, now_ms=3_000) is None
    other = claim(ops, 3_001)
    assert other.attempts == 2
    assert not jobs.progress(ops, dead, {"done": 1}, lease_ms=1_000, now_ms=3_002)
    assert not jobs.finish(ops, dead, now_ms=3_002)
    assert not jobs.fail(ops, dead, "late", now_ms=3_002)
    assert jobs.finish(ops, other, now_ms=3_003, progress={"done": 2})
    assert get(ops, other.id).progress == {"done": 2}


def test_a_job_that_kills_its_workers_is_failed_after_three(ops: Store) -> None:
    enqueue(ops)
    for number in range(jobs.MAX_ATTEMPTS):
        assert claim(ops, 2_000 + number * 2_000).attempts == number + 1
    assert jobs.claim(ops, lease_ms=1_000, now_ms=10_000) is None
    job = get(ops, "reclaim-a")
    assert (job.state, job.finished_ms) == ("failed", 10_000)
    assert "given up" in job.error


def test_a_failed_attempt_is_tried_again_later_three_times_in_all(ops: Store) -> None:
    enqueue(ops)
    now_ms = 2_000
    for attempt in (1, 2):
        assert jobs.fail(ops, claim(ops, now_ms), "store gone", now_ms=now_ms, retry_ms=500)
        job = get(ops, "reclaim-a")
        assert (job.state, job.error, job.not_before_ms, job.attempts) == ("queued", "store gone", now_ms + 500, attempt)
        assert jobs.claim(ops, lease_ms=1_000, now_ms=now_ms + 499) is None
        now_ms += 500
    assert jobs.fail(ops, claim(ops, now_ms), "store gone", now_ms=now_ms, retry_ms=500)
    assert get(ops, "reclaim-a").state == "failed"


def test_a_failure_for_good_is_not_tried_again(ops: Store) -> None:
    enqueue(ops)
    assert jobs.fail(ops, claim(ops, 2_000), "no such namespace", now_ms=2_100)
    assert get(ops, "reclaim-a").state == "failed"
    assert jobs.claim(ops, lease_ms=1_000, now_ms=9_000) is None


def test_cancelling_stops_a_queued_and_a_running_job(ops: Store) -> None:
    queued = enqueue(ops, "queued")
    assert jobs.cancel(ops, queued.id, now_ms=1_500)
    assert not jobs.cancel(ops, queued.id, now_ms=1_600)
    enqueue(ops, "running")
    job = claim(ops, 2_000)
    assert job.act_id == "running"
    assert jobs.cancel(ops, job.id, now_ms=2_500)
    assert not jobs.progress(ops, job, {"done": 1}, lease_ms=1_000, now_ms=2_600)
    assert not jobs.finish(ops, job, now_ms=2_700)
    assert get(ops, job.id).state == "cancelled"
    assert not jobs.cancel(ops, "no-such-job", now_ms=1)


def test_heartbeats(ops: Store) -> None:
    jobs.beat(ops, worker_id="w1", started_ms=1, now_ms=10)
    jobs.beat(ops, worker_id="w2", started_ms=2, now_ms=11, errors=3)
    jobs.beat(ops, worker_id="w1", started_ms=1, now_ms=12, errors=1)
    with ops.read() as connection:
        assert jobs.beats(connection) == [jobs.Beat("w1", 1, 12, 1), jobs.Beat("w2", 2, 11, 3)]


def claim_all(folder: str, out: str) -> None:
    store = open_ops(settings(Path(folder), busy_timeout_s=60))
    taken = []
    while job := jobs.claim(store, lease_ms=10_000_000, now_ms=2_000):
        taken.append(job.act_id)
    Path(out).write_text("\n".join(taken))
    store.close()


def test_no_two_processes_claim_the_same_job(tmp_path: Path) -> None:
    store = open_ops(settings(tmp_path))
    acts = {f"act{number}" for number in range(30)}
    for act_id in acts:
        enqueue(store, act_id)
    outs = [tmp_path / f"taken{number}" for number in range(3)]
    processes = [SPAWN.Process(target=claim_all, args=(str(tmp_path), str(out))) for out in outs]
    for process in processes:
        process.start()
    for process in processes:
        process.join(120)
    assert [process.exitcode for process in processes] == [0, 0, 0]
    taken = [act_id for out in outs for act_id in out.read_text().split()]
    assert len(taken) == len(acts)
    assert set(taken) == acts
    store.close()


def test_a_failure_that_does_not_count_is_tried_again_without_end(ops: Store) -> None:
    enqueue(ops)
    for attempt in range(5):
        job = claim(ops, 10_000 * (attempt + 1))
        assert jobs.fail(ops, job, "store down", now_ms=10_000 * (attempt + 1), retry_ms=5_000, counts=False)
    assert (get(ops, job.id).state, get(ops, job.id).attempts, get(ops, job.id).error) == ("queued", 0, "store down")


def test_a_lease_that_a_clock_far_ahead_gave_ends_once_the_clock_is_right(ops: Store) -> None:
    enqueue(ops)
    lost = claim(ops, 86_400_000)
    assert jobs.claim(ops, lease_ms=1_000, now_ms=86_399_000) is None, "clocks that differ by a second take nobody's job away"
    assert claim(ops, 3_000).attempts == 2
    assert not jobs.progress(ops, lost, {}, lease_ms=1_000, now_ms=3_100)
