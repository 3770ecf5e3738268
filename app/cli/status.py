"""`cachescope status`: is each service alive?"""

from __future__ import annotations

import contextlib
import dataclasses

import typer

from app.cli.common import FAILED, AsJson, Demo, configure, show_json, table


def status(demo: Demo = None, as_json: AsJson = False) -> None:
    """Show whether gateway, collector, worker and console are healthy. Exit code 0 when all are, 1 when something is down."""
    config = configure(demo)
    from concurrent.futures import ThreadPoolExecutor

    from app.adapters import health
    from app.errors import EngineRefused, EngineUnavailable
    from app.wiring import Wiring, now_ms

    probes = [lambda: health.gateway(config), lambda: health.collector(config), lambda: health.worker(config, now_ms)]
    probes.append(lambda: health.console(config))
    if config.demo:
        probes.append(lambda: health.stub(config))
    with ThreadPoolExecutor(len(probes)) as pool:
        found = list(pool.map(lambda probe: probe(), probes))
    if found[0].ok:
        # Something is up on this port; whether it is this installation's, only its control API knows.
        with contextlib.closing(Wiring(config)) as wiring:
            try:
                wiring.engine().state()
            except (EngineRefused, EngineUnavailable) as error:
                found[0] = dataclasses.replace(found[0], ok=False, detail=str(error))
    if as_json:
        rows = [dataclasses.asdict(row) for row in found]
        show_json({"healthy": all(row.ok for row in found), "data_dir": str(config.home), "demo": config.demo, "services": rows})
    else:
        table(
            ["service", "state", "url", "detail"],
            [(row.service, "up" if row.ok else "DOWN", row.url, row.detail) for row in found],
        )
    if not all(row.ok for row in found):
        raise typer.Exit(FAILED)
