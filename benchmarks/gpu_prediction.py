"""How quickly a GPU answers, from token ids on the host to labels on the host, at the shape of AmazonTitles-670K.

Batches are scored against all labels: as FlatRanker does it, and roughly first and then exactly. Single texts go
through InceptionXML+'s shortlist, as the ranker does it and as a CUDA graph. Weights are drawn at random; how many of
the best five labels are those of float32 is counted.

    python -m benchmarks.gpu_prediction
    python -m benchmarks.gpu_prediction --device cpu --labels 5000 --clusters 256 --top 20 --batch 16 --singly 20
"""

from __future__ import annotations

import argparse
import json

import torch

from benchmarks._gpu_all_labels import all_labels
from benchmarks._gpu_case import Case
from benchmarks._gpu_shortlist import shortlist
from benchmarks.common import save


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--device", default="cuda", help="on a CPU it is tried out, and nothing is written")
    parser.add_argument("--labels", type=int, default=670_091)
    parser.add_argument("--clusters", type=int, default=65_536)
    parser.add_argument("--top", type=int, default=800, help="clusters that are opened")
    parser.add_argument("--batch", type=int, default=1024)
    parser.add_argument("--singly", type=int, default=3000, help="texts that are answered one by one")
    parser.add_argument("--times", type=int, default=30, help="batches that are timed")
    options = vars(parser.parse_args())
    device = torch.device(options["device"])
    if device.type == "cuda" and not torch.cuda.is_available():
        print("no GPU here, left out")
        return
    case = Case(**options | {"device": device})
    with torch.inference_mode():
        figures = {
            "gpu": torch.cuda.get_device_name() if device.type == "cuda" else None,
            "torch": torch.__version__,
            "labels": case.labels,
            "clusters": case.clusters,
            "clusters_opened": case.top,
            "batch": case.batch,
            "k": case.k,
            "bars": {"texts_a_second_of_batches_against_all_labels": 500_000, "p50_ms_by_shortlist": 0.2},
            "all labels": all_labels(case),
            "shortlist": shortlist(case),
            "max_memory_allocated": torch.cuda.max_memory_allocated() if device.type == "cuda" else None,
        }
    if device.type == "cuda":
        save("gpu_prediction", figures)
    else:
        print(json.dumps(figures, indent=2))


if __name__ == "__main__":
    main()
