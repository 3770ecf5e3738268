"""A trace's spans as lines: the call tree, whatever of it is missing, and where clocks disagree. Linear in the spans, no recursion."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from app.views import words
from storage.reads.traces import StoredSpan

MOST_DRAWN = 300  # lines of a waterfall: more cannot be told apart, and stall a browser
_SKEW_NS = 1_000_000  # a child that begins this much before its parent was timed by another clock
_ERROR_STATUS = 2


@dataclass(frozen=True, slots=True)
class Bar:
    """A line of the waterfall. start_ms counts from the trace's start, as sent; duration_ms too, negative where a clock was set back.

    kind: span | lookup | step | missing (a parent that was not received). flags: what is odd about it, in words. shift_ms: what start_ms
    must be moved by for the clocks to agree; 0 when nothing is corrected. call_role, tokens: what it says of a model call.
    """

    label: str
    service: str
    kind: str
    depth: int
    start_ms: float
    duration_ms: float
    outcome: str
    error: str
    flags: tuple[str, ...]
    shift_ms: float = 0.0
    call_role: str = ""
    tokens: str = ""

    @property
    def shown_ms(self) -> float:
        """Where the line stands."""
        return self.start_ms + self.shift_ms


@dataclass(frozen=True, slots=True)
class Laid:
    """bars: every line, depth first. drawn: at most 300 of them. missing: parents that were not received; orphans: their children."""

    bars: tuple[Bar, ...]
    drawn: tuple[Bar, ...]
    start_ns: int
    duration_ms: float
    spans: int
    orphans: int
    missing: int
    skewed: int
    backwards: int
    corrected: bool


@dataclass(slots=True)
class _Line:
    """A span in its place, or (span None) a parent that was not received. up: the line above it in the tree, −1 = none."""

    span: StoredSpan | None
    parent: StoredSpan | None
    depth: int
    up: int
    children: Sequence[StoredSpan] = ()
    offset_ns: int = 0
    ring: bool = False


def lay_out(spans: Sequence[StoredSpan], found: Mapping[bytes, Mapping[str, Any]], *, correct: bool) -> Laid:
    """Return a trace's lines. spans: the earliest first. found: span id -> its lookup. correct: move what another clock timed."""
    lines = _lines(spans)
    skewed = _offsets(lines)
    start = min((span.start_ns for span in spans), default=0)
    end = max((max(span.start_ns, span.end_ns) for span in spans), default=start)
    bars: list[Bar] = []
    above: list[int] = []  # the bar above each
    place: list[int] = []  # each line's own bar
    for line in lines:
        place.append(len(bars))
        bar = _missing(line, start) if line.span is None else _bar(line, line.span, found.get(line.span.span_id), start)
        bars.append(replace(bar, shift_ms=line.offset_ns / 1e6) if correct and line.offset_ns else bar)
        above.append(place[line.up] if line.up >= 0 else -1)
        if line.span is not None and line.span.span_id in found:
            for step in _steps(line.span, line.depth + 1, start):
                bars.append(replace(step, shift_ms=bars[place[-1]].shift_ms))
                above.append(place[-1])
    orphans = sum(line.parent is None and line.span is not None and line.span.parent_id is not None for line in lines)
    backwards = sum(span.end_ns < span.start_ns for span in spans)
    missing = sum(line.span is None for line in lines)
    return Laid(
        tuple(bars), _drawn(bars, above), start, (end - start) / 1e6, len(spans), orphans, missing, skewed, backwards, correct
    )  # fmt: skip


def _lines(spans: Sequence[StoredSpan]) -> list[_Line]:
    """Return the lines depth first. A parent that was not received is a line of its own, beneath the root: nothing is scattered."""
    ids = {span.span_id for span in spans}
    children: dict[bytes, list[StoredSpan]] = {}
    roots: list[StoredSpan] = []
    lost: dict[bytes, list[StoredSpan]] = {}
    for span in spans:
        if span.parent_id is None or span.parent_id == span.span_id:
            roots.append(span)
        elif span.parent_id in ids:
            children.setdefault(span.parent_id, []).append(span)
        else:
            lost.setdefault(span.parent_id, []).append(span)
    lines: list[_Line] = []
    done: set[bytes] = set()

    def walk(first: _Line) -> None:
        stack = [first]
        while stack:
            line = stack.pop()
            if line.span is not None:
                if line.span.span_id in done:
                    continue
                done.add(line.span.span_id)
            at = len(lines)
            lines.append(line)
            beneath = [
                _Line(child, line.span, line.depth + 1, at)
                for child in (line.children if line.span is None else children.get(line.span.span_id, ()))
            ]
            if line.span is not None and roots and line.span is roots[0]:
                # Where the missing parents most likely were: beneath the trace's root.
                beneath += [_Line(None, None, 1, at, orphans) for orphans in lost.values()]
            stack.extend(reversed(beneath))

    for root in roots:
        walk(_Line(root, None, 0, -1))
    if not roots:
        for orphans in lost.values():
            walk(_Line(None, None, 0, -1, orphans))
    for span in spans:  # spans that name each other as parent are reached from nowhere
        if span.span_id not in done:
            walk(_Line(span, None, 0, -1, ring=True))
    return lines


def _offsets(lines: Sequence[_Line]) -> int:
    """Set what each line must be moved by for the clocks to agree, and return how many spans another clock timed.

    A service's clock is taken from its outermost span in the branch: a child that does not lie in its parent, of another service, is moved
    into its middle, for the way there and the way back take about as long; one that is longer than its parent is moved to its start.
    """
    skewed = 0
    for line in lines:
        span, parent = line.span, line.parent
        if span is None or parent is None:
            continue
        above_ns = lines[line.up].offset_ns
        own_ns = above_ns if span.service == parent.service else 0
        begin = parent.start_ns + above_ns
        skewed += span.start_ns < parent.start_ns - _SKEW_NS
        if span.start_ns + own_ns < begin - _SKEW_NS:
            room = (parent.end_ns - parent.start_ns) - (span.end_ns - span.start_ns)
            own_ns = begin + max(0, room) // 2 - span.start_ns
        line.offset_ns = own_ns
    return skewed


def _bar(line: _Line, span: StoredSpan, row: Mapping[str, Any] | None, start_ns: int) -> Bar:
    flags = []
    if span.end_ns < span.start_ns:
        flags.append("ends before it starts: its clock was set back")
    if line.ring:
        flags.append("its parents form a ring")
    elif span.parent_id is not None and line.parent is None:
        flags.append("orphan: its parent was not received")
    parent = line.parent
    if parent and span.start_ns < parent.start_ns - _SKEW_NS:
        flags.append(f"starts {words.duration_ms((parent.start_ns - span.start_ns) / 1e6)} before its parent: the clocks disagree")
    error = (words.one_line(span.status_message) or "failed") if span.status == _ERROR_STATUS else ""
    return Bar(
        label=words.one_line(span.name) or "(unnamed)",
        service=words.name(span.service),
        kind="span" if row is None else "lookup",
        depth=line.depth,
        start_ms=(span.start_ns - start_ns) / 1e6,
        duration_ms=(span.end_ns - span.start_ns) / 1e6,
        outcome=str(row["outcome"]) if row else "",
        error=error,
        flags=tuple(flags),
        call_role=span.call_role,
        tokens=_tokens(span),
    )


def _missing(line: _Line, start_ns: int) -> Bar:
    begin = min(child.start_ns for child in line.children)
    end = max(max(child.start_ns, child.end_ns) for child in line.children)
    told = f"this span was not received; {words.many(len(line.children), 'span names', 'spans name')} it as parent"
    return Bar("(span not received)", "", "missing", line.depth, (begin - start_ns) / 1e6, (end - begin) / 1e6, "", "", (told,))


def _tokens(span: StoredSpan) -> str:
    if span.input_tokens is None and span.output_tokens is None:
        return ""
    told = [f"in {words.count(span.input_tokens)}" if span.input_tokens is not None else "in not told"]
    if span.cached_input_tokens is not None:
        told.append(f"of these {words.count(span.cached_input_tokens)} from the provider's cache")
    if span.token_rule.startswith("additive") and span.raw_input_tokens is not None:
        told.append(f"sent as {words.count(span.raw_input_tokens)} without them")
    if span.output_tokens is not None:
        told.append(f"out {words.count(span.output_tokens)}")
    return ", ".join(told)


def _steps(span: StoredSpan, depth: int, start_ns: int) -> list[Bar]:
    """Return the lookup's timed steps; those that cannot be read are left out."""
    try:
        read = json.loads(span.attributes.get("cachescope.steps") or "[]")
        steps = [(str(name), float(offset), float(took)) for name, offset, took in read]
    except (TypeError, ValueError):
        return []
    base = (span.start_ns - start_ns) / 1e6
    return [
        Bar(words.one_line(name), words.name(span.service), "step", depth, base + offset / 1e3, took / 1e3, "", "", ())
        for name, offset, took in steps
    ]


def _drawn(bars: Sequence[Bar], above: Sequence[int]) -> tuple[Bar, ...]:
    """Return the lines of the waterfall: all, or the ones that matter with everything above them, and the longest of the rest."""
    if len(bars) <= MOST_DRAWN:
        return tuple(bars)
    kept: set[int] = set()
    for at in _by_weight(bars):
        branch: list[int] = []
        up = at
        while up >= 0 and up not in kept and len(kept) + len(branch) <= MOST_DRAWN:
            branch.append(up)
            up = above[up]
        if len(kept) + len(branch) <= MOST_DRAWN:
            kept.update(branch)
        if len(kept) == MOST_DRAWN:
            break
    return tuple(bars[at] for at in sorted(kept))


def _by_weight(bars: Sequence[Bar]) -> Iterable[int]:
    def weight(at: int) -> tuple[bool, bool, float]:
        bar = bars[at]
        matters = bar.kind in {"lookup", "missing"} or bool(bar.error) or bool(bar.flags) or bar.call_role == "call"
        return bar.depth > 0, not matters, -abs(bar.duration_ms)

    return sorted(range(len(bars)), key=weight)
