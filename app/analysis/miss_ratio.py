"""Miss-ratio curves of LRU, exact and from a sample of keys: one pass gives the miss ratio at every size."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from app.analysis.compiled import Floats, Ints, kernel
from app.analysis.policies import Stream

NEVER = -1  # the distance of a key's first request


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
def _of_one_size(ids: Ints, keys: int, size: int) -> Ints:
    """Return byte distances. The last request of each key holds a slot in time; when slots run out, the live ones move together."""
    slots = (2 * keys // 64 + 2) * 64
    words = slots // 64
    bits = np.zeros(words, np.uint64)
    tree = np.zeros(words + 1, np.int32)  # tree[i]: Fenwick's node over words up to i - 1
    last = np.full(keys, -1, np.int64)
    found = np.full(ids.size, -1, np.int64)
    live, now = 0, 0
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
            found[k] = (_after(bits, tree, slot, live) + 1) * size
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
            live += 1
            i = (now >> 6) + 1
            while i <= words:
                tree[i] += 1
                i += i & -i
        bits[now >> 6] |= np.uint64(1) << np.uint64(now & 63)
        last[x] = now
        now += 1
    return found


@kernel
def _of_sizes(ids: Ints, sizes: Ints) -> Ints:
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


def distances(requests: Stream) -> Ints:
    """Return (n,) the bytes of all keys asked for since this one's last request, its own included; NEVER at its first.

    LRU of at least this size hits. With unequal sizes that is exact up to what one entry too large pushes out.
    """
    return _distances(requests.ids, requests.sizes)


def _distances(ids: Ints, sizes: Ints) -> Ints:
    if sizes.size and (sizes == sizes[0]).all():
        return _of_one_size(ids, sizes.size, int(sizes[0]))
    return _of_sizes(ids, sizes)


def curve(found: ArrayLike, counts: Floats, spaces: ArrayLike) -> Floats:
    """Return LRU's hits at these spaces: the sum of what requests count as whose distance is at most the space.

    found: (n,) distances, as of `distances`. counts: (n,) what each request counts as; 0 = it only puts its key there.
    """
    far, wanted = np.asarray(found), np.asarray(spaces)
    order = np.argsort(wanted)
    again = far != NEVER
    first = np.searchsorted(wanted[order], far[again], side="left")  # the smallest space in which a request hits
    hits = np.empty(wanted.size, np.float64)
    hits[order] = np.cumsum(np.bincount(first, weights=counts[again], minlength=wanted.size + 1))[: wanted.size]
    return hits


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


def shards(requests: Stream, counts: Floats, spaces: ArrayLike, rate: float, *, seed: int = 0) -> Floats:
    """Return the miss ratio (0…1) of LRU at these spaces, from the keys whose hash falls below `rate` of its range; NaN where no
    request of theirs counts.

    counts: (n,) what each request counts as; 0 = it only puts its key there. spaces: in the unit of sizes. rate: above 0, at most 1.
    What lies between two requests of a key is scaled up by the sample's share of all keys' bytes, the key's own size is not.
    What the sample has too few or too many of requests is made good at the shortest distance (SHARDS-adj). Below some 8,000 sampled keys
    the error may exceed 0.01. Raises ValueError on another rate. Source: Waldspurger et al., "Efficient MRC construction with SHARDS",
    FAST 2015.
    """
    if not 0 < rate <= 1:
        raise ValueError(f"a rate of {rate} samples nothing: expected above 0, at most 1")
    limit = max(1, round(rate * MODULUS))
    place = _places(requests.keys, limit, seed)
    mine = _sampled(requests.ids, limit, seed)
    weights = counts[mine]
    seen = float(weights.sum())
    if not seen:
        return np.full(np.shape(spaces), np.nan)
    ids, sizes = place[requests.ids[mine]], requests.sizes[place >= 0]
    found, own = _distances(ids, sizes), sizes[ids]
    scale = float(requests.sizes.sum()) / float(sizes.sum())
    at = np.where(found == NEVER, float(NEVER), own + (found - own) * scale)
    expected = float(counts.sum()) * limit / MODULUS
    return np.asarray(np.clip(1 - (curve(at, weights, spaces) + expected - seen) / expected, 0.0, 1.0), dtype=np.float64)


@kernel
def _places(keys: int, limit: int, seed: int) -> Ints:
    """Return each key's number among those that are sampled, -1 for the others."""
    found = np.full(keys, -1, np.int64)
    number = 0
    for x in range(keys):
        if _hash(x, seed) < limit:
            found[x] = number
            number += 1
    return found


@kernel
def _sampled(ids: Ints, limit: int, seed: int) -> Ints:
    """Return which requests are of sampled keys. A hash again costs less than a look at a table of all keys."""
    found = np.empty(ids.size, np.int64)
    n = 0
    for k in range(ids.size):
        found[n] = k
        n += _hash(ids[k], seed) < limit
    return found[:n]
