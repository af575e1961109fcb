"""Measures the speed and accuracy of a packed model over a range of search widths."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

from laconic.analysis.latency import OwnProcess, Timing, Trial
from laconic.data.corpus import Corpus
from laconic.errors import ConfigError, DataError
from laconic.evaluation.dataset_view import DatasetView
from laconic.evaluation.evaluate import places_needed
from laconic.evaluation.metrics import judge, report
from laconic.export.pack import pack
from laconic.packed.engine.parts import Part
from laconic.packed.engine.ranker import PackedRanker
from laconic.packed.folder import PackedModel, is_packed, open_packed, write_packed
from laconic.predict.load import Speed, packed_of, packed_predictor
from laconic.storage.manifest import PACKED
from laconic.storage.model_folder import read_model

FIGURES = ("P@1", "P@5", "nDCG@5")
_TIMES = (1 / 8, 1 / 4, 1 / 2, 2, 4)  # the model's own beam, beside that itself


@dataclass(frozen=True, kw_only=True)
class Config:
    """How many texts are measured."""

    texts: int = 5000  # of the split, at most, drawn by chance
    singly: int = 2000  # texts that are asked one by one
    k: int = 5  # labels of an answer

    def __post_init__(self) -> None:
        for field in fields(self):
            if getattr(self, field.name) < 1:
                raise ConfigError(f"{field.name} must be 1 or more, but is {getattr(self, field.name)}")


class SearchSetting(NamedTuple):
    """A search width, with its name in tables."""

    name: str  # for people
    beam: int | None  # clusters or cells to probe; None: all, or there are none
    speed: Speed


AS_IT_IS = SearchSetting("as it is", None, Speed())


@dataclass(frozen=True, kw_only=True)
class Point:
    """Speed and accuracy at one search width."""

    setting: SearchSetting
    timing: Timing
    figures: dict[str, float]  # in percent

    def as_json(self) -> dict[str, Any]:
        return {"dial": self.setting.name, "beam": self.setting.beam, **asdict(self.timing), **self.figures}


@contextmanager
def packed_folder(model: Path, corpus: Corpus) -> Iterator[Path]:
    """Yield the packed folder, the one inside a model folder, or one that is packed for the moment."""
    if is_packed(model):
        yield model
    elif packed_of(model) is not None:
        yield model / PACKED
    else:
        with TemporaryDirectory(prefix="laconic-") as folder:
            write_packed(pack(read_model(model), corpus), Path(folder) / PACKED)
            yield Path(folder) / PACKED


def bench(
    folder: Path,
    corpus: Corpus,
    split_name: str,
    config: Config,
    on_setting: Callable[[int, int], None] = lambda done, settings: None,
) -> list[Point]:
    """Measure a packed model at several search widths, from the fastest to exact search."""
    packed, some = open_packed(folder), corpus.sampled(split_name, config.texts)
    texts = some.split(split_name).texts
    if packed.vocabulary is None or texts is None:
        raise DataError(f"{folder} is timed from raw text: neither the model nor {corpus.source} may be of features")
    if not texts:
        raise DataError(f"{corpus.source}: the split {split_name!r} has no texts to measure with")
    assert isinstance(packed.ranker, PackedRanker)
    points, settings = list[Point](), search_settings(packed.ranker)
    for setting in settings:
        on_setting(len(points), len(settings))
        timing, figures = timing_of(folder, texts, setting, config), _figures(packed, some, split_name, setting)
        points.append(Point(setting=setting, timing=timing, figures=figures))
    return points


def timing_of(folder: Path, texts: Sequence[str], setting: SearchSetting, config: Config) -> Timing:
    """Time a packed model at one search width."""
    with OwnProcess() as process:
        return process.ask(
            Trial(
                folder=str(folder),
                texts=texts,
                k=config.k,
                beam=setting.speed.beam,
                exact=setting.speed.exact,
                singly=config.singly,
            )
        )


def search_settings(ranker: PackedRanker) -> list[SearchSetting]:
    """Return search widths from below the model's own to twice as much, and exact search."""
    own, everything = beam_of(ranker), SearchSetting("exact", None, Speed(exact=True))
    if own is None:
        return [AS_IT_IS, *[everything] * (ranker.exact() is not ranker)]
    around = {beam_of(ranker.with_beam(max(1, round(times * own)))) for times in _TIMES} - {own, None}
    settings = [SearchSetting(f"beam {beam:,}", beam, Speed(beam=beam)) for beam in around]
    settings.append(SearchSetting(f"beam {own:,} (own)", own, Speed()))
    return [*sorted(settings, key=lambda setting: setting.beam or 0), everything]


def beam_of(part: Part) -> int | None:
    """Return the beam of the first part that has one; None if none has."""
    for field in fields(part):
        value = getattr(part, field.name)
        if field.name == "beam":
            return int(value)
        inner = value if isinstance(value, tuple) else (value,)
        found = next(filter(None, (beam_of(one) for one in inner if isinstance(one, Part))), None)
        if found is not None:
            return found
    return None


def _figures(packed: PackedModel, corpus: Corpus, split_name: str, setting: SearchSetting) -> dict[str, float]:
    rows, truth = DatasetView.of(packed).rows_and_truth(corpus, split_name)
    ranked = packed_predictor(packed, setting.speed).rank_rows(rows, places_needed(truth, (5,)))
    figures = report(judge(ranked.labels, truth.labels, leave_out=truth.leave_out), ks=(1, 5))
    return {name: figures[name] for name in FIGURES}
