"""Steps that neural methods share: an encoder from settings, sizes chosen by the data, training, checked restoring."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, TypeVar

import numpy as np
import torch
from jaxtyping import Float
from scipy.sparse import csr_array
from torch import Tensor, nn

from laconic.config import C
from laconic.data.dataset import Dataset, Rows
from laconic.data.tokenizer import padded
from laconic.data.vectors import permuted
from laconic.errors import ConfigError, DataError, ModelError
from laconic.evaluation.evaluate import batches
from laconic.methods.config import (
    TRANSFORMER,
    UNORDERED,
    EncoderConfig,
    Encoding,
    MethodConfig,
    PretrainedConfig,
    WordStart,
)
from laconic.methods.result import Trained
from laconic.models.clustering import Clustering, LabelTree, cluster_labels
from laconic.models.encoders import ENCODERS, Encoder, TransformerEncoder, WordEncoder
from laconic.models.rankers import Ranker
from laconic.training.loop import TrainState
from laconic.training.run import Run
from laconic.types import Tokens

R = TypeVar("R", bound=nn.Module)
_AT_ONCE = 4096  # texts encoded at a time


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """Draw random numbers by this seed inside the block; the caller's random state is restored after it."""
    with torch.random.fork_rng([]):
        torch.manual_seed(seed)
        yield


def frequencies(data: Dataset) -> Float[Tensor, "labels"]:
    """Return the fraction of texts that have each label."""
    return torch.from_numpy(data.label_counts / len(data))


def clusters_of_labels(data: Dataset, count: int, clustering: Clustering, seed: int) -> LabelTree:
    """Cluster the labels; `seed` is for a clustering that has none of its own."""
    return cluster_labels(data, count, clustering, seed if clustering.seed < 0 else clustering.seed)


def remember_tree(run: Run, name: str, make: Callable[[], LabelTree]) -> LabelTree:
    """Return the tree of `make`: computed once, and read from the run's folder when the run is resumed."""

    def tensors() -> dict[str, Tensor]:
        tree = make()
        return {"order": tree.order, "starts": tree.starts}

    tree = LabelTree(**run.remember(name, tensors))
    try:
        tree.check()  # a run's files may be forged, and loops follow these numbers
    except ModelError as error:
        raise ValueError(f"{name}: {error}") from None  # which the run explains by its files
    return tree


def build_encoder(config: Encoding, num_ids: int, **more: Any) -> Encoder:
    """Build an encoder for inputs of `num_ids` tokens or features; `more` is passed to the inception encoder alone."""
    if isinstance(config, EncoderConfig) and config.encoder == TRANSFORMER:
        return build_transformer(config, num_ids)
    more = {"attention": config.attention, **more} if config.encoder == "inception" else {}
    return ENCODERS[config.encoder](
        num_ids=num_ids, length=config.length, embedding=config.embedding, dropout=config.dropout, **more
    )


def build_transformer(config: PretrainedConfig, num_ids: int) -> TransformerEncoder:
    """Build the transformer of which a config has the sizes."""
    own = config.transformer
    sizes = {"layers": own.layers, "heads": own.heads, "inner": own.inner}
    return TransformerEncoder(num_ids=num_ids, length=config.length, embedding=config.embedding, **sizes)


def sizes_from(tensors: Mapping[str, Tensor], config: C) -> tuple[C, int]:
    """Return the config with the embedding width of a model's tensors, and the width of its inputs."""
    if "encoder.linear.weight" in tensors and "encoder.embedding.weight" not in tensors:  # dense features
        embedding, num_ids = tensors["encoder.linear.weight"].shape
    else:
        num_ids, embedding = tensors["encoder.embedding.weight"].shape
    return replace(config, embedding=embedding), num_ids


def start_encoder(encoder: Encoder, config: WordStart, data: Dataset) -> None:
    """Initialise the encoder with the data's word vectors, if there are any, permuted where the config says so.

    A transformer takes the weights of the data's pre-trained one.
    """
    if isinstance(encoder, TransformerEncoder) and data.pretrained is not None:
        encoder.load(data.pretrained.weights)
    if data.word_vectors is None:
        return
    assert isinstance(encoder, WordEncoder)
    vectors = data.word_vectors.start(config.embedding, config.seed)
    if config.permutation:
        vectors = permuted(vectors, config.permutation)
    encoder.start_from(torch.from_numpy(vectors))


def usual_length(data: Dataset, config: Encoding, method: str) -> int:
    """Return the 99.5 % quantile of words per text; refuse data whose inputs do not suit the encoder."""
    if not isinstance(data.inputs, csr_array):
        if config.encoder != "dense":
            raise DataError(
                f"{method} with the encoder {config.encoder} reads words, but this data has dense features; "
                "--encoder dense or --method nearest would work"
            )
        return 0
    if config.encoder == "dense":
        raise DataError(f"{method} with the encoder dense reads dense features, but this data has words or sparse ones")
    if not data.ordered and config.encoder not in UNORDERED:
        raise DataError(
            f"{method} with the encoder {config.encoder} reads words in their order, but this data has features "
            f"without any; --encoder {UNORDERED[0]} or --method nearest would work"
        )
    most = data.inputs.shape[1] if data.pretrained is None else data.pretrained.positions
    return min(usual_words(data.inputs), most)


def usual_words(rows: csr_array) -> int:
    """Return the 99.5 % quantile of words per text."""
    return int(np.quantile(np.diff(rows.indptr), 0.995, method="inverted_cdf"))


def choose_length(length: int, usual: int, *, encoder: str) -> int:
    """Choose how many words to read: all of a text without order (it may have many sub-words), else 32 at most.

    A transformer reads 128 pieces of words at most.
    """
    most = 4096 if encoder in UNORDERED else 128 if encoder == TRANSFORMER else 32
    return length or int(np.clip(usual, 4, most))


def choose_epochs(epochs: int, texts: int, fraction: float = 1.0) -> int:
    """Choose more epochs for fewer texts: from 12 for half a million and more to 100, times `fraction`."""
    return epochs or round(fraction * np.clip(42 * (45_000 / max(texts, 1)) ** 0.5, 12, 100))


def choose_batch_size(batch_size: int, texts: int, usual: int) -> int:
    return batch_size or int(np.clip(2 ** int(np.log2(max(texts / 16, 1))), 8, usual))


def train_and_refit(
    fit: Callable[..., tuple[Ranker, TrainState]], data: Dataset, config: MethodConfig, run: Run
) -> Trained:
    """Train with a validation split that chooses the epoch; then, with `refit`, once more on all of the data.

    `fit` takes a stage's name, texts to learn from, held-out texts, config, run, and `last_epoch`, when to stop.
    """
    learn, held = data.split(config.validation, config.seed)
    ranker, state = fit("train", learn, held, config, run)
    if not (config.refit and len(held)):
        return Trained(ranker, config, {"training": {"best_epoch": state.best_epoch, "epochs": state.history}})
    chosen, before, unrefitted = state.best_epoch, state.history, ranker.cpu()
    ranker, state = fit("refit", data.extended(), held.rows(np.arange(0)), config, run, last_epoch=chosen)
    facts = {"best_epoch": chosen, "epochs": state.history, "before_refit": before}
    return Trained(ranker, config, {"training": facts}, calibration_ranker=unrefitted.to(run.device))


def restore_module(
    method: str, make: Callable[[], R], tensors: Mapping[str, Tensor], may_be_empty: Collection[str] = ()
) -> R:
    """Return the module of `make` (called on the meta device) with these tensors.

    Refuse tensors that are missing, too many, of another shape or type, or not finite.
    """
    try:
        if not all(tensor.numel() for name, tensor in tensors.items() if name not in may_be_empty):
            raise ValueError("a tensor is empty")
        with torch.device("meta"):
            ranker = make()
        expected = {name: tensor.dtype for name, tensor in ranker.state_dict().items()}
        ranker.load_state_dict(dict(tensors), assign=True)
        _check_tensors({name: tensors[name] for name in expected}, expected)  # loading has dropped or refused others
    except (KeyError, ValueError, IndexError, RuntimeError, ConfigError) as error:
        raise ModelError(f"the model's tensors are not those of {method}: {' '.join(str(error).split())}") from None
    return ranker.eval()


@torch.no_grad()
def encoded(encoder: Encoder, rows: Rows, device: torch.device) -> Float[Tensor, "rows dim"]:
    """Return the vectors of inputs, some at a time; the encoder is on that device."""
    parts = [encoder(inputs).float() for _, inputs in batches(rows, device, _AT_ONCE)]
    return torch.cat([torch.zeros(0, encoder.dim, device=device), *parts])


def tensors_under(tensors: Mapping[str, Tensor], prefix: str) -> dict[str, Tensor]:
    """Return the tensors whose names have this prefix, without it."""
    return {name.removeprefix(prefix): tensor for name, tensor in tensors.items() if name.startswith(prefix)}


def _check_tensors(tensors: Mapping[str, Tensor], types: Mapping[str, torch.dtype]) -> None:
    for name, tensor in tensors.items():
        if tensor.dtype != types[name]:
            raise ValueError(f"{name} is {tensor.dtype}, where {types[name]} is needed")
        if not tensor.sum().isfinite():  # one pass without a copy: a sum is not finite where any value is not
            raise ValueError(f"{name} has numbers that are not finite")


def label_tokens(data: Dataset, length: int) -> Tokens:
    """Return the texts of all labels, each cut at that many words; the data has label texts."""
    assert data.label_inputs is not None
    longest = max(1, int(np.diff(data.label_inputs.indptr).max(initial=1)))
    return Tokens(*padded(data.label_inputs, min(longest, length)))
