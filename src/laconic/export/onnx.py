"""Write a model, or its encoder, as an ONNX graph, and compare its answers with the model's.

Inputs of the graph: `ids`, token ids as int64, padded with 0 to the model's length; `weights`, as float32, their
tf-idf weights. Output: `scores`, the probability of every label, or `vectors`, what label rows are multiplied with.
"""

from __future__ import annotations

import logging
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from laconic.data.tokenizer import Tokenizer, padded
from laconic.errors import ModelError
from laconic.methods.restore import restore_ranker
from laconic.models.encoders import WordEncoder
from laconic.models.rankers import FlatRanker
from laconic.storage.model_folder import SavedModel
from laconic.system.files import replacing_file
from laconic.types import Tokens

INPUTS = ("ids", "weights")
_AT_ONCE = 256  # texts that are compared at a time
_BEST = 5
_MOST = 1 << 16  # texts of a batch


class Agreement(NamedTuple):
    """How the graph's answers compare with the model's."""

    texts: int
    equal: int  # texts whose best labels, or vectors, are the model's
    largest: float  # difference of a number


class Graph(nn.Module):
    """What is exported: tensors in, one tensor out."""

    def __init__(self, ranker: FlatRanker, *, vectors: bool) -> None:
        super().__init__()
        self.encoder, self.classifier, self.vectors = ranker.encoder, ranker.classifier, vectors

    def forward(self, ids: Int[Tensor, "batch length"], weights: Float[Tensor, "batch length"]) -> Tensor:
        vectors: Tensor = self.classifier.transform(self.encoder(Tokens(ids, weights)))
        if self.vectors:
            return vectors
        return self.classifier.score_range(vectors, slice(0, self.classifier.num_labels)).sigmoid()


def write_onnx(model: SavedModel, path: Path, *, vectors: bool = False) -> Graph:
    """Write the graph of a flat model, or of its encoder if `vectors` are wanted; return what was written."""
    ranker = restore_ranker(model, torch.device("cpu"))
    if not isinstance(ranker, FlatRanker) or not isinstance(ranker.encoder, WordEncoder):
        raise ModelError(
            f"only models that score every label by one encoder of words are written as ONNX, such as inceptionxml and "
            f"xml-cnn, but this is {model.about.get('method')}"
        )
    graph = Graph(ranker, vectors=vectors).eval()
    length = ranker.encoder.length
    example = torch.zeros(2, length, dtype=torch.int64), torch.zeros(2, length)
    batch = {0: torch.export.Dim("batch", min=1, max=_MOST)}
    with replacing_file(path) as partial, quiet_exporter():
        torch.onnx.export(
            graph,
            example,
            partial,
            dynamo=True,
            verbose=False,
            external_data=False,
            input_names=list(INPUTS),
            output_names=["vectors" if vectors else "scores"],
            dynamic_shapes=dict.fromkeys(INPUTS, batch),
        )
    return graph


def compare(path: Path, graph: Graph, model: SavedModel, texts: Sequence[str]) -> Agreement:
    """Run the written graph in ONNX Runtime and the model in torch on the same texts."""
    assert model.vocabulary is not None
    assert isinstance(graph.encoder, WordEncoder)
    run, tokenizer, length = _session(path), Tokenizer(model.splitter, model.vocabulary), graph.encoder.length
    equal, largest = 0, 0.0
    for first in range(0, len(texts), _AT_ONCE):
        ids, weights = padded(tokenizer.rows(texts[first : first + _AT_ONCE]), length)
        with torch.inference_mode():
            own = graph(ids.long(), weights).numpy()
        other = run(ids.long().numpy(), weights.numpy())
        equal += int(_same(own, other, vectors=graph.vectors).sum())
        largest = max(largest, float(np.abs(own - other).max(initial=0)))
    return Agreement(len(texts), equal, largest)


def _same(own: Float[np.ndarray, "n m"], other: Float[np.ndarray, "n m"], *, vectors: bool) -> Any:
    if vectors:
        return np.isclose(own, other, rtol=1e-3, atol=1e-4).all(axis=1)
    best = (np.argsort(-scores, axis=1, kind="stable")[:, :_BEST] for scores in (own, other))
    return np.equal(*best).all(axis=1)


def _session(path: Path) -> Callable[[Any, Any], Float[np.ndarray, "n m"]]:
    import onnxruntime

    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    names = {one.name for one in session.get_inputs()}

    def run(ids: Any, weights: Any) -> Float[np.ndarray, "n m"]:
        given = {name: array for name, array in zip(INPUTS, (ids, weights), strict=True) if name in names}
        found: Float[np.ndarray, "n m"] = session.run(None, given)[0]
        return found

    return run


@contextmanager
def quiet_exporter() -> Iterator[None]:
    """Keep the exporter from reporting its own affairs."""
    loggers = [logging.getLogger(name) for name in ("torch.onnx", "onnxscript", "onnx_ir", "")]
    levels = [one.level for one in loggers]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for one in loggers:
            one.setLevel(logging.ERROR)
        try:
            yield
        finally:
            for one, level in zip(loggers, levels, strict=True):
                one.setLevel(level)
