"""Measurements and long runs, started by command: `python -m tests.bench.NAME`. None of them is collected by pytest."""

import os

# As `cachescope gateway` sets it, before numpy is loaded.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
