"""The verb `export`: write a model in a form that other programs run."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from laconic.cli.options import DATA, MODEL, ColumnNames, ModelFolder, Separator, err, out, read_corpus
from laconic.cli.progress import waiting
from laconic.cli.verb import command, option
from laconic.errors import ModelError
from laconic.units import counted

if TYPE_CHECKING:
    from laconic.storage.model_folder import SavedModel

verbs = typer.Typer()
_COMPARED = 5000  # texts
_LARGEST = 1e-2  # difference of a number that rounding may explain


@command(verbs, "export", group="Change", example="laconic export model --onnx model.onnx --data shop.csv")
def export(
    model: ModelFolder,
    onnx: Annotated[Path, option(MODEL, "--onnx FILE", "Write an ONNX graph here.")],
    vectors: Annotated[
        bool, option(MODEL, "--vectors", "Write the encoder alone, whose output is the vectors of texts.")
    ] = False,
    data: Annotated[
        str, option(DATA, "--data DATA", "Texts on which answers are compared. Default: the labels' own names.")
    ] = "",
    columns: ColumnNames = None,
    separator: Separator = None,
) -> None:
    """Write a model that scores every label as an ONNX graph, and compare its answers with the model's.

    The graph reads token ids and weights, not texts; `docs/reference/formats.md` describes them.
    """
    import onnxruntime  # noqa: F401 - what is missing is reported before any work is done
    import onnxscript  # noqa: F401

    from laconic.export.onnx import compare, write_onnx
    from laconic.storage.model_folder import read_model
    from laconic.units import human_bytes

    whole = read_model(model)
    texts = _texts(whole, data, columns, separator)
    with waiting(err, "writing the graph"):
        graph = write_onnx(whole, onnx, vectors=vectors)
    with waiting(err, "comparing the graph with the model"):
        found = compare(onnx, graph, whole, texts)
    if found.largest > _LARGEST:
        raise ModelError(
            f"{onnx}: the graph's numbers differ from the model's by up to {found.largest:.2g}; do not use it"
        )
    what = "Vectors" if vectors else "The best five labels"
    same = f"{what} are the model's for {found.equal:,} of {counted(found.texts, 'text')}"
    out.print(f"{onnx}: {human_bytes(onnx.stat().st_size)}. {same}; numbers differ by {found.largest:.1g} at most.")


def _texts(model: SavedModel, data: str, columns: list[str] | None, separator: str | None) -> list[str]:
    """Return texts to compare by: of data, its test split or the first it has, or else the labels' names."""
    if not data:
        return list(model.label_names[:_COMPARED])
    corpus = read_corpus(data, columns, separator)
    split = corpus.splits.get("test") or next(iter(corpus.splits.values()))
    return list((split.texts or ())[:_COMPARED])
