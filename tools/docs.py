#!/usr/bin/env python3
"""Write docs/settings.md and docs/commands.md from the code: tools/docs.py [--check]. A test holds them fresh.

Run it with the project's own Python: .venv/bin/python tools/docs.py
"""

from __future__ import annotations

import sys
import typing
from collections.abc import Iterator
from enum import Enum
from pathlib import Path
from typing import Any

import typer
from pydantic import SecretStr
from pydantic.fields import FieldInfo

from app.cli import app
from app.config import CONFIG_VARIABLE, FILE_NAME, SETTINGS, TABLES, Config, Setting

ROOT = Path(__file__).resolve().parents[1]
NOTE = "<!-- Written by tools/docs.py from the code. Change the code, then run it. -->"

# A section begins with the setting named here, in the order of `Config`.
SECTIONS = {
    "data_dir": "Where and how",
    "judge_url": "The judge and the holdout",
    "gateway_bind": "Addresses",
    "upstream_url": "The upstream",
    "admin_token": "Secrets and tokens",
    "store_url": "Stores and endpoints",
    "embedder": "The embedder and semantic lookups",
    "ttl_s": "Entries, tiers and policy defaults",
    "record_prompts": "What is recorded",
    "undo_window_s": "Operators' acts",
    "prices": "Tables",
    "otlp_tls_cert": "The OTLP receivers",
    "keep_raw_days": "What the telemetry database keeps",
}
_BOUNDS = {"ge": "at least", "gt": "above", "le": "at most", "lt": "below"}

SETTINGS_HEAD = f"""{NOTE}

# Settings

A setting comes from the environment, from a TOML file, or is the default. The environment wins. The variable of a setting is
`CACHESCOPE_` and the name in capitals. An empty variable counts as not set.

The file is the one that `{CONFIG_VARIABLE}` names, else `{FILE_NAME}` in the data folder when it is there. An unknown
name, in the file or in the environment, stops the start with one line that names the nearest known one.

```toml
# {FILE_NAME}
upstream_url = "https://api.example.com/v1"
ttl_s = 3600
record_prompts = false

[prices.my-model]
input_usd = 0.15
output_usd = 0.60

[[scrape_targets]]
url = "http://127.0.0.1:9090/metrics"
```

In the environment tables are JSON: `CACHESCOPE_PRICES='{{"my-model": {{"input_usd": 0.15, "output_usd": 0.6}}}}'`.

A policy of a namespace (switch, threshold, TTL, verification mode, score, judge, holdout, normaliser) is no setting. The switch is changed
on the page *Purge* and by `cachescope switch`, threshold and normaliser on the page *Thresholds* and by `cachescope threshold`
and `cachescope normaliser`, verification mode, judge and holdout by `cachescope verification`, the score on *Thresholds* and by
`cachescope score`, the TTL alone by the gateway's [control API](gateway.md#control-api). `ttl_s` and `holdout_ratio` below hold
where a namespace has no policy of its own.

In the demo (`--demo`) the folder is `data_dir/demo`, and the configured upstream, stores, embeddings API and further sources are not used.
"""

COMMANDS_HEAD = f"""{NOTE}

# Commands

Every command takes `--help`. Where a command prints data, `--json` prints it as JSON. All commands read the same [settings](settings.md).

| exit code | | when |
| --- | --- | --- |
| 0 | done | Also when all was only shown, when everything is up, and when nothing was left to do. A service that a signal stopped |
| 1 | failed | An act that was begun and did not succeed, a job that ended badly; a service that is down or died; \
neither gateway nor store answers; a database that is missing, locked or not sound, a folder that is no back-up; \
Ctrl-C in a command that is no service |
| 2 | wrong usage | An unknown command or option; a value that none of its kind has: out of its range, not a number, a name that no \
namespace can have. Nothing was changed |
| 3 | cannot start | A setting that cannot work (of any command); a port, a folder, a store that a service cannot use; an unsafe address |
| 4 | refused | It can be asked for, but not so, here or now: not allowed; no such key, purge, job, version or lookup; another name typed \
than the one to confirm, or the question not answered with yes; a preview that expired; a policy that somebody changed meanwhile; \
services that must be stopped first. Nothing was changed |

Whoever can read the data folder's `admin_token` and `secret` acts as an administrator from the terminal. Each act stands in the audit
under the user's name of the operating system.
"""


def settings_page() -> str:
    """Return docs/settings.md."""
    lines = [SETTINGS_HEAD]
    for setting in SETTINGS:
        if setting.name in SECTIONS:
            lines += [
                f"\n## {SECTIONS[setting.name]}\n",
                "| setting | variable | takes | default | meaning |",
                "| --- | --- | --- | --- | --- |",
            ]
        lines.append(_setting_row(setting))
    for name, table in TABLES.items():
        lines += [f"\n### A row of `{name}`\n", "| name | takes | default | meaning |", "| --- | --- | --- | --- |"]
        for field, info in table.model_fields.items():
            lines.append(f"| `{field}` | {takes(info)} | {_default(info)} | {info.description or ''} |")
    lines += [
        "\n## The file's name\n",
        f"`{CONFIG_VARIABLE}` is the path of the TOML file. It is the one variable that is no setting.",
    ]
    return "\n".join(lines) + "\n"


def _setting_row(setting: Setting) -> str:
    default = f"`{setting.default}`" if setting.default not in {"", "{}", "[]"} else "none"
    description = setting.description.replace("|", "\\|")
    return f"| `{setting.name}` | `{setting.env}` | {takes(Config.model_fields[setting.name])} | {default} | {description} |"


def _default(info: FieldInfo) -> str:
    if info.is_required():
        return "required"
    value = info.get_default(call_default_factory=True)
    if isinstance(value, bool):
        return f"`{str(value).lower()}`"
    return "none" if value in {None, ""} or isinstance(value, SecretStr) else f"`{value}`"


def takes(info: FieldInfo) -> str:
    """Return what a field takes: its kind and its bounds."""
    if typing.get_origin(info.annotation) in {dict, tuple}:
        return "table"
    kind = next(part for part in (info.annotation, *typing.get_args(info.annotation)) if part in _KINDS)
    words = [_KINDS[kind]]
    for bound in info.metadata:
        words += [f"{word} {_short(getattr(bound, name))}" for name, word in _BOUNDS.items() if getattr(bound, name, None) is not None]
        pattern = getattr(bound, "pattern", None)
        if pattern:
            return " or ".join(f"`{choice}`" for choice in pattern.strip("^$()").split("|"))
    return ", ".join(words)


_KINDS: dict[Any, str] = {bool: "true or false", int: "whole number", float: "number", str: "text", Path: "path", SecretStr: "secret text"}


def _short(value: float) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


def commands() -> Iterator[tuple[str, Any]]:
    """Yield every command that does something, by its full name without the program's: `key create`."""

    def walk(prefix: str, group: Any) -> Iterator[tuple[str, Any]]:
        for name, command in group.commands.items():
            if hasattr(command, "commands"):
                yield from walk(f"{prefix}{name} ", command)
            else:
                yield f"{prefix}{name}", command

    yield from walk("", typer.main.get_command(app))


def commands_page() -> str:
    """Return docs/commands.md."""
    lines = [COMMANDS_HEAD]
    for name, command in commands():
        lines += [f"\n## cachescope {name}\n", _usage(name, command), "", _text(command.help or ""), ""]
        rows = [_parameter_row(parameter) for parameter in command.params if parameter.name != "help"]
        if rows:
            lines += ["| argument or option | takes | default | meaning |", "| --- | --- | --- | --- |", *rows]
    return "\n".join(lines).rstrip() + "\n"


def _usage(name: str, command: Any) -> str:
    arguments = [_metavar(parameter) for parameter in command.params if not _is_option(parameter)]
    return " ".join(["`cachescope", name, *arguments, "[options]`"])


def _is_option(parameter: Any) -> bool:
    return bool(parameter.opts[0].startswith("-"))


def _metavar(parameter: Any) -> str:
    shown = (parameter.metavar or parameter.name.upper()).strip("[]")
    shown = parameter.name.upper() if "|" in shown else shown  # a bar would end the cell of a table
    return shown if parameter.required else f"[{shown}]"


def _parameter_row(parameter: Any) -> str:
    names = (
        ", ".join(f"`{name}`" for name in (*parameter.opts, *parameter.secondary_opts))
        if _is_option(parameter)
        else f"`{_metavar(parameter)}`"
    )
    repeat = ", repeatable" if parameter.multiple else ""
    default = parameter.default
    shown = (
        "required" if parameter.required else "none" if default is None or default is False else f"`{getattr(default, 'value', default)}`"
    )
    return f"| {names} | {_kind(parameter)}{repeat} | {shown} | {_text(parameter.help or '')} |"


def _kind(parameter: Any) -> str:
    if getattr(parameter, "is_flag", False):
        return "flag"
    kind = parameter.type_descriptor.annotation
    if isinstance(kind, type) and issubclass(kind, Enum):
        return " or ".join(f"`{choice.value}`" for choice in kind)
    if kind is int:
        return "whole number" if parameter.min is None else f"{parameter.min} to {parameter.max}"
    return "text"


def _text(text: str) -> str:
    return "\n".join(" ".join(line.split()) for line in text.strip().splitlines()).replace("|", "\\|")


PAGES = {"settings.md": settings_page, "commands.md": commands_page}


def main(arguments: list[str]) -> int:
    """Write the pages; with --check, write nothing and return 1 when one is not fresh."""
    stale = 0
    for name, page in PAGES.items():
        file, text = ROOT / "docs" / name, page()
        if file.is_file() and file.read_text(encoding="utf-8") == text:
            continue
        stale = 1
        if "--check" not in arguments:
            file.write_text(text, encoding="utf-8")
        sys.stdout.write(f"{file.relative_to(ROOT)} {'is not fresh' if '--check' in arguments else 'written'}\n")
    return stale if "--check" in arguments else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
