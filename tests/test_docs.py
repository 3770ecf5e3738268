"""The documentation says what the code has, all of it, and nothing that the code has not."""

from __future__ import annotations

import ast
import importlib.util
import re
import unicodedata
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import ModuleType

import pytest

from app.config import CONFIG_VARIABLE, PREFIX, SETTINGS
from collectors.metrics import CollectorMetrics
from engine import semconv
from engine.metrics import Metrics

ROOT = Path(__file__).resolve().parents[1]
DOCS = {
    file.relative_to(ROOT).as_posix(): file.read_text(encoding="utf-8")
    for file in [ROOT / "README.md", ROOT / "CHANGELOG.md", *(ROOT / "docs").rglob("*.md")]
}
FOLDERS = ("app", "collectors", "docs", "engine", "examples", "pages", "storage", "tests", "tools")
CODE = re.compile(r"```\w*\n(.*?)```|`([^`\n]+)`", re.DOTALL)
LINK = re.compile(r"!?\[[^\]]*\]\(([^)\s]+)\)")


def spans(text: str) -> list[str]:
    """Return the code spans and blocks of a Markdown text."""
    return [block or inline for block, inline in CODE.findall(text)]


def named(page: str) -> set[str]:
    """Return the code spans of a page that is under docs/."""
    return {inline for _, inline in CODE.findall(DOCS[f"docs/{page}"])}


def load_tool() -> ModuleType:
    spec = importlib.util.spec_from_file_location("cachescope_docs_tool", ROOT / "tools" / "docs.py")
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


TOOL = load_tool()
COMMANDS = {
    name: {option for parameter in command.params for option in (*parameter.opts, *parameter.secondary_opts)}
    for name, command in TOOL.commands()
}


# What the code has stands in the docs


@pytest.mark.parametrize("name", sorted(TOOL.PAGES))
def test_generated_pages_are_fresh(name: str) -> None:
    """Refresh with `.venv/bin/python tools/docs.py`."""
    assert DOCS[f"docs/{name}"] == TOOL.PAGES[name]()


def test_every_setting_is_documented_with_its_variable() -> None:
    told = named("settings.md")
    assert [setting.name for setting in SETTINGS if not {setting.name, setting.env} <= told] == []


def test_every_command_and_option_is_documented() -> None:
    text = DOCS["docs/commands.md"]
    sections = dict(re.findall(r"^## cachescope (.+)\n((?:(?!^## ).*\n?)*)", text, re.MULTILINE))
    assert sections.keys() == COMMANDS.keys()
    for command, options in COMMANDS.items():
        missing = [
            option for option in options if option.startswith("--") and option != "--help" and f"`{option}`" not in sections[command]
        ]
        assert missing == [], command


def test_every_page_is_documented_and_no_other() -> None:
    pages = {f"pages/{file.name}" for file in (ROOT / "pages").glob("*.py") if file.name != "__init__.py"}
    assert {span for span in named("pages.md") if span.startswith("pages/")} == pages


def test_every_metric_is_documented_with_its_labels_and_no_other() -> None:
    families = {family.name: family for registry in (Metrics().registry, CollectorMetrics().registry) for family in registry.collect()}
    exposed = {f"{name}_total" if family.type == "counter" else name for name, family in families.items()}
    declared = {value for name, value in vars(semconv).items() if name.startswith("METRIC_")}
    assert declared <= families.keys()
    rows = dict(re.findall(r"^\| `(cachescope_\w+)` \| (.*)$", DOCS["docs/metrics.md"], re.MULTILINE))
    assert rows.keys() == exposed
    for metrics in (Metrics(), CollectorMetrics()):
        for collector in vars(metrics).values():
            name, labels = getattr(collector, "_name", ""), getattr(collector, "_labelnames", ())
            row = rows.get(name) or rows.get(f"{name}_total", "")
            assert [label for label in labels if f"`{label}`" not in row] == [], name


def test_every_span_attribute_is_documented_and_no_other() -> None:
    names = {
        value
        for name, value in vars(semconv).items()
        if name.isupper() and isinstance(value, str) and not name.startswith(("METRIC_", "SCOPE", "SPAN_"))
    }
    rows = set(re.findall(r"^\| `([a-z_]+(?:\.[a-z_]+)+)` \|", DOCS["docs/telemetry.md"], re.MULTILINE))
    assert rows == names


def strings(node: ast.AST | None) -> Iterator[str]:
    """Yield the texts that an expression can be: a literal, both sides of a conditional or an `or`, the start of an f-string."""
    match node:
        case ast.Constant(value=str(text)):
            yield text
        case ast.IfExp(body=body, orelse=other):
            yield from strings(body)
            yield from strings(other)
        case ast.BoolOp(values=values):
            for value in values:
                yield from strings(value)
        case ast.JoinedStr(values=[ast.Constant(value=str(text)), *_]):
            yield f"{text}<n>"
        case ast.Tuple(elts=elements):
            for element in elements:
                yield from strings(element)


def reasons(files: Iterable[Path], *, attributes: set[str], keywords: set[str], calls: dict[str, int], returned_by: set[str]) -> set[str]:
    """Return the texts assigned to these attributes or keywords, given to these calls (at that place), or returned by these functions."""
    found: set[str] = set()
    for file in files:
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            match node:
                case ast.Assign(targets=targets, value=value):
                    pairs = [(target, value) for target in targets]
                    if isinstance(targets[0], ast.Tuple) and isinstance(value, ast.Tuple):
                        pairs = list(zip(targets[0].elts, value.elts, strict=True))
                    for target, given in pairs:
                        if isinstance(target, ast.Attribute) and target.attr in attributes:
                            found.update(strings(given))
                case ast.Call(func=func, args=args, keywords=given_keywords):
                    name = func.attr if isinstance(func, ast.Attribute) else func.id if isinstance(func, ast.Name) else ""
                    if name in calls and len(args) > calls[name]:
                        found.update(strings(args[calls[name]]))
                    for keyword in given_keywords:
                        if keyword.arg in keywords:
                            found.update(strings(keyword.value))
                case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) if name in returned_by:
                    for inner in ast.walk(node):
                        if isinstance(inner, ast.Return):
                            found.update(strings(inner.value))
    return {reason for reason in found if re.fullmatch(r"[a-z][a-z_]+(<n>)?", reason)}


ENGINE = [file for file in (ROOT / "engine").rglob("*.py") if "verify" not in file.parts]


def test_every_reason_of_the_gateway_is_documented() -> None:
    from engine import admission

    found = reasons(
        ENGINE,
        attributes={"reason", "store_reason", "semantic_skipped", "skipped"},
        keywords={"reason", "store_reason", "error_type", "code"},
        calls={"bypass": 1, "add": 0, "fail": 1, "_error_answer": 0, "GatewayError": 1},
        returned_by={"unfit", "why_missed", "_why_not", "_keep", "_refused", "_unstorable", "skip", "_last_turn"},
    )
    found |= set(admission._FINISHES.values())
    assert {"unknown_field", "switch_off", "query_string", "control_stale", "holdout", "too_long", "garbage", "status_<n>"} <= found
    told = {part for span in named("gateway.md") for part in span.split(", ")}
    assert sorted(found - told) == []


def test_every_reason_in_the_docs_is_one_of_the_code() -> None:
    source = "\n".join(file.read_text(encoding="utf-8") for file in ENGINE)
    tables = re.findall(r"^\| reason \|.*\n\| --- .*\n((?:\|.*\n)+)", DOCS["docs/gateway.md"], re.MULTILINE)
    rows = [re.findall(r"`([a-z_<>]+)`", row.split("|")[1]) for table in tables for row in table.splitlines()]
    assert len(tables) == 5
    gone = [reason for row in rows for reason in row if f'"{reason}"' not in source and f'f"{reason.removesuffix("<n>")}{{' not in source]
    assert gone == []


def test_every_reason_of_a_rejected_span_is_documented() -> None:
    files = [ROOT / "collectors" / "otlp" / name for name in ("decode.py", "wire.py", "intake.py", "metrics.py", "logs.py")]
    found = reasons(files, attributes=set(), keywords={"fault"}, calls={"with_reject": 0, "Refused": 0}, returned_by={"_fault"})
    for file in files:  # `reason = "…"`, and `rejects["…"] += …`
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name) and node.targets[0].id == "reason":
                found.update(strings(node.value))
            if isinstance(node, ast.Subscript) and isinstance(node.value, ast.Attribute) and node.value.attr == "rejects":
                found.update(strings(node.slice))
    assert {"span_too_large", "negative_count", "malformed_metric"} <= found
    assert sorted(reason for reason in found if re.fullmatch(r"[a-z]+(_[a-z]+)*", reason) and reason not in named("telemetry.md")) == []


# What the docs name exists


def slug(heading: str) -> str:
    """Return a heading's anchor as GitHub makes it."""
    plain = re.sub(r"[`*]", "", LINK.sub(lambda link: link[0], heading)).strip().lower()
    return "".join("-" if letter == " " else letter for letter in plain if letter in " -_" or unicodedata.category(letter)[0] in "LN")


def anchors(text: str) -> set[str]:
    return {slug(heading) for heading in re.findall(r"^#+ (.+)$", re.sub(r"```.*?```", "", text, flags=re.DOTALL), re.MULTILINE)}


@pytest.mark.parametrize("page", sorted(DOCS))
def test_links_resolve(page: str) -> None:
    for target in LINK.findall(DOCS[page]):
        if target.startswith(("http://", "https://")):
            continue
        path, _, anchor = target.partition("#")
        file = ((ROOT / page).parent / path).resolve() if path else ROOT / page
        assert file.exists(), f"{page} links to {target}"
        if anchor:
            assert anchor in anchors(file.read_text(encoding="utf-8")), f"{page} links to {target}"


@pytest.mark.parametrize("page", sorted(DOCS))
def test_files_settings_and_commands_that_a_page_names_exist(page: str) -> None:
    text = DOCS[page]
    variables = {setting.env for setting in SETTINGS} | {CONFIG_VARIABLE}
    assert sorted(set(re.findall(rf"\b{PREFIX}[A-Z][A-Z_]*\b", text)) - variables) == []
    for span in spans(text):
        for path in re.findall(rf"(?<![\w./-])(?:{'|'.join(FOLDERS)})/[\w./-]*", span):
            assert (ROOT / path).exists(), f"{page} names {path}"
        for line in span.splitlines():
            for called in re.finditer(r"(?<![\w./-])cachescope ([a-z].*)", line.partition("#")[0]):
                check_command(page, called[1])


def check_command(page: str, words: str) -> None:
    command = max((name for name in COMMANDS if re.match(rf"{name}(?![\w-])", words)), key=len, default="")
    group = re.match(r"(\w+) (\w+(?:\|\w+)+)", words)
    if group:  # `cachescope key create|list|revoke`
        assert {f"{group[1]} {name}" for name in group[2].split("|")} <= COMMANDS.keys(), f"{page}: cachescope {words}"
        return
    known = COMMANDS.get(command) or ({"--help"} if any(name.startswith(f"{words.split(maxsplit=1)[0]} ") for name in COMMANDS) else None)
    assert known is not None, f"{page} names cachescope {words}"
    unknown = [option for option in re.findall(r"(?<!\S)--[a-z-]+", words) if option not in known | {"--help"}]
    assert unknown == [], f"{page}: cachescope {words}"


def test_settings_that_a_page_names_in_small_letters_exist() -> None:
    """`undo_window_s` in prose; recognised by the unit or by standing in the settings table."""
    names = {setting.name for setting in SETTINGS}
    for page in ("docs/operations.md", "docs/pages.md"):
        given = {span for span in named(page.removeprefix("docs/")) if re.fullmatch(r"[a-z]+(_[a-z]+)+", span)}
        columns = re.findall(r"`([a-z_]+_(?:bind|url|s|per_s|chars|bytes|ratio|token|role))`", DOCS[page])
        assert sorted(set(columns) - names - {"admin_token", "embedder_fault"}) == [], page
        assert given - names <= {"admin_token", "control_stale", "embedder_fault", "keys_lost", "keys_not_loaded", "purged_meanwhile"}, page


# The commands of the README


def readme_commands() -> list[str]:
    return [
        line.partition("#")[0].strip()
        for block in re.findall(r"```sh\n(.*?)```", DOCS["README.md"], re.DOTALL)
        for line in block.splitlines()
        if line.strip()
    ]


def test_the_readme_s_commands_are_in_the_makefile() -> None:
    makefile = (ROOT / "Makefile").read_text()
    targets = {match[1] for command in readme_commands() if (match := re.search(r"\bmake (\S+)", command))}
    assert targets == {"run", "test"}
    assert [target for target in targets if not re.search(rf"^{target}:", makefile, re.MULTILINE)] == []
    assert "DEMO ?=" in makefile


def test_ci_runs_the_readme_s_test_command() -> None:
    (command,) = [command for command in readme_commands() if "test" in command]
    assert command in [line.strip() for line in (ROOT / ".ci" / "run").read_text().splitlines()]


def test_the_readme_fits_on_a_screen() -> None:
    assert len(DOCS["README.md"].splitlines()) <= 50


def test_system_packages_are_listed_in_one_place() -> None:
    wanted = [line.strip() for line in (ROOT / "system-packages.txt").read_text().splitlines() if line.strip() and not line.startswith("#")]
    assert wanted
    assert "system-packages.txt" in (ROOT / "tools" / "system-packages").read_text()
    prerequisites = {"python3-venv"}  # of `make run`; named in the line that says it is missing
    files = [ROOT / "Makefile", *(ROOT / ".ci").iterdir(), *(file for file in (ROOT / "tools").iterdir() if file.is_file())]
    for file in [*files, *(ROOT / page for page in DOCS)]:
        text = file.read_text(encoding="utf-8")
        for listed in re.findall(r"\bapt(?:-get)? (?:-\S+ )*install ([^\n;&|>)]*)", text):
            literal = {word.strip("`'\").") for word in listed.split() if re.match(r"[a-z]", word)}
            assert literal <= prerequisites, f"{file.name} installs {literal}"
        if file.name != "system-packages":  # it looks for two programs by name where there is no dpkg
            assert [name for name in wanted if name.startswith("fonts-") and name in text] == [], file.name


def test_every_decision_is_in_the_index() -> None:
    titles = {file.name: file.read_text(encoding="utf-8").splitlines()[0][2:] for file in (ROOT / "docs/adr").glob("[0-9]*.md")}
    expected = [f"- [{title[:3]}]({name}) {title[4:]}" for name, title in sorted(titles.items())]
    assert [line for line in DOCS["docs/adr/README.md"].splitlines() if line.startswith("- ")] == expected
