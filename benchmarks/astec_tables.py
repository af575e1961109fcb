"""Our versions of the DeepXML paper's Tables 4 and 6 and the figures of Astec, from measured results: no training.

Writes docs/astec.md between its markers, and says what has not been measured.

    python -m benchmarks.astec_tables
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks._plus_results import NotMeasuredError, Spread, table
from benchmarks.common import RESULTS
from laconic.files import writing
from laconic.plots import plot_contributions

PAGE = Path(__file__).parents[1] / "docs" / "astec.md"
SHOWN = ("P@1", "P@3", "P@5", "nDCG@5", "PSP@1", "PSP@5", "tail R@10")
KINDS = {"": "Astec", "re-ranked": "with its re-ranker", "classifier alone": "classifier alone (β = 1)"}
KINDS |= {"nearness alone": "nearest labels alone (β = 0)"}
PAPER_6 = {  # P@1, P@5: (a) to (c) on AmazonTitles-670K, (d) on WikiTitles-500K
    "Astec": (39.12, 32.07),
    "encoder: CNN": (36.91, 30.76),
    "encoder: MLP": (37.41, 30.65),
    "surrogate: unsupervised (GloVe)": (34.80, 27.42),
    "surrogate: random": (38.11, 30.97),
    "surrogate: selection": (38.3, 31.25),
    "negatives: uniform": (27.3, 11.4),
    "negatives: unigram": (30.62, 11.87),
    "negatives: nearest labels alone": (32.33, 14.37),
}
PAPER_4 = {"XML-CNN": ("+1.89", "10×"), "MACH": ("+2.41", "5×")}


def main() -> None:
    text = PAGE.read_text(encoding="utf-8")
    makers = {"accuracy": accuracy, "table 4": table_4, "table 6": table_6, "recall": recall, "quantiles": quantiles}
    for name, make in makers.items():
        try:
            made = make()
        except NotMeasuredError as missing:
            made = f"**Not measured yet:** {missing}."
        print(f"\n{name}\n\n{made}")
        begin, end = f"<!-- {name} -->", f"<!-- end of {name} -->"
        before, rest = text.split(begin)
        text = before + begin + f"\n\n{made}\n\n" + end + rest.split(end)[1]
    with writing(PAGE) as file:
        file.write(text.encode())


def results(what: str) -> dict[str, Any]:
    path = RESULTS / f"astec_{what}.json"
    if not path.exists():
        command = what.replace("ensembles", "protocol").replace("_", "-")
        raise NotMeasuredError(f"`python -m benchmarks.astec_quality {command}` makes `{path.name}`")
    found = json.loads(path.read_text(encoding="utf-8"))
    return {name: value for name, value in found.items() if isinstance(value, dict)}


def accuracy() -> str:
    rows = []
    for data, by_name in results("protocol").items():
        for name, run in sorted(by_name.items()):
            for prefix, kind in KINDS.items():
                key = f"{prefix}: " if prefix else ""
                shown = kind if name == "Astec" else name
                if f"{key}P@1" in run and (name == "Astec" or not prefix):
                    rows.append([data, shown, *cells(run, lambda figure, key=key: key + figure)])
        rows += ensemble(data)
    return table(["", "", *SHOWN], rows) + "\n\nMean ± deviation of three seeds."


def ensemble(data: str) -> list[list[str]]:
    try:
        found = results("ensembles").get(data, {})
    except NotMeasuredError:
        return []
    return [[data, name, *cells(run, str)] for name, run in found.items()]


def cells(run: Mapping[str, Any], key: Callable[[str], str]) -> list[str]:
    return [str(Spread.of(run[key(figure)])) for figure in SHOWN]


def table_4() -> str:
    (data, found), *_ = results("table_4").items()
    rows = []
    for name, (gain, faster) in PAPER_4.items():
        ours, theirs = found[f"{name} in DeepXML"], found[f"{name} as published"]
        better = Spread(ours["P@1"]["mean"] - theirs["P@1"]["mean"])
        speed = theirs["seconds"]["mean"] / ours["seconds"]["mean"]
        precision = [f"{run['P@1']['mean']:.2f}" for run in (theirs, ours)]
        rows.append([f"DeepXML + {name}", *precision, better.signed, f"{speed:.1f}×", gain, faster])
    head = ["", "P@1 as published", "P@1 in DeepXML", "ΔP@1", "speed-up", "paper's ΔP@1", "paper's speed-up"]
    return table(head, rows) + f"\n\n{data}, one seed; times of whole trainings side by side on one GPU."


def table_6() -> str:
    (data, found), *_ = results("table_6").items()
    rows = [
        [name, *(f"{run[figure]['mean']:.2f}" for figure in ("P@1", "P@5", "PSP@5", "shortlist recall")), *paper(name)]
        for name, run in sorted(found.items(), key=lambda one: (one[0] != "Astec", one[0]))
    ]
    whole = found.get("Astec", {})
    for prefix, kind in {"nearness alone": "nearest centroid", "1-vs-all linear": "1-vs-all linear"}.items():
        if f"{prefix}: P@1" in whole:
            figures = [f"{whole[f'{prefix}: {figure}']['mean']:.2f}" for figure in ("P@1", "P@5", "PSP@5")]
            rows.append([f"classifier: {kind}", *figures, "", *paper(kind)])
    return table(["", "P@1", "P@5", "PSP@5", "shortlist recall", "paper's P@1", "paper's P@5"], rows) + (
        f"\n\n{data}, one seed, fewer epochs than above. The paper's are on AmazonTitles-670K; its negatives on "
        "WikiTitles-500K, where Astec's has 45.45 and 17.64. CNN and MLP hardly learn at Astec's rate in three epochs "
        "(their surrogate losses fall by 3 and 13 %, Astec's by 27 %), and learnt clusters are blended by a share that "
        "was chosen for nearest labels: these three rows say more of those settings, which have been changed since, "
        "than of the parts."
    )


def paper(name: str) -> list[str]:
    return [f"{figure:.2f}" for figure in PAPER_6[name]] if name in PAPER_6 else ["", ""]


def recall() -> str:
    rows = []
    for data, by_name in results("protocol").items():
        for name, run in sorted(by_name.items()):
            if "shortlist recall" in run:
                rows.append([data, name, str(Spread.of(run["shortlist recall"]))])
            kinds = run.get("shortlist recall by kind", {})
            rows += [[data, kind, f"{found:.2f}"] for kind, found in kinds.items()]
    return table(["", "", "recall"], rows) + (
        "\n\nThe share of a test text's true labels that are in its shortlist of 500, the mean over texts, in percent; "
        "by kind on the vectors of the first seed."
    )


def quantiles() -> str:
    """Pictures of where P@5 comes from, Astec beside InceptionXML."""
    shown = []
    for data, by_name in results("protocol").items():
        runs = {name: by_name[name]["quantiles"] for name in ("Astec", "InceptionXML") if name in by_name}
        if len(runs) < 2:
            continue
        for kind, bins in runs["Astec"].items():
            path = PAGE.parent / "pictures" / f"astec-{data}-{kind.replace(' ', '-')}.png"
            points = {name: np.array(run[kind]["contribution"]) for name, run in runs.items()}
            plot_contributions(points, np.array(bins["mean_frequency"]), path, k=bins["k"], bins=kind)
            shown.append(f"{data}, {kind}:\n\n![{data}, {kind}](pictures/{path.name})")
    if not shown:
        raise NotMeasuredError("`python -m benchmarks.astec_quality protocol` makes `astec_protocol.json`")
    return "\n\n".join(shown)


if __name__ == "__main__":
    main()
