"""What parts keys beside the body's text: headers that go upstream, the order that an answer follows, what the raw body said."""

from __future__ import annotations

from engine.keys import canonicalise
from engine.types import Normaliser
from tests.engine.rig import SECRET, chat
from tests.engine.test_keys import canonical


def test_headers_are_part_of_key_and_partition_and_never_run_together() -> None:
    made = [
        canonicalise(chat(), namespace="faq", tenant="acme", model_version="", secret=SECRET, keyed=keyed)
        for keyed in ((), ((b"a", b"bc"),), ((b"ab", b"c"),), ((b"a", b"b"), (b"c", b"")), ((b"a", b"b1:c0:"),))
    ]
    assert len({one.key for one in made}) == len({one.partition for one in made}) == len(made)
    assert made[0] == canonical(chat())
    ruled = canonical(chat(), normaliser=Normaliser.WHITESPACE)
    assert ruled.partition not in {one.partition for one in made}
