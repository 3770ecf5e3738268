"""Exit codes: what a script goes by means one thing in every command."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator

import pytest
import typer
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from app.cli.common import named
from engine.errors import InvalidRequest
from engine.gateway.inbound import checked_name
from tests.app.cli.test_cli import Run, _one_line, environ, run  # noqa: F401 - fixtures
from tests.support.servers import free_port
from tests.support.upstream import serving

NAMESPACE_COMMANDS = ("switch", "purge", "warm", "threshold", "normaliser", "verification", "score")
NO_NAMES = ("", "x" * 201, "a\x07b")


@pytest.mark.parametrize(
    "arguments",
    [
        ["nonsense"],
        ["purge"],
        ["purge", "faq", "--yes"],
        ["purge", "faq", "--undo", "x"],
        ["threshold", "faq", "high"],
        ["switch"],
        ["switch", "faq", "half"],
        ["normaliser", "faq", "xml"],
        ["threshold", "faq", "0.5", "--history"],
        ["warm", "faq", "--since", "yesterday"],
        ["warm", "faq", "--limit", "0"],
        ["key"],
        ["verification", "faq", "--mode", "loose"],
        ["verification", "faq", "--holdout", "1.5"],
        ["label", "ab", "maybe"],
        ["score", "faq", "--fit", "--off"],
        ["score", "faq", "--yes"],
        ["score", "faq", "--apply", "0"],
        ["threshold", "faq", "1.5"],
        ["threshold", "faq", "nan"],
        ["threshold", "faq", ""],
        ["threshold", "faq", "--restore", "-1"],
        ["warm", "faq", "--since", "²h"],
        ["warm", "faq", "--since", "9999999d"],
        ["label", "ab", "right"],
        ["label", "ab" * 16, "right", "--span", "ab"],
        ["key", "create", " "],
        ["key", "create", "acme", "--scope", "x" * 201],
        *([command, name] for command in NAMESPACE_COMMANDS for name in NO_NAMES),
    ],
)
def test_wrong_usage_is_2(run: Run, environ: dict[str, str], arguments: list[str]) -> None:  # noqa: F811
    done = run(environ, *arguments)
    assert (done.returncode, done.stdout, "Traceback" in done.stderr) == (2, "", False)


@pytest.mark.parametrize("name", [*NO_NAMES[1:], "a" * 200, "客服", "a b"])
def test_a_name_is_one_for_the_terminal_when_it_is_one_for_the_gateway(name: str) -> None:
    for check, refusal in ((named, typer.BadParameter), (lambda name: checked_name(name, "namespace"), InvalidRequest)):
        if name in NO_NAMES:
            with pytest.raises(refusal):
                check(name)
        else:
            assert check(name) == name


def test_what_there_is_nothing_of_is_refused_and_what_is_over_already_is_done(run: Run, environ: dict[str, str]) -> None:  # noqa: F811
    for arguments in (["warm", "--cancel", "no-such-job"], ["purge", "--undo", "no-such-purge"], ["score", "faq", "--apply", "1"]):
        assert run(environ, *arguments).returncode == 4
    nothing = run(environ, "score", "faq", "--off", "--json")
    assert (nothing.returncode, json.loads(nothing.stdout)["changed"]) == (0, False)


def test_a_gateway_of_another_data_folder_refuses_and_one_that_is_none_is_a_failure(run: Run, environ: dict[str, str]) -> None:  # noqa: F811
    with answering(401, b'{"error": {"code": "invalid_token", "message": "no"}}') as url:
        assert run({**environ, "CACHESCOPE_GATEWAY_URL": url}, "key", "list").returncode == 4
    for status, body in ((200, b"<html>"), (404, b"<html>"), (503, b'{"error": {"code": "store_unavailable", "message": "no"}}')):
        with answering(status, body) as url:
            done = run({**environ, "CACHESCOPE_GATEWAY_URL": url}, "key", "list")
        assert (done.returncode, url in _one_line(done)) == (1, True)


@contextlib.contextmanager
def answering(status: int, body: bytes) -> Iterator[str]:
    """Yield the URL of a server that answers everything so."""

    async def say(_: Request) -> Response:
        return Response(body, status)

    port = free_port()
    with serving(Starlette(routes=[Route("/{rest:path}", say)]), port):
        yield f"http://127.0.0.1:{port}"
