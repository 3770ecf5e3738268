"""What is done once a process."""

import gc

from app.wiring import settle


def test_what_is_loaded_is_left_out_of_later_collections_once_a_process() -> None:
    settle()
    kept = gc.get_freeze_count()
    made = [[number] for number in range(1_000)]
    settle()
    assert kept > 100_000 / 2
    assert gc.get_freeze_count() <= kept  # what came later can go
    assert gc.get_threshold()[0] == 50_000
    assert len(made) == 1_000
