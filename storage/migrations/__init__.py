"""The schemas' versions: one line a database file. A new revision is a file in `versions/<line>` and a name in REVISIONS."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from alembic.script import ScriptDirectory
    from sqlalchemy import Connection

# Oldest first. Repeated here so that opening a current database needs no import of Alembic; a test compares it with the files.
REVISIONS: Final = {"telemetry": ("telemetry_0001", "telemetry_0002", "telemetry_0003"), "ops": ("ops_0001",)}

_HERE: Final = Path(__file__).resolve().parent


def script(line: str) -> ScriptDirectory:
    """Return Alembic's view of a line's revision files."""
    from alembic.script import ScriptDirectory  # noqa: PLC0415 - 0.2 s, paid only when there is something to migrate

    return ScriptDirectory(str(_HERE), version_locations=[str(_HERE / "versions" / line)])


def upgrade(connection: Connection, line: str, revision: str = "head") -> None:
    """Bring the schema to a revision, inside the connection's own transaction: all of it or nothing."""
    from alembic.config import Config  # noqa: PLC0415
    from alembic.runtime.environment import EnvironmentContext  # noqa: PLC0415

    scripts = script(line)
    steps = scripts._upgrade_revs
    with EnvironmentContext(Config(), scripts, fn=lambda current, _: steps(revision, current)) as environment:
        environment.configure(connection=connection)
        environment.run_migrations()
