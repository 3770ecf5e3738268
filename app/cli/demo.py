"""The demo's two parts: a stub model to ask, and traffic that asks."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import os
import signal
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

import uvicorn

from app.cli.ports import Port, require_free
from app.config import Config, split_bind
from app.demo.stub_model import create_app
from app.demo.traffic import TENANTS, play
from app.errors import CannotStart
from app.wiring import Wiring

if TYPE_CHECKING:
    from app.adapters.native import NativeAdapter

log = logging.getLogger(__name__)
KEYS_FILE = "demo_keys.json"


def run(config: Config, *, stub: bool, traffic: bool) -> int:
    """Run until SIGTERM or SIGINT; return the exit code."""
    return asyncio.run(_run(config, stub=stub, traffic=traffic))


async def _run(config: Config, *, stub: bool, traffic: bool) -> int:
    if stub:
        require_free(Port("stub_bind", config.stub_bind))
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    server = _Stub(config) if stub else None
    tasks = [asyncio.create_task(server.serve())] if server else []
    if traffic:
        tasks.append(asyncio.create_task(_play(config)))
    stopping = asyncio.create_task(stop.wait())
    await asyncio.wait([stopping, *tasks], return_when=asyncio.FIRST_COMPLETED)
    stopping.cancel()
    if server:
        server.should_exit = True
    for task in tasks[1 if server else 0 :]:
        task.cancel()
    ended = await asyncio.gather(*tasks, return_exceptions=True)
    for fault in ended:
        if isinstance(fault, Exception):
            raise fault
    return 0


class _Stub(uvicorn.Server):
    """uvicorn without its own signal handlers."""

    def __init__(self, config: Config) -> None:
        host, port = split_bind(config.stub_bind)
        super().__init__(
            uvicorn.Config(create_app(), host=host, port=port, log_level="warning", lifespan="off", timeout_graceful_shutdown=2)
        )

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


async def _play(config: Config) -> None:
    wiring = Wiring(config)
    try:
        keys = await asyncio.to_thread(_keys, config, wiring.engine())
        await play(config.control_url, keys)
    finally:
        wiring.close()


def _keys(config: Config, engine: NativeAdapter) -> Mapping[str, str]:
    """Return a key for each demo tenant: those of an earlier run where they are still in force, else new ones."""
    state = engine.state()
    if state.demo is not True:
        raise CannotStart(f"no demo gateway answers at {config.control_url}: start it (cachescope gateway --demo)")
    file = config.home / KEYS_FILE
    kept: dict[str, str] = {}
    with contextlib.suppress(OSError, ValueError):
        kept = json.loads(file.read_text())
    in_force = {key.id for key in engine.key_list() if key.revoked_ms is None}
    keys = {tenant: secret for tenant, secret in kept.items() if secret.split("_")[1] in in_force}
    for tenant in TENANTS:
        if tenant not in keys:
            keys[tenant] = engine.key_create(tenant).secret
    draft = file.with_suffix(".new")
    try:
        with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as opened:
            json.dump(keys, opened)
        draft.replace(file)
    except OSError as error:
        raise CannotStart(f"cannot write the demo's keys to {file}: {error.strerror}; make room, and check the folder's rights") from error
    return keys
