"""Runs: a training with its stages, which can be resumed where a folder keeps them (run_folder.py)."""

from __future__ import annotations

import hashlib
import json
import logging
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import KW_ONLY, asdict, dataclass, field, replace
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from laconic.data.dataset import Dataset
from laconic.data.resident import Resident
from laconic.errors import ConfigError, TrainingError
from laconic.system.files import writing
from laconic.system.machine import free_memory, memory_held
from laconic.system.ranks import ALONE, Ranks
from laconic.system.write_errors import explained
from laconic.trackers.run import Trackers
from laconic.training.deadline import Amount, Deadline
from laconic.training.loop import EpochFacts, Silent, TrainState, Watcher, epoch_seconds, fit, sharded_tensors
from laconic.training.optimizer import Plan
from laconic.training.run_folder import RunFolder, fingerprint_of
from laconic.training.stage_file import StageFile
from laconic.training.stages import StageFacts, measured, title_of
from laconic.training.tasks import Task
from laconic.units import counted, human_bytes, human_seconds

log = logging.getLogger(__name__)
_AMOUNT = "-amount"  # ends the name of a decision about how much of a part is done
_FEW = 5  # epochs; with fewer, one more validation to see how long it takes costs too much
_TRACKED = "trackers.json"  # identifiers of the trackers' runs


def device_named(name: str) -> torch.device:
    """Return the device of that name; `auto` is the GPU if available, else the CPU."""
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
    except RuntimeError:
        device = torch.device("meta")
    if device.type not in ("cpu", "cuda"):
        raise ConfigError(f"there is no device {name!r}; known are auto, cpu and cuda")
    if device.type == "cuda" and not torch.cuda.is_available():
        raise ConfigError("there is no GPU that torch can use here; --device cpu will do")
    return device


@dataclass(frozen=True, kw_only=True)
class Member:
    """The member of an ensemble that a run trains; the defaults are those of a single model."""

    prefix: str = ""  # of its files' names
    prefixes: Sequence[str] = ("",)  # those of all members, the first one's first
    title: str = ""  # for progress reports
    reports: bool = True  # whether it reports costs; the first member does so for all
    following: int = 0  # members trained after this one


@dataclass(eq=False)
class Run:
    """A training run."""

    folder: Path | None  # None: nothing is kept, so nothing can be resumed
    _: KW_ONLY
    watcher: Watcher
    device: torch.device
    seconds: float = 60.0  # between checkpoints
    ignore_memory: bool = False  # start also what seems not to fit
    asked: Mapping[str, Any] = field(default_factory=dict)  # for run.json: what the facts were chosen by
    member_of: Member = Member()
    trackers: Trackers = field(default_factory=Trackers)  # are told of the run, besides its own log
    files: RunFolder | None = None  # by default that of `folder`; members share it
    ranks: Ranks = ALONE  # the processes that train together
    stages: list[StageFacts] = field(default_factory=list)  # those that this process has finished; members share them
    deadline: Deadline | None = None  # by which the run is to end; None: nothing was estimated
    _uses: dict[str, str] = field(default_factory=dict, init=False)  # the kind of each name: stage or value

    def __post_init__(self) -> None:
        if self.files is None and self.folder is not None:
            self.files = RunFolder(self.folder, self.ranks)

    @staticmethod
    def unkept(device: str = "cpu", *, ignore_memory: bool = False) -> Run:
        """Return a run without files and without progress reports."""
        return Run(None, watcher=Silent(), device=device_named(device), ignore_memory=ignore_memory)

    def begin(self, facts: Mapping[str, Any]) -> None:
        """Start or resume a run; refuse to resume one that was started with other facts."""
        if self.files is not None:
            self.files.begin(facts, self.asked)
        kept = None if self.folder is None else self.folder / _TRACKED
        self.trackers.begin(facts, kept=kept, key=fingerprint_of(facts))

    @contextmanager
    def blaming_its_files(self) -> Iterator[None]:
        """Explain errors of a resumed run by its files: their numbers are checked when they are used, if at all."""
        try:
            yield
        except (
            ArithmeticError,
            AssertionError,
            AttributeError,
            LookupError,
            RuntimeError,
            TypeError,
            ValueError,
        ) as error:
            if self.files is None or not self.files.has_loaded:
                raise
            raise TrainingError(
                f"{self.folder}: the training cannot go on from this run ({type(error).__name__}: {error}); its files "
                f"may be damaged; remove {self.folder} to start again"
            ) from error

    def unfinished(self, facts: Mapping[str, Any]) -> bool:
        """Return whether the folder has a run with these facts that can be resumed."""
        return self.files is not None and self.files.is_unfinished(facts)

    def fits(self, memory: int) -> bool:
        """Return whether this many bytes are free, as far as is known, on every rank."""
        free = _free_memory(self.device)
        (lacking,) = self.ranks.any(free is not None and memory > free)
        return not lacking

    def report_costs(self, memory: int, seconds: float, remedies: Mapping[str, int]) -> None:
        """Report the costs of a run, and refuse one that does not fit; `remedies` maps options to bytes."""
        # Weights of finished members stay on the CPU; training has a gradient and two moments besides.
        finished = self.member_of.following / 4 if self.device.type == "cpu" else 0.0
        memory = round(memory * (1 + finished))
        if self.member_of.reports:
            held = memory_held() if self.device.type == "cpu" else 0  # the data and the libraries, before training
            self.watcher.planned(held + memory, seconds * (1 + self.member_of.following))
        free = _free_memory(self.device)
        if free is None or memory <= free:
            return
        lacking = f"a run needs about {human_bytes(memory)}, but {human_bytes(free)} are free ({self.device})"
        if self.ignore_memory:
            log.warning("%s; training anyway", lacking)
            return
        fitting = [option for option, needed in remedies.items() if needed * (1 + finished) <= free]
        remedy = f"with {fitting[0]} it would fit" if fitting else "--method nearest needs far less"
        raise TrainingError(f"{lacking}; {remedy}; --ignore-memory (Python: ignore_memory=True) trains anyway")

    def fit(
        self,
        stage: str,
        task: Task,
        data: Resident,
        plan: Plan,
        *,
        validate: Callable[[], Mapping[str, float]] | None = None,
        last_epoch: int = 0,
    ) -> TrainState:
        """Train a stage, resume it, or load it if it is done."""
        timed = None if validate is not None and plan.epochs < _FEW else validate
        measure = None if timed is None and validate is not None else partial(epoch_seconds, task, data, plan, timed)
        plan = replace(plan, epochs=self.amount(stage, plan.epochs, "epoch", measure))
        weights = sum(parameter.nbytes for parameter in task.parameters())
        kept = StageFile(self.files, self._name(stage, "stage"), self.seconds, sharded_tensors(task), weights)
        folder = self.folder if self.ranks.is_first else None
        path = None if folder is None else folder / "metrics.jsonl"
        with self.stage(stage), _tensorboard(folder) as board:
            watcher = _Logged(self.watcher, path, self.member_of.prefix + stage, board, self.trackers)
            return fit(
                task,
                data,
                plan,
                checkpoints=kept,
                watcher=watcher,
                validate=validate,
                last_epoch=last_epoch,
                ranks=self.ranks,
            )

    @contextmanager
    def stage(self, name: str) -> Iterator[Callable[[float], None]]:
        """Report a part of the run and measure it; yield what reports the fraction of it that is done."""
        title = title_of(name)
        if not title:
            yield lambda fraction: None
            return
        file = f"{self.member_of.prefix}{name}.safetensors"
        resumed = self.files is not None and self.files.has(file)
        self.watcher.entered(self._title(name))
        clock = time.perf_counter if self.deadline is None else self.deadline.clock
        began = clock()
        with measured(self.member_of.prefix + name, self.stages.append):
            yield self.watcher.advanced
        seconds = clock() - began
        self.watcher.exited(seconds)
        part = self.member_of.prefix + name
        if self.deadline is not None and self.deadline.finished(part, None if resumed else seconds):
            self.watcher.noted(f"Estimated anew: {human_seconds(self.deadline.announced)} in all")

    def amount(
        self, part: str, planned: int, unit: str, measure: Callable[[], float] | None = None, *, done: int = 0
    ) -> int:
        """Return how many units of a part the time budget has room for, where so many were planned.

        This is decided once: a run that is resumed does as much as it would have done. `measure` returns the seconds
        that one unit takes; so many are `done` already.
        """
        deadline, name = self.deadline, self.member_of.prefix + part
        if deadline is not None and name in deadline.amounts:
            return deadline.amounts[name].done
        if deadline is None or not deadline.may_change(name):
            return planned

        def decide() -> int:
            return deadline.amount(name, planned, None if measure is None else measure(), done)

        found = self._decided(part, planned, deadline, decide)
        if found < planned:
            self.watcher.noted(f"{self._title(part)}: {found} of {counted(planned, unit)}, to end in time")
        return found

    def affords(self, name: str, parts: str) -> bool:
        """Return whether there is time for something that can be left out; decided once, as `amount` is.

        The names of its parts begin with `parts`. Members of an ensemble have the same parts, so that what is decided
        for the first holds for all.
        """
        deadline = self.deadline
        if deadline is None or not deadline.is_limit:
            return True
        known = deadline.amounts.get(self.member_of.prefixes[0] + name)
        done = self._decided(name, 1, deadline, lambda: int(deadline.affords())) if known is None else known.done
        if done:
            return True
        for prefix in self.member_of.prefixes:
            deadline.leave_out(prefix + parts)
        self.watcher.noted(f"{self._title(parts)}: left out, to end in time")
        return False

    def _decided(self, part: str, planned: int, deadline: Deadline, decide: Callable[[], int]) -> int:
        def make() -> dict[str, Tensor]:
            done = decide()
            return {"done": torch.tensor(done), "elapsed": torch.tensor(deadline.elapsed, dtype=torch.float64)}

        known = self.remember(part + _AMOUNT, make)
        deadline.resumed(float(known["elapsed"]))
        deadline.amounts[self.member_of.prefix + part] = Amount(planned, int(known["done"]))
        return int(known["done"])

    def _title(self, stage: str) -> str:
        return ", ".join(filter(None, [self.member_of.title, title_of(stage)]))

    def remember(self, name: str, make: Callable[[], Mapping[str, Tensor]]) -> dict[str, Tensor]:
        """Return the tensors of `make`, on the CPU: computed once, and read from the folder when the run is resumed.

        Of several ranks the first one computes them, alone; without a folder, each does.
        """
        file = self._name(name, "value")
        if (known := self._known(file)) is not None:
            self._passed(name)
            return known
        with self.stage(name), self.apart() as is_first:
            made = _plain(make()) if is_first or self.files is None else {}
            if is_first and self.files is not None:
                self.files.save(file, made, {})
        if is_first or self.files is None:
            return made
        found = self.files.load(file)
        assert found is not None, "the first rank has written it"
        return found[0]

    def knows(self, name: str) -> bool:
        """Return whether a value is remembered in the folder."""
        return self.files is not None and self.files.has(self._name(name, "value"))

    def remember_together(self, name: str, make: Callable[[], Mapping[str, Tensor]]) -> dict[str, Tensor]:
        """Return the tensors of `make`, which all ranks call, on the CPU; those of the first one are remembered."""
        file = self._name(name, "value")
        if (known := self._known(file)) is not None:
            self._passed(name)
            return known
        with self.stage(name):
            made = _plain(make())
            if self.files is not None:
                self.files.save(file, made, {})
        return made

    def _passed(self, name: str) -> None:
        """Take a part off the plan that an earlier process has done."""
        if self.deadline is not None:
            self.deadline.finished(self.member_of.prefix + name, None)

    def _known(self, file: str) -> dict[str, Tensor] | None:
        """Return the tensors of a file if every rank has found it."""
        found = None if self.files is None else self.files.load(file)
        (missing,) = self.ranks.any(found is None)
        return None if found is None or missing else found[0]

    @contextmanager
    def apart(self) -> Iterator[bool]:
        """Let every rank work by itself inside, as if it were alone; yield whether it is the first.

        Only the first one may write files of the run there. All ranks wait for each other at the end.
        """
        together = self.ranks
        parts = [part for part in (self, self.files) if part is not None]
        for part in parts:
            part.ranks = ALONE
        try:
            yield together.is_first
        finally:
            for part in parts:
                part.ranks = together
        together.wait()
        if self.files is not None and not together.is_first:
            self.files.forget_manifest()

    def forget(self, prefix: str) -> None:
        """Remove the files of stages and values whose names begin so: what was made of them is remembered itself."""
        if self.files is not None:
            self.files.forget(self.member_of.prefix + prefix)

    def part(self, name: str) -> Run:
        """Return this run for a part of the training that is a training of its own; it reports no costs."""
        title = ", ".join(filter(None, [self.member_of.title, title_of(name)]))
        return replace(self, member_of=Member(prefix=f"{self.member_of.prefix}{name}.", title=title, reports=False))

    def member(self, number: int, of: int | None = None) -> Run:
        """Return this run for one member of an ensemble, counted from 0, with files and log lines of its own.

        With `of`, the number of members, the first one reports the costs of all.
        """
        title = f"member {number + 1}" + (f" of {of}" if of else "")
        prefixes = [f"{self.member_of.prefix}member-{one}." for one in range(of or number + 1)]
        member = Member(
            prefix=prefixes[number],
            prefixes=prefixes,
            title=", ".join(filter(None, [self.member_of.title, title])),
            reports=not of or number == 0,
            following=of - 1 - number if of else 0,
        )
        return replace(self, member_of=member)

    def _name(self, name: str, use: str) -> str:
        """Return the file of a stage or value; a name must not be used for both, which would overwrite each other."""
        assert self._uses.setdefault(name, use) == use, f"{name!r} is already the name of a {self._uses[name]}"
        return f"{self.member_of.prefix}{name}.safetensors"


def _free_memory(device: torch.device) -> int | None:
    """Return the free bytes; None where they are unknown."""
    if device.type == "cuda":
        return int(torch.cuda.mem_get_info(device)[0])
    return free_memory()


def fingerprint(data: Dataset, names: Sequence[str] = ()) -> str:
    """Digest all inputs and labels, with the labels' names and texts where they are given."""
    digest = hashlib.blake2b(digest_size=16)
    vectors = None if data.word_vectors is None else data.word_vectors.vectors
    held = [] if data.validation is None else [data.validation.inputs, data.validation.labels]
    for part in (data.inputs, data.labels, data.label_inputs, data.leave_out, data.weights, vectors, *held):
        arrays = (
            [part] if isinstance(part, np.ndarray) else [] if part is None else [part.indptr, part.indices, part.data]
        )
        for array in arrays:
            digest.update(str((array.shape, array.dtype)).encode())
            digest.update(np.ascontiguousarray(array).data)
    for name in names:
        digest.update(name.encode("utf-8", "surrogatepass") + b"\0")
    return digest.hexdigest()


def _plain(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return the tensors on the CPU and contiguous, as files need them."""
    return {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}


class _Logged:
    """A watcher that logs every epoch and forwards every event.

    Epochs go to a line of the run's log, to TensorBoard where it is installed, and to the trackers of the run.
    """

    def __init__(self, watcher: Watcher, path: Path | None, stage: str, board: Any, trackers: Trackers) -> None:
        self.watcher, self.path, self.stage, self.board, self.trackers = watcher, path, stage, board, trackers

    def began(self, how: str, epochs: int, steps: int, done: int) -> None:
        if self.path is not None and self.path.exists():
            # Epochs after the checkpoint are trained again, and logged again.
            lines = _records(self.path)
            kept = [line for line in lines if line["stage"] != self.stage or line["epoch"] * steps <= done]
            with writing(self.path) as file:
                file.writelines(json.dumps(line).encode() + b"\n" for line in kept)
        self.watcher.began(how, epochs, steps, done)

    def planned(self, memory: int, seconds: float) -> None:
        self.watcher.planned(memory, seconds)

    def entered(self, stage: str) -> None:
        self.watcher.entered(stage)

    def stepped(self) -> None:
        self.watcher.stepped()

    def advanced(self, fraction: float) -> None:
        self.watcher.advanced(fraction)

    def exited(self, seconds: float) -> None:
        self.watcher.exited(seconds)

    def noted(self, line: str) -> None:
        self.watcher.noted(line)

    def ended(self, facts: EpochFacts) -> None:
        if self.path is not None:
            try:
                self._write(facts)
            except OSError as error:
                raise explained(error, self.path) from error
        self.trackers.log(self.stage, _scalars(facts), facts.epoch)
        self.watcher.ended(facts)

    def _write(self, facts: EpochFacts) -> None:
        assert self.path is not None
        with self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps({"stage": self.stage, **asdict(facts)}) + "\n")
        if self.board is not None:
            for name, value in _scalars(facts).items():
                self.board.add_scalar(f"{self.stage}/{name}", value, facts.epoch)
            self.board.flush()


def _scalars(facts: EpochFacts) -> dict[str, float]:
    """Return the numbers of an epoch by name."""
    return {"loss": facts.loss} | {f"validation {name}": figure for name, figure in facts.figures.items()}


def _records(path: Path) -> Iterator[dict[str, Any]]:
    """Yield the records of a log, without lines that a crash has cut off or somebody has changed."""
    for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
        with suppress(ValueError, RecursionError):
            record = json.loads(line)
            match record:
                case {"stage": str(), "epoch": int()}:
                    yield record


def _tensorboard(folder: Path | None) -> AbstractContextManager[Any]:
    """Open a TensorBoard writer, where it is installed; it is closed when the block ends."""
    if folder is None or not find_spec("tensorboard"):
        return nullcontext()
    from torch.utils.tensorboard import SummaryWriter

    return SummaryWriter(str(folder / "tensorboard"))
