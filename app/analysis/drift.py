"""Change of a distribution between two windows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray


@dataclass(frozen=True, slots=True)
class Divergence:
    """Jensen-Shannon divergence of two samples, with what chance alone would give.

    bits: 0 (equal) to 1 (nothing in common). null_bits: its 95th percentile when both windows come from the pooled mix, by
    permutation. changed: bits > null_bits. p_value: share of permutations at least as far apart, (k + 1) / (draws + 1).
    """

    bits: float
    null_bits: float
    p_value: float
    n_before: int
    n_now: int

    @property
    def changed(self) -> bool:
        return self.bits > self.null_bits


def jensen_shannon(p: ArrayLike, q: ArrayLike) -> float:
    """Return the Jensen-Shannon divergence of two count or share vectors over the same kinds, in bits, 0..1.

    Raises ValueError when shapes differ or a side is empty. Source: Lin, IEEE Transactions on Information Theory 37 (1), 1991.
    """
    left, right = _shares(p), _shares(q)
    if left.shape != right.shape:
        raise ValueError(f"both sides must cover the same kinds, got {left.shape} and {right.shape}")
    middle = (left + right) / 2
    return float(min(1.0, max(0.0, (_kl(left, middle) + _kl(right, middle)) / 2)))


def psi(p: ArrayLike, q: ArrayLike, *, floor: float = 1e-6) -> float:
    """Return the population stability index of two count or share vectors, in nats, >= 0. Empty kinds get `floor`.

    No fixed limit fits: chance alone gives about (1/n1 + 1/n2) times a chi-square of kinds - 1 degrees of freedom.
    """
    left, right = np.maximum(_shares(p), floor), np.maximum(_shares(q), floor)
    return float(((left - right) * np.log(left / right)).sum())


def compare(before: Mapping[str, int], now: Mapping[str, int], *, draws: int = 200, seed: int = 0) -> Divergence | None:
    """Return how far apart two windows' counts by kind are, or None when one of them is empty.

    Observations are taken as independent: bursts of one client make the null too narrow, and the page says so.
    """
    kinds = sorted(set(before) | set(now))
    p = np.array([before.get(kind, 0) for kind in kinds], dtype=np.int64)
    q = np.array([now.get(kind, 0) for kind in kinds], dtype=np.int64)
    n_before, n_now = int(p.sum()), int(q.sum())
    if not n_before or not n_now:
        return None
    seen = jensen_shannon(p, q)
    pooled = p + q
    rng = np.random.default_rng(seed)
    samples = rng.multivariate_hypergeometric(pooled, n_before, size=draws)
    null = np.array([jensen_shannon(sample, pooled - sample) for sample in samples])
    return Divergence(
        bits=seen,
        null_bits=float(np.quantile(null, 0.95)),
        p_value=float((np.count_nonzero(null >= seen) + 1) / (draws + 1)),
        n_before=n_before,
        n_now=n_now,
    )


def _shares(values: ArrayLike) -> NDArray[np.float64]:
    counts = np.asarray(values, dtype=np.float64).ravel()
    total = counts.sum()
    if not total > 0:
        raise ValueError("a side without observations has no distribution")
    return np.asarray(counts / total, dtype=np.float64)


def _kl(p: NDArray[np.float64], q: NDArray[np.float64]) -> float:
    seen = p > 0
    return float((p[seen] * np.log2(p[seen] / q[seen])).sum())
