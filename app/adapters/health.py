"""Is each service alive? Asked from outside, as an operator would: over HTTP, and of the worker by its heartbeat."""

from __future__ import annotations

import ssl
from collections.abc import Callable
from dataclasses import dataclass

import httpx

from app.config import Config, reachable_url
from storage import jobs
from storage.errors import StorageError
from storage.store import open_ops

TIMEOUT_S = 2.0
BEAT_AGE_MS = 5_000  # five heartbeats missed


@dataclass(frozen=True, slots=True)
class Health:
    """One service. detail: what it said, or what is wrong; url: where it is reached, '' when nowhere."""

    service: str
    ok: bool
    url: str
    detail: str


def page(service: str, base_url: str, path: str, *, shown_url: str = "", timeout_s: float = TIMEOUT_S, ca: str = "") -> Health:
    """Return whether this page answers 200 with the body `ok`. Any other body is another program's, or a service not ready.

    ca: a PEM file of the authority to trust; the host's name is then not asked for, for it is this machine.
    """
    url = shown_url or base_url
    try:
        # Reading the certificates that plain HTTP has no use for takes 20 ms, which a start that asks every 50 ms would feel.
        verify: bool | ssl.SSLContext = httpx.URL(base_url).scheme != "http"
        if verify and ca:
            verify = ssl.create_default_context(cafile=ca)
            verify.check_hostname = False
        answer = httpx.get(base_url + path, timeout=timeout_s, trust_env=False, verify=verify)
    except (httpx.TransportError, OSError) as error:
        return Health(service, False, url, f"does not answer ({type(error).__name__})")
    text = answer.text.strip()
    if answer.status_code == 200 and text == "ok":
        return Health(service, True, url, "ok")
    return Health(service, False, url, f"answers {answer.status_code}: {text.splitlines()[0][:120] if text else 'nothing'}")


def gateway(config: Config) -> Health:
    return page("gateway", config.control_url, "/healthz")


def collector(config: Config) -> Health:
    return page("collector", config.collector_url, "/healthz", ca=config.otlp_tls_ca)


def console(config: Config) -> Health:
    # The server answers any other path with the page's shell, so only this path and this body say that it is up.
    return page("console", reachable_url(config.console_bind), "/_stcore/health")


def stub(config: Config) -> Health:
    return page("stub model", reachable_url(config.stub_bind), "/healthz")


def worker(config: Config, clock: Callable[[], int], *, since_ms: int = 0) -> Health:
    """Return whether a worker's heartbeat is fresh. since_ms: only a worker that started after this counts."""
    try:
        store = open_ops(config.storage_settings(), write=False)
        try:
            with store.read() as conn:
                beats = [beat for beat in jobs.beats(conn) if beat.started_ms >= since_ms]
        finally:
            store.close()
    except StorageError as error:
        return Health("worker", False, "", str(error))
    if not beats:
        return Health("worker", False, "", "has never run on this data folder")
    newest = max(beats, key=lambda beat: beat.last_ms)
    age_ms = clock() - newest.last_ms
    if age_ms > BEAT_AGE_MS:
        return Health("worker", False, "", f"last heartbeat {age_ms / 1000:.0f} s ago")
    return Health("worker", True, "", "ok" if not newest.errors else f"ok, {newest.errors} faults survived: see its log")
