"""The control API's JSON as the adapter's dataclasses. A shape that is not as agreed raises EngineRefused."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from app.adapters.base import (
    EngineState,
    GatewayInfo,
    KeyInfo,
    NamespaceInfo,
    Preview,
    PurgeInfo,
    Reclaimed,
    SampleEntry,
    Via,
    Visible,
    WarmResult,
)
from engine.errors import InvalidSetting
from engine.records import score_of
from engine.types import Judging, Normaliser, Policy, Score, Switch, VerifyMode

Json = Mapping[str, Any]


def policy(value: Json) -> Policy:
    threshold, holdout, score = value.get("threshold"), value.get("holdout_ratio"), value.get("score")
    return Policy(
        version=int(value["version"]),
        switch=Switch(value["switch"]),
        threshold=None if threshold is None else float(threshold),
        ttl_s=float(value["ttl_s"]),
        verify_mode=VerifyMode(value["verify_mode"]),
        holdout_ratio=None if holdout is None else float(holdout),
        normaliser=Normaliser(value["normaliser"]),
        score=None if score is None else _score(score),
        judge=Judging(value.get("judge", Judging.OFF)),
    )


def _score(value: object) -> Score:
    try:
        return score_of(value)
    except InvalidSetting as error:
        raise ValueError(str(error)) from error


def purge(value: Json, *, namespace: str = "", via: Via = Via.GATEWAY) -> PurgeInfo:
    return PurgeInfo(
        id=str(value["id"]),
        namespace=str(value.get("namespace", namespace)),
        at_ms=int(value["at_ms"]),
        state=str(value["state"]),
        entries=value["entries"],
        old_live=tuple(value.get("old_live", ())),
        new=str(value.get("new", "")),
        via=via,
    )


def namespace(value: Json, *, via: Via = Via.GATEWAY) -> NamespaceInfo:
    name = str(value["name"])
    return NamespaceInfo(
        name=name,
        policy=policy(value["policy"]),
        live=tuple(sorted(value["live"])),
        purges=tuple(purge(row, namespace=name, via=via) for row in value["purges"]),
        via=via,
    )


def preview(value: Json, *, via: Via = Via.GATEWAY) -> Preview:
    return Preview(
        namespace=str(value["namespace"]),
        entries=int(value["entries"]),
        bytes=int(value["bytes"]),
        tenants=dict(value["tenants"]),
        models=dict(value["models"]),
        oldest_ms=value["oldest_ms"],
        newest_ms=value["newest_ms"],
        value_usd=value["value_usd"],
        sample=tuple(_sample(value["sample"])),
        live=tuple(sorted(value["live"])),
        via=via,
    )


def _sample(rows: Iterable[Json]) -> Iterable[SampleEntry]:
    for row in rows:
        yield SampleEntry(
            entry_id=str(row["entry_id"]),
            tenant=str(row["tenant"]),
            model=str(row["model"]),
            created_ms=int(row["created_ms"]),
            expires_ms=int(row["expires_ms"]),
            size_bytes=int(row["size_bytes"]),
            cost_usd=row["cost_usd"],
            prompt=str(row["prompt"]),
        )


def reclaimed(value: Json) -> Reclaimed:
    return Reclaimed(deleted=int(value["deleted"]), remaining=int(value["remaining"]))


def visible(value: Json) -> Visible:
    return Visible(visible=int(value["visible"]), control_token=int(value["control_token"]))


def warmed(value: Json) -> WarmResult:
    return WarmResult(
        outcome=str(value["outcome"]),
        stored=bool(value["stored"]),
        entry_id=str(value.get("entry_id") or ""),
        reason=str(value.get("reason") or ""),
        cost_usd=value.get("cost_usd"),
    )


def gateway(value: Json, *, current: bool, via: Via = Via.GATEWAY) -> GatewayInfo:
    return GatewayInfo(
        id=str(value["id"]),
        url=str(value["url"]),
        pid=int(value["pid"]),
        started_ms=int(value["started_ms"]),
        last_ms=int(value["last_ms"]),
        token=int(value["token"]),
        current=current,
        via=via,
    )


def key(value: Json, *, via: Via = Via.GATEWAY) -> KeyInfo:
    return KeyInfo(
        id=str(value["id"]),
        tenant=str(value["tenant"]),
        namespaces=tuple(value["namespaces"]),
        model_versions=tuple(value["model_versions"]),
        created_ms=int(value["created_ms"]),
        revoked_ms=value["revoked_ms"],
        scope=str(value.get("scope") or ""),
        secret=str(value.get("key") or ""),
        via=via,
    )


def state(value: Json) -> EngineState:
    return EngineState(
        gateway_id=str(value["gateway_id"]),
        started_ms=int(value["started_ms"]),
        control_token=int(value["control_token"]),
        control_age_ms=value["control_age_ms"],
        store=dict(value["store"]),
        embedder=dict(value["embedder"]),
        upstream=dict(value["upstream"]),
        keys=int(value["keys"]),
        counters=dict(value["counters"]),
        prompts_recorded=bool(value["prompts_recorded"]),
        demo=bool(value["demo"]),
        judge=(value.get("judge") or {}).get("configured"),
    )
