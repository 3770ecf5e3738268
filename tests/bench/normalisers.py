"""The normalisers' property tests at length, and what a normaliser costs: `python -m tests.bench.normalisers [--seconds 60]`.

Each property is tried with new seeds for its share of the time: texts of one form must mean the same to SQLite, Python's compiler, Jinja
and a reader. Then microseconds a key, without a normaliser, with one the first time, and remembered. Exit code 1 when a property fails.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from typing import Any

import hypothesis

from engine.keys import canonicalise
from engine.types import Normaliser
from tests.engine import test_keys
from tests.engine.normalise import test_python, test_sql, test_template, test_whitespace
from tests.engine.rig import SECRET, chat

PROPERTIES: tuple[Callable[[], Any], ...] = (
    test_whitespace.test_texts_of_one_form_say_the_same,
    test_sql.test_statements_of_one_form_give_the_same_rows,
    test_sql.test_blanks_and_the_case_of_keywords_do_not_matter_and_all_else_does,
    test_python.test_texts_of_one_form_compile_to_the_same_code,
    test_template.test_templates_of_one_form_print_the_same,
    test_keys.test_requests_share_a_key_only_by_their_form,
)
EXAMPLES = {
    Normaliser.NONE: "How do I reset my password? " * 4,
    Normaliser.WHITESPACE: "How do I  reset my password? " * 4,
    Normaliser.SQL: "SELECT a, count(*) FROM t JOIN u ON t.id = u.id WHERE x IN (1, 2, {n}) AND name LIKE 'a%' GROUP BY a LIMIT 10",
    Normaliser.PYTHON: "def f(a, b={n}):\n    if a > b:\n        return [x * 2 for x in range(a)]\n    return g(a, b)\n",
}


def tried(check: Callable[[], Any], seconds: float) -> tuple[int, str]:
    """Run a property with new seeds; return how often, and how it failed ('' = it did not)."""
    until, rounds = time.monotonic() + seconds, 0
    while time.monotonic() < until:
        rounds += 1
        try:
            hypothesis.seed(rounds)(check)()
        except AssertionError as error:
            return rounds, str(error)
    return rounds, ""


def cost_us(kind: Normaliser, *, fresh: bool, times: int = 300) -> float:
    bodies = [chat(EXAMPLES[kind].replace("{n}", str(number if fresh else 1))) for number in range(times)]
    started = time.process_time()
    for body in bodies:
        canonicalise(body, namespace="code", tenant="acme", model_version="", secret=SECRET, normaliser=kind)
    return (time.process_time() - started) / times * 1e6


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=60.0)
    asked = parser.parse_args()
    hypothesis.settings.register_profile("patient", deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow])
    hypothesis.settings.load_profile("patient")
    failed = False
    for check in PROPERTIES:
        rounds, how = tried(check, asked.seconds / len(PROPERTIES))
        failed = failed or bool(how)
        print(f"{check.__name__}: {rounds} rounds, {'FAILED ' + how if how else 'held'}", flush=True)
    for kind in EXAMPLES:
        first = cost_us(kind, fresh=True)
        print(f"{kind.value}: {first:.0f} us a key the first time, {cost_us(kind, fresh=False):.0f} us again", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
