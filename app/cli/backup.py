"""`cachescope backup`, `check` and `restore`: copies of the databases while everything runs, and the way back."""

from __future__ import annotations

import time
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from app.cli.common import REFUSED, AsJson, Demo, answer, complain, configure, say, show_json, table

if TYPE_CHECKING:
    from app.config import Config
    from storage.backup import Database, Manifest


class Part(StrEnum):
    TELEMETRY = "telemetry"
    OPS = "ops"
    CACHE = "cache"


Folder = Annotated[Path, typer.Argument(help="Folder of the back-up.", show_default=False)]


def backup(
    folder: Annotated[Path | None, typer.Argument(help="New folder. Default: backups/TIME in the data folder.", show_default=False)] = None,
    demo: Demo = None,
    as_json: AsJson = False,
) -> None:
    """Copy the databases into a folder while everything runs, and check the copies. A cache in Redis is not copied."""
    config = configure(demo)
    from importlib.metadata import version

    from storage import backup as backups

    now_ms = time.time_ns() // 1_000_000
    target = (folder or config.home / "backups" / backups.folder_name(now_ms)).absolute()
    manifest = backups.take(databases(config), target, program=version("cachescope"), now_ms=now_ms)
    _show(manifest, target, as_json=as_json)


def check(
    folder: Annotated[Path | None, typer.Argument(help="A back-up. Default: the databases in use.", show_default=False)] = None,
    demo: Demo = None,
    as_json: AsJson = False,
) -> None:
    """Read every page of a back-up, or of the databases in use, and say whether they are sound. Exit code 1 when not."""
    from storage import backup as backups

    if folder is not None:
        _show(backups.verify(folder.absolute()), folder, as_json=as_json)
        return
    found = []
    for database in databases(configure(demo)):
        if database.path.exists():
            backups.require_sound(database.path)
            found.append((database.name, database.path.stat().st_size, database.schema(database.path)))
    if as_json:
        show_json({"sound": True, "databases": [{"name": name, "bytes": size, "schema": schema} for name, size, schema in found]})
    else:
        table(["database", "bytes", "schema", "state"], [(name, f"{size:,}", schema, "sound") for name, size, schema in found])


def restore(
    folder: Folder,
    only: Annotated[list[Part] | None, typer.Option("--only", help="This database alone; may be given again.", show_default="all")] = None,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
    demo: Demo = None,
    as_json: AsJson = False,
) -> None:
    """Put a back-up's databases in place of the present ones, which are kept. Stop all services first.

    A restored cache serves again what was purged since: then purge it again.
    """
    config = configure(demo)
    from storage import backup as backups

    manifest = backups.read_manifest(folder.absolute())
    wanted = [database for database in databases(config) if not only or Part(database.name.removesuffix(".db")) in only]
    if not yes:
        taken = time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(manifest.taken_ms / 1000))
        names = [one.name for one in manifest.files if one.name in {database.name for database in wanted}]
        tell = complain if as_json else say
        tell(f"{', '.join(names) or 'Nothing'} of {taken} will replace what is in {config.home}; that is kept in a folder beside it.")
        if "cache.db" in names:
            tell("The cache then serves again what was purged since.")
        if answer("Restore? [y/N]").strip().lower() not in {"y", "yes"}:
            complain("nothing was restored")
            raise typer.Exit(REFUSED)
    replaced = f"replaced-{backups.folder_name(time.time_ns() // 1_000_000)}"
    manifest = backups.restore(folder.absolute(), wanted, replaced=replaced)
    _show(manifest, folder, as_json=as_json)
    if not as_json:
        say(f"what was there before is beside it, in {replaced}")


def databases(config: Config) -> list[Database]:
    """Return the databases of this installation that are files."""
    from storage.backup import Database
    from storage.store import path_of, schema_of

    settings = config.storage_settings()
    found = [
        Database("telemetry.db", path_of(settings.telemetry_url), lambda path: schema_of(path, "telemetry")),
        Database("ops.db", path_of(settings.ops_url), lambda path: schema_of(path, "ops")),
    ]
    if config.shared_cache_url.startswith("sqlite:"):
        found.append(Database("cache.db", path_of(config.shared_cache_url), _cache_schema))
    return found


def _cache_schema(path: Path) -> str:
    from engine.errors import StoreCorrupt as CacheCorrupt
    from engine.tiers.sqlite_file import schema_of
    from storage.errors import StoreCorrupt

    try:
        return str(schema_of(path))
    except CacheCorrupt as error:
        raise StoreCorrupt(str(error)) from error


def _show(manifest: Manifest, folder: Path, *, as_json: bool) -> None:
    from storage.backup import as_json as described

    if as_json:
        show_json({"folder": str(folder), **described(manifest)})
        return
    table(["file", "bytes", "schema", "sha256"], [(one.name, f"{one.bytes:,}", one.schema, one.sha256[:16]) for one in manifest.files])
    say(f"{folder}")
