"""The control API against its description, at length: `python -m tests.bench.control_api_fuzz [--examples 200] [--seed N]`.

schemathesis in all its phases: boundary values, random requests valid and not, and sequences of acts. Exit code 1 when it finds
an answer that the description does not tell of, a valid request refused or an invalid one taken.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

from tests.engine.gateway.described import control_api, judge


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--examples", type=int, default=200)
    parser.add_argument("--seed", type=int)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="cachescope-fuzz-") as name, control_api(Path(name)) as url:
        seed = [] if asked.seed is None else ["--seed", str(asked.seed)]
        found_nothing, said = judge(url, Path(name), "--max-examples", str(asked.examples), *seed, timeout_s=3_600)
    print(said)
    return 0 if found_nothing else 1


if __name__ == "__main__":
    sys.exit(main())
