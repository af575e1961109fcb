"""The verb `distill-vectors`: make word vectors of a pre-trained transformer."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from laconic.cli.options import DATA, MODEL, ColumnNames, Device, Separator, err, out, read_corpus
from laconic.cli.progress import waiting
from laconic.cli.verb import argument, command, option
from laconic.units import counted

verbs = typer.Typer()


@command(
    verbs,
    "distill-vectors",
    group="Train and use",
    example="laconic distill-vectors MiniLM --words shop.csv --out words.vec",
)
def distill_vectors(
    encoder: Annotated[Path, argument("FOLDER", "The folder of a pre-trained transformer, as for train --encoder.")],
    words: Annotated[
        str, option(DATA, "--words DATA", "Data whose words get vectors, in any format that train reads.")
    ],
    to: Annotated[Path, option(MODEL, "--out FILE", "Write the vectors here, in fastText's text form.")],
    dim: Annotated[
        int, option(MODEL, "--dim N", "Numbers of a vector: best as many as the model's embedding has.", min=1)
    ] = 256,
    columns: ColumnNames = None,
    separator: Separator = None,
    device: Device = "auto",
) -> None:
    """Make vectors of the data's words from a transformer, to start a model from that runs none.

    The vectors are used by `laconic train --set vectors=FILE`.
    """
    from laconic.data.encoder_folder import read_pretrained
    from laconic.data.vectors import write_vectors
    from laconic.methods.word_vectors import distilled_vectors, words_of
    from laconic.training.run import device_named

    found = read_pretrained(encoder)
    vocabulary = words_of(read_corpus(words, columns, separator))
    with waiting(err, "encoding words"):
        vectors = distilled_vectors(found, vocabulary.words, dim, device_named(device))
    write_vectors(to, vocabulary.words, vectors)
    out.print(
        f"{to}: {counted(len(vectors), 'word')}, vectors of {counted(vectors.shape[1], 'number')}", soft_wrap=True
    )
