"""Clusters of SimHashes, and findings."""

import numpy as np
import pytest

from app.analysis.clusters import Served, clusters, findings, of_vectors, parse


def test_near_hashes_are_one_cluster_led_by_the_most_frequent() -> None:
    codes = parse(["00000000000000ff", "00000000000000fe", "ffffffffffffffff", "000000000000007f"])
    assert clusters(codes, [1, 5, 2, 1]).tolist() == [1, 1, 2, 1]


def test_the_result_does_not_depend_on_the_order_of_equal_weights() -> None:
    rng = np.random.default_rng(1)
    codes = np.unique(rng.integers(0, 2**63, 300).astype(np.uint64))
    again = codes[::-1]
    first, second = clusters(codes, [1] * len(codes)), clusters(again, [1] * len(codes))
    assert [int(codes[leader]) for leader in first] == [int(again[leader]) for leader in second[::-1]]


def test_more_clusters_than_may_lead_stand_alone() -> None:
    codes = np.random.default_rng(2).integers(0, 2**63, 700).astype(np.uint64)
    found = clusters(codes, [1] * 700, radius=0)
    assert sorted(found.tolist()) == list(range(700))


def test_a_text_that_is_no_hash_is_refused() -> None:
    with pytest.raises(ValueError, match="invalid literal"):
        parse(["not sixteen hexd"])


def test_an_entry_for_a_few_prompts_is_no_finding() -> None:
    assert findings([Served(f"p{n}", "c", "e", hit=True) for n in range(19)]) == []
    assert findings([]) == []
    shared = [Served(f"p{n}", "c", f"e{n % 3}", hit=n >= 3) for n in range(40)]
    assert [one.kind for one in findings(shared)] == []


def test_vectors_join_the_most_frequent_one_that_is_near() -> None:
    angles = np.deg2rad([0.0, 15.0, 30.0, 180.0])  # cosines of neighbours: 0.966; of the first and third: 0.866
    vectors = np.stack([np.cos(angles), np.sin(angles)], axis=1).astype(np.float32)
    assert of_vectors(vectors, [5, 1, 2, 1]).tolist() == [0, 0, 2, 3]
    assert of_vectors(vectors, [1, 5, 2, 1]).tolist() == [1, 1, 1, 3]
    assert of_vectors(vectors[:0], []).tolist() == []
