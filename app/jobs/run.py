"""What a running job is given: its row, the context of its acts, and how to report, to notice a cancel and to stop."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from app.admin.context import AdminContext
from app.errors import AppError
from storage import jobs

LEASE_MS = 15_000  # a job whose worker says nothing for this long is another worker's to take
RETRY_MS = 5_000  # pause before a job is taken up again after something that may pass
LONGEST_RETRY_MS = 60_000  # a reclaim's pause doubles up to this: it waits for the store as long as it takes


class JobStopped(AppError):
    """The worker is asked to end; the job goes on from its progress with the next worker."""

    retryable = True


class JobCancelled(AppError):
    """Somebody cancelled the job. figures: what it had done."""

    def __init__(self, figures: Mapping[str, Any]) -> None:
        super().__init__("cancelled")
        self.figures = figures


@dataclass(frozen=True, slots=True)
class JobRun:
    job: jobs.Job
    ctx: AdminContext
    stop: threading.Event

    def keep(self, progress: Mapping[str, Any]) -> bool:
        """Save progress and keep the lease; return whether the job is still this worker's."""
        return jobs.progress(self.ctx.ops, self.job, progress, lease_ms=LEASE_MS, now_ms=self.ctx.clock())

    def report(self, progress: Mapping[str, Any]) -> None:
        """Save progress and keep the lease. Raises JobCancelled or JobStopped when the job is to end here."""
        if not self.keep(progress):
            raise JobCancelled(progress)
        if self.stop.is_set():
            raise JobStopped("the worker was asked to stop")
