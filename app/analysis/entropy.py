"""Entropy of a mix of prompts, in bits."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

_MANY_ONCE = 0.3  # of the kinds, from which Chao and Shen's estimate is the better one


@dataclass(frozen=True, slots=True)
class Entropy:
    """How varied a mix is.

    plug_in_bits: -sum p log2 p of the counts. miller_madow_bits: with the bias term (K - 1) / (2 N ln 2). chao_shen_bits: corrected
    for kinds not seen yet. singletons: kinds seen once.
    normalised_ratio: plug-in over log2 K, 0..1; None when there is one kind only.
    n: observations. kinds: different ones seen. error_bits: standard error of the plug-in estimate, for independent observations.
    """

    plug_in_bits: float
    miller_madow_bits: float
    chao_shen_bits: float
    normalised_ratio: float | None
    n: int
    kinds: int
    singletons: int
    error_bits: float

    @property
    def interval_bits(self) -> tuple[float, float] | None:
        """The 95 % interval around `bits`; None where so many kinds were seen once that the estimate leans on what was not seen."""
        if self.singletons > _MANY_ONCE * self.kinds:
            return None
        return max(0.0, self.bits - 1.96 * self.error_bits), self.bits + 1.96 * self.error_bits

    @property
    def bits(self) -> float:
        """The better estimate: Chao and Shen's when more than three in ten kinds were seen once, else Miller and Madow's."""
        return self.chao_shen_bits if self.singletons > _MANY_ONCE * self.kinds else self.miller_madow_bits

    @property
    def effective(self) -> float:
        """2 ** bits: as varied as so many prompts that come equally often, those not seen yet among them."""
        return float(2**self.bits)


def entropy(counts: ArrayLike) -> Entropy | None:
    """Return the entropy of these counts, or None when there is nothing to count.

    counts: shape (k,), non-negative; zeros are left out. Biased low when many kinds were seen once: compare windows of equal n.
    Raises ValueError when a count is negative or not finite.
    Sources: Miller, Note on the bias of information estimates, 1955; the error: Harris, The statistical estimation of entropy in the
    non-parametric case, 1975.
    """
    values = np.asarray(counts, dtype=np.float64).ravel()
    if not np.all(np.isfinite(values)) or np.any(values < 0):
        raise ValueError("counts must be finite and not negative")
    values = values[values > 0]
    total = float(values.sum())
    if total == 0:
        return None
    shares: NDArray[np.float64] = values / total
    plug_in = max(0.0, float(-(shares * np.log2(shares)).sum()))
    kinds = int(values.size)
    return Entropy(
        plug_in_bits=plug_in,
        miller_madow_bits=plug_in + (kinds - 1) / (2 * total * float(np.log(2))),
        chao_shen_bits=_chao_shen(values, total),
        normalised_ratio=plug_in / float(np.log2(kinds)) if kinds > 1 else None,
        n=round(total),
        kinds=kinds,
        singletons=int(np.count_nonzero(values == 1)),
        error_bits=_error(shares, plug_in, total),
    )


def _error(shares: NDArray[np.float64], bits: float, total: float) -> float:
    """Return the standard error to the second order: the first alone is 0 for equal shares."""
    first = float((shares * np.log2(shares) ** 2).sum()) - bits**2
    second = (len(shares) - 1) / (2 * total * float(np.log(2)) ** 2)
    return math.sqrt(max(0.0, first + second) / total)


def _chao_shen(values: NDArray[np.float64], total: float) -> float:
    """Return the entropy with shares scaled by the sample's coverage and each kind weighted by its chance of being seen.

    Source: Chao and Shen, Environmental and Ecological Statistics 10, 2003.
    """
    singletons = min(float(np.count_nonzero(values == 1)), total - 1)
    shares = (1 - singletons / total) * values / total
    if not np.all(shares > 0):
        return 0.0
    # 1 - (1 - p)^n without losing what is small; a share of 1 has been seen for certain.
    seen = -np.expm1(total * np.log1p(-np.minimum(shares, 1 - 1e-15)))
    return max(0.0, float(-(shares * np.log2(shares) / seen).sum()))


def rarefied(counts: ArrayLike, n: int, *, draws: int = 20, seed: int = 0) -> float | None:
    """Return the mean plug-in entropy (bits) of `draws` samples of n observations, without replacement; None when fewer than n.

    Two windows may be compared only at equal n: the plug-in estimate grows with it.
    """
    values = np.asarray(counts, dtype=np.int64).ravel()
    values = values[values > 0]
    if n <= 0 or int(values.sum()) < n:
        return None
    if int(values.sum()) == n:
        whole = entropy(values)
        return whole.plug_in_bits if whole else None
    rng = np.random.default_rng(seed)
    shares = rng.multivariate_hypergeometric(values, n, size=draws) / n
    return float(-(shares * np.log2(np.where(shares > 0, shares, 1.0))).sum() / draws)
