"""A new method in one file: a config, `train` and `restore`. Runs on the first texts of the bundled data.

Texts are sums of random word vectors, and a label's row is the mean of its texts. CONTRIBUTING.md says which two lines
make it a method of the package.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from laconic.data.catalogue import BUNDLED
from laconic.data.dataset import Dataset
from laconic.data.prepare import prepare
from laconic.data.sources import read
from laconic.evaluation.evaluate import validation_figures
from laconic.methods.common import choose_length, usual_words
from laconic.methods.config import NeuralConfig
from laconic.methods.deepxml import encode_all
from laconic.methods.flat import restore_flat
from laconic.methods.result import Trained
from laconic.models.classifiers import LinearClassifier
from laconic.models.encoders import Encoder, SumEncoder
from laconic.models.rankers import FlatRanker
from laconic.training.run import Run


@dataclass(frozen=True, kw_only=True)
class Config(NeuralConfig):
    """Settings of label centroids; bounds and the choice of texts and words come with the base."""

    embedding: int = 512


def train(data: Dataset, config: Config, run: Run) -> Trained:
    length = config.length or choose_length(0, usual_words(data.inputs), ordered=False)
    with torch.random.fork_rng([]):
        torch.manual_seed(config.seed)
        encoder = SumEncoder(num_ids=data.inputs.shape[1], length=length, embedding=config.embedding)
        nn.init.normal_(encoder.embedding.weight)
    vectors = functional.normalize(encode_all(encoder, data.inputs, run.device), dim=1)
    classifier = LinearClassifier(encoder.dim, data.num_labels)
    means = functional.normalize(torch.from_numpy(data.labels.T @ vectors.numpy()), dim=1)
    classifier.weight = nn.Parameter(means)
    return Trained(FlatRanker(encoder, classifier).eval(), config)


def build(config: Config, num_ids: int, num_labels: int) -> tuple[Encoder, LinearClassifier]:
    encoder = SumEncoder(num_ids=num_ids, length=config.length or 4096, embedding=config.embedding)
    return encoder, LinearClassifier(encoder.dim, num_labels)


def restore(config: Config, tensors: Mapping[str, Tensor]) -> FlatRanker:
    return restore_flat("centroids", build, config, tensors)


config = Config()
data, tokenizer = prepare(read(str(BUNDLED["debian-related"])), config.text, config.vocabulary, with_label_texts=False)
learn, held = data.rows(np.arange(4000)).split(0.1, config.seed)
trained = train(learn, config, Run.unkept())
figures = validation_figures(trained.ranker, held)
print({name: round(figure, 1) for name, figure in figures.items()})

restored = restore(config, trained.ranker.state_dict())  # what a model folder keeps is enough
assert validation_figures(restored, held) == figures
