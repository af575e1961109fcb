"""A transformer of BERT's form with random weights, in a folder as Hugging Face's libraries write it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file

from tests.planted import SYLLABLES, words_of

SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]")
_WHOLE = [word for label in range(12) for word in words_of(label)]  # the others are cut into syllables
PIECES = (*SPECIAL, *SYLLABLES, *(f"##{one}" for one in SYLLABLES), "a", "##a", "##b", "!", "é", "日", *_WHOLE)
DIM, INNER, POSITIONS, LAYERS = 32, 48, 40, 2
CONFIG = {
    "model_type": "bert",
    "hidden_act": "gelu",
    "hidden_size": DIM,
    "intermediate_size": INNER,
    "layer_norm_eps": 1e-12,
    "max_position_embeddings": POSITIONS,
    "num_attention_heads": 4,
    "num_hidden_layers": LAYERS,
    "type_vocab_size": 2,
    "vocab_size": len(PIECES),
}


def tokenizer_json(*, lowercase: bool = True) -> dict[str, Any]:
    ends = ({"SpecialToken": {"id": one, "type_id": 0}} for one in ("[CLS]", "[SEP]"))
    first, last = ends
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [],
        "normalizer": {
            "type": "BertNormalizer",
            "clean_text": True,
            "handle_chinese_chars": True,
            "strip_accents": None,
            "lowercase": lowercase,
        },
        "pre_tokenizer": {"type": "BertPreTokenizer"},
        "post_processor": {
            "type": "TemplateProcessing",
            "single": [first, {"Sequence": {"id": "A", "type_id": 0}}, last],
            "pair": [first, {"Sequence": {"id": "A", "type_id": 0}}, last],
            "special_tokens": {
                one: {"id": one, "ids": [PIECES.index(one)], "tokens": [one]} for one in ("[CLS]", "[SEP]")
            },
        },
        "decoder": {"type": "WordPiece", "prefix": "##", "cleanup": True},
        "model": {
            "type": "WordPiece",
            "unk_token": "[UNK]",
            "continuing_subword_prefix": "##",
            "max_input_chars_per_word": 100,
            "vocab": {piece: number for number, piece in enumerate(PIECES)},
        },
    }


def tiny_tensors(seed: int = 0) -> dict[str, torch.Tensor]:
    """Random weights under the names of BERT's."""
    generator = torch.Generator().manual_seed(seed)
    shapes: dict[str, tuple[int, ...]] = {
        "embeddings.word_embeddings.weight": (len(PIECES), DIM),
        "embeddings.position_embeddings.weight": (POSITIONS, DIM),
        "embeddings.token_type_embeddings.weight": (2, DIM),
        "embeddings.LayerNorm.weight": (DIM,),
        "embeddings.LayerNorm.bias": (DIM,),
    }
    for layer in range(LAYERS):
        name = f"encoder.layer.{layer}."
        linear = {f"attention.self.{one}": (DIM, DIM) for one in ("query", "key", "value")}
        linear |= {
            "attention.output.dense": (DIM, DIM),
            "intermediate.dense": (INNER, DIM),
            "output.dense": (DIM, INNER),
        }
        shapes |= {f"{name}{one}.weight": shape for one, shape in linear.items()}
        shapes |= {f"{name}{one}.bias": shape[:1] for one, shape in linear.items()}
        norms = ("attention.output.LayerNorm", "output.LayerNorm")
        shapes |= {f"{name}{one}.{part}": (DIM,) for one in norms for part in ("weight", "bias")}
    scales = {name: 0.5 if "word_embeddings" in name else 0.1 for name in shapes}  # layers keep what words say
    tensors = {name: scales[name] * torch.randn(shape, generator=generator) for name, shape in shapes.items()}
    return {name: 1 + tensor if "LayerNorm.weight" in name else tensor for name, tensor in tensors.items()}


def tiny_transformer(folder: Path, *, seed: int = 0, config: dict[str, Any] | None = None) -> Path:
    """Write the folder; `config` replaces entries of config.json."""
    folder.mkdir(parents=True)
    save_file(tiny_tensors(seed), folder / "model.safetensors")
    (folder / "config.json").write_text(json.dumps({**CONFIG, **(config or {})}))
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer_json()))
    return folder
