"""A packed transformer: an ONNX graph that ONNX Runtime runs, over the pieces of a text's words."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from laconic.data.word_pieces import WordPieces
from laconic.errors import ModelError
from laconic.kernels.checks import check_array, check_numbers, check_starts, check_whole
from laconic.packed.engine.encoders import Encoder, refuse_texts, texts_of
from laconic.packed.engine.parts import Part
from laconic.packed.engine.texts import Inputs
from laconic.types import PAD

INPUT = "ids"  # of the graph: token ids as int64, texts × pieces, 0 after the last
_AT_ONCE = 64  # texts of similar lengths that are encoded together


@dataclass(frozen=True, kw_only=True, eq=False)
class Pieces(Part):
    """The pieces of each word of the vocabulary (data/word_pieces.py)."""

    starts: np.ndarray  # int64
    pieces: np.ndarray  # int32, as the next
    ends: np.ndarray

    def __post_init__(self) -> None:
        check_array(self.starts, "bounds of pieces", np.int64, (None,))
        check_array(self.pieces, "pieces", np.int32, (None,))
        check_array(self.ends, "tokens around a text", np.int32, (2,))
        check_starts(self.starts, "bounds of pieces", len(self.pieces))

    @property
    def table(self) -> WordPieces:
        return WordPieces(self.starts, self.pieces, self.ends)


@dataclass(frozen=True, kw_only=True, eq=False)
class Transformer(Encoder):
    """A transformer in an ONNX graph, from token ids to the mean vector of a text's tokens."""

    graph: np.ndarray  # uint8: the graph's file
    width: int  # numbers of a vector
    length: int  # pieces that are read of a text
    tokens: int  # token ids of pieces
    pieces: Pieces | None = None  # None: the vocabulary's words are pieces themselves

    def __post_init__(self) -> None:
        check_array(self.graph, "graph of the encoder", np.uint8, (None,))
        for name in ("width", "length", "tokens"):
            check_whole(getattr(self, name), f"encoder's {name}", 1)
        if self.pieces is not None:
            if not isinstance(self.pieces, Pieces):
                raise ModelError("the packed model's pieces of words are of another kind; pack the model again")
            for part in (self.pieces.pieces, self.pieces.ends):
                check_numbers(part, "pieces of words", 0, self.tokens)

    @property
    def dim(self) -> int:
        return self.width

    def encode(self, inputs: Inputs) -> Float[np.ndarray, "texts dim"]:
        texts = texts_of(inputs)
        known = self.tokens if self.pieces is None else len(self.pieces.starts) - 1
        if len(texts.ids) and not 0 <= texts.ids.min() <= texts.ids.max() < known:
            refuse_texts(texts, known)
        ids, starts = texts.ids, texts.starts
        if self.pieces is not None:
            ids, starts, _ = self.pieces.table.cut_ids(ids, starts)
        lengths = np.minimum(np.diff(starts), self.length)
        order, out = np.argsort(lengths, kind="stable"), np.empty((len(lengths), self.width), dtype=np.float32)
        for first in range(0, len(order), _AT_ONCE):
            some = order[first : first + _AT_ONCE]
            out[some] = self._run(_rectangle(ids, starts[some], lengths[some]))
        return out

    def _run(self, ids: Int[np.ndarray, "texts pieces"]) -> Float[np.ndarray, "texts dim"]:
        found: Float[np.ndarray, "texts dim"] = self._session.run(None, {INPUT: ids})[0]
        if found.shape != (len(ids), self.width):
            raise ModelError(
                f"the packed model's encoder gives {found.shape[-1]:,} numbers, not {self.width:,}; pack it again"
            )
        return found

    @cached_property
    def _session(self) -> Any:
        return open_graph(self.graph.tobytes())


def open_graph(graph: bytes) -> Any:
    """Return an ONNX Runtime session of one thread: texts are shared among threads by whoever asks."""
    try:
        import onnxruntime
    except ModuleNotFoundError:
        raise ModelError(
            "this packed model has a transformer, which ONNX Runtime runs: pip install onnxruntime"
        ) from None
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 4
    try:
        return onnxruntime.InferenceSession(graph, options, providers=["CPUExecutionProvider"])
    except Exception as error:  # noqa: BLE001 - the library's own errors have no common base but this
        raise ModelError(f"the packed model's encoder cannot be opened ({error}); pack the model again") from None


def _rectangle(
    ids: Int[np.ndarray, "total"], starts: Int[np.ndarray, "texts"], lengths: Int[np.ndarray, "texts"]
) -> Int[np.ndarray, "texts pieces"]:
    there = np.arange(max(1, int(lengths.max(initial=1)))) < lengths[:, None]
    found = np.full(there.shape, PAD, dtype=np.int64)
    found[there] = ids[(starts[:, None] + np.arange(there.shape[1]))[there]]
    return found
