"""Miss-ratio curves of LRU, exact and from a sample of keys: one pass gives the miss ratio at every size."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from app.analysis.compiled import Flags, Floats, Ints, kernel
from app.analysis.policies import Stream

NEVER = -1  # the distance of a key's first request


@dataclass(frozen=True, slots=True)
class Histogram:
    """How often each reuse distance came. counts[d]: requests whose key was asked for d other keys ago; scale: keys that one sampled
    key stands for. cold: first requests. total: requests that counts and cold stand for, after adjustment.
    """

    counts: Floats
    cold: float
    total: float
    scale: float = 1.0

    def miss_ratio(self, sizes: ArrayLike) -> Floats:
        """Return the miss ratio (0…1) of LRU at these sizes in entries; NaN where nothing was asked."""
        if self.total <= 0:
            return np.full(np.shape(sizes), np.nan)
        hits = np.concatenate(([0.0], np.cumsum(self.counts)))
        # A key hits at size c when its distance, scaled, is below c. Between two sampled sizes the curve is straight.
        at = np.clip(np.asarray(sizes, dtype=np.float64) / self.scale, 0, hits.size - 1)
        return np.asarray(np.clip(1 - np.interp(at, np.arange(hits.size), hits) / self.total, 0.0, 1.0), dtype=np.float64)


_M1, _M2, _M4 = np.uint64(0x5555555555555555), np.uint64(0x3333333333333333), np.uint64(0x0F0F0F0F0F0F0F0F)
_SUM = np.uint64(0x0101010101010101)
_S1, _S2, _S4, _S56 = np.uint64(1), np.uint64(2), np.uint64(4), np.uint64(56)


@kernel
def _ones(word: np.uint64) -> int:
    """Count the bits that are set."""
    word = word - ((word >> _S1) & _M1)
    word = (word & _M2) + ((word >> _S2) & _M2)
    word = (word + (word >> _S4)) & _M4
    return np.int64((word * _SUM) >> _S56)  # type: ignore[return-value]


@kernel
def _after(bits: NDArray[np.uint64], tree: NDArray[np.int32], slot: int, live: int) -> int:
    """Count the live slots after this one. tree: Fenwick's, over words of 64 slots."""
    word = slot >> 6
    upto = _ones(bits[word] & ~((~np.uint64(1)) << np.uint64(slot & 63)))
    while word > 0:
        upto += tree[word]
        word -= word & -word
    return live - upto


@kernel
def _distances(ids: Ints, keys: int) -> tuple[Ints, int]:
    """Count reuse distances. The last request of each key holds a slot in time; when slots run out, the live ones move together."""
    slots = (2 * keys // 64 + 2) * 64
    words = slots // 64
    bits = np.zeros(words, np.uint64)
    tree = np.zeros(words + 1, np.int32)  # tree[i]: Fenwick's node over words up to i - 1
    last = np.full(keys, -1, np.int64)
    counts = np.zeros(keys + 1, np.int64)
    cold, live, now = 0, 0, 0
    for k in range(ids.size):
        x = ids[k]
        if now == slots:
            for y in range(keys):
                if last[y] >= 0:
                    last[y] = live - 1 - _after(bits, tree, last[y], live)
            now = live
            bits[:] = np.uint64(0)
            for s in range(live):
                bits[s >> 6] |= np.uint64(1) << np.uint64(s & 63)
            tree[:] = 0
            for i in range(1, words + 1):
                tree[i] += _ones(bits[i - 1])
                j = i + (i & -i)
                if j <= words:
                    tree[j] += tree[i]
        slot = last[x]
        if slot >= 0:
            counts[_after(bits, tree, slot, live)] += 1
            word = slot >> 6
            bits[word] &= ~(np.uint64(1) << np.uint64(slot & 63))
            i = word + 1
            fresh = (now >> 6) + 1
            # Nodes above both the old and the new word lose one and gain one.
            j = fresh
            while i != j:
                if i < j:
                    tree[i] -= 1
                    i += i & -i
                    if i > words:
                        i = 1 << 62
                else:
                    if j <= words:
                        tree[j] += 1
                    j += j & -j
                    if j > words:
                        j = 1 << 62
        else:
            cold += 1
            live += 1
            i = (now >> 6) + 1
            while i <= words:
                tree[i] += 1
                i += i & -i
        bits[now >> 6] |= np.uint64(1) << np.uint64(now & 63)
        last[x] = now
        now += 1
    return counts, cold


def exact(requests: Stream) -> Histogram:
    """Return the reuse distances of all requests, in keys: the exact curve of LRU with entries of one size."""
    counts, cold = _distances(requests.ids, requests.keys)
    return Histogram(counts[: max(1, requests.keys)].astype(np.float64), float(cold), float(requests.n))


@kernel
def _byte_distances(ids: Ints, sizes: Ints) -> Ints:
    n = ids.size
    tree = np.zeros(n + 1, np.int64)
    last = np.full(sizes.size, -1, np.int64)
    found = np.full(n, -1, np.int64)
    total = 0
    for k in range(n):
        x = ids[k]
        if last[x] >= 0:
            upto, i = 0, last[x]
            while i > 0:
                upto += tree[i]
                i -= i & -i
            found[k] = total - upto
            i = last[x] + 1
            while i <= n:
                tree[i] -= sizes[x]
                i += i & -i
        else:
            total += sizes[x]
        i = k + 1
        while i <= n:
            tree[i] += sizes[x]
            i += i & -i
        last[x] = k
    return found


def byte_distances(requests: Stream) -> Ints:
    """Return (n,) the bytes of all keys asked for since this one's last request, its own included; NEVER at its first.

    LRU of at least this size hits. With unequal sizes that is exact up to what one entry too large pushes out.
    """
    return _byte_distances(requests.ids, requests.sizes)


_K1, _K2 = np.uint32(0x85EBCA6B), np.uint32(0xC2B2AE35)
MODULUS = 1 << 24  # of a key's hash: rates are multiples of its inverse


@kernel
def _hash(x: int, seed: int) -> int:
    """Return a key's place in 0…2^24-1, by the finaliser of MurmurHash3."""
    h = np.uint32(x + 1 + (seed + 1) * 0x9E3779B1)  # Numba widens products: each is cut back to 32 bits
    h = np.uint32(np.uint32(h ^ (h >> np.uint32(16))) * _K1)
    h = np.uint32(np.uint32(h ^ (h >> np.uint32(13))) * _K2)
    h = np.uint32(h ^ (h >> np.uint32(16)))
    return np.int64(h >> np.uint32(8))  # type: ignore[return-value]


@kernel
def _sampled(ids: Ints, limit: int, seed: int) -> Ints:
    found = np.empty(ids.size, np.int64)
    n = 0
    for x in ids:
        found[n] = x
        n += _hash(x, seed) < limit
    return found[:n]


def shards(requests: Stream, rate: float, *, adjust: bool = True, seed: int = 0) -> Histogram:
    """Return reuse distances from the keys whose hash falls below `rate` of its range, 0 < rate <= 1.

    adjust: what the sample has too few or too many of requests is added to the first bucket (SHARDS-adj). Below some 8,000 sampled keys
    the error may exceed 0.01. Source: Waldspurger et al., "Efficient MRC construction with SHARDS", FAST 2015.
    """
    if not 0 < rate <= 1:
        raise ValueError(f"a rate of {rate} samples nothing: expected above 0, at most 1")
    limit = max(1, round(rate * MODULUS))
    ids = _sampled(requests.ids, limit, seed)
    distinct, dense = np.unique(ids, return_inverse=True)
    counts, cold = _distances(dense.astype(np.int64), distinct.size)
    return _histogram(
        counts[: max(1, distinct.size)].astype(np.float64), float(cold), requests.n * limit / MODULUS, MODULUS / limit, adjust
    )


def byte_shards(requests: Stream, counts: Floats, spaces: ArrayLike, rate: float, *, seed: int = 0) -> Floats:
    """Return the miss ratio (0…1) of LRU at these spaces, from the keys whose hash falls below `rate` of its range; NaN without a count.

    counts: (n,) what each request counts as; 0 = it only puts its key there. spaces: in the unit of sizes. As `shards`, of byte distances:
    what lies between two requests of a key is scaled up by the sample's share of all keys' bytes, the key's own size is not.
    """
    if not 0 < rate <= 1:
        raise ValueError(f"a rate of {rate} samples nothing: expected above 0, at most 1")
    limit = max(1, round(rate * MODULUS))
    chosen = _chosen(requests.keys, limit, seed)
    mine = chosen[requests.ids]
    keys = np.flatnonzero(chosen)
    total = float(counts.sum())
    if not total or not keys.size:
        return np.full(np.shape(spaces), np.nan)
    place = np.zeros(requests.keys, np.int64)
    place[keys] = np.arange(keys.size)
    ids, sizes, weights = place[requests.ids[mine]], requests.sizes[keys], counts[mine]
    found = _byte_distances(ids, sizes)
    own = sizes[ids]
    scale = float(requests.sizes.sum()) / float(sizes.sum())
    again = found != NEVER
    at = own[again] + (found[again] - own[again]) * scale
    order = np.argsort(at, kind="stable")
    hits = np.concatenate(([0.0], np.cumsum(weights[again][order])))
    expected = total * limit / MODULUS
    seen = hits[np.searchsorted(at[order], np.asarray(spaces, dtype=np.float64), side="right")] + expected - float(weights.sum())
    return np.asarray(np.clip(1 - seen / expected, 0.0, 1.0), dtype=np.float64)


@kernel
def _chosen(keys: int, limit: int, seed: int) -> Flags:
    found = np.zeros(keys, np.bool_)
    for x in range(keys):
        found[x] = _hash(x, seed) < limit
    return found


def _histogram(counts: Floats, cold: float, expected: float, scale: float, adjust: bool) -> Histogram:
    total = float(counts.sum()) + cold
    if adjust and total:
        counts[0] += expected - total
        total = expected
    return Histogram(counts, cold, total, scale)
