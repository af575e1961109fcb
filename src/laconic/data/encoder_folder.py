"""Read a pre-trained encoder: a folder in Hugging Face's form, of a transformer like BERT with WordPiece tokens.

model.safetensors   the weights, in float32, float16 or bfloat16
config.json         sizes and the kind of the transformer
tokenizer.json      the vocabulary of pieces and the rules by which texts are split

Nothing is ever downloaded: whoever names a folder has it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float

from laconic.data.pieces import WordPiece
from laconic.errors import ConfigError
from laconic.types import FIRST_WORD, PAD, UNKNOWN

FILES = ("model.safetensors", "config.json", "tokenizer.json")
_LAYER = {  # our names of a layer's parts, and BERT's
    "attended": "attention.output.dense",
    "attention_norm": "attention.output.LayerNorm",
    "first": "intermediate.dense",
    "second": "output.dense",
    "norm": "output.LayerNorm",
}
_SIZES = ("num_hidden_layers", "num_attention_heads", "intermediate_size", "hidden_size", "max_position_embeddings")
_FIXED = {"model_type": "bert", "hidden_act": "gelu", "position_embedding_type": "absolute", "layer_norm_eps": 1e-12}


@dataclass(frozen=True, kw_only=True, eq=False)
class Pretrained:
    """A pre-trained encoder: sizes, weights by the names of models/encoders/transformer.py, and how it reads texts."""

    layers: int
    heads: int
    inner: int
    dim: int
    positions: int
    weights: Mapping[str, Float[np.ndarray, "..."]]
    words: list[str]  # the pieces; the token id of piece p is p + FIRST_WORD
    pieces: WordPiece
    rules: str  # of the splitter
    digest: str  # of the file of weights


def is_folder_name(encoder: str) -> bool:
    """Tell whether the name of an encoder is meant as a folder: it is one, or looks like a path."""
    return bool(encoder) and (Path(encoder).exists() or any(sign in encoder for sign in "/\\.~"))


def read_pretrained(folder: Path) -> Pretrained:
    """Read a pre-trained encoder; refuse what is not of the form that this version reads."""
    missing = [name for name in FILES if not (folder / name).is_file()]
    if missing:
        raise ConfigError(
            f"{folder}: a pre-trained encoder is a folder with {', '.join(FILES)}, but {', '.join(missing)} "
            f"{'is' if len(missing) == 1 else 'are'} not there; laconic downloads nothing, so fetch the folder first"
        )
    config, tokenizer = json_file(folder / "config.json"), json_file(folder / "tokenizer.json")
    layers, heads, inner, dim, positions = _sizes(config, folder / "config.json")
    words, pieces, rules = piece_tokenizer(folder / "tokenizer.json")
    if not {pieces.first, pieces.last} <= {*words}:
        raise ConfigError(
            f"{folder / 'tokenizer.json'}: its post_processor must put one token of the vocabulary before a text and "
            "one after it, but does not"
        )
    path = folder / "model.safetensors"
    return Pretrained(
        layers=layers,
        heads=heads,
        inner=inner,
        dim=dim,
        positions=positions,
        weights=_weights(path, layers, len(words), _unknown(tokenizer)),
        words=words,
        pieces=pieces,
        rules=rules,
        digest=hashlib.sha256(path.read_bytes()).hexdigest(),
    )


def weights_and_width(folder: Path) -> tuple[int, int]:
    """Return how many weights of a pre-trained encoder each token is multiplied with, and the width of its vectors.

    Only config.json is read.
    """
    path = folder / "config.json"
    layers, _, inner, dim, _ = _sizes(json_file(path), path)
    return layers * dim * (4 * dim + 2 * inner), dim


def json_file(path: Path) -> dict[str, Any]:
    """Read a JSON file that holds an object."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise ConfigError(f"{path}: cannot be read as JSON ({error}); fetch the folder again") from None
    if not isinstance(found, dict):
        raise ConfigError(f"{path}: an object is needed, but it holds {type(found).__name__}; fetch the folder again")
    return found


def _sizes(config: Mapping[str, Any], path: Path) -> tuple[int, ...]:
    for name, wanted in _FIXED.items():
        if config.get(name, wanted) != wanted:
            raise ConfigError(
                f"{path}: {name} must be {wanted!r}, but is {config[name]!r}; transformers of BERT's form are read, "
                "such as all-MiniLM-L6-v2 or bge-small"
            )
    sizes = tuple(config.get(name) for name in _SIZES)
    for name, size in zip(_SIZES, sizes, strict=True):
        if type(size) is not int or not 1 <= size <= 1 << 16:
            raise ConfigError(f"{path}: {name} must be an integer from 1 to 65,536, but is {size!r}")
    if config["hidden_size"] % config["num_attention_heads"]:
        raise ConfigError(f"{path}: hidden_size must be a multiple of num_attention_heads, but is not")
    return sizes  # type: ignore[return-value]  # the loop has checked them


def piece_tokenizer(path: Path) -> tuple[list[str], WordPiece, str]:
    """Read the pieces by number, how words are cut into them, and the rules of the splitter."""
    tokenizer = json_file(path)
    match tokenizer:
        case {
            "model": {"type": "WordPiece", "vocab": dict(vocabulary), **model},
            "normalizer": {"type": "BertNormalizer", "lowercase": bool(lower), **normalizer},
            "pre_tokenizer": {"type": "BertPreTokenizer"},
            "post_processor": template,
        } if normalizer.get("strip_accents") in (None, lower):
            first, last = _ends(template)
            words = sorted(vocabulary, key=vocabulary.__getitem__)
            if [vocabulary[word] for word in words] != list(range(len(words))):
                raise ConfigError(f"{path}: the vocabulary's numbers must be 0, 1, 2 and so on; fetch the folder again")
            prefix = str(model.get("continuing_subword_prefix", "##"))
            longest = int(str(model.get("max_input_chars_per_word", 100)))
            return words, WordPiece(prefix=prefix, first=first, last=last, longest=longest), _rules(lower=lower)
    raise ConfigError(
        f"{path}: a WordPiece tokenizer with BERT's normalizer and pre-tokenizer is needed, but this one is "
        f"{_kind(tokenizer)}; encoders with other tokenizers are not read"
    )


def _rules(*, lower: bool) -> str:
    return "bert" if lower else "bert-cased"


def _kind(tokenizer: Mapping[str, Any]) -> str:
    parts = (tokenizer.get(name) for name in ("model", "normalizer", "pre_tokenizer"))
    return ", ".join(str(part.get("type")) if isinstance(part, dict) else "none" for part in parts)


def _ends(template: Any) -> tuple[str, str]:
    """Return the tokens before and after a text; empty where there are not just two."""
    match template:
        case {"single": [{"SpecialToken": {"id": str(first)}}, {"Sequence": _}, {"SpecialToken": {"id": str(last)}}]}:
            return first, last
        case {"type": "BertProcessing", "cls": [str(first), *_], "sep": [str(last), *_]}:
            return first, last
    return "", ""


def _unknown(tokenizer: Mapping[str, Any]) -> int:
    model = tokenizer["model"]
    return int(model["vocab"].get(model.get("unk_token", "[UNK]"), 0))


def _weights(path: Path, layers: int, pieces: int, unknown: int) -> dict[str, Float[np.ndarray, "..."]]:
    """Return the weights by our names: types of tokens are part of positions, and a row of words stands for each id."""
    bert = _Tensors(path)
    table, positions = bert["embeddings.word_embeddings.weight"], bert["embeddings.position_embeddings.weight"]
    if len(table) < pieces:
        raise ConfigError(f"{path}: {len(table):,} word embeddings, but tokenizer.json has {pieces:,} pieces")
    words = np.zeros((FIRST_WORD + pieces, table.shape[1]), dtype=np.float32)
    words[FIRST_WORD:] = table[:pieces]
    words[PAD], words[UNKNOWN] = 0, table[unknown]
    weights = {
        "embedding.weight": words,
        "positions": positions + bert["embeddings.token_type_embeddings.weight"][0],
        **{f"norm.{one}": bert[f"embeddings.LayerNorm.{one}"] for one in ("weight", "bias")},
    }
    for layer in range(layers):
        theirs = f"encoder.layer.{layer}."
        for one in ("weight", "bias"):
            parts = [bert[f"{theirs}attention.self.{part}.{one}"] for part in ("query", "key", "value")]
            weights[f"layers.{layer}.attention.{one}"] = np.concatenate(parts)
            weights |= {f"layers.{layer}.{own}.{one}": bert[f"{theirs}{name}.{one}"] for own, name in _LAYER.items()}
    return weights


class _Tensors:
    """The tensors of a file as float32, by name, with or without the prefix of a larger model."""

    def __init__(self, path: Path) -> None:
        from safetensors import SafetensorError
        from safetensors.torch import load_file

        self.path = path
        try:
            tensors = load_file(path)
        except (OSError, SafetensorError) as error:
            raise ConfigError(f"{path}: cannot be read ({error}); fetch the folder again") from None
        self.tensors = {name.removeprefix("bert."): tensor for name, tensor in tensors.items()}

    def __getitem__(self, name: str) -> Float[np.ndarray, "..."]:
        if name not in self.tensors:
            raise ConfigError(f"{self.path}: there is no tensor {name}, which a transformer of BERT's form has")
        values: Float[np.ndarray, "..."] = self.tensors[name].float().numpy()
        if not np.isfinite(values).all():
            raise ConfigError(f"{self.path}: {name} has numbers that are not finite; fetch the folder again")
        return values
