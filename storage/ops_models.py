"""The tables of `ops.db`, written by console, worker and CLI: acts, jobs, analyses, policies, labels. How: as `storage.models` says."""

from __future__ import annotations

from sqlalchemy import Index, UniqueConstraint
from sqlmodel import Field, SQLModel

from storage import metadata as _base
from storage.metadata import big as _big

ops_metadata = _base.ops_metadata


class ActEvent(SQLModel, table=True):
    """An append-only, hash-chained record: what an operator asked for and what came of it."""

    __tablename__ = "act_events"
    metadata = ops_metadata
    # AUTOINCREMENT remembers the highest number ever given: a deleted last row is noticed.
    __table_args__ = (UniqueConstraint("act_id", "event"), Index("ix_act_at", "at_ms"), {"sqlite_autoincrement": True})

    seq: int | None = Field(default=None, primary_key=True)
    act_id: str  # the operation id: a second click with the same id does nothing
    event: str  # pending | done | failed | undone | reclaimed | cancelled
    kind: str  # purge | undo | switch | threshold | verification | score_fit | label | warmup | key_create | key_revoke
    namespace: str = ""
    actor: str
    origin: str  # console | cli | worker
    at_ms: int = Field(sa_column=_big(nullable=False))
    body: str  # JSON: parameters, preview, result, verification. No prompts.
    previous_hash: str
    hash: str  # SHA-256 over the length-prefixed fields and the previous hash


class Job(SQLModel, table=True):
    """Long work, done by the worker; pages poll the row."""

    __tablename__ = "jobs"
    metadata = ops_metadata

    id: str = Field(primary_key=True)
    kind: str  # reclaim | warmup | regret
    act_id: str = Field(unique=True)
    namespace: str = ""
    state: str = "queued"  # queued | running | done | failed | cancelled
    parameters: str = "{}"
    progress: str = "{}"  # JSON: done, total, and what the kind reports
    error: str = ""
    created_ms: int = Field(sa_column=_big(nullable=False))
    not_before_ms: int = Field(default=0, sa_column=_big(nullable=False))
    lease_ms: int = Field(default=0, sa_column=_big(nullable=False))  # running and older than this = a dead worker's
    attempts: int = 0
    finished_ms: int | None = Field(default=None, sa_column=_big())


class WorkerBeat(SQLModel, table=True):
    """A worker's heartbeat."""

    __tablename__ = "worker_beats"
    metadata = ops_metadata

    worker_id: str = Field(primary_key=True)
    started_ms: int = Field(sa_column=_big(nullable=False))
    last_ms: int = Field(sa_column=_big(nullable=False))
    errors: int = 0


class Analysis(SQLModel, table=True):
    """What the worker computed ahead for a page: the newest of each kind, namespace and horizon."""

    __tablename__ = "analyses"
    metadata = ops_metadata

    kind: str = Field(primary_key=True)  # regret | regret_24h | regret_7d | drift | drift_all | score
    namespace: str = Field(primary_key=True)
    horizon: str = Field(
        primary_key=True
    )  # 24h | 7d: which time before at_ms it covers; of a score: its version; of kept figures: their hour
    at_ms: int = Field(sa_column=_big(nullable=False))  # when it was computed
    start_ms: int = Field(sa_column=_big(nullable=False))
    end_ms: int = Field(sa_column=_big(nullable=False))
    lookups: int = Field(sa_column=_big(nullable=False))  # of the namespace in that time, all of them
    parameters: str = "{}"  # JSON: what it was computed with
    result: str = "null"  # JSON; null = too little data


class PolicyRecord(SQLModel, table=True):
    """The history of a namespace's policy. What is in force is the engine's store's to say."""

    __tablename__ = "policy_history"
    metadata = ops_metadata
    __table_args__ = (UniqueConstraint("namespace", "version"),)

    id: int | None = Field(default=None, primary_key=True)
    namespace: str
    version: int
    policy: str  # JSON
    actor: str
    act_id: str
    at_ms: int = Field(sa_column=_big(nullable=False))


class Label(SQLModel, table=True):
    """A person's word on a pair: does the same answer serve?"""

    __tablename__ = "labels"
    metadata = ops_metadata
    __table_args__ = (UniqueConstraint("namespace", "prompt_hash", "candidate_id", "actor"),)

    id: int | None = Field(default=None, primary_key=True)
    namespace: str
    prompt_hash: str
    candidate_id: str
    similarity: float
    serves: bool
    actor: str
    at_ms: int = Field(sa_column=_big(nullable=False))
    features: str = ""  # JSON: numbers that verification makes of the pair; '' = its prompts were not recorded
