"""The generated parts of README and docs: every block between markers, and every figure in prose that names its file.

Nothing is trained: blocks and pictures are made from benchmarks/results/.

    python -m benchmarks.pages              writes all blocks and draws all pictures
    python -m benchmarks.pages --check      exits with 1 where a page does not say what the files say
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path, PurePosixPath
from posixpath import relpath

from benchmarks.blocks import (
    astec,
    budgets,
    label_text,
    languages,
    others,
    plus,
    plus_costs,
    several_gpus,
    stages,
    thresholds,
    which_method,
)
from benchmarks.blocks.of_papers import of_paper
from benchmarks.figures import complaints
from benchmarks.tables import NotMeasuredError, Results, every_result
from laconic.system.files import writing

ROOT = Path(__file__).parents[1]
PICTURES = ROOT / "docs" / "pictures"
Make = Callable[[Results], str]


def paper_table(paper: str, what: str) -> Make:
    return partial(of_paper, paper=paper, what=what)


BLOCKS: Mapping[str, Mapping[str, Make]] = {
    "README.md": {"readme table": which_method.short},
    "docs/papers/deepxml.md": {
        "accuracy": astec.accuracy,
        "reranker": paper_table("deepxml", "reranker"),
        "table 4": paper_table("deepxml", "table 4"),
        "table 6": paper_table("deepxml", "table 6"),
        "figure 2": astec.negatives,
        "recall": astec.recall,
        "vectors": paper_table("deepxml", "vectors"),
        "quantiles": astec.quantiles,
    },
    "docs/combined.md": {
        "channels": others.channels,
        "on a CPU": others.channels_on_cpu,
        "stages": stages.where_time_goes,
        "budgets": budgets.what_time_brings,
        "with a transformer": others.with_transformer,
    },
    "docs/papers/inceptionxml-plus.md": {
        "figure 1": plus_costs.figure_1,
        "left out": plus.left_out,
        "table 4": plus_costs.table_4,
        "table 4, our data": plus_costs.table_4_ours,
        "table 5": paper_table("inceptionxml", "table 5"),
        "table 6": plus.table_6,
        "sweep": plus.sweep,
        "wide beams": plus.wide_beams,
        "figure 3": plus.figure_3,
        "figure 4": plus.figure_4,
        "figure 5": plus.figure_5,
    },
    "docs/label-text.md": {
        "beside others": label_text.beside,
        "learnt": label_text.learnt,
        "fused": label_text.fused,
        "choices": label_text.choices,
        "laptop": label_text.laptop,
    },
    "docs/papers/decaf.md": {
        "decaf, validation": label_text.decaf_on_validation,
        "decaf, accuracy": label_text.decaf_accuracy,
        "decaf, laptop": label_text.decaf_laptop,
        "decaf, table 6": label_text.decaf_parts,
        "decaf, table 6, laptop": label_text.decaf_parts_laptop,
        "decaf, table 5": paper_table("decaf", "table 5"),
        "decaf, table 4": paper_table("decaf", "table 4"),
        "decaf, pictures": label_text.decaf_pictures,
    },
    "docs/methods.md": {
        "calibration parts": others.calibration_parts,
        "scores of methods": thresholds.calibration,
        "hidden labels": others.hidden_labels,
        "updated": others.updated,
        "by language": languages.by_language,
        "static vectors": others.static_vectors,
    },
    "docs/which-method.md": {"compared": which_method.compared, "compared, picture": which_method.shown},
    "docs/results.md": {"first table": others.first_table, "each method": others.each_method},
    "docs/guides/threshold.md": {"asked and given": thresholds.precision},
    "docs/guides/gpu.md": {"rows in few bits": others.rows_in_few_bits},
    "docs/guides/annif.md": {"backends of Annif": others.annif_backends},
    "docs/guides/several-gpus.md": {
        "what fits": several_gpus.what_fits,
        "step times": several_gpus.step_times,
        "rank times": several_gpus.rank_times,
        "two ranks": several_gpus.two_ranks,
    },
    "docs/reference/service.md": {"load": others.load, "claims": others.claims},
    "docs/security.md": {"campaign": others.campaign},
}
DRAWINGS = (plus.drawings, astec.drawings, label_text.drawings, which_method.drawings, stages.drawings)


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser("python -m benchmarks.pages", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--check", action="store_true", help="write nothing; exit with 1 where a page is stale")
    results = every_result()
    if not parser.parse_args(arguments).check:
        write(results)
    wrong = list(problems(results))
    if wrong:
        raise SystemExit("\n".join(wrong))


def write(results: Results) -> None:
    for name, blocks in BLOCKS.items():
        with writing(ROOT / name) as file:
            file.write(rewritten(name, blocks, results).encode())
    for drawings in DRAWINGS:
        for picture, draw in drawings(results).items():
            draw(PICTURES / picture)


def problems(results: Results) -> Iterator[str]:
    """Yield what is wrong with the pages: stale blocks, missing pictures, figures that are not those of their files."""
    for name, blocks in BLOCKS.items():
        if rewritten(name, blocks, results) != (ROOT / name).read_text(encoding="utf-8"):
            yield f"{name}: stale; `python -m benchmarks.pages` writes it anew"
    missing = [name for drawings in DRAWINGS for name in drawings(results) if not (PICTURES / name).exists()]
    yield from (f"docs/pictures/{name}: missing; `python -m benchmarks.pages` draws it" for name in missing)
    for path in pages():
        text = path.read_text(encoding="utf-8")
        yield from (f"{path.relative_to(ROOT)}:{one}" for one in complaints(text, results))


def pages() -> list[Path]:
    """Return all pages whose figures are checked: the log is a diary, whose figures stay as they were that day."""
    return [ROOT / "README.md", *(path for path in sorted((ROOT / "docs").rglob("*.md")) if path.name != "log.md")]


def rewritten(name: str, blocks: Mapping[str, Make], results: Results) -> str:
    """Return a page with every block as the results have it."""
    texts = {one: placed(block(make, results), name) for one, make in blocks.items()}
    return filled((ROOT / name).read_text(encoding="utf-8"), texts)


def placed(text: str, name: str) -> str:
    """Return a block whose pictures are found from the folder of the page."""
    return text.replace("](pictures/", f"]({relpath('docs/pictures', PurePosixPath(name).parent)}/")


def block(make: Make, results: Results) -> str:
    try:
        return make(results)
    except NotMeasuredError as missing:
        return f"**Not measured yet:** {missing}."


def filled(page: str, blocks: Mapping[str, str]) -> str:
    """Return the page with every block between its two markers; what stands there goes."""
    for name, text in blocks.items():
        begin, end = f"<!-- {name} -->\n", f"<!-- end of {name} -->\n"
        before, begun, rest = page.partition(begin)
        _, ended, after = rest.partition(end)
        if not (begun and ended):
            raise ValueError(f"the page must have two lines, {begin.strip()} and then {end.strip()}, but has not")
        page = f"{before}{begin}\n{text}\n\n{end}{after}"
    return page


if __name__ == "__main__":
    main()
