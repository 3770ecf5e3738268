"""`cachescope key`: tenants' API keys of the gateway."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Annotated

import typer

from app.cli.common import AsJson, Demo, context, finish, named, new_operation_id, say, show_json, table, wired

if TYPE_CHECKING:
    from app.adapters.base import KeyInfo

app = typer.Typer(
    help="Tenants' API keys of the gateway. With none made, the client's own bearer names the tenant.",
    no_args_is_help=True,
    rich_markup_mode=None,
)

Namespaces = Annotated[list[str] | None, typer.Option("--namespace", help="A namespace the key may use; repeatable. Default: all.")]
Scope = Annotated[
    str, typer.Option("--scope", help="What its holders are authorised for: keys of other scopes share no answers with it. Default: none.")
]
Versions = Annotated[list[str] | None, typer.Option("--model-version", help="A model version the key may use; repeatable. Default: all.")]


@app.command("create")
def create(
    tenant: Annotated[str, typer.Argument(help="The tenant whose requests carry this key.", callback=named)],
    namespace: Namespaces = None,
    model_version: Versions = None,
    scope: Scope = "",
    demo: Demo = None,
    as_json: AsJson = False,
) -> None:
    """Make a key. It is shown once: only its hash is kept."""
    from app.admin.keys import create_key

    with contextlib.closing(wired(demo)) as wiring:
        result, key = create_key(
            context(wiring),
            tenant,
            new_operation_id(),
            namespaces=namespace or ["*"],
            model_versions=model_version or ["*"],
            scope=scope,
        )
        if key is None:
            finish(result, as_json=as_json, words="")
        elif as_json:
            show_json({**_row(key), "secret": key.secret, "via": str(key.via), "act_id": result.act_id})
        else:
            say(f"{key.secret}")
            say(f"key {key.id} of tenant {tenant}: keep the line above, it is not shown again (made through the {key.via})")


@app.command("list")
def list_keys(demo: Demo = None, as_json: AsJson = False) -> None:
    """List the keys, revoked ones too. Secrets are kept nowhere."""
    with contextlib.closing(wired(demo)) as wiring:
        keys = wiring.engine().key_list()
    if as_json:
        show_json([_row(key) for key in keys])
        return
    table(
        ["id", "tenant", "scope", "namespaces", "model versions", "created", "state"],
        [
            (
                key.id,
                key.tenant,
                key.scope or "-",
                ",".join(key.namespaces),
                ",".join(key.model_versions),
                _time(key.created_ms),
                "in force" if key.revoked_ms is None else f"revoked {_time(key.revoked_ms)}",
            )
            for key in keys
        ],
    )


@app.command("revoke")
def revoke(
    key_id: Annotated[str, typer.Argument(help="The key's id, as `cachescope key list` shows it.")],
    demo: Demo = None,
    as_json: AsJson = False,
) -> None:
    """Revoke a key: requests with it are refused within a second."""
    from app.admin.keys import revoke_key

    with contextlib.closing(wired(demo)) as wiring:
        result = revoke_key(context(wiring), key_id, new_operation_id())
    finish(result, as_json=as_json, words=f"key {key_id} is revoked")


def _row(key: KeyInfo) -> dict[str, object]:
    return {
        "id": key.id,
        "tenant": key.tenant,
        "namespaces": list(key.namespaces),
        "model_versions": list(key.model_versions),
        "scope": key.scope,
        "created_ms": key.created_ms,
        "revoked_ms": key.revoked_ms,
    }


def _time(at_ms: int) -> str:
    from datetime import UTC, datetime

    return datetime.fromtimestamp(at_ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%SZ")
