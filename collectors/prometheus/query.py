"""A Prometheus server's answers to readings: the raw samples of known counters, a bounded stretch of time at a query.

Raw samples (a range selector, asked as an instant query) and never `rate()` or steps: those hide increments and restarts.
"""

from __future__ import annotations

import json
import math
import re
import time
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import requests
from prometheus_api_client.exceptions import PrometheusApiClientException
from prometheus_api_client.prometheus_connect import PrometheusConnect
from urllib3.util.retry import Retry

from collectors.errors import ScrapeFailed
from collectors.prometheus.families import Families
from collectors.prometheus.keep import created_name
from collectors.settings import PrometheusServer
from storage.metrics import labels_text
from storage.rows import CounterReading, SampleRow

_NAME: Final = re.compile(r"[a-zA-Z_:][a-zA-Z0-9_:]*")
_CHUNK_BYTES: Final = 64 * 1024
_MOST_DOWN: Final = 20  # targets named in a snapshot
_TARGET: Final = ("job", "instance")
_MOST_GAUGES: Final = 500


@dataclass(frozen=True, slots=True)
class Stretch:
    """One series' samples: (Unix milliseconds, value), oldest first."""

    name: str
    labels: Mapping[str, str]
    points: tuple[tuple[int, float], ...]


class _BoundedSession(requests.Session):
    """Reads at most so many bytes of an answer, and waits at most so long for all of it."""

    def __init__(self, server: PrometheusServer) -> None:
        super().__init__()
        self.trust_env = False
        self._limit = server.max_body_bytes
        self._timeout_s = server.timeout_s
        self.verify = server.ca_file or True if server.verify else False

    def send(self, request: requests.PreparedRequest, **options: Any) -> requests.Response:
        deadline = time.monotonic() + self._timeout_s
        options.update(stream=True, allow_redirects=False)
        response = super().send(request, **options)
        body = bytearray()
        with response:
            for chunk in response.iter_content(_CHUNK_BYTES):
                body += chunk
                if len(body) > self._limit:
                    raise ScrapeFailed(f"the answer is larger than {self._limit} bytes; a smaller step_s makes smaller answers")
                if time.monotonic() > deadline:
                    raise requests.Timeout
        response._content = bytes(body)
        return response


class PrometheusApi:
    """Blocking calls to one server. Each raises ScrapeFailed, which names the server and never a password."""

    def __init__(self, server: PrometheusServer, place: str) -> None:
        self._place = place
        self._match = f",{server.match}" if server.match else ""
        options: dict[str, Any] = {
            "session": _BoundedSession(server),
            "timeout": server.timeout_s,
            "retry": Retry(total=0),  # the next tick tries again; a retry here would double the load on a server in trouble
        }
        if server.bearer:
            options["headers"] = {"Authorization": f"Bearer {server.bearer}"}
        elif server.username:
            options["auth"] = (server.username, server.password)
        self._connect = PrometheusConnect(server.url.rstrip("/"), **options)

    def close(self) -> None:
        self._connect.close()

    def now_ms(self) -> int:
        """Return the server's own time: its samples carry it, and clocks differ."""
        told = self.ask("time()")
        try:
            return round(float(told[0]) * 1000)
        except (IndexError, TypeError, ValueError, OverflowError) as error:
            raise ScrapeFailed(f"{self._place} did not tell its time; expected the Prometheus HTTP API under this URL") from error

    def names(self, wanted: Iterable[str]) -> list[str]:
        """Return which of these names the server has series of."""
        selector = self._selector(wanted)
        found = self._guard(lambda: self._connect.get_label_values("__name__", params={"match[]": selector}))
        return sorted({name for name in found if isinstance(name, str)} & set(wanted))

    def raw(self, names: Sequence[str], *, start_ms: int, end_ms: int) -> list[Stretch]:
        """Return the raw samples of these series in [start, end]."""
        width_ms = max(1, end_ms - start_ms)
        result = self.ask(f"{self._selector(names)}[{width_ms}ms]", at_ms=end_ms)
        return [one for one in stretches(result) if any(start_ms <= at_ms <= end_ms for at_ms, _ in one.points)]

    def down(self) -> tuple[int, list[str]]:
        """Return how many targets the server knows, and which of them did not answer its last scrape."""
        found = stretches(self.ask(f"up{{{self._match.lstrip(',')}}}"))
        dead = [one for one in found if one.points and one.points[-1][1] == 0]
        return len(found), [f"{one.labels.get('job', '')} {one.labels.get('instance', '')}".strip() for one in dead]

    def ask(self, query: str, *, at_ms: int | None = None) -> list[Any]:
        """Return the `result` of an instant query."""
        params = {} if at_ms is None else {"time": f"{at_ms / 1000:.3f}"}
        result = self._guard(lambda: self._connect.custom_query(query, params=params))
        if not isinstance(result, list):
            raise ScrapeFailed(f"{self._place} gave an answer without a list of results")
        return result

    def _selector(self, names: Iterable[str]) -> str:
        plain = "|".join(sorted(name for name in names if _NAME.fullmatch(name)))
        return f'{{__name__=~"{plain}"{self._match}}}'

    def _guard(self, call: Any) -> Any:
        try:
            return call()
        except PrometheusApiClientException as error:
            raise ScrapeFailed(f"{self._place}: {_told(str(error))}") from error
        except requests.Timeout as error:
            raise ScrapeFailed(f"{self._place} did not answer in time") from error
        except requests.JSONDecodeError as error:
            raise ScrapeFailed(f"{self._place} gave no JSON; expected the Prometheus HTTP API under this URL") from error
        except (requests.RequestException, OSError) as error:
            raise ScrapeFailed(f"{self._place}: {type(error).__name__}{_tls(error)}") from error
        except (KeyError, TypeError) as error:
            raise ScrapeFailed(f"{self._place} gave an answer without data; expected the Prometheus HTTP API") from error
        except ScrapeFailed as error:
            raise ScrapeFailed(f"{self._place}: {error}") from error


def _told(message: str) -> str:
    """Return what the server said of an error, from the client library's text: 'HTTP Status Code 400 (b'{…}')'."""
    status = re.search(r"HTTP Status Code (\d+)", message)
    body = re.search(r"\(b(['\"])(.*)\1\)", message, re.DOTALL)
    said = ""
    if body:
        try:
            answer = json.loads(body[2].encode("latin-1", "replace").decode("unicode_escape"))
            said = f"{answer['errorType']}: {answer['error']}"
        except (ValueError, KeyError, TypeError):
            said = "no answer of the Prometheus HTTP API"
    return f"answered {status[1] if status else 'an error'}; {said or 'expected 200'}"[:300]


def _tls(error: Exception) -> str:
    return ": its certificate is not trusted; set ca_file, or verify = false" if "CERTIFICATE_VERIFY_FAILED" in str(error) else ""


def stretches(result: Sequence[Any]) -> list[Stretch]:
    """Return the series of a matrix or a vector. Raises ScrapeFailed for a scalar or a string, which hold none."""
    found = []
    for one in result:
        if not isinstance(one, dict) or not isinstance(one.get("metric"), dict):
            raise ScrapeFailed("the answer is a scalar or a string; expected a matrix or a vector")
        labels = {str(name): str(value) for name, value in one["metric"].items()}
        points = one.get("values") or ([one["value"]] if "value" in one else [])
        try:
            read = tuple((round(float(at) * 1000), float(value)) for at, value in points)
        except (TypeError, ValueError) as error:
            raise ScrapeFailed("the answer holds a sample that is no time and number") from error
        found.append(Stretch(labels.pop("__name__", ""), labels, read))
    return found


def wanted_names(families: Families) -> set[str]:
    """Return every name that is worth asking for: counters, when they began, gauges."""
    return {*families.labels, *(created_name(name) for name in families.labels), *families.clocks, *families.gauges}


def readings(found: Sequence[Stretch], families: Families) -> Iterator[CounterReading]:
    """Yield the counters' values with the start of their counting at that time."""
    clocks: dict[tuple[str, tuple[str | None, ...]], list[Stretch]] = {}
    created = {(one.name, labels_text(one.labels)): one for one in found if one.name.endswith("_created")}
    for one in found:
        if one.name in families.clocks:
            clocks.setdefault((one.name, _target(one.labels)), []).append(one)
    for one in found:
        if one.name not in families.labels:
            continue
        labels = labels_text(one.labels)
        start, uptime = families.starts[one.name]
        born = created.get((created_name(one.name), labels))
        sources = (
            (born, False),
            (_only(clocks.get((start, _target(one.labels)), [])), False),
            (_only(clocks.get((uptime, _target(one.labels)), [])), True),
        )
        for at_ms, value in one.points:
            yield CounterReading(one.name, labels, at_ms, value, _start_ms(sources, at_ms), "", born is not None)


def _target(labels: Mapping[str, str]) -> tuple[str | None, ...]:
    return tuple(labels.get(name) for name in _TARGET)


def _only(several: Sequence[Stretch]) -> Stretch | None:
    return several[0] if len(several) == 1 else None


def _start_ms(sources: Iterable[tuple[Stretch | None, bool]], at_ms: int) -> int | None:
    """Return the start that was told last before a time: by a creation time, a start time, or an uptime."""
    for source, is_uptime in sources:
        if source is None:
            continue
        place = bisect_right(source.points, (at_ms, math.inf)) - 1
        if place >= 0 and 0 < source.points[place][1] < 1e12:
            told_ms, value = source.points[place]
            return told_ms - round(value * 1000) if is_uptime else round(value * 1000)
    return None


def levels(found: Sequence[Stretch], families: Families, *, after_ms: int) -> list[SampleRow]:
    """Return the newest value of each gauge, if it is later than after_ms, of at most 500."""
    newest = [(one, one.points[-1]) for one in found if one.name in families.gauges and one.points and one.points[-1][0] > after_ms]
    return [SampleRow(one.name, labels_text(one.labels), "gauge", at_ms, value) for one, (at_ms, value) in newest[:_MOST_GAUGES]]


def targets_snapshot(known: int, down: Sequence[str]) -> str:
    return json.dumps({"targets": known, "down": len(down), "first_down": list(down[:_MOST_DOWN])})
