"""Every view model in every odd state of the telemetry: no number that is none, and nothing that is not known told as 0."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import math
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
import pytest

from app.adapters.base import EngineAdapter
from app.admin import actions as admin_acts
from app.analysis.pricing import Rates
from app.charts import counters as counter_charts
from app.charts import drift as drift_charts
from app.charts import latency, rates, similarity, waterfall
from app.charts import regret as regret_charts
from app.charts.theme import Chart
from app.jobs import ahead
from app.jobs import drift as drift_job
from app.jobs import regret as regret_job
from app.views import (
    audit,
    counters,
    drift_ahead,
    drift_rows,
    hit_rate,
    holdout,
    labelled,
    overview,
    overview_rows,
    purge,
    regret,
    regret_past,
    regret_rows,
    sources,
    thresholds,
    traces,
    understood,
    warmup,
    why,
    why_rows,
    words,
    worth,
)
from app.views.dial import Dial
from app.views.question import Question
from app.wiring import Wiring
from collectors.prometheus.families import load as load_families
from collectors.prometheus.keep import sort
from collectors.prometheus.parse import parse
from storage import counters as storage_counters
from storage.payloads import pack
from storage.reads.traces import Search
from storage.reads.window import Scope, Window
from storage.rows import SourceKey
from storage.store import Store, open_telemetry
from tests.app import support
from tests.app.views.test_pages import no_engine
from tests.app.views.test_thresholds import Engine
from tests.support import telemetry

NOW = 1_775_000_000_000
HOUR = Window.of(NOW - 3_600_000, NOW)
MARKUP = "<script>alert(1)</script>"
UNPRICED = "model-of-no-list"
PRICES = {"demo-small": Rates(0.15, 0.6, None)}
RECORDED = pack(json.dumps({"attributes": {"cachescope.prompt": "p", "cachescope.request.body": '{"model": "m"}'}}).encode())
FAMILIES = load_families(None)
PAGE = "vllm:prefix_cache_queries_total {}\nvllm:prefix_cache_hits_total {}\n"


def lookups(store: Store, count: int = 320, *, ahead_ms: int = 0, **changes: object) -> None:
    """Write lookups of two hours, enough for every page's comparison and for a replay. Their requests are on record."""
    made = list(telemetry.make(start_ms=NOW - 7_200_000 + ahead_ms, end_ms=NOW - 60_000 + ahead_ms, per_minute=max(count, 119) / 119))
    odd = [
        dataclasses.replace(
            one,
            lookup=one.lookup._replace(**{"namespace": "faq", **changes}),  # type: ignore[arg-type]
            gateway=(one.gateway[0]._replace(payload=RECORDED), *one.gateway[1:]),
        )
        for one in made[-count:]
    ]
    telemetry.write(store, odd, now_ms=NOW)


def one_model_without_a_price(store: Store) -> None:
    made = list(telemetry.make(start_ms=NOW - 7_200_000, end_ms=NOW - 60_000, per_minute=3))
    odd = []
    for at, one in enumerate(made):
        model, bare = (UNPRICED, _NO_PRICE) if at % 2 else ("demo-small", {})
        calls = [span._replace(model=model, input_tokens=100, output_tokens=50) for span in one.gateway]
        row = one.lookup._replace(namespace="faq", model=model, **bare)  # type: ignore[arg-type]
        odd.append(dataclasses.replace(one, gateway=tuple(calls), lookup=row))
    telemetry.write(store, odd, now_ms=NOW)


def counted_alone(store: Store) -> None:
    for at_ms, n in ((NOW - 180_000, 0), (NOW - 120_000, 100), (NOW - 60_000, 100)):
        page = sort(parse(PAGE.format(n, n // 2)), FAMILIES, at_ms=at_ms)
        storage_counters.write_scrape(store, SourceKey("scrape", "http://a/metrics"), page, now_ms=at_ms, max_series=100)


_NO_TOKENS: dict[str, object] = {"input_tokens": None, "output_tokens": None}
_HUGE: dict[str, object] = dict.fromkeys(("cost_usd", "saved_usd", "saved_ms", "upstream_ms", "lookup_ms", "entry_age_s"), 1e308)
_NO_PRICE: dict[str, object] = {"cost_usd": None, "saved_usd": None}
STATES: dict[str, Callable[[Store], None]] = {
    "nothing": lambda store: None,
    "one event": lambda store: lookups(store, 1),
    "one key": lambda store: lookups(store, key="k", prompt_hash="p", prompt="same", prompt_simhash="0" * 16, entry_id="e", tenant="t"),
    "all hits": lambda store: lookups(store, outcome="exact_hit", reason="", similarity=None, cost_usd=None, upstream_ms=None),
    "all misses": lambda store: lookups(store, outcome="miss", tier="", saved_usd=None, saved_ms=None),
    "none eligible": lambda store: lookups(store, outcome="bypass", tier=""),
    "a clock ahead": lambda store: lookups(store, ahead_ms=30 * 86_400_000),
    "markup": lambda store: lookups(
        store, namespace=MARKUP, tenant=MARKUP, model=MARKUP, prompt=MARKUP, candidate_prompt=MARKUP, key=MARKUP
    ),
    "counters alone": counted_alone,
    "no tokens": lambda store: lookups(store, **_NO_TOKENS),
    "no price": lambda store: lookups(store, **_NO_PRICE),
    "a model without a price": one_model_without_a_price,
    "beyond all measure": lambda store: lookups(store, **_HUGE),
    "negative": lambda store: lookups(store, cost_usd=-5.0, saved_usd=-5.0, saved_ms=-9.0, input_tokens=-3, output_tokens=-3),
}
NO_LOOKUPS = {"nothing", "a clock ahead", "counters alone"}


@dataclasses.dataclass
class Shown:
    """What all pages hold: view models, dials by page, tables and sentences by name, figures."""

    models: dict[str, Any] = dataclasses.field(default_factory=dict)
    dials: dict[str, list[Dial]] = dataclasses.field(default_factory=dict)
    tables: dict[str, list[Mapping[str, Any]]] = dataclasses.field(default_factory=dict)
    told: dict[str, str] = dataclasses.field(default_factory=dict)
    charts: list[Chart] = dataclasses.field(default_factory=list)


def work(wired: Wiring) -> None:
    """Let the worker compute what it computes ahead: regret of a day, and drift of an hour."""
    ctx = dataclasses.replace(support.admin(wired, clock=lambda: NOW), embedder=lambda: (None, "embedder is none"))
    for kind in (regret_job, drift_job):
        support.worked(ctx, kind)


def pages(wired: Wiring, namespace: str) -> Shown:
    """Load and draw everything that a page would, in its way."""
    shown, told, asked = Shown(), "this time", {"window": HOUR, "scope": Scope()}
    stores = wired.telemetry, wired.ops

    def engine() -> EngineAdapter:
        return Engine()  # type: ignore[return-value]

    front = overview.load(*stores, no_engine, Question(HOUR, Scope(), told, NOW, usd_per_hour=1.0))
    rate = hit_rate.load(*stores, Question(HOUR, Scope(), told, NOW, usd_per_hour=1.0))
    moved = drift_ahead.load(*stores, window_name=told, horizon="1h", now_ms=NOW, **asked)
    answer = why.load(*stores, before=HOUR.previous, before_name="before", **asked)
    assert front.traffic is not None
    assert rate.loaded is not None
    _rates(shown, front.traffic, rate.loaded)
    shown.dials["drift"] = [*drift_rows.dials(moved), *drift_rows.front(moved, NOW)]
    shown.tables |= {"panels": drift_rows.panel_rows(moved), "findings": drift_rows.finding_rows(moved.findings)}
    shown.tables |= {f"kinds {title}": drift_rows.kind_rows(found) for title, found in drift_rows.lists(moved)}
    if moved.now is not None and moved.before is not None and moved.now.entropy is not None:
        shown.charts += [drift_charts.ranks(moved.now, moved.before, {}), drift_charts.similarities(moved.now, moved.before, {})]
    shown.tables |= {"parts": why_rows.part_rows(answer), "explained": why_rows.segment_rows(answer, {})}
    shown.told |= {"overview": front.sentence, "hit rate": rate.sentence, "drift": moved.sentence, "why": why_rows.headline(answer)}
    shown.models |= {"overview": front, "hit rate": rate, "drift": moved, "why": answer}
    _worked(shown, wired)
    _policies(shown, wired, engine, namespace)
    _telemetry(shown, wired, engine)
    return shown


def _rates(shown: Shown, traffic: overview.Traffic, loaded: hit_rate.Loaded) -> None:
    shown.dials["overview"] = [overview_rows.rate_dial(traffic), *overview_rows.share_dials(traffic), *overview_rows.other_dials(traffic)]
    shown.dials["hit rate"] = [*hit_rate.coverage_dials(loaded), *worth.dials(loaded.worth)]
    for read in (hit_rate.segment_rows, hit_rate.bucket_rows, hit_rate.funnel_rows, hit_rate.reason_rows, hit_rate.other_rows):
        shown.tables[read.__name__] = list(read(loaded))
    shown.tables["movers"] = overview_rows.mover_rows(traffic, {})
    shown.charts += [
        rates.outcomes(traffic.buckets, HOUR),
        latency.figure(traffic.latency, HOUR),
        rates.hit_rate(loaded.buckets, HOUR, break_even=loaded.worth.ms.break_even_ratio, earlier=loaded.beside, compared=loaded.compared),
        rates.funnel(loaded.funnel, {}),
    ]


def _worked(shown: Shown, wired: Wiring) -> None:
    """What the worker computed: regret, its course, and what stands on the front page."""
    worked = regret.load(wired.ops, horizon="24h", namespace=None, now_ms=NOW)
    course = regret_past.course(wired.ops, horizon="24h", namespace=None, now_ms=NOW)
    shown.models |= {"regret": worked, "course": course}
    shown.dials["regret"] = [regret.front(worked, course)]
    shown.tables |= {"namespaces": regret_rows.namespace_rows(worked), "course": regret_past.rows(course)}
    shown.told["regret"] = worked.sentence
    row = worked.chosen
    if row is not None and row.findings is not None:
        found = row.findings
        shown.dials["regret"] += regret.dials(row, worked)
        for read in (regret_rows.knob_rows, regret_rows.tournament_rows, regret_rows.space_rows, regret_rows.lifetime_rows):
            shown.tables[read.__name__] = read(found)
        shown.charts += [regret_charts.bracket(worked.rows), regret_charts.spaces(found), regret_charts.lifetimes(found)]
        shown.charts.append(regret_charts.course(course, HOUR))
        shown.told["regret's notes"] = " · ".join(regret_rows.notes(row))


def _policies(shown: Shown, wired: Wiring, engine: Callable[[], EngineAdapter], namespace: str) -> None:
    judged = thresholds.load(wired.telemetry, wired.ops, engine, window=HOUR, scope=Scope(namespace=namespace), window_name="this time")
    choice = thresholds.load(wired.telemetry, wired.ops, engine, window=HOUR, scope=Scope(), window_name="this time")
    held = holdout.load(wired.telemetry, window=HOUR, scope=Scope())
    ctx = support.admin(wired, clock=lambda: NOW)
    plan = admin_acts.plan_warmup(ctx, namespace, limit=10)
    kept = admin_acts.preview_purge(ctx, namespace)
    shown.models |= {"thresholds": judged, "choice": choice, "holdout": held, "warm-up's plan": plan, "stake": kept}
    shown.models["moved"] = moved = thresholds.move(judged, 0.85)
    shown.models |= {
        "warm-up": warmup.load(wired.engine, wired.ops, now_ms=NOW),
        "purge": purge.load(wired.engine, wired.ops, now_ms=NOW),
        "audit": audit.load(wired.ops),
    }
    shown.dials |= {"warm-up": warmup.dials(plan), "purge": purge.dials(kept)}
    shown.tables |= {
        "plan": warmup.plan_rows(plan),
        "pairs": thresholds.pair_rows(judged, [*moved.gained, *moved.lost, *thresholds.vetoed_ids(judged)]),
        "counts": thresholds.count_rows(choice),
        "similarities": similarity.table(judged.candidates),
        "held out": holdout.rows(held),
        "worst held out": holdout.worst_rows(held),
    }
    shown.told |= {"thresholds": judged.sentence, "choice": choice.sentence, "moved": thresholds.consequence(moved)}
    shown.told |= {"holdout": holdout.sentence(held), "notes": " ".join([*thresholds.notes(judged), *labelled.advice(judged)])}
    shown.charts.append(similarity.histogram(judged.candidates, {}, in_force=0.9, moved=0.85))


def _telemetry(shown: Shown, wired: Wiring, engine: Callable[[], EngineAdapter]) -> None:
    listing = traces.find(wired.telemetry, window=HOUR, scope=Scope(), search=Search(), now_ms=NOW)
    senders = sources.load(wired.telemetry, window=HOUR, now_ms=NOW)
    counted = counters.load(wired.telemetry, lambda: FAMILIES, window=HOUR, now_ms=NOW)
    shown.models |= {"traces": listing, "sources": senders, "counters": counted}
    shown.tables |= {
        "traces": traces.rows(listing),
        "senders": sources.source_rows(senders),
        "understood": understood.understood_rows(senders.sources),
        "missing": understood.missing_rows(senders.sources),
        "calls": understood.call_rows(senders.told, PRICES),
        "scores": understood.score_rows(senders.told, senders.sources),
        "errors": understood.error_rows(senders.told, senders.sources),
        "counter rates": counters.rate_rows(counted),
        "counter counts": counters.count_rows(counted),
    }
    shown.told |= {"traces": traces.sentence(listing, "this time"), "sources": senders.sentence, "counters": counters.sentence(counted)}
    shown.charts += [counter_charts.hit_rates(counted.rates, HOUR, unit) for unit in counter_charts.units(counted.rates)]
    for row in listing.rows[:1]:
        one = traces.load(wired.telemetry, engine, trace_id=row.trace_id.hex())
        assert one is not None
        shown.models["trace"] = one
        shown.tables["trace"] = traces.bar_rows(one)
        shown.charts.append(waterfall.figure(one))


def numbers(value: object, path: str) -> Iterator[tuple[str, float]]:
    """Yield every number in a view model, a table or a figure, with where it stands."""
    if isinstance(value, float | np.floating):
        yield path, float(value)
    elif isinstance(value, np.ndarray):
        if value.dtype.kind == "f":
            yield from ((path, float(one)) for one in value.ravel())
        elif value.dtype.kind == "O":
            yield from numbers(value.tolist(), path)
    elif dataclasses.is_dataclass(value) and not isinstance(value, type):
        for one in dataclasses.fields(value):
            yield from numbers(getattr(value, one.name), f"{path}.{one.name}")
    elif isinstance(value, Mapping):
        for key, one in value.items():
            yield from numbers(one, f"{path}[{key}]")
    elif isinstance(value, list | tuple | set | frozenset):
        for one in value:
            yield from numbers(one, path)


_NONE = re.compile(r"(?<![\w.])(nan|NaN|-?inf|None)(?![\w.])")
_NOUGHT = re.compile(r"^[−-]?\$?0(\.0+)?( ?(%|ms|s|min|bits|points))?$")
_OF = re.compile(r"(?:\bof|n =) [\d,]+\b|chance alone gives")
# How many there were is 0 where none were; what hits earn is 0 without one, and regret where nothing could be won, beside its n in hits.
COUNTS = {"Requests", "Entries", "Tenants", "Models", "Hits a minute", "Saved a minute", "Takes at least", "Regret, money", "Regret, time"}


@pytest.fixture(autouse=True)
def _little_work(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ahead, "BUDGET_S", 3_600.0)  # however slow the machine
    monkeypatch.setattr(drift_job, "LENGTH_MS", {"1h": 3_600_000})
    monkeypatch.setattr(regret_past, "LENGTH_MS", {"24h": 86_400_000})


@pytest.mark.parametrize("state", STATES)
def test_no_page_tells_a_number_that_is_none(wired: Wiring, state: str) -> None:
    with contextlib.closing(open_telemetry(wired.config.storage_settings(), write=True)) as store:
        STATES[state](store)
    work(wired)
    shown = pages(wired, MARKUP if state == "markup" else "faq")
    found = [*numbers(shown.models, "model"), *numbers(shown.tables, "table")]
    found += [one for chart in shown.charts for one in numbers(chart.figure.to_dict(), chart.title)]
    assert not [one for one in found if not math.isfinite(one[1])]
    assert not [chart.title for chart in shown.charts if "<script" in chart.figure.to_json()]
    dials = [(page, dial) for page, several in shown.dials.items() for dial in several]
    told = [*shown.told.values(), *(chart.alt for chart in shown.charts)]
    told += [f"{dial.label}: {dial.value}; {dial.detail}; {dial.change}" for _, dial in dials]
    told += [value for rows in shown.tables.values() for row in rows for value in row.values() if isinstance(value, str)]
    assert not [text for text in told if _NONE.search(text)]
    # A 0 stands beside what it is of, or counts what there is none of.
    noughts = [dial for _, dial in dials if _NOUGHT.match(dial.value) and dial.label not in COUNTS]
    assert not [dial for dial in noughts if not _OF.search(dial.detail)]
    _as_expected(state, shown, {(page, dial.label): dial.value for page, dial in dials})


def _as_expected(state: str, shown: Shown, values: Mapping[tuple[str, str], str]) -> None:
    """Hold what each state leaves unknown against what is told of it."""
    rates_told = {label: value for (page, label), value in values.items() if page in {"overview", "hit rate", "drift", "regret"}}
    rates_told = {label: value for label, value in rates_told.items() if label not in {"Requests", "Could hit"}}
    if state in NO_LOOKUPS:
        assert {*rates_told.values()} == {words.NO_DATA}, rates_told
    if state in NO_LOOKUPS | {"none eligible"}:
        assert rates_told["Hit rate"] == rates_told["Lifetime"] == words.NO_DATA
    if state in NO_LOOKUPS | {"none eligible", "no price", "negative"}:
        money = {label: value for label, value in rates_told.items() if "money" in label.lower()}
        assert {*money.values()} == {words.NO_DATA}, money
        assert values.get(("warm-up", "Cost, at most"), words.NO_DATA) == words.NO_DATA
    if state in {"no price", "negative"} | NO_LOOKUPS:
        assert values["purge", "Saved a minute"] == words.NO_DATA
    if state in {"no tokens", "negative"}:
        assert {rates_told[label] for label in ("By tokens", "Tokens saved")} == {words.NO_DATA}
        assert "length of prompts" not in {row["what"] for row in shown.tables["panels"] if row["n in each"]}
    if state == "no tokens":
        assert (values["warm-up", "To ask"], values["warm-up", "Tokens"]) == ("10", words.NO_DATA)
    if state == "counters alone":
        assert [row["hit rate"] for row in shown.tables["counter rates"]] == [50.0]
    if state == "a model without a price":
        (cost,) = (row["cost by your prices"] for row in shown.tables["calls"] if row["model"] == UNPRICED)
        assert cost == words.NO_DATA
    assert (shown.models["regret"].chosen is not None) == (state not in NO_LOOKUPS | {"none eligible"})
