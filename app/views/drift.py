"""Drift: is the traffic changing under the cache?"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from app.analysis.drift import Divergence, compare
from app.analysis.entropy import Entropy, entropy, rarefied
from app.views import words
from app.views.dial import Dial
from app.views.parts import Failure, attempt
from storage.reads import drift as reads
from storage.reads.drift import PromptSample
from storage.reads.window import Scope, Window
from storage.store import Store

TELEMETRY = "Telemetry database"
SOURCES = (TELEMETRY,)
MOST = 25
FEW = 100  # lookups in a window below which its mix is not worth comparing
MIN_BITS = 0.02  # a divergence below this is no reason to act, however certain


@dataclass(frozen=True, slots=True)
class Side:
    """One window's mix. rarefied_bits: its entropy at the n of the smaller window, so that the two may be compared."""

    window: Window
    counts: Mapping[str, int]
    entropy: Entropy | None
    rarefied_bits: float | None
    similarities: Sequence[float]


@dataclass(frozen=True, slots=True)
class Drift:
    sentence: str
    bad: bool
    now: Side | None
    before: Side | None
    divergence: Divergence | None
    new: tuple[tuple[PromptSample, int], ...]
    vanished: tuple[tuple[PromptSample, int], ...]
    new_share: tuple[int, int]
    prompts_recorded: bool
    failures: tuple[Failure, ...]


def load(telemetry: Callable[[], Store], *, window: Window, scope: Scope, window_name: str) -> Drift:
    """Compare the window with the one of equal length before it."""

    def read() -> Drift:
        with telemetry().read() as conn:
            counts, earlier = (reads.prompt_counts(conn, one, scope) for one in (window, window.previous))
            likeness, before_likeness = (reads.similarities(conn, one, scope) for one in (window, window.previous))
            fresh = _top({key: n for key, n in counts.items() if key not in earlier})
            gone = _top({key: n for key, n in earlier.items() if key not in counts})
            texts = reads.samples(conn, window, scope, fresh)
            texts |= reads.samples(conn, window.previous, scope, gone)
        equal = min(sum(counts.values()), sum(earlier.values()))
        now = _side(window, counts, equal, likeness)
        before = _side(window.previous, earlier, equal, before_likeness)
        divergence = compare(earlier, counts)
        sentence, bad = _sentence(now, before, divergence, window_name)
        samples = [texts[key] for key in (*fresh, *gone) if key in texts]
        return Drift(
            sentence=sentence,
            bad=bad,
            now=now,
            before=before,
            divergence=divergence,
            new=tuple((texts[key], n) for key, n in fresh.items() if key in texts) if earlier else (),
            vanished=tuple((texts[key], n) for key, n in gone.items() if key in texts),
            new_share=(sum(n for key, n in counts.items() if key not in earlier), sum(counts.values())),
            prompts_recorded=not samples or any(sample.prompt is not None for sample in samples),
            failures=(),
        )

    part = attempt(TELEMETRY, read, hides="the mix of prompts and its change")
    if part.value is not None:
        return part.value
    failures = (part.failure,) if part.failure else ()
    return Drift("No telemetry can be read: there is no mix to show", True, None, None, None, (), (), (0, 0), True, failures)


def _top(counts: Mapping[str, int]) -> dict[str, int]:
    return dict(sorted(counts.items(), key=lambda item: (-item[1], item[0]))[:MOST])


def _side(window: Window, counts: Mapping[str, int], equal: int, similarities: Sequence[float]) -> Side:
    values = list(counts.values())
    return Side(window, counts, entropy(values), rarefied(values, equal) if equal else None, similarities)


def _sentence(now: Side, before: Side, divergence: Divergence | None, window_name: str) -> tuple[str, bool]:
    if now.entropy is None:
        return f"No prompts in {window_name}: there is no mix to show", False
    kinds = words.many(now.entropy.kinds, "different prompt", "different prompts")
    head = f"{kinds} in {words.many(now.entropy.n, 'lookup', 'lookups')} in {window_name}"
    if before.entropy is None or divergence is None:
        return f"{head}; nothing before it to compare with", False
    if min(now.entropy.n, before.entropy.n) < FEW:
        return f"{head}; too few to compare (n = {words.count(before.entropy.n)} before it, {FEW} needed in each)", False
    change = f"JS divergence {divergence.bits:.3f} bits, chance alone gives up to {divergence.null_bits:.3f}"
    if not divergence.changed:
        return f"{head}; the mix is as before ({change})", False
    if divergence.bits - divergence.null_bits < MIN_BITS:
        return f"{head}; the mix changed, but by little ({change})", False
    return f"{head}; the mix changed ({change})", True


def dials(view: Drift) -> list[Dial]:
    """Return entropy now and before, the divergence, and the share of prompts never seen before."""
    if view.now is None or view.now.entropy is None:
        return []
    mix, before = view.now.entropy, view.before.entropy if view.before else None
    found = [
        Dial(
            "Entropy",
            f"{mix.bits:.2f} bits",
            f"of at most {_most_bits(mix)}; n = {words.count(mix.n)}",
            _entropy_change(view),
            help="Of the prompts' mix, with Miller and Madow's bias term. The change is between samples of equal n.",
        ),
        Dial("Effective prompts", f"{mix.effective:,.0f}", f"as varied as so many equal ones; {words.count(mix.kinds)} seen"),
    ]
    if before and view.divergence:
        judged = min(mix.n, before.n) >= FEW
        verdict = ("changed" if view.divergence.changed else "within chance") if judged else "too few to judge"
        found.append(
            Dial(
                "Change of the mix",
                f"{view.divergence.bits:.3f} bits",
                f"{verdict}: chance alone gives up to {view.divergence.null_bits:.3f}, p = {view.divergence.p_value:.3f}",
                help="Jensen-Shannon divergence, 0 to 1, against the window before; the null is by permutation of independent lookups.",
            )
        )
        new, total = view.new_share
        found.append(
            Dial(
                "New prompts",
                words.ratio(new / total) if total else words.NO_DATA,
                f"{words.count(new)} of {words.count(total)} lookups",
            )
        )
    return found


def _most_bits(mix: Entropy) -> str:
    return f"{mix.plug_in_bits / mix.normalised_ratio:.2f}" if mix.normalised_ratio else "0.00"


def _entropy_change(view: Drift) -> str:
    now, before = view.now, view.before
    if now is None or before is None or now.rarefied_bits is None or before.rarefied_bits is None:
        return ""
    return f"{now.rarefied_bits - before.rarefied_bits:+.2f} bits at equal n".replace("-", "−")


def lists(view: Drift) -> list[tuple[str, tuple[tuple[PromptSample, int], ...]]]:
    """Return the titled lists of prompts; none while there is nothing before to compare with."""
    if view.before is None or view.before.entropy is None:
        return []
    found = (("New since before", view.new), ("Vanished since before", view.vanished))
    return [(f"{title}, the {len(rows)} most frequent" if len(rows) == MOST else title, rows) for title, rows in found]


def prompt_rows(found: Sequence[tuple[PromptSample, int]]) -> list[dict[str, Any]]:
    return [
        {
            "prompt": words.one_line(sample.prompt, 160) if sample.prompt else words.UNNAMED,
            "lookups": n,
            "namespace": words.name(sample.namespace),
            "tenant": words.name(sample.tenant),
        }
        for sample, n in found
    ]
