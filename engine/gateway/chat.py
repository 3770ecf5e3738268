"""POST /v1/chat/completions: from the cache when it has the answer, else from the upstream, once for all who ask the same."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import Any

import orjson
from starlette.types import Receive, Scope, Send

from engine.errors import EngineError
from engine.gateway.answers import Answer, cache_headers, forwarded_because
from engine.gateway.auth import Auth, Identity
from engine.gateway.boundary import Boundary
from engine.gateway.completions import Completions
from engine.gateway.errors import RawHeaders, from_engine, send_error, send_response
from engine.gateway.exchange import JSON_TYPE, Exchange, fail, note, shareable_headers
from engine.gateway.flights import Flights, Lead
from engine.gateway.hits import HitShare
from engine.gateway.inbound import Inbound, client_left, inbound_of, read_body
from engine.gateway.rawjson import oddity
from engine.gateway.recent import Recent
from engine.gateway.relay import Relay
from engine.gateway.stream import replay
from engine.gateway.upstream import CLIENT_LEFT_STATUS
from engine.lookup import SCOPE, CacheRequest, Known
from engine.types import Outcome, Purpose

STREAM_HEADERS: RawHeaders = [(b"content-type", b"text/event-stream; charset=utf-8"), (b"cache-control", b"no-cache")]


class Chat:
    """The ASGI endpoint; `ask` and `complete` serve those who ask from inside (warm-up) as well."""

    def __init__(
        self,
        *,
        boundary: Boundary,
        auth: Auth,
        completions: Completions,
        flights: Flights,
        max_body_bytes: int,
        now_ms: Callable[[], int],
        hits: HitShare,
        ignored_headers: Iterable[str] = (),
    ) -> None:
        self._hits = hits
        self._ignored_headers = frozenset(name.lower().encode() for name in ignored_headers)
        self._boundary = boundary
        self._auth = auth
        self._completions = completions
        self._flights = flights
        self._max_body_bytes = max_body_bytes
        self._now_ms = now_ms
        self._recent = Recent()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            exchange = await self._accept(scope, receive)
        except EngineError as error:
            await send_error(send, from_engine(error))
            return
        try:
            if exchange.lookup.streamed:
                await self._stream(exchange, receive, send)
            elif (made := await self._unless_left(exchange, receive)) is not None:
                answer, shared = made
                await self._send_plain(exchange, answer, send, shared=shared)
        except EngineError as error:
            shown = from_engine(error)
            fail(exchange.lookup, shown.code, shown.status)
            await send_error(send, shown, self._status(exchange))
        finally:
            self._boundary.record(exchange.lookup, exchange.inbound)

    async def _accept(self, scope: Scope, receive: Receive) -> Exchange:
        inbound = inbound_of(scope, ignored=self._ignored_headers)
        identity = self._auth.identify(inbound.authorization, inbound.credentials)
        identity.check(namespace=inbound.namespace, model_version=inbound.model_version)
        raw = await read_body(receive, content_length=inbound.content_length, max_bytes=self._max_body_bytes)
        known = self._recent.read(raw)
        return await self.ask(inbound, identity, known.body, raw, known=known)

    async def ask(
        self,
        inbound: Inbound,
        identity: Identity,
        body: dict[str, Any],
        raw: bytes,
        *,
        purpose: Purpose = Purpose.TRAFFIC,
        known: Known | None = None,
    ) -> Exchange:
        """Return the exchange with its lookup made. Raises InvalidRequest."""
        request = CacheRequest(
            body=body,
            namespace=inbound.namespace,
            tenant=identity.tenant,
            model_version=inbound.model_version,
            purpose=purpose,
            no_store=inbound.no_store,
            refresh=inbound.refresh,
            client=inbound.client,
            keyed=(*inbound.keyed, (SCOPE, identity.scope.encode())) if identity.scope else inbound.keyed,
            bypass=oddity(raw, body) if known is None else known.oddity,
            known=known,
        )
        # A query string may change the answer in ways that the key knows nothing of.
        lookup = self._boundary.bypass(request, "query_string") if inbound.query else await self._boundary.lookup(request)
        if purpose is Purpose.TRAFFIC and lookup.outcome is not Outcome.BYPASS and not inbound.refresh:
            self._hits.seen(hit=lookup.hit or lookup.held_out, at_s=lookup.started_mono)
        lookup.streamed = body.get("stream") is True
        return Exchange(inbound, identity, body, raw, lookup, "" if lookup.hit else forwarded_because(lookup))

    async def complete(self, exchange: Exchange) -> tuple[Answer, bool]:
        """Return the complete answer, and whether it is another's. The lookup then says what became of it."""
        lookup = exchange.lookup
        if lookup.entry is not None:
            return Answer(200, lookup.entry.body, [JSON_TYPE]), False

        async def fetch(lead: Lead) -> Answer:
            exchange.in_a_herd = lead.in_a_herd
            answer = await self._completions.fetch(exchange)
            await self._boundary.store(lookup, answer)
            return answer

        answer, shared = await self._flights.share(lookup, fetch)
        note(lookup, answer, shared=shared)
        if answer.error_type and self._boundary.unhold(lookup) and lookup.entry is not None:
            return Answer(200, lookup.entry.body, [JSON_TYPE]), False
        return answer, shared

    async def _unless_left(self, exchange: Exchange, receive: Receive) -> tuple[Answer, bool] | None:
        """Return what `complete` does; None when the client left, and what its call comes to would be of use to nobody.

        An answer that may be stored is waited for all the same: a client that gave up asks again.
        """
        lookup = exchange.lookup
        if lookup.entry is not None or not (lookup.outcome is Outcome.BYPASS or lookup.request.no_store):
            return await self.complete(exchange)
        asked = asyncio.create_task(self.complete(exchange))
        left = asyncio.create_task(client_left(receive))
        try:
            await asyncio.wait({asked, left}, return_when=asyncio.FIRST_COMPLETED)
            if asked.done():
                return await asked
            fail(lookup, "client_left", CLIENT_LEFT_STATUS)
            return None
        finally:
            left.cancel()
            asked.cancel()
            await asyncio.gather(asked, left, return_exceptions=True)

    async def warm(self, inbound: Inbound, identity: Identity, body: dict[str, Any]) -> dict[str, Any]:
        """Ask once for the sake of the cache; return what became of it. Never raises for the upstream's sake."""
        exchange = await self.ask(inbound, identity, body, orjson.dumps(body), purpose=Purpose.WARMUP)
        lookup = exchange.lookup
        try:
            await self.complete(exchange)
        except EngineError as error:
            shown = from_engine(error)
            fail(lookup, shown.code, shown.status)
            raise
        finally:
            self._boundary.record(lookup, inbound)
        entry_id = lookup.entry.entry_id if lookup.entry else lookup.stored_entry_id
        return {
            "outcome": lookup.outcome,
            "stored": lookup.stored,
            "entry_id": entry_id,
            "reason": lookup.reason or ("" if lookup.stored or lookup.hit else lookup.store_reason),
        }

    async def _stream(self, exchange: Exchange, receive: Receive, send: Send) -> None:
        lookup = exchange.lookup
        if await self._send_entry(exchange, send):
            return

        async def instead() -> bool:
            return self._boundary.unhold(lookup) and await self._send_entry(exchange, send)

        key = self._flights.key_of(lookup)
        lead = await self._flights.join(lookup, key)
        if isinstance(lead, Answer):
            note(lookup, lead, shared=True)
            await self._send_replay(exchange, lead, send, shared=True)
            return
        exchange.in_a_herd = lead.in_a_herd
        relay = Relay(
            exchange,
            send,
            completions=self._completions,
            boundary=self._boundary,
            land=lead.land,
            instead=instead,
            now_ms=self._now_ms,
        )
        try:
            await relay.run(receive, waited_for=lead.waited_for)
        finally:
            lead.release()

    async def _send_entry(self, exchange: Exchange, send: Send) -> bool:
        """Stream the entry that serves; return whether there is one."""
        entry = exchange.lookup.entry
        if entry is not None:
            answer = Answer(200, entry.body, [JSON_TYPE], parsed=orjson.loads(entry.body))
            await self._send_replay(exchange, answer, send, shared=False)
        return entry is not None

    async def _send_plain(self, exchange: Exchange, answer: Answer, send: Send, *, shared: bool) -> None:
        headers = shareable_headers(answer) if shared else answer.headers
        await send_response(send, answer.status, [*headers, *self._status(exchange, shared=shared)], answer.body)

    async def _send_replay(self, exchange: Exchange, answer: Answer, send: Send, *, shared: bool) -> None:
        if answer.parsed is None:
            await self._send_plain(exchange, answer, send, shared=shared)
            return
        headers = [*STREAM_HEADERS, *self._status(exchange, shared=shared)]
        body = replay(answer.parsed, include_usage=exchange.wants_usage)
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": body})

    def _status(self, exchange: Exchange, *, shared: bool = False) -> RawHeaders:
        return cache_headers(exchange.lookup, exchange.forwarded, collapsed=shared, now_ms=self._now_ms())
