"""Clusters for the labels of AmazonTitles-670K's shape: time and peak memory of a fresh process.

The texts are made and written by another process, so that only clustering counts; reading them back does not count as
time, but as memory it does. How well labels that go together are kept together shows in how many clusters a text's
labels fall into. With smoothing, too, which has no limit to keep.

    python -m benchmarks.clustering_scale
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path

from benchmarks.common import save

CLUSTERS = 65_536

MAKE = """if True:
    import sys
    from scipy.sparse import save_npz
    from benchmarks.shapes import PAPER_SHAPES, make
    data = make(PAPER_SHAPES["AmazonTitles-670K"]).dataset()
    save_npz(sys.argv[1] + "/inputs.npz", data.inputs, compressed=False)
    save_npz(sys.argv[1] + "/labels.npz", data.labels, compressed=False)
"""

CLUSTER = """if True:
    import json, resource, sys, time
    import numpy as np
    from scipy.sparse import load_npz
    from laconic.models.clustering import Clustering, cluster_labels
    from laconic.data.dataset import Dataset
    folder, clusters, walks = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    data = Dataset(inputs=load_npz(folder + "/inputs.npz"), labels=load_npz(folder + "/labels.npz"), ordered=True)
    started = time.perf_counter()
    tree = cluster_labels(data, clusters, Clustering(walks=walks), 0)
    seconds, peak = time.perf_counter() - started, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    tree.check()
    text = np.repeat(np.arange(len(data)), np.diff(data.labels.indptr))
    pairs = text * clusters + tree.cluster_of().numpy()[data.labels.indices]
    print(json.dumps({
        "seconds": round(seconds, 1),
        "peak_gigabytes": round(peak, 2),
        "cluster_sizes": tree.starts.diff().unique().tolist(),
        "clusters_a_text": round(len(np.unique(pairs)) / len(data), 2),
        "labels_a_text": round(data.labels.nnz / len(data), 2),
    }))
"""


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        run(MAKE, folder)
        plain, smooth = (json.loads(run(CLUSTER, folder, str(CLUSTERS), walks)) for walks in ("0", "400"))
    limits = {"limit_seconds": 300, "limit_gigabytes": 8}
    save("clustering_scale", {"clusters": CLUSTERS, "plain": plain | limits, "smoothed by walks of 400 steps": smooth})


def run(code: str, *arguments: str) -> str:
    command, root = [sys.executable, "-c", code, *arguments], Path(__file__).parents[1]
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, cwd=root).stdout


if __name__ == "__main__":
    main()
