"""A pre-trained transformer as a channel of fusion: fine-tuned with a row for each label, beside the method itself.

It reads the pieces of the words that the other channels read, so that these keep whole words. What it learns is what
inceptionxml learns with such an encoder.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TypeVar

import numpy as np
import torch
from scipy.sparse import csr_array
from torch import Tensor

from laconic.data.dataset import Dataset
from laconic.data.encoder_folder import Pretrained
from laconic.data.label_texts import with_known_words
from laconic.data.word_pieces import WordPieces
from laconic.errors import ConfigError, ModelError
from laconic.methods import inceptionxml
from laconic.methods.common import restore_module, tensors_under
from laconic.methods.config import TRANSFORMER, EncoderChannel, MethodConfig, Transformer, WarmUp
from laconic.models.encoders import PieceEncoder, TransformerEncoder
from laconic.models.rankers import FlatRanker
from laconic.training.run import Run

C = TypeVar("C", bound=MethodConfig)
STAGE = "fusion-encoder"
_LARGE = 200_000  # texts; with more, larger batches take fewer steps
_WARM_UP_BATCH = 512


def channel_of(config: MethodConfig) -> EncoderChannel | None:
    """Return the settings of the channel, if there is one."""
    return None if config.fusion is None or not config.fusion.encoder.folder else config.fusion.encoder


def with_channel(config: C, encoder: Pretrained) -> C:
    """Return the settings with the sizes of the channel's encoder in place of its folder."""
    own = channel_of(config)
    assert config.fusion is not None
    assert own is not None
    sized = replace(
        own,
        folder=TRANSFORMER,
        layers=min(own.layers or encoder.layers, encoder.layers),
        heads=encoder.heads,
        inner=encoder.inner,
        embedding=encoder.dim,
        length=min(own.length, encoder.positions),
    )
    return replace(config, fusion=replace(config.fusion, encoder=sized))


def epochs_of(own: EncoderChannel, texts: int) -> int:
    """Return the epochs of the channel's training, fewer for more texts."""
    return own.epochs or int(np.clip(round(28 * (45_000 / texts) ** 0.6), 6, 40))


def train_channel(data: Dataset, config: MethodConfig, run: Run) -> FlatRanker | None:
    """Train the channel on the texts that the method learns from; None where there is none."""
    own, encoder = channel_of(config), data.pretrained
    if own is None:
        return None
    if encoder is None or data.words is None or not isinstance(data.inputs, csr_array):
        raise ConfigError("fusion.encoder reads texts, but this data has features; leave fusion.encoder out")
    table = WordPieces.of(data.words, encoder)
    pieces = _pieces_of(data, table, encoder)
    trained = inceptionxml.train(pieces, _method_config(config, own, pieces), run.part(STAGE)).ranker
    assert isinstance(trained, FlatRanker)
    assert isinstance(trained.encoder, TransformerEncoder)
    return FlatRanker(_over_words(table, trained.encoder).to(run.device), trained.classifier).eval()


def restore_channel(config: MethodConfig, tensors: Mapping[str, Tensor]) -> FlatRanker:
    """Restore the channel from its part of a fused model's tensors."""
    own = channel_of(config)
    if own is None:
        raise ModelError("the model has tensors of a transformer, but its settings have no fusion.encoder.folder")

    def make() -> FlatRanker:
        settings = _sized_config(own, tensors["encoder.transformer.positions"].shape[0])
        rows, ids = tensors["classifier.weight"].shape[0], tensors["encoder.transformer.embedding.weight"].shape[0]
        encoder, classifier = inceptionxml.build(settings, ids, rows)
        assert isinstance(encoder, TransformerEncoder)
        parts = [torch.empty_like(tensors[f"encoder.{name}"], device="meta") for name in ("starts", "pieces", "ends")]
        return FlatRanker(PieceEncoder(encoder, *parts), classifier)

    ranker = restore_module("fusion.encoder", make, tensors)
    _check_pieces(tensors_under(tensors, "encoder."))
    return ranker


def _pieces_of(data: Dataset, table: WordPieces, encoder: Pretrained) -> Dataset:
    """Return the data with pieces in place of words."""
    size = len(encoder.weights["embedding.weight"])
    assert isinstance(data.inputs, csr_array)
    held = data.validation
    return replace(
        data,
        inputs=table.cut(data.inputs, size),
        label_inputs=None if data.label_inputs is None else table.cut(data.label_inputs, size),
        words=encoder.words,
        word_vectors=None,
        validation=None if held is None else _pieces_of(held, table, encoder),
    )


def _method_config(config: MethodConfig, own: EncoderChannel, data: Dataset) -> inceptionxml.Config:
    """Return the settings of the channel's training; it holds out the texts that fusion's network learns from."""
    named = data.label_inputs is not None and bool(with_known_words(data.label_inputs).any())
    many = len(data) >= _LARGE
    return replace(
        _sized_config(own, own.length),
        epochs=epochs_of(own, len(data)),
        batch_size=own.batch_size or (512 if many else 0),
        learning_rate=own.row_rate,
        prior=True,  # or the first epochs learn little else than how frequent labels are (docs/log.md)
        validation=config.validation,
        seed=config.seed,
        warm_up=WarmUp(epochs=own.warm_up if named else 0, batch_size=min(_WARM_UP_BATCH, max(2, len(data) // 2))),
        row_start=own.row_start if named else 0.0,
    )


def _sized_config(own: EncoderChannel, length: int) -> inceptionxml.Config:
    sizes = {name: getattr(own, name) for name in ("learning_rate", "rising", "frozen", "layers", "heads", "inner")}
    return inceptionxml.Config(
        encoder=TRANSFORMER, embedding=own.embedding, length=length, transformer=Transformer(**sizes)
    )


def _over_words(table: WordPieces, encoder: TransformerEncoder) -> PieceEncoder:
    return PieceEncoder(encoder, *(torch.from_numpy(part) for part in table))


def _check_pieces(tensors: Mapping[str, Tensor]) -> None:
    """Refuse a table of pieces that would be read beyond its ends."""
    starts, known = tensors["starts"], len(tensors["transformer.embedding.weight"])
    lists = all(tensors[name].ndim == 1 and len(tensors[name]) > 0 for name in ("starts", "pieces", "ends"))
    rising = (
        lists and int(starts[0]) == 0 and int(starts[-1]) == len(tensors["pieces"]) and bool((starts.diff() >= 0).all())
    )
    numbers = torch.cat([tensors[name].flatten() for name in ("pieces", "ends")])
    if not rising or len(tensors["ends"]) != 2 or int(numbers.min()) < 0 or int(numbers.max()) >= known:
        raise ModelError("the model's table of word pieces does not fit its transformer; fetch the folder again")
