"""Seconds from a fresh process to the first answer of a packed model, and those of Python's imports before.

python -m benchmarks._first_answer FOLDER TEXT
"""

from time import perf_counter

STARTED = perf_counter()  # before anything else is imported

import json  # noqa: E402
import sys  # noqa: E402

from numba.core.registry import cpu_target  # noqa: E402

from laconic.predict.packed_predictor import PackedPredictor  # noqa: E402


def main() -> None:
    # numba imports a hundred modules more when it is first needed: they are imports too.
    cpu_target.typing_context.refresh()
    cpu_target.target_context.refresh()
    imported = perf_counter()
    PackedPredictor.open(sys.argv[1]).predict([sys.argv[2]])
    seconds = {"imports": imported - STARTED, "first_answer": perf_counter() - imported}
    print(json.dumps({name: round(value, 3) for name, value in seconds.items()}))


if __name__ == "__main__":
    main()
