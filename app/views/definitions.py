"""What each number of the console means: the one table from which every tooltip is drawn.

By the label of a dial, the key of a chart, the heading of a column. The formulas are in docs/metrics.md.
"""

from __future__ import annotations

from typing import Final

from app.views.words import OUTCOME_NAMES

_INTERVAL: Final = (
    "The interval is over batches of time, or, where it says as if independent, Wilson's; the change is against the period chosen."
)
_KIND: Final = f"Share of the hit rate's denominator: hits + coalesced + misses. {_INTERVAL}"
_SAVED: Final = "What the hits saved, at the mean of those with a known price"
_ENDS: Final = (
    "What a perfect cache in today's space would have saved beyond what was recorded: at least with today's lifetime and exact keys, at "
    "most with any lifetime, or with semantic matches."
)
_DURATION: Final = "The whole request, upstream included: median, and below what 95 of 100 lie. Errors are left out."

DIALS: Final[dict[str, str]] = {
    "Hit rate": (
        "Hits / (hits + coalesced + misses), traffic of the response cache only. Bypasses and errors are not in it. The change is "
        "against the period chosen in the bar; a strip shows the course from 0 to 100 %. An interval by request is over "
        "batches: steps of the chart, joined for as long as neighbours are alike, for lookups come together. As if independent: "
        "Wilson's, which is then too narrow."
    ),
    "Exact": _KIND,
    "Semantic": _KIND,
    "Partial": _KIND,
    "Stale": _KIND,
    "Exact hits": _KIND,
    "Semantic hits": _KIND,
    "Partial hits": _KIND,
    "Stale hits": _KIND,
    "Coalesced": (f"{_KIND} A coalesced request waited for another's miss: no hit."),
    "Misses": _KIND,
    "Without holdout": (
        "The hit rate had nothing been held out: held-out lookups would have been hits, and were sent upstream to learn the truth."
    ),
    "Could hit": "Lookups in the hit rate's denominator, of all. Bypasses and errors are outside it.",
    "By tokens": (
        "Input and output tokens of the answers that hits served, of those of all eligible lookups. Hits that told none are taken at "
        "the mean of the hits that did, other lookups at that of theirs."
    ),
    "By money": (
        "What the hits' calls would have cost, of what all would have cost without the cache. Only models whose hits and whose "
        "misses have prices are in it; a lookup of theirs without a price is taken at the mean of its own side."
    ),
    "Lifetime": "The hit rate of all lookups on record with these filters. It moves slowly: judge by the window's.",
    "Money saved, net": (
        f"{_SAVED}, less the setting cache_usd_per_hour for the time shown. "
        "Break-even: the hit rate at which nothing is left. Wrong answers cost nothing here."
    ),
    "Money saved, gross": (
        f"{_SAVED}. What the cache costs is not known for this selection, so nothing is taken off. Wrong answers cost nothing here."
    ),
    "Time saved, net": "The hits' upstream time, less their own time in the cache, less the time that misses spent in the cache in vain.",
    "Requests": "All lookups of the time shown, those that were bypassed or failed included.",
    "Duration, hit": _DURATION,
    "Duration, no hit": _DURATION,
    "Tokens saved": "Input and output tokens of the answers that hits served.",
    "Entropy": (
        "How varied the prompts are, in bits: 0 = always the same one. Corrected for its bias. The interval takes lookups as "
        "independent; the change is between samples of equal n."
    ),
    "Effective prompts": "2 to the power of the entropy: as varied as so many prompts that come equally often.",
    "Entropy of clusters": ("Entropy of groups of like prompts."),
    "Drift": (
        "How far the mix of prompts moved from the period chosen: Jensen-Shannon divergence, 0 to 1 bit, at equal n. Chance: "
        "parts of both windows dealt anew. A panel is changed only when chance is ruled out and the effect is worth acting on."
    ),
    "Change of the mix": "Jensen-Shannon divergence of both windows, 0 to 1 bit, at equal n. Chance: parts of both windows dealt anew.",
    "New prompts": "Lookups whose prompt the other window does not have, of the lookups read.",
    "Regret": f"{_ENDS} All namespaces shown, each with a space of its own; computed by the worker.",
    "Regret, money": _ENDS,
    "Regret, hits": _ENDS,
    "Regret, time": _ENDS,
    "Missed today": "The recorded miss ratio of lookups that only their own key's entry could answer.",
    "Space today": "Computed from the recorded stores and the lifetime in force. Nothing has to be evicted in so much space.",
    "Entries": "Entries that may be served at this moment.",
    "Size": "What those entries take in the shared store.",
    "Tenants": "Tenants whose entries these are.",
    "Models": "Models whose answers these are.",
    "Hits a minute": "Hits at stake: mean of the last hour.",
    "Saved a minute": "What those hits saved upstream.",
    "Cost to make again": "What the entries' own upstream calls cost when they were made.",
    "Stored over": "From the oldest entry to the newest.",
    "To ask": "Requests that would be asked again: those that can be asked, of the most frequent misses.",
    "Misses they made": "Recorded misses of exactly these requests.",
    "Cost, at most": "What the same requests cost when they missed. What is there already costs nothing.",
    "Tokens": "Input and output tokens of the same requests when they missed.",
    "Takes at least": "Requests divided by the setting warmup_rate_per_s.",
}

CHARTS: Final[dict[str, str]] = {
    "calibration": "Labelled pairs by fifths of the score's probability, out of fold, and the share of each that people said serves.",
    "outcomes": "Lookups that began in each step, by what became of them. The last step is pale while late data may come.",
    "rate": (
        "Hits / (hits + coalesced + misses) of the lookups that began in each step; a step without any is a gap. "
        "Dashed: the compared period, moved to stand beside. Hollow: late data may still come."
    ),
    "latency": f"{_DURATION} From sketches that are within 1 %. Hollow: late data may still come.",
    "funnel": "Eligible lookups by what answered them, end to end. In the table also the share of those that came as far as each tier.",
    "ranks": "Share of a window's lookups that its most frequent prompt has, the second, and so on.",
    "similarities": "Shares of lookups with a candidate, by its similarity; exact hits have none.",
    "bracket": _ENDS,
    "course": "What a perfect cache would have won, least and most, as part of the lookups of the time that ended there.",
    "spaces": "Misses of the recorded stream, replayed with less or more space; lookups served by another key's entry are left out.",
    "lifetimes": "Misses of the recorded stream, replayed with shorter and longer lifetimes and no limit of space.",
    "granularity": "Tokens of the prefill that a cache of such units would save of the trace, and prompts that would find a unit.",
    "similarity": "Lookups with a candidate, by its similarity and what became of them. A candidate may serve at the threshold or above.",
    "waterfall": "Spans as long as they took, in the order of the calls; steps of the lookup inside it.",
    "counters": "Hits / queries by which the counters grew in each step. A step without a query or without a reading is a gap.",
}

_SINCE: Final = (
    "Click on a point or a bar to see why the hit rate changed since then; with Drag a range on, drag over a region to make it the "
    "time range."
)

# What a click on each chart does. Over time: why the hit rate changed. A bar of a part: that part's lookups, or the part itself. Over
# another axis: the lookups of that point, or what its value would have changed.
CLICKS: Final[dict[str, str]] = {
    "outcomes": _SINCE,
    "rate": _SINCE,
    "latency": _SINCE,
    "counters": _SINCE,
    "course": "Click on a point to see why the hit rate changed in that time.",
    "bracket": "Click on a line to see that namespace.",
    "funnel": "Click on a bar to see its lookups.",
    "ranks": "Click on a point to see the lookups of that prompt.",
    "similarities": "Click on a point to see that window's lookups with a candidate as near.",
    "similarity": "Click on a bar to see its lookups.",
    "spaces": "Click on a point to see what so much space would have changed, and where it is set.",
    "lifetimes": "Click on a point to see what such a lifetime would have changed, and where it is set.",
}
# And on these nothing, because nothing more is known of their points.
UNSELECTABLE: Final[dict[str, str]] = {
    "calibration": "A point is a fifth of the labelled pairs, which the page lists by similarity, and not by what the score said of them.",
    "granularity": "The trace was brought as a file, and nothing of it is kept.",
    "waterfall": "A trace's spans are where the other charts lead to; the table has all that is known of each.",
}

COLUMNS: Final[dict[str, str]] = {
    "n": "Lookups that the value beside it is of: those in the hit rate's denominator, or with a duration or a candidate.",
    "least": "The least regret, as part of the lookups: today's lifetime, exact keys.",
    "most": "The most regret, as part of the lookups: any lifetime, semantic matches where they were computed.",
    "most, hits": "The most regret, in hits of all keys.",
    "most, money": "The most regret in US dollars, where prices are known.",
    "namespaces": "Namespaces with an analysis of that time.",
    "n before": "Lookups of the window compared with that its share is of: those eligible, or with a candidate.",
    "n now": "Lookups of this window that its share is of: those eligible, or with a candidate.",
    "now %": "Share of this window's lookups.",
    "before %": "Share of the lookups of the window compared with.",
    "lookups now": "Lookups of this window: of the prompt with that rank, or with a candidate as near.",
    "lookups before": "Lookups of the window compared with: of the prompt with that rank, or with a candidate as near.",
    "similarity to": "Upper end of the step; the last step holds it.",
    "n in each": "Lookups of each window that were compared: as many of both.",
    "hit rate": "Hits / (hits + coalesced + misses); of sources that only count, hits / queries. Empty = no data.",
    "hit rate %": "Hits / (hits + coalesced + misses) of the step. Empty = no data.",
    "hit rate before": "Hits / (hits + coalesced + misses) in the window compared with.",
    "own hit rate": "Hits / (hits + coalesced + misses) of this namespace alone.",
    "before": "The same share in the window compared with.",
    "now": "The same share in the window that is explained.",
    "95 %": "Interval in which the true share lies 95 times of 100 if lookups are independent (Wilson).",
    "interval": "Interval in which the true rate lies 95 times of 100 if lookups are independent (Wilson).",
    "median": "Half lie below it.",
    "median ms": "Half of the requests took at most so long, upstream included.",
    "p95 ms": "95 of 100 requests took at most so long, upstream included.",
    "exact": "Exact hits, of the hit rate's denominator.",
    "semantic": "Semantic hits, of the hit rate's denominator.",
    "partial": "Partial hits, of the hit rate's denominator.",
    "stale": "Stale hits, of the hit rate's denominator.",
    "bypass": "Lookups that were bypassed: not in the hit rate's denominator.",
    "error": "Lookups that failed: not in the hit rate's denominator. On a trace: what the span's sender said of its failure.",
    "effect on total": (
        "By how many points this namespace moved the hit rate of all: by its share of the traffic and by its own rate. The "
        "effects sum to the change."
    ),
    "effect": "By how many points this part moved the hit rate of all.",
    "mix": "The part of the effect that comes from its share of the traffic.",
    "rate": "The part of the effect that comes from its own hit rate; on the Overview the link to it.",
    "by mix": "What changed shares of the traffic explain, in points.",
    "by rate": "What changed own hit rates explain, in points.",
    "explains": "Share of the whole change that the values to blame explain.",
    "surprise (bits)": "How far the dimension's shares of the hits moved: Jensen-Shannon divergence of before and now (Adtributor).",
    "share before": "Its share of the eligible lookups of the window compared with.",
    "share now": "Its share of the eligible lookups of the window that is explained.",
    "share": 'Share of the count in the column "of" or "looked at".',
    "of": "What the share is of. Of counters: what one of them counts.",
    "lookups": 'How many lookups; in "why did it change" the link to them, on Sources what was understood as lookups.',
    "of those that came": "Share answered of the lookups that no earlier tier had answered.",
    "came": "Lookups that came as far as this tier.",
    "with a cached part": "Calls of which at least one input token came from that cache, of all with a known outcome.",
    "input tokens from it": "Cached input tokens / input tokens, of calls that told both: sums divided, no ratios averaged.",
    "requests": "Whether they had an answer from the cache (hit) or not.",
    "prompts": "How many different prompts; in lists of clusters the most frequent of them.",
    "entries": "How many different entries.",
    "different prompts": "How many different prompts, by the hash of the text.",
    "seen": "The measure between the two windows.",
    "chance gives up to": "What 95 of 100 deals at random stay below.",
    "p, adjusted": "Chance of as large a value without any change, adjusted for the number of panels (Benjamini-Hochberg).",
    "least worth acting on": "An effect below it is no alarm, however certain.",
    "same time before": "The measure against the same time a day before, of wide windows a week or two weeks before.",
    "rank": "1 = the prompt that came most often.",
    "regret": "At least and at most what a perfect cache in today's space would have saved beyond what was recorded, in money.",
    "regret, hits": "At least and at most the hits that a perfect cache in today's space would have had beyond those recorded.",
    "wins": "What the best knob would have won over what was recorded.",
    "best fixed set": "What the best set of entries that never changes would have saved in today's space.",
    "recorded": "What the recorded hits saved.",
    "age": "How long ago the worker computed it.",
    "hits": "Hits won, or had by the replay; of counters: by how much the hits grew.",
    "hits, 95 %": "How far the hits won may be off, 95 times of 100, because keys were sampled. Empty = no interval is known.",
    "queries": "By how much the counted queries grew.",
    "of its lookups": "Hits won, of the namespace's lookups.",
    "money": "What those hits would have saved, at the recorded prices.",
    "time": "How much waiting those hits would have saved.",
    "space it takes": "The most that live entries would take together.",
    "where it is set": "The setting or page that changes it. Restarts of a store that keeps nothing, and flushes, lose entries, too.",
    "space": "Space of the replayed cache: bytes where sizes are known, else entries.",
    "missed": "Misses of the replay, of all lookups that had to hit by exact key.",
    "missed, no expiry": "The same without any lifetime, under LRU.",
    "missed, today's lifetime": "Misses of the replay with the lifetime in force, of all lookups that had to hit by exact key.",
    "saved": "What the hits of the replay save, at the recorded prices.",
    "saved at 25 %": "What the policy's hits save in a quarter of today's space.",
    "time saved": "How much waiting the hits of the replay save.",
    "duration ms": "How long it took by its own clock, ms.",
    "start ms": "When it began, ms after the trace's first span.",
    "shifted by ms": "By how much the clock was corrected.",
    "depth": "How many spans are above it.",
    "tokens": "Input and output tokens as its sender told.",
    "similarity": "Cosine of the candidate, -1 to 1; it may serve at the threshold or above.",
    "distance": "1 - similarity.",
    "similarity from": "Lower end of the step.",
    "with a candidate": "Lookups whose nearest entry was found by similarity.",
    "semantic hits": "Lookups that another prompt's entry served.",
    "vetoed above the threshold": "Lookups whose candidate was similar enough and was refused by verification.",
    "accepted": "Spans, points or samples of this sender that are stored.",
    "answered, not stored": "Metrics and log records that tell of no cache.",
    "compared": "Held-out answers that could be compared with the upstream's.",
    "not compared": "Held-out answers that could not be compared.",
    "words in common": "Words that both answers have, of all words of both.",
    "words in common, mean": "Mean of the words that both answers have, of all words of both.",
    "less than half in common": "Share of the compared answers of which less than half of the words are in common.",
    "labelled pairs": "Pairs that people judged and the rules let through.",
    "keeps": "Of the right pairs, the share that still serves at the score's cut, out of fold.",
    "wrong": "Of the pairs that serve at the score's cut, the share that people called wrong, out of fold.",
    "similarity alone": "What the best threshold of similarity alone would keep, and how much of that is wrong.",
    "log loss (chance)": "Mean log loss out of fold, and that of always saying the mean; lower is better.",
    "score says": "Mean probability that the score gave these pairs, out of fold.",
    "score, judge": "The probability that the score in force gave the pair, and what the judge said of it, where they were asked.",
    "labels say": "Share of these pairs that people said serve.",
    "decisions told twice": "Cache decisions that came as a log record and as a span: each counts once.",
    "newest lookups searched": "How many of the newest lookups of this time were looked at for errors that a cache served.",
    "duplicates": "What had come before, and was counted once.",
    "rejected": "Spans refused, for the reasons in the table below.",
    "lag": "Last seen less the end of the newest span: how late this sender's telemetry comes.",
    "spans": "How many spans.",
    "calls": "Model calls: each counts once, however many spans tell of it.",
    "tell of calls": "Spans that describe a model call.",
    "count as calls": "Those that stand for a call.",
    "repeats or cached": "Those that repeat another span's call, or tell of an answer from a cache.",
    "failed": "How many failed.",
    "cost as sent": "The sum of the costs that the sender told.",
    "cost by your prices": "Tokens times the prices of the settings, fresh and cached tokens apart. No data = the model has no price.",
    "saved by the provider's cache": "What cached tokens cost less than fresh ones, by the prices of the settings.",
    "from the provider's cache": "Input tokens read from the provider's prompt cache.",
    "share of input": "Cached input tokens / input tokens, of calls that told both.",
    "input as sent": "Input tokens as the sender wrote them.",
    "input tokens": "Input tokens with the cached ones, by the rule for this sender.",
    "output tokens": "Output tokens as the sender told.",
    "told by": "Calls that told of cached tokens, of all.",
    "errors served from the cache": "Hits whose served answer was an error, for certain.",
    "hits on a key whose other answers were all errors": "Hits that probably served an error.",
    "evidence": "Lookups that agree with the direction, of those that tell.",
    "misses": "Recorded misses of this request.",
    "cost": "What it cost when it missed, or what the run cost.",
    "asked": "How many were asked, of all; in lists of pairs the prompt that was asked.",
    "there already": "Requests whose answer was there.",
    "written": "Answers that were stored.",
    "size": "What the entry takes.",
    "policy version": "Version of the policy in force; 0 = the default.",
    "version": "Version of the policy, or of the server.",
    "took": "From the beginning to the outcome.",
    "grew by": "By how much the counter grew in this time, restarts taken into account.",
    "restarts": "How often the counter began anew.",
    "value": 'The value as it was read last; in "why did it change" the value of the dimension.',
    "read": "How long ago it was read.",
    "last seen": "How long ago something came from it.",
    "samples": "Samples on the newest page.",
    "with a meaning here": "Samples that the table of counters knows.",
    "exemplars": "Samples that point to a trace.",
    "native histograms skipped": "Samples in a form that is not read.",
    "lines not read": "Lines that are neither samples nor comments.",
    "rules broken": "How often the page breaks a rule of OpenMetrics.",
    "targets": "Targets that this server scrapes.",
    "not answering": "Targets that did not answer it.",
    "up": "How long the server has been running.",
    "memory": "Bytes that the server uses.",
    "memory limit": "Size above which it evicts or takes no writes, as the next column says.",
    "clients": "Connected clients.",
    "arguments": "How many arguments the command had; they are never read.",
    "looked at": "Keys of this shape in the sample.",
    "keys in all": "Keys that the server holds.",
    "mean bytes": "Mean size of the keys that were measured.",
    "expire in": "Shares of the keys by the time they have left.",
    "prompts in all": "Prompts of the trace.",
    "tokens in all": "Tokens of all its prompts.",
    "prefill saved": "Prompt tokens that would not have to be computed, of all.",
    "prompts with a hit": "Prompts of which at least one unit was stored, of all.",
    "tokens saved": "Prompt tokens that would not have to be computed.",
    "tokens held": "Tokens that the stored units hold together.",
    "units stored": "Different units stored, without a limit of space.",
}


def dial(label: str) -> str:
    """Return what a dial's number is; '' for a label that is not in the table."""
    return DIALS.get(label, "")


def chart(key: str) -> str:
    """Return what a chart's numbers are, and what a click on it does; a key's first word counts: `counters_tokens`."""
    name = key.split("_", maxsplit=1)[0]
    return f"{CHARTS.get(name, '')} {CLICKS.get(name, '')}".strip()


def column(heading: str) -> str:
    """Return what a column's numbers are; '' for one that counts nothing."""
    if heading in OUTCOME_NAMES.values():
        return COLUMNS.get(heading, "Lookups with this outcome that began in the step.")
    if heading.startswith("missed at "):
        return "Misses of the replay at this share of today's space, of all lookups that had to hit by exact key."
    return COLUMNS.get(heading, "")
