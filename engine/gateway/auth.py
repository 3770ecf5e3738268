"""Who is asking: tenant keys, or the client's own credentials when no tenant keys were made; and the admin token."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Iterable, Mapping
from typing import NamedTuple, Protocol

from engine.digests import hmac_sha256
from engine.gateway.errors import GatewayError, RawHeaders
from engine.gateway.headers import is_credential, withheld
from engine.records import TenantKey

KEY_PREFIX = "csk_"
ANY = "*"


class KeyView(Protocol):
    """What authentication needs of the control view.

    loaded: the store has been read at least once. keyed: a tenant key was on record at least once.
    """

    @property
    def keys(self) -> Mapping[str, TenantKey]: ...
    @property
    def loaded(self) -> bool: ...
    @property
    def keyed(self) -> bool: ...


class Identity(NamedTuple):
    """The tenant of a request, what it may use, and the Authorization value that goes upstream ('' = none).

    by_key: it has a tenant key, so that all the upstream gets to know of it is the configured key, which others share.
    """

    tenant: str
    authorization: str
    namespaces: tuple[str, ...] = (ANY,)
    model_versions: tuple[str, ...] = (ANY,)
    by_key: bool = False
    scope: str = ""

    def withheld(self, headers: RawHeaders) -> frozenset[bytes]:
        """Return the names of the client's headers that do not go upstream."""
        return withheld(headers) if self.by_key else frozenset()

    def check(self, *, namespace: str, model_version: str) -> None:
        """Raise a 403 when this identity may not use the namespace or the model version."""
        if ANY not in self.namespaces and namespace not in self.namespaces:
            raise GatewayError(403, "namespace_not_allowed", "this key may not use the namespace asked for; ask for one that allows it")
        # No model version is no claim about one, so it needs no permission.
        if model_version and ANY not in self.model_versions and model_version not in self.model_versions:
            raise GatewayError(
                403, "model_version_not_allowed", "this key may not use the model version asked for; ask for one that allows it"
            )


def bearer_of(authorization: str) -> str:
    """Return the token of a Bearer header, '' when there is none."""
    scheme, _, token = authorization.partition(" ")
    return token.strip() if scheme.lower() == "bearer" else ""


def _other_than_bearer(authorization: str) -> str:
    """Return a value of another scheme (Basic, a bare key), '' when there is none."""
    value = authorization.strip()
    return "" if value.partition(" ")[0].lower() == "bearer" else value


def _unauthorized(message: str) -> GatewayError:
    return GatewayError(401, "invalid_api_key", message)


class Auth:
    """Turns a request's credentials into an identity. A tenant is never named by any other header or field.

    keys_required: nobody may pass without a tenant key, also when none is on record.
    """

    def __init__(self, view: KeyView, *, secret: bytes, upstream_api_key: str, admin_token: str, keys_required: bool = False) -> None:
        self._view = view
        self._keys_required = keys_required
        self._secret = secret
        self.upstream_authorization = f"Bearer {upstream_api_key}" if upstream_api_key else ""
        self._admin_token = admin_token.encode()

    def identify(self, authorization: str, headers: Iterable[tuple[bytes, bytes]] = ()) -> Identity:
        """Return who is asking. headers: the request's, with lower-case names; what is no credential says nothing.

        Raises a 401 for an unknown or revoked key, a 503 while the keys cannot be known or are lost.
        """
        token = bearer_of(authorization)
        credentials = [(name, value) for name, value in headers if is_credential(name)]
        if other := _other_than_bearer(authorization):
            credentials.append((b"authorization", other.encode("latin-1")))
        own = token or credentials
        # The last word of a header: a scheme may stand before it.
        words = [token.encode("latin-1"), *(value.rpartition(b" ")[2] for _, value in credentials)]
        tenant_key = any(word.startswith(KEY_PREFIX.encode()) for word in words)
        if not self._view.loaded:
            # Whether keys were made is unknown: a client that pays with its own credentials may pass, nobody may spend ours.
            if own and not tenant_key and not self._keys_required:
                return self._own(authorization, token, credentials)
            raise GatewayError(503, "keys_not_loaded", "the tenant keys have not been read from the store yet; try again")
        if self._view.keys:
            return self._tenant_key(token)
        if self._keys_required or self._view.keyed:
            # An empty store is no permission: it may have lost its records, and the upstream's key is still here.
            raise GatewayError(
                503, "keys_lost", "this gateway asks for tenant keys and the store has none; make new ones with `cachescope key create`"
            )
        if tenant_key:
            # Never forwarded: it is a secret of this installation, not of the upstream.
            raise _unauthorized("this tenant key is not known here; make one with `cachescope key create`")
        if own:
            return self._own(authorization, token, credentials)
        return Identity(tenant="anonymous", authorization=self.upstream_authorization)

    def _own(self, authorization: str, token: str, credentials: RawHeaders) -> Identity:
        """Return the identity of all the client's credentials together: two that differ in one of them share nothing."""
        said = token.encode()
        if credentials:
            # Framed, with a NUL that no header holds: no set of headers spells another's, or a bearer alone.
            fields = (said, *(part for pair in sorted(credentials) for part in pair))
            said = b"\0" + b"".join(b"%d:%b" % (len(field), field) for field in fields)
        digest = hmac_sha256(self._secret, said).hex()
        return Identity(tenant=f"anon-{digest[:16]}", authorization=authorization if token or _other_than_bearer(authorization) else "")

    def _tenant_key(self, token: str) -> Identity:
        key_id, _, secret = token.removeprefix(KEY_PREFIX).partition("_")
        key = self._view.keys.get(key_id) if token.startswith(KEY_PREFIX) else None
        digest = hashlib.sha256(secret.encode()).hexdigest()
        # Compared even when the id is unknown, so that the time taken does not tell which ids exist.
        matches = hmac.compare_digest(digest.encode(), (key.hash if key else "0" * 64).encode())
        if key is None or not matches:
            raise _unauthorized("a tenant key is needed: send `Authorization: Bearer csk_…`, made with `cachescope key create`")
        if key.revoked_ms is not None:
            raise _unauthorized("this tenant key was revoked; make a new one with `cachescope key create`")
        return Identity(
            key.tenant, self.upstream_authorization, tuple(key.namespaces), tuple(key.model_versions), by_key=True, scope=key.scope
        )

    def admin(self, authorization: str) -> None:
        """Return when the header carries the admin token. Raises a 403 when none is configured, a 401 when it differs."""
        if not self._admin_token:
            raise GatewayError(403, "no_admin_token", "the control API is off: no admin token is set (CACHESCOPE_ADMIN_TOKEN)")
        if not hmac.compare_digest(bearer_of(authorization).encode(), self._admin_token):
            raise GatewayError(401, "invalid_admin_token", "the admin token is missing or wrong (Authorization: Bearer …)")
