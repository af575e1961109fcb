"""What the neural methods share: settings within bounds, an encoder from settings, sizes that the data decides, tensors
that are looked at before they are used."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import field, make_dataclass, replace
from typing import Any, Protocol, TypeVar, runtime_checkable

import numpy as np
import torch
from scipy.sparse import csr_array
from torch import Tensor, nn

from laconic.data.dataset import Dataset
from laconic.data.vectors import permuted
from laconic.data.vocabulary import VocabularyConfig
from laconic.errors import ConfigError, DataError, ModelError
from laconic.methods.result import Trained
from laconic.models.encoders import ENCODERS, Encoder, WordEncoder
from laconic.models.rankers import Ranker
from laconic.training.loop import TrainState
from laconic.training.run import Run

PRECISIONS = {"fp32": torch.float32, "bf16": torch.bfloat16}
BOUNDS: dict[str, tuple[int | float, int | float]] = {
    "epochs": (0, 100_000),
    "batch_size": (0, 1_000_000),
    "learning_rate": (1e-9, 100),
    "seed": (0, 1 << 40),
    "embedding": (8, 4096),
    "length": (0, 4096),
    "validation": (0, 0.9),
    "dropout": (0, 0.99),
    "classifier_dropout": (0, 0.99),
}
UNORDERED = ("bag", "mlp")  # encoders that do not ask for the order of words

R = TypeVar("R", bound=nn.Module)
C = TypeVar("C")


@runtime_checkable
class WordStart(Protocol):
    """The settings of word vectors to start from."""

    @property
    def embedding(self) -> int: ...
    @property
    def permutation(self) -> int: ...
    @property
    def seed(self) -> int: ...


@runtime_checkable
class Encoding(WordStart, Protocol):
    """The settings of an encoder, as most neural methods have them."""

    @property
    def encoder(self) -> str: ...
    @property
    def attention(self) -> bool: ...
    @property
    def length(self) -> int: ...
    @property
    def dropout(self) -> float: ...


def check_within(config: Any, bounds: Mapping[str, tuple[int | float, int | float]]) -> None:
    """Raises an error for the first setting that is outside its bounds."""
    for name, (low, high) in bounds.items():
        if not low <= getattr(config, name) <= high:
            raise ConfigError(f"{name} must be {low} to {high}, but is {getattr(config, name)}")


def check_known(config: Any, known: Mapping[str, Any]) -> None:
    """Raises an error for the first setting that is none of its known names."""
    for name, names in known.items():
        if getattr(config, name) not in names:
            raise ConfigError(f"{name} must be {' or '.join(names)}, but is {getattr(config, name)!r}")


def check_subwords(encoder: str, vocabulary: VocabularyConfig) -> None:
    """Sub-words have no reading order, so only a bag may read them."""
    if vocabulary.subwords and encoder not in UNORDERED:
        raise ConfigError(
            f"vocabulary.subwords must be 0 for the encoder {encoder}, which reads words in their order, but is "
            f"{vocabulary.subwords}; --encoder {UNORDERED[0]} reads sub-words"
        )


def build_encoder(config: Encoding, num_ids: int, **more: Any) -> Encoder:
    """`num_ids` is how wide the inputs are: tokens or features. `more` goes to InceptionXML's own encoder alone."""
    more = {"attention": config.attention, **more} if config.encoder == "inception" else {}
    return ENCODERS[config.encoder](
        num_ids=num_ids, length=config.length, embedding=config.embedding, dropout=config.dropout, **more
    )


def sizes_in(config: C, tensors: Mapping[str, Tensor]) -> tuple[C, int]:
    """The config with the embedding's width, and how wide inputs are, as a model's tensors have them."""
    if "encoder.linear.weight" in tensors and "encoder.embedding.weight" not in tensors:  # dense features
        embedding, num_ids = tensors["encoder.linear.weight"].shape
    else:
        num_ids, embedding = tensors["encoder.embedding.weight"].shape
    return replace(config, embedding=embedding), num_ids  # type: ignore[type-var]


def start_encoder(encoder: Encoder, config: WordStart, data: Dataset) -> None:
    """Begins with the word vectors that came with the data, if any; their dimensions in another order if wanted."""
    if data.word_vectors is None:
        return
    assert isinstance(encoder, WordEncoder)
    vectors = data.word_vectors.start(config.embedding, config.seed)
    if config.permutation:
        vectors = permuted(vectors, config.permutation)
    encoder.start_from(torch.from_numpy(vectors))


def usual_length(data: Dataset, config: Encoding, method: str) -> int:
    """How many words 99.5 % of texts do not exceed; data without an order of words is refused where it matters."""
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
    return usual_words(data.inputs)


def usual_words(rows: csr_array) -> int:
    """How many words 99.5 % of texts do not exceed."""
    return int(np.quantile(np.diff(rows.indptr), 0.995, method="inverted_cdf"))


def sized_length(length: int, usual: int, *, bag: bool) -> int:
    """A bag reads all of a text, which may have many sub-words or features; others the first 32 words."""
    return length or int(np.clip(usual, 4, 4096 if bag else 32))


def sized_epochs(epochs: int, texts: int, share: float = 1.0) -> int:
    """Few texts want many epochs: from 12 for half a million and more to 100, or that share of it."""
    return epochs or round(share * np.clip(42 * (45_000 / max(texts, 1)) ** 0.5, 12, 100))


def sized_batch(batch_size: int, texts: int, usual: int) -> int:
    return batch_size or int(np.clip(2 ** int(np.log2(max(texts / 16, 1))), 8, usual))


def trained_by(fitted: Callable[..., tuple[Ranker, TrainState]], data: Dataset, config: Any, run: Run) -> Trained:
    """Trains on all but a validation split, which chooses the epoch; once more on all of the data where that is wanted.

    `fitted` takes a stage's name, the data to learn from and to choose by, config, run, and when to stop (last_epoch).
    """
    learn, held = data.split(config.validation, config.seed)
    ranker, state = fitted("train", learn, held, config, run)
    if not (config.refit and len(held)):
        return Trained(ranker, config, {"training": {"best_epoch": state.best_epoch, "epochs": state.history}})
    chosen, before = state.best_epoch, state.history
    ranker, state = fitted("refit", data.extended(), held.rows(np.arange(0)), config, run, last_epoch=chosen)
    facts = {"best_epoch": chosen, "epochs": state.history, "before_refit": before}
    return Trained(ranker, config, {"training": facts})


def filled(method: str, make: Callable[[], R], tensors: Mapping[str, Tensor], may_be_empty: Collection[str] = ()) -> R:
    """A ranker with these tensors; what is missing, too much, of another shape or type, or not finite is refused.

    `make` is called where it allocates nothing.
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


def _check_tensors(tensors: Mapping[str, Tensor], types: Mapping[str, torch.dtype]) -> None:
    for name, tensor in tensors.items():
        if tensor.dtype != types[name]:
            raise ValueError(f"{name} is {tensor.dtype}, where {types[name]} is needed")
        if not tensor.sum().isfinite():  # one pass without a copy; a sum is not finite where any number is not
            raise ValueError(f"{name} has numbers that are not finite")


_GROUPED: dict[tuple[type[Any], str], type[Any]] = {}


def config_with(kind: type[Any], name: str, group: Any) -> type[Any]:
    """A method's config with one group of settings more; of each kind there is one, so that equal configs are equal."""
    if (kind, name) not in _GROUPED:
        more = [(name, type(group), field(default=group))]
        _GROUPED[kind, name] = make_dataclass(kind.__name__, more, bases=(kind,), frozen=True, kw_only=True)
    return _GROUPED[kind, name]
