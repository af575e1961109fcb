"""Read static vectors of pieces of words: a folder with model.safetensors and tokenizer.json, as model2vec writes it.

The file of tensors has one matrix, a row for each piece; `weights`, a factor for each row, and `mapping`, the row of
each piece, may be beside it. A word's vector is the mean of those of its pieces.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

import numpy as np
from jaxtyping import Float, Int

from laconic.data.bert_words import bert_words
from laconic.data.encoder_folder import json_file, piece_tokenizer
from laconic.errors import ConfigError, install_hint

Cut = Callable[[Sequence[str]], list[list[int]]]  # words to the numbers of their pieces
_BESIDE = ("weights", "mapping")


def read_vector_folder(folder: Path, words: Sequence[str]) -> Float[np.ndarray, "words dim"]:
    """Return the vectors of words; zeros for a word of which no piece is known."""
    table, cut = _table(folder / "model.safetensors"), _cutter(folder / "tokenizer.json")
    numbers = cut(words)
    lengths = np.array([len(one) for one in numbers], dtype=np.int64)
    flat = np.array([number for one in numbers for number in one], dtype=np.int64)
    if len(flat) and flat.max() >= len(table):
        raise ConfigError(
            f"{folder}: {len(table):,} vectors, but tokenizer.json has more pieces; fetch the folder again"
        )
    sums = np.zeros((len(words), table.shape[1]), dtype=np.float32)
    np.add.at(sums, np.repeat(np.arange(len(words)), lengths), table[flat])
    return sums / np.maximum(lengths, 1)[:, None].astype(np.float32)


def _table(path: Path) -> Float[np.ndarray, "pieces dim"]:
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    try:
        tensors = {name: tensor.float().numpy() for name, tensor in load_file(path).items()}
    except (OSError, SafetensorError) as error:
        raise ConfigError(f"{path}: cannot be read ({error}); fetch the folder again") from None
    matrices = [tensor for name, tensor in tensors.items() if tensor.ndim == 2 and name not in _BESIDE]
    if len(matrices) != 1 or not np.isfinite(matrices[0]).all():
        raise ConfigError(
            f"{path}: static vectors are one matrix of finite numbers, but it has {len(matrices)}; of a transformer, "
            "`laconic distill-vectors` makes vectors of words"
        )
    table: Float[np.ndarray, "pieces dim"] = matrices[0]
    if "mapping" in tensors:
        table = table[_rows(tensors["mapping"], len(table), path)]
    return table * tensors["weights"].reshape(-1, 1) if "weights" in tensors else table


def _rows(mapping: Float[np.ndarray, "pieces"], rows: int, path: Path) -> Int[np.ndarray, "pieces"]:
    numbers = mapping.astype(np.int64)
    if mapping.ndim != 1 or (len(numbers) and not 0 <= numbers.min() <= numbers.max() < rows):
        raise ConfigError(
            f"{path}: mapping must be row numbers from 0 to {rows - 1}, but is not; fetch the folder again"
        )
    return numbers


def _cutter(path: Path) -> Cut:
    """Return what cuts words into numbers of pieces: our own code for WordPiece, else the package `tokenizers`."""
    model = json_file(path).get("model")
    with suppress(ConfigError):
        return _word_pieces(path)
    try:
        from tokenizers import Tokenizer
    except ModuleNotFoundError:
        raise ConfigError(
            f"{path}: a tokenizer other than BERT's needs tokenizers, which is not installed; "
            f"{install_hint('transformers')}"
        ) from None
    own = Tokenizer.from_str(path.read_text(encoding="utf-8"))
    own.no_padding()
    unknown = own.token_to_id(str(model.get("unk_token"))) if isinstance(model, dict) else None

    def cut(words: Sequence[str]) -> list[list[int]]:
        found = own.encode_batch(list(words), add_special_tokens=False)
        return [[number for number in one.ids if number != unknown] for one in found]

    return cut


def _word_pieces(path: Path) -> Cut:
    words, pieces, rules = piece_tokenizer(path)
    number = {word: at for at, word in enumerate(words)}

    def cut(texts: Sequence[str]) -> list[list[int]]:
        split = (
            [pieces.pieces(word, number) for word in bert_words(text, cased=rules == "bert-cased")] for text in texts
        )
        return [[number[piece] for one in parts for piece in one if piece in number] for parts in split]

    return cut
