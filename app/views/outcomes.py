"""What came of an act, in a sentence."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from app.admin.record import ActResult
from app.views import words
from storage.actions import Act

KINDS = {
    "purge": "Purge",
    "undo": "Undo of a purge",
    "switch": "Switch",
    "threshold": "Policy",
    "normaliser": "Normaliser",
    "verification": "Verification",
    "score_fit": "Fit of a score",
    "label": "Label",
    "warmup": "Warm-up",
    "key_create": "New key",
    "key_revoke": "Revoked key",
}


def of(act: Act) -> ActResult:
    """Return what the record says of an act by now."""
    figures: dict[str, Any] = dict(act.body) if act.kind == "warmup" and act.state == "pending" else {}
    for event in act.events[1:]:
        figures.update(event.body)
    return ActResult(act.act_id, act.kind, act.namespace, act.state, reason=str(figures.pop("error", "")), figures=figures)


def title(kind: str, namespace: str) -> str:
    """Return `Purge of faq`. Plain text."""
    name = KINDS.get(kind, kind)
    return f"{name} of {words.name(namespace)}" if namespace else name


def sentence(result: ActResult, *, now_ms: int) -> str:
    """Return what was done and verified, or why not. Plain text."""
    again = " (asked for before: nothing was done again)" if result.repeated else ""
    return f"{title(result.kind, result.namespace)}: {told(result, now_ms=now_ms)}{again}"


def told(result: ActResult, *, now_ms: int) -> str:
    """Return the same without the act's name: what stands in a table's row."""
    if result.state == "failed":
        return f"failed: {words.one_line(result.reason or 'no reason was recorded', 400)}"
    said = _TELL[result.kind](result, now_ms) if result.kind in _TELL else ""
    if result.state == "pending":
        return f"under way, {said}" if said else "no outcome yet"
    if result.state == "cancelled":
        return f"cancelled, {said}" if said else "cancelled"
    return said or result.state


def _purge(result: ActResult, now_ms: int) -> str:
    figures = result.figures
    if result.state == "pending":
        return ""
    entries = figures.get("entries")
    told = f"{words.many(entries, 'entry', 'entries')} hidden" if isinstance(entries, int) else "entries hidden"
    if "verified_ms" in figures:
        told += f", verified after {words.duration_ms(figures['verified_ms'])}: none from before is visible"
        told += _followers(figures)
    if result.state == "undone":
        return f"{told}. It was undone since"
    if result.state == "reclaimed":
        return f"{told}. They are deleted: it cannot be undone any more"
    until = figures.get("undo_until_ms")
    if isinstance(until, int) and until > now_ms:
        told += f". It can be undone for {words.age(until - now_ms)}"
    return told


def _followers(figures: Mapping[str, Any]) -> str:
    current, silent = int(figures.get("gateways_current", 0)), int(figures.get("gateways_silent", 0))
    told = f", {words.many(current, 'gateway follows', 'gateways follow')}" if current else ", no gateway runs"
    if silent:
        told += f", {words.many(silent, 'gateway', 'gateways')} gave no sign of life and would bypass the cache"
    return told


def _undo(result: ActResult, _: int) -> str:
    visible = result.figures.get("visible")
    if result.state == "pending":
        return ""
    return f"{words.many(visible, 'entry is', 'entries are')} visible again" if isinstance(visible, int) else "visible again"


def _policy(result: ActResult, _: int) -> str:
    if result.state == "pending":
        return ""
    before, after = result.figures.get("before") or {}, result.figures.get("after") or {}
    names = [name for name in after if name != "version" and before.get(name) != after[name]]
    changed = ", ".join(f"{name} {_value(name, before.get(name))} → {_value(name, after[name])}" for name in names)
    return f"{changed or 'nothing was different'} (version {after.get('version', '?')})"


_UNSET = {"threshold": "the embedder's default", "holdout_ratio": "the installation's"}


def _value(name: str, value: object) -> str:
    if isinstance(value, Mapping):
        return f"version {value.get('version')}"
    return _UNSET.get(name, "none") if value is None else f"{value:g}" if isinstance(value, float) else str(value)


def _score(result: ActResult, _: int) -> str:
    figures = result.figures
    if "version" not in figures:
        return ""
    cut = figures.get("cut")
    worth = "it separates nothing, and cannot be applied" if cut is None else f"cut {cut:.3f}; nothing serves by it until it is applied"
    return f"version {figures['version']} from {figures.get('right')} right and {figures.get('wrong')} wrong pairs, {worth}"


def _label(result: ActResult, _: int) -> str:
    figures = result.figures
    if "serves" not in figures:
        return ""
    blind = "" if figures.get("features") else "; its prompts are not recorded, so no score can be fitted by it"
    return f"the same answer {'serves' if figures['serves'] else 'does not serve'} (similarity {figures['similarity']:.4f}){blind}"


def _warmup(result: ActResult, _: int) -> str:
    figures = result.figures
    labels = (("requests", "to ask"), ("written", "written"), ("already", "there already"))
    parts = [f"{words.count(figures[name])} {label}" for name, label in labels if isinstance(figures.get(name), int)]
    failed = figures.get("failed")
    parts += [f"{words.count(n)} failed ({reason})" for reason, n in failed.items()] if isinstance(failed, Mapping) else []
    cost = figures.get("cost_usd")
    parts += [f"at {words.money(cost)}"] if isinstance(cost, float) and cost else []
    return ", ".join(parts)


def _key(result: ActResult, _: int) -> str:
    return words.one_line(str(result.figures.get("key_id") or result.figures.get("tenant") or ""), 80)


_TELL = {
    "purge": _purge,
    "undo": _undo,
    "switch": _policy,
    "threshold": _policy,
    "normaliser": _policy,
    "verification": _policy,
    "score_fit": _score,
    "label": _label,
    "warmup": _warmup,
    "key_create": _key,
    "key_revoke": _key,
}
