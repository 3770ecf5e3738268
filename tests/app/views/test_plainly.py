"""What the pages show of random histories, beside the same numbers computed in plain Python from the events that were sent.

Nothing here but the writer and the views is the product's: no rollup, no query and no formula of it. Each history comes through the
writer in batches, out of order, some of it twice, and is then read over several ranges and filters, before and after retention.
"""

from __future__ import annotations

import contextlib
import math
import random
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from app.views import hit_rate, overview, why
from app.views.question import Question
from storage import spans
from storage.reads.window import Scope, Window
from storage.retention import Sweeper
from storage.rows import LookupRow, SourceBatch, SourceKey
from storage.store import Store, open_ops
from tests.bench.views_bench import no_engine
from tests.storage.support import START_NS, Made
from tests.storage.support import settings as of_folder

HOUR = 3_600_000
NOW = START_NS // 1_000_000  # a full hour
HITS = {"exact_hit", "semantic_hit", "partial_hit", "stale_hit"}
ELIGIBLE = HITS | {"coalesced", "miss"}
OUTCOMES = (*sorted(ELIGIBLE), "bypass", "error")
SENDERS = [SourceKey("otlp_traces", name, instance) for name, instance in (("gateway", "1"), ("gateway", "2"), ("other", ""))]
SERVICE = "source"  # of an event, beside its row's own columns
Event = tuple[LookupRow, SourceKey]

WINDOWS = {
    "ten minutes": Window(NOW - 600_000, NOW),
    "odd minutes": Window(NOW - 7_440_000, NOW - 1_380_000),
    "an hour": Window(NOW - HOUR, NOW),
    "a day": Window(NOW - 24 * HOUR, NOW),
    "hours of the day before": Window(NOW - 30 * HOUR, NOW - 20 * HOUR),
}
SCOPES = {
    "all": Scope(),
    "namespace": Scope(namespace="faq"),
    "tenant and model": Scope(tenant="acme", model="large"),
    "tier": Scope(tier="memory"),
    "sender": Scope(source="gateway"),
    "unnamed": Scope(namespace="", model="small"),
}


def history(seed: int, *, sampled: bool = False) -> list[Event]:
    """Return events of 60 hours, half of them of the last three; a namespace loses hits in the last hour."""
    rng = random.Random(seed)
    found = []
    for number in range(1_200):
        ago_ms = rng.choice((rng.randrange(1, 600_000), rng.randrange(1, 3 * HOUR), rng.randrange(1, 60 * HOUR)))
        namespace, tenant = rng.choice(("faq", "docs", "")), rng.choice(("acme", "globex", "<b>initech</b>"))
        outcome = rng.choices(OUTCOMES, [1, 9, 6, 1, 3, 1, 1, 1])[0]
        if namespace == "faq" and ago_ms < HOUR and rng.random() < 0.95:
            outcome = "miss"
        kept = {"exact_hit": 0.25, "semantic_hit": 0.5}.get(outcome) if sampled and rng.random() < 0.8 else None
        told: dict[str, Any] = {
            "namespace": namespace,
            "tenant": tenant,
            "model": rng.choice(("large", "small")),
            "tier": rng.choice(("memory", "store", "vector")) if outcome in HITS else "",
            "reason": rng.choice(("no_candidate", "vetoed", "holdout")) if outcome == "miss" else "",
            "client": rng.choice(("web", "batch")),
            "model_version": rng.choice(("v1", "v2")),
            "purpose": rng.choices(("traffic", "warmup"), [12, 1])[0],
            "input_tokens": rng.choice((None, 0, 12, 400, -5)),
            "output_tokens": rng.choice((None, 7, 90)),
            "saved_usd": rng.choice((None, 0.002, 0.03, -1.0)) if outcome in HITS else None,
            "cost_usd": rng.choice((None, 0.004, 0.02)),
            "saved_ms": rng.choice((None, 640.25, 12.5)) if outcome in HITS else None,
            "lookup_ms": rng.choice((None, 0.7, 5.125)),
            "sampler": "" if kept is None else "threshold",
            "kept_ratio": kept,
        }
        made = Made(number, trace=number % 700, start_ns=(NOW - ago_ms) * 1_000_000, outcome=outcome, extra=told)
        row = replace(made, duration_ms=rng.lognormvariate(3, 1.5)).lookup()
        kind = rng.choices(("response", "provider_prompt"), [12, 1])[0]
        found.append((row._replace(cache_kind=kind), rng.choice(SENDERS)))
    return found


def send(store: Store, events: Sequence[Event], seed: int) -> None:
    """Write them in batches of any size and order, some again in a later one, as retries do."""
    rng = random.Random(seed)
    sent = [*events, *rng.choices(events, k=200)]
    rng.shuffle(sent)
    while sent:
        part, sent = sent[: (size := rng.randint(1, 400))], sent[size:]
        batches = []
        for sender in SENDERS:
            mine = [row for row, owner in part if owner == sender]
            told = [Made(0, start_ns=row.at_ms * 1_000_000).span()._replace(trace_id=row.trace_id, span_id=row.span_id) for row in mine]
            batches.append(SourceBatch(sender, told, mine))
        spans.write(store, batches, now_ms=NOW)


def among(events: Iterable[Event], window: Window, scope: Scope, *, kind: str = "response") -> list[LookupRow]:
    wanted = {name: value for name in ("namespace", "tenant", "model", "tier") if (value := getattr(scope, name)) is not None}
    return [
        row
        for row, sender in events
        if window.start_ms <= row.at_ms < window.end_ms
        and (row.cache_kind, row.purpose) == (kind, "traffic")
        and scope.source in {None, sender.service}
        and all(getattr(row, name) == value for name, value in wanted.items())
    ]


def wilson(p: float, n: float) -> tuple[float, float]:
    """The two roots of (x - p)^2 = z^2 x (1 - x) / n."""
    z2 = 1.959963984540054**2
    a, b, c = 1 + z2 / n, -(2 * p + z2 / n), p * p
    root = math.sqrt(max(0.0, b * b - 4 * a * c))
    return max(0.0, (-b - root) / (2 * a)), min(1.0, (-b + root) / (2 * a))


def near(value: float) -> Any:
    return pytest.approx(value, rel=1e-9, abs=1e-9)


def check_rate(counts: Any, rows: Sequence[LookupRow]) -> None:
    """The rate by requests, each lookup standing for 1/p, and its interval."""
    assert Counter({name: n for name, n in counts.by_outcome.items() if n}) == Counter(row.outcome for row in rows)
    eligible = [row for row in rows if row.outcome in ELIGIBLE]
    if not eligible:
        assert counts.hit_rate is None
        return
    weights = [1 / (row.kept_ratio or 1.0) for row in eligible]
    hit = [row.outcome in HITS for row in eligible]
    ratio = sum(w for w, h in zip(weights, hit, strict=True) if h) / sum(weights)
    error2 = sum((w * (h - ratio)) ** 2 for w, h in zip(weights, hit, strict=True)) / sum(weights) ** 2
    n = ratio * (1 - ratio) / error2 if 0 < ratio < 1 else sum(weights) ** 2 / sum(w * w for w in weights)
    share = counts.hit_rate
    assert (counts.eligible, share.k / share.n) == (
        len(eligible),
        pytest.approx(ratio, abs=0.5 / len(eligible) if counts.sampled else 1e-12),
    )
    assert (share.low_ratio, share.high_ratio) == pytest.approx(wilson(ratio, n), abs=1e-9)


def scaled(values: Sequence[float | None]) -> tuple[float, int] | None:
    """The sum if those that told nothing were like the others, and how many told; None where fewer than 30 and than half did."""
    known = [value for value in values if value is not None and value >= 0]
    if len(known) < min(30, len(values) / 2):
        return None
    return (sum(known) / len(known) * len(values) if known else 0.0), len(known)


def check_tokens(found: Any, rows: Sequence[LookupRow]) -> None:
    def tokens(row: LookupRow) -> float | None:
        known = row.input_tokens is not None and row.input_tokens >= 0
        return (row.input_tokens or 0) + max(0, row.output_tokens or 0) if known else None

    sides = [scaled([tokens(row) for row in rows if row.outcome in side]) for side in (HITS, ELIGIBLE - HITS)]
    if None in sides or not sum(value for value, _ in sides):  # type: ignore[misc]
        assert found.ratio is None
        return
    (hit, _), (other, _) = sides  # type: ignore[misc]
    assert found.ratio.ratio == near(hit / (hit + other))


def check_money(found: Any, rows: Sequence[LookupRow]) -> None:
    saved = spent = known = of = 0.0
    for model in {row.model for row in rows}:
        hits = [row.saved_usd for row in rows if row.model == model and row.outcome in HITS]
        misses = [row.cost_usd for row in rows if row.model == model and row.outcome == "miss"]
        of += len(hits) + len(misses)
        sides = scaled(hits), scaled(misses)
        if sides[0] is not None and sides[1] is not None:
            saved, spent, known = saved + sides[0][0], spent + sides[1][0], known + len(hits) + len(misses)
    if known < of / 2 or not saved + spent:
        assert found.ratio is None
        return
    assert (found.known, found.of) == (known, of)
    assert found.ratio.ratio == near(saved / (saved + spent))


def check_saved(usd: Any, ms: Any, rows: Sequence[LookupRow], hours: float | None) -> None:
    """hours: that the cache cost a dollar each; None = what it cost is not known."""
    hits, others = ([row for row in rows if row.outcome in side] for side in (HITS, ELIGIBLE - HITS))
    money, time = scaled([row.saved_usd for row in hits]), scaled([row.saved_ms for row in hits])
    lookups = [row.lookup_ms for row in others if row.lookup_ms is not None]
    if not hits:
        assert usd.gross in {0.0, None}
        return
    if money is None or not money[1]:
        assert not usd.enough or usd.gross is None
    else:
        assert (usd.gross, usd.known, usd.of) == (near(money[0]), money[1], len(hits))
        assert usd.net == (None if hours is None else near(money[0] - hours))
        if hours is not None and money[0] > 0:
            assert usd.break_even_ratio == near(hours / len(rows) / (money[0] / len(hits)))
    if time and time[1] and (lookups or not others):
        cost = sum(lookups) / len(lookups) * len(others) if others else 0.0
        assert (ms.gross, ms.net) == (near(time[0]), near(time[0] - cost))


def check_latency(found: Any, rows: Sequence[LookupRow]) -> None:
    for side, outcomes in ((found.hit, HITS), (found.no_hit, {"coalesced", "miss", "bypass"})):
        took = sorted(row.duration_ms for row in rows if row.outcome in outcomes)
        assert side.n == len(took)
        for told, q in ((side.p50_ms, 0.5), (side.p95_ms, 0.95)):
            assert told == (pytest.approx(took[math.floor(q * (len(took) - 1))], rel=0.0101) if took else None)


def check_places(found: Any, rows: Sequence[LookupRow]) -> None:
    expected: dict[tuple[str, str, str], Counter[str]] = {}
    for row in rows:
        expected.setdefault((row.namespace, row.tenant, row.model), Counter())[row.outcome] += 1
    shown = {(one.namespace, one.tenant, one.model): Counter({k: n for k, n in one.by_outcome.items() if n}) for one in found.places}
    assert shown == expected
    reasons = Counter((row.outcome, row.reason) for row in rows if row.outcome in {"miss", "bypass", "error"})
    assert {(one.outcome, one.reason): one.lookups for one in found.reasons} == reasons
    answered = {f"{row.tier} tier" for row in rows if row.outcome in HITS}
    assert {step.name for step in found.funnel if step.share.k and step.name.endswith("tier")} == (
        set() if found.counts.skewed else answered
    )
    eligible = sum(row.outcome in ELIGIBLE for row in rows)
    for step in found.funnel:
        tier = step.name.removesuffix(" tier")
        mine = [row for row in rows if (row.tier == tier and row.outcome in HITS) or (f"({row.outcome})" in step.name)]
        assert (step.share.k, step.share.n) == (len(mine), eligible)


def check_series(buckets: Any, rows: Sequence[LookupRow], window: Window) -> None:
    step = window.bucket_ms
    expected = Counter((row.at_ms // step * step, row.outcome) for row in rows)
    shown = Counter({(one.at_ms, outcome): n for one in buckets for outcome, n in one.counts.by_outcome.items() if n})
    assert shown == expected


def rates_of(rows: Sequence[LookupRow], of: Callable[[LookupRow], str]) -> dict[str, tuple[int, int]]:
    found: dict[str, tuple[int, int]] = {}
    for row in rows:
        if row.outcome in ELIGIBLE:
            k, n = found.get(of(row), (0, 0))
            found[of(row)] = k + (row.outcome in HITS), n + 1
    return found


def check_parts(parts: Iterable[tuple[str, float, float]], sides: Sequence[dict[str, tuple[int, int]]]) -> None:
    """Kitagawa's mix and rate of each value; one that is on a side alone has mix alone. They sum to the change."""
    (k0, n0), (k1, n1) = ((sum(k for k, _ in side.values()), sum(n for _, n in side.values())) for side in sides)
    middle = (k0 / n0 + k1 / n1) / 2
    for name, mix, rate in parts:
        (a, b), (c, d) = (side.get(name, (0, 0)) for side in sides)
        if not b and not d:
            assert (mix, rate) == (0, 0)
            continue
        r0, r1 = (a / b if b else c / d), (c / d if d else a / b)
        assert mix == near((d / n1 - b / n0) * ((r0 + r1) / 2 - middle))
        assert rate == near((r1 - r0) * (b / n0 + d / n1) / 2)
    assert sum(mix + rate for _, mix, rate in parts) == near(k1 / n1 - k0 / n0)


def check_why(view: why.Why, events: Sequence[Event], window: Window, scope: Scope) -> None:
    senders = {row.trace_id + row.span_id: f"{sender.service} {sender.instance}".strip() for row, sender in events}
    sides = [[row for row in among(events, one, scope) if row.outcome in ELIGIBLE] for one in (window.previous, window)]
    check_rate(view.counts_now, among(events, window, scope))
    check_rate(view.counts_before, among(events, window.previous, scope))
    if min(map(len, sides)) < 30 or view.counts_now.skewed or view.counts_before.skewed:
        assert view.segments == ()
        return

    def value(row: LookupRow, name: str) -> str:
        return senders[row.trace_id + row.span_id] if name == SERVICE else str(getattr(row, name))

    for one in view.segments:
        mine = [[row for row in side if all(value(row, name) == told for name, told in one.literals)] for side in sides]
        told = [count for side in mine for count in (sum(row.outcome in HITS for row in side), len(side))]
        assert [one.hits_before, one.n_before, one.hits_now, one.n_now] == told
    for dimension in view.dimensions:
        each = [rates_of(side, lambda row, name=dimension.name: value(row, name)) for side in sides]
        check_parts([(part.value, part.mix_ratio, part.rate_ratio) for part in dimension.parts], each)
    became = [Counter((row.outcome, row.tier if row.outcome in HITS else row.reason) for row in side) for side in sides]
    assert {(one.outcome, one.detail): (one.before, one.now) for one in view.became} == {
        key: (became[0][key], became[1][key]) for key in became[0] | became[1]
    }


@pytest.fixture
def ops(tmp_path: Path) -> Iterator[Store]:
    with contextlib.closing(open_ops(of_folder(tmp_path))) as opened:
        yield opened


def check_pages(telemetry: Store, ops: Store, events: Sequence[Event], window: Window, scope: Scope) -> tuple[Any, Any]:
    rows, before = among(events, window, scope), among(events, window.previous, scope)
    asked = Question(window, scope, "now", NOW, usd_per_hour=1.0)
    page = hit_rate.load(lambda: telemetry, lambda: ops, asked)
    front = overview.load(lambda: telemetry, lambda: ops, no_engine, asked)
    assert page.failures == ()
    loaded, traffic = page.loaded, front.traffic
    assert loaded is not None
    assert traffic is not None
    for one in (loaded, traffic):
        check_rate(one.counts, rows)
        check_rate(one.before, before)
        check_series(one.buckets, rows, window)
        check_series(one.earlier, before, window.previous)
    check_places(loaded, rows)
    check_latency(traffic.latency, rows)
    eligible = [row for row in rows if row.outcome in ELIGIBLE]
    others = [cached for cached in loaded.others if cached.cache_kind == "provider_prompt"]
    assert sum(one.counts.total for one in others) == len(among(events, window, scope, kind="provider_prompt"))
    assert loaded.worth.sampled is traffic.saved.sampled is any(row.sampler for row in rows)
    if not loaded.worth.sampled:
        check_tokens(loaded.worth.tokens, eligible)
        check_money(loaded.worth.money, eligible)
        whole = window.length_ms / HOUR if scope == Scope() else None
        check_saved(loaded.worth.usd, loaded.worth.ms, eligible, whole)
        check_saved(traffic.saved.usd, traffic.saved.ms, eligible, whole)
    if traffic.movers:
        sides = [rates_of(side, lambda row: row.namespace) for side in (before, rows)]
        check_parts([(one.name, one.mix_ratio, one.rate_ratio) for one in traffic.movers], sides)
    return loaded, traffic


@pytest.mark.parametrize(("seed", "sampled"), [(1, False), (2, False), (3, True)])
def test_pages_show_what_the_events_say(store: Store, ops: Store, seed: int, *, sampled: bool) -> None:
    events = history(seed, sampled=sampled)
    told = 0
    send(store, events, seed)
    for number, window in enumerate(WINDOWS.values()):
        for scope in (Scope(), list(SCOPES.values())[(number + seed) % len(SCOPES)]):
            check_pages(store, ops, events, window, scope)
            given: dict[str, Any] = {"window": window, "before": window.previous, "before_name": "before", "scope": scope}
            view = why.load(lambda: store, lambda: ops, find=False, **given)
            check_why(view, events, window, scope)
            told += len(view.segments)
    assert (told > 0) is not sampled


@pytest.mark.parametrize("minutes_days", [0, 1])
def test_pages_show_what_the_events_said_after_retention(tmp_path: Path, store: Store, ops: Store, minutes_days: int) -> None:
    """Rows older than a day are removed, or minutes too: of whole hours, sums and sketches go on telling the same."""
    events = history(4)
    send(store, events, 4)
    kept = replace(of_folder(tmp_path), keep_raw_days=1, keep_minutes_days=minutes_days, keep_hours_days=0, keep_bytes=0)
    sweeper = Sweeper(store, kept, rows=500, spare_pages=0)
    while sweeper.step(now_ms=NOW).more:
        pass
    with store.read() as conn:
        oldest = conn.exec_driver_sql("SELECT min(at_ms) FROM lookups").scalar_one()
    assert oldest >= NOW - 24 * HOUR
    for window in (Window(NOW - 24 * HOUR, NOW), Window(NOW - 50 * HOUR, NOW - 26 * HOUR)):
        for scope in (Scope(), SCOPES["tenant and model"]):
            rows = among(events, window, scope)
            asked = Question(window, scope, "now", NOW, usd_per_hour=1.0)
            loaded = hit_rate.load(lambda: store, lambda: ops, asked).loaded
            traffic = overview.load(lambda: store, lambda: ops, no_engine, asked).traffic
            assert loaded is not None
            assert traffic is not None
            check_rate(loaded.counts, rows)
            check_rate(traffic.counts, rows)
            check_places(loaded, rows)
            check_latency(traffic.latency, rows)
            eligible = [row for row in rows if row.outcome in ELIGIBLE]
            check_tokens(loaded.worth.tokens, eligible)
            check_money(loaded.worth.money, eligible)
