"""A new encoder in one class, trained in DeepXML's four modules. Runs on the first texts of the bundled data."""

import numpy as np
import torch
from torch import nn
from torch.nn import functional

from laconic.data.catalogue import BUNDLED
from laconic.data.prepare import prepare
from laconic.data.sources import read
from laconic.data.text import Splitter
from laconic.data.vocabulary import VocabularyConfig
from laconic.evaluation.evaluate import validation_figures
from laconic.methods.deepxml import Parts, Plans, train
from laconic.models.clustering import Clustering, cluster_labels
from laconic.models.clustering.groups import of_tree
from laconic.models.encoders import WordEncoder
from laconic.models.layers import Transfer
from laconic.models.shortlisters.labels import NearestLabels, Nearness
from laconic.training.optimizer import Halving, Plan
from laconic.training.run import Run

SEED, DIM, LENGTH = 1, 64, 16


class PairsEncoder(WordEncoder):
    """The sum of a text's word vectors and of products of neighbouring words, such as "web server"."""

    def __init__(self, *, num_ids: int, length: int, embedding: int = DIM) -> None:
        super().__init__(num_ids=num_ids, length=length, embedding=embedding)
        self.dim = embedding
        self.pairs = nn.Linear(embedding, embedding, bias=False)
        self.start_from(nn.init.normal_(torch.empty(num_ids, embedding), std=0.1))

    def forward(self, inputs):
        ids, weights = self.cut(inputs)
        words = self.embedding(ids) * weights[:, :, None]
        pairs = self.pairs(words[:, :-1] * words[:, 1:])
        return functional.relu(words.sum(1) + pairs.sum(1))


torch.manual_seed(SEED)
data, tokenizer = prepare(read(str(BUNDLED["debian-related"])), Splitter(), VocabularyConfig(), with_label_texts=False)
learn, held = data.rows(np.arange(4000)).split(0.1, SEED)

parts = Parts(
    encoder=PairsEncoder(num_ids=data.inputs.shape[1], length=LENGTH),
    surrogate=lambda data: of_tree(cluster_labels(data, 256, Clustering(), SEED)),
    shortlister=lambda data, vectors, run: NearestLabels.of(vectors, data.labels, Nearness(size=100), SEED),
    transform=lambda: Transfer(DIM, dropout=0.2),
    random=50,
    length=LENGTH,
    seed=SEED,
    prior=True,
)
plans = Plans(
    surrogate=Plan(epochs=4, batch_size=128, learning_rate=0.02, schedule=Halving(after=0.7), lazy=True),
    extreme=Plan(epochs=3, batch_size=128, learning_rate=0.01, schedule=Halving(after=0.7), lazy=True),
)
learnt = train(learn, held, parts, plans, Run.unkept())

for epoch in learnt.extreme.history:
    print(f"epoch {epoch['epoch']}: {', '.join(f'{name} {x:.1f}' for name, x in epoch['figures'].items())}")
print({name: round(figure, 1) for name, figure in validation_figures(learnt.ranker, held).items()})
