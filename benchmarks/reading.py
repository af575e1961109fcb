"""Reading, cutting into words and counting a dataset of half a million titles: time and peak memory of a fresh process.

Also how long `laconic --help` takes to answer.

    python -m benchmarks.reading
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import time

from benchmarks.common import data_folder, save

READ = """if True:
    import json, resource, sys, time
    started = time.perf_counter()
    from laconic.data.sources import read
    from laconic.data.prepare import prepare
    from laconic.data.text import Splitter
    from laconic.data.vocabulary import VocabularyConfig
    corpus = read(sys.argv[1])
    data, tokenizer = prepare(corpus, Splitter(), VocabularyConfig())
    print(json.dumps({
        "texts": len(data),
        "vocabulary": len(tokenizer.vocabulary.words),
        "seconds": round(time.perf_counter() - started, 1),
        "peak_gigabytes": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20, 2),
    }))
"""


def main() -> None:
    figures: dict[str, object] = {"help_seconds": help_seconds()}
    folder = data_folder("yso-titles")
    if folder is None:
        print("yso-titles: not here, left out")
    else:
        done = subprocess.run([sys.executable, "-c", READ, folder], check=True, capture_output=True, text=True)
        figures["yso-titles"] = json.loads(done.stdout) | {"limit_seconds": 60, "limit_gigabytes": 1.5}
    save("reading", figures)


def help_seconds(rounds: int = 7) -> dict[str, float]:
    """Median of fresh processes, beside a Python that does nothing."""
    timings: dict[str, list[float]] = {"laconic --help": [], "python -c pass": []}
    for _ in range(rounds):
        for name, arguments in {
            "laconic --help": ["-m", "laconic", "--help"],
            "python -c pass": ["-c", "pass"],
        }.items():
            started = time.perf_counter()
            subprocess.run([sys.executable, *arguments], check=True, stdout=subprocess.DEVNULL)
            timings[name].append(time.perf_counter() - started)
    return {name: round(statistics.median(times), 3) for name, times in timings.items()}


if __name__ == "__main__":
    main()
