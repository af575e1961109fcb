"""Fit a method to prepared data: the part of a training that all of its ranks do together."""

from __future__ import annotations

import json
import socket
import tempfile
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from laconic import __version__
from laconic.config import settings_of
from laconic.data.catalogue import Propensity
from laconic.data.dataset import Dataset
from laconic.data.exchange import map_data, write_data
from laconic.errors import TrainingError
from laconic.methods.config import MethodConfig
from laconic.methods.registry import check_shardable, config_of, ensemble_of, wrappers_of
from laconic.methods.result import Trained
from laconic.methods.validation import held_out_figures, held_out_of
from laconic.methods.wrappers.calibrate import learnt_calibration
from laconic.models.classifiers import shards_of
from laconic.models.rankers import Ranker
from laconic.system.machine import torch_within_cores
from laconic.system.ranks import Ranks
from laconic.training.run import Run
from laconic.training.run_folder import differences


class Learnt(NamedTuple):
    """What has been learnt: facts for model.json, and tensors, whole on the first rank."""

    facts: dict[str, Any]
    tensors: dict[str, Tensor]


@dataclass(frozen=True, kw_only=True, eq=False)
class Learning:
    """A method with its settings and prepared data."""

    method_name: str
    config: MethodConfig
    members: int  # more than one are an ensemble
    data: Dataset
    facts: Mapping[str, Any]  # what decides the result: another training with equal facts learns the same
    judged: Propensity | None  # constants of the figures on held-out texts; None: there is a test split for figures

    @torch_within_cores()
    def run(self, run: Run) -> Learnt:
        """Train, or resume a run that was interrupted."""
        method = ensemble_of(self.method_name, self.members, over=wrappers_of(self.config))
        self._check_ranks(run.ranks)
        run.begin(self.facts)
        with run.blaming_its_files():
            trained = method.train(self.data, self.config, run)
        one_split = self.members == 1 or method.train_members is not None
        return self.finished(trained, run, one_split=one_split)

    def finished(self, trained: Trained, run: Run, *, one_split: bool = True) -> Learnt:
        """Calibrate what was trained, and return it; members of an ensemble may have held out the same texts."""
        with run.stage("calibration"):
            held = held_out_of(trained, self.data, one_split=one_split)
            calibration = learnt_calibration(held)
            figures = None if self.judged is None else held_out_figures(held, self.data, self.judged)
        return Learnt(
            {"config": settings_of(trained.config), **trained.facts, "run": self.facts}
            | calibration
            | ({} if figures is None else {"metrics": figures}),
            _whole_tensors(trained.ranker),
        )

    def _check_ranks(self, ranks: Ranks) -> None:
        """Refuse ranks that would not train the same: of another version, with other data or other settings."""
        if ranks.world == 1:
            return
        check_shardable(self.method_name, self.config, self.members)
        versions = {"laconic": __version__, "torch": torch.__version__}
        told = [json.loads(text) for text in ranks.gather_texts(json.dumps({**versions, **self.facts}))]
        for rank, facts in enumerate(told):
            for difference in differences(facts, told[0]):
                raise TrainingError(
                    f"rank {rank} has {difference.replace('(now', '(rank 0:')}; start all ranks with the same version, "
                    "data and command"
                )


def shared_learning(own: Learning | None, ranks: Ranks) -> Learning:
    """Return what this rank learns: its own, or that of the rank of its machine which has read the data."""
    if ranks.world == 1:
        assert own is not None
        return own
    with ExitStack() as stack:
        told: list[Any] = [socket.gethostname(), None]
        if own is not None:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="laconic-")))
            write_data(own.data, folder)
            judged = None if own.judged is None else asdict(own.judged)
            told[1] = [str(folder), own.method_name, own.members, own.facts, judged]
        ranks.wait()  # however long it takes to write the data
        every = [json.loads(text) for text in ranks.gather_texts(json.dumps(told))]
        learning = own or _of_reader(told[0], every)
        ranks.wait()  # until all have mapped the files
        return learning


def _of_reader(host: str, every: list[Any]) -> Learning:
    """Return what the rank of this machine that has read the data learns."""
    read = next((read for name, read in every if name == host and read is not None), None)
    if read is None:
        raise TrainingError(f"no rank of the machine {host} has read the data; one of them must have LOCAL_RANK 0")
    folder, method_name, members, facts, judged = read
    return Learning(
        method_name=method_name,
        config=config_of(method_name, facts["config"]),
        members=members,
        data=map_data(Path(folder)),
        facts=facts,
        judged=None if judged is None else Propensity(**judged),
    )


def _whole_tensors(ranker: Ranker) -> dict[str, Tensor]:
    """Return a ranker's state with the rows of all ranks, gathered on the first one; the others return none."""
    shards = shards_of(ranker)
    if not shards:
        return ranker.state_dict()
    tensors = {}
    for name, tensor in ranker.state_dict().items():
        whole = shards[name].join(tensor) if name in shards else tensor.cpu()
        if whole is not None:
            tensors[name] = whole
    return tensors
