"""The work of the verb `train`: train a model, evaluate it, write it and pack it."""

from __future__ import annotations

import json
import logging
import shlex
import sys
from collections.abc import Callable, Mapping
from dataclasses import asdict, replace
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any, NamedTuple

from laconic.cli import pack as cli_pack
from laconic.cli.options import err, out
from laconic.cli.progress import progress, training_display
from laconic.cli.recipe import Recipe, checked_recipe, settled_recipe
from laconic.errors import ConfigError
from laconic.units import counted

if TYPE_CHECKING:
    import torch

    from laconic.data.corpus import Corpus
    from laconic.methods.train import Training
    from laconic.predict.kernel_process import Task
    from laconic.storage.model_folder import SavedModel
    from laconic.storage.tensors import Storage
    from laconic.system.ranks import Ranks
    from laconic.trackers.run import Trackers
    from laconic.training.stages import StageFacts

log = logging.getLogger(__name__)


class TrainingJob(NamedTuple):
    """A training with its data and folder, besides the method and its settings."""

    data: str
    folder: Path
    device: str
    ensemble: int
    teacher: Path | None
    ignore_memory: bool
    force: bool
    keep_run: bool
    storage: Storage
    packing: bool
    keep_torch: bool  # False: the packed model is all that is kept
    keep_texts: bool
    began: float  # when the command was given, by time.monotonic


class Among(NamedTuple):
    """What is connected to a training: its ranks, this one's device, and trackers."""

    ranks: Ranks
    device: torch.device
    trackers: Trackers


def carry_out(job: TrainingJob, recipe: Recipe, among: Among, read: Callable[[], Corpus]) -> None:
    """Train, evaluate, write and pack a model; whatever is wrong is reported as early as it can be known."""
    from laconic.export.pack import check_texts
    from laconic.methods.rerun import earlier_choice
    from laconic.predict.kernel_process import compiled_beside
    from laconic.training.stages import StageFacts, measured

    recipe, stages = checked_recipe(recipe), list[StageFacts]()
    _check_several(job, recipe, among.ranks)
    with measured("reading", stages.append):
        corpus = read() if among.ranks.reads else None
    asked = recipe.asked
    if corpus is not None:
        if job.keep_texts:
            check_texts(corpus)
        earlier = earlier_choice(job.folder, asked, finished=not job.force) if asked else None
        recipe = settled_recipe(recipe, corpus, job.device, earlier, packing=job.packing, members=job.ensemble)
    recipe = _as_first_rank(recipe, job, among.ranks)
    job = job._replace(ensemble=recipe.members)
    if recipe.why:
        err.print(f"Chosen: {recipe.why}", soft_wrap=True)
    _log_settings(recipe)
    with compiled_beside(_later_kernels(job, recipe, corpus, among), recipe.memory):
        _carry_out(job, recipe, corpus, asked, among, stages)


def _later_kernels(job: TrainingJob, recipe: Recipe, corpus: Corpus | None, among: Among) -> Task | None:
    """Return the kernels of the later stages where a GPU trains alone; None: they are compiled when they are needed."""
    from laconic.predict.kernel_process import task_of

    if corpus is None or among.device.type != "cuda" or among.ranks.world > 1 or not job.packing:
        return None
    assert recipe.config is not None
    has_texts = corpus.split("train").texts is not None
    return task_of(recipe.method, recipe.config, texts=has_texts, label_texts=corpus.labels.texts is not None)


def _carry_out(
    job: TrainingJob,
    recipe: Recipe,
    corpus: Corpus | None,
    asked: Mapping[str, Any],
    among: Among,
    stages: list[StageFacts],
) -> None:
    """Train a settled recipe; evaluate, write and pack what comes of it."""
    from laconic.methods.first_kernels import remember_kernels
    from laconic.storage.model_folder import read_model
    from laconic.system.files import bytes_in
    from laconic.training.stages import measured

    trained = _trained(job, recipe, corpus, asked, among, stages)
    among.ranks.close()
    if not among.ranks.is_first:
        return
    assert corpus is not None, "the first rank has read it"
    trackers = among.trackers
    if trained is None:
        out.print(f"{job.folder}: already trained with this data and these settings; --force trains it anew")
        if not job.keep_torch:
            _keep_packed_alone(job, corpus)
        elif job.packing and not _is_packed(job.folder, keep_texts=job.keep_texts):
            model = read_model(job.folder)
            cli_pack.pack_trained(model, job.folder, corpus, job.device, keep_texts=job.keep_texts)()
        return
    with measured("evaluation", stages.append):
        trained = _evaluated(trained, corpus, job.device, f"{job.folder} on {job.data}")
    if "stages" in trained.facts:
        trained = replace(trained, facts={**trained.facts, "stages": [stage._asdict() for stage in stages]})
    trackers.log_figures(trained.facts)
    report = _write(job, trained, corpus)
    trackers.add_model(job.folder)
    members = f" ({job.ensemble} members)" * (job.ensemble > 1)
    learnt_from = f"{counted(len(corpus.split('train')), 'text')}, {counted(len(corpus.labels), 'label')}"
    out.print(f"{job.folder}: {recipe.words}{members}, {learnt_from}, {counted(bytes_in(job.folder), 'byte')}")
    report()
    done = [stage.stage for stage in stages] + ["packing"] * job.packing
    remember_kernels(recipe.method, done, gpu=among.device.type == "cuda")


def _write(job: TrainingJob, trained: SavedModel, corpus: Corpus) -> Callable[[], None]:
    """Write the model and its packed version, or that alone; return what reports the packing.

    A kill meanwhile leaves the run, and the model that was there.
    """
    from laconic.storage.model_folder import write_model

    pictures, report = _pictures(trained), list[Callable[[], None]]()
    if not job.keep_torch:
        return cli_pack.pack_alone(
            trained, job.folder, corpus, job.device, keep_texts=job.keep_texts, pictures=pictures
        )

    def add_packed(place: Path) -> None:
        """Pack before the model takes its place."""
        if job.packing:
            packed = cli_pack.pack_trained(
                trained, place, corpus, job.device, keep_texts=job.keep_texts, name=job.folder
            )
            report.append(packed)

    write_model(trained, job.folder, pictures=pictures, keep_run=job.keep_run, storage=job.storage, add=add_packed)
    return report[0] if report else lambda: None


def _keep_packed_alone(job: TrainingJob, corpus: Corpus) -> None:
    """Replace a finished model by its packed version, unless that is all there is."""
    from laconic.packed.folder import is_packed
    from laconic.storage.model_folder import read_model

    if not is_packed(job.folder):
        _write(job, read_model(job.folder), corpus)()


def _check_several(job: TrainingJob, recipe: Recipe, ranks: Ranks) -> None:
    """Refuse, before data is read, what several ranks cannot train together."""
    from laconic.methods.registry import check_shardable

    if ranks.world == 1:
        return
    if job.teacher is not None:
        raise ConfigError("--teacher is for one process; leave it out, or start one process")
    if recipe.config is not None:
        check_shardable(recipe.method, recipe.config, job.ensemble)


def _as_first_rank(recipe: Recipe, job: TrainingJob, ranks: Ranks) -> Recipe:
    """Return the recipe that the first rank has chosen: another machine, or a busier one, might choose another."""
    from laconic.methods.registry import check_shardable, config_of

    ranks.wait()  # reading takes as long as it takes
    if ranks.world == 1:
        return recipe
    method, settings = json.loads(ranks.gather_texts(json.dumps([recipe.method, recipe.settings]))[0])
    config = config_of(method, settings)
    check_shardable(method, config, job.ensemble)
    return recipe._replace(method=method, settings=settings, config=config, members=job.ensemble)


def _log_settings(recipe: Recipe) -> None:
    """Log every setting of the method, for --verbose."""
    from laconic.config import settings_of

    log.info("settings of %s: %s", recipe.method, json.dumps(settings_of(recipe.config)))


def _evaluated(model: SavedModel, corpus: Corpus, device: str, title: str) -> SavedModel:
    """Show the metrics of the finished model on held-out texts, and store them in it."""
    from laconic.cli.tables import metrics_legend, metrics_table
    from laconic.data.evaluation_texts import evaluation_texts
    from laconic.data.sketch import seen_words
    from laconic.evaluation.evaluate import evaluation_of
    from laconic.predict.predictor import scored
    from laconic.storage.card import VALIDATION

    if "test" in corpus.splits:
        texts = evaluation_texts(corpus, "test")
        with progress(err, "evaluating", len(texts.texts)) as bar:
            model, evaluation = scored(model, texts, device, lambda done: bar.advance(bar.task_ids[0], done))
        of = f"{texts}: {counted(evaluation.texts, 'text')}{seen_words(evaluation.seen)}"
    elif kept := model.facts.get("metrics"):
        evaluation = evaluation_of(kept)
        of = f"{kept['split']}: {counted(evaluation.texts, 'text')}, {VALIDATION}"
    else:
        err.print("No texts were held out, so there are no figures; --test 0.1 holds out a test split.")
        return model
    out.print(metrics_table({"": evaluation}, f"{title}, {of}"))
    out.print(metrics_legend(evaluation.metrics))
    return model


class _Finished(NamedTuple):
    """A finished model that must not be overwritten by accident."""

    folder: Path
    storage: Storage
    keep_torch: bool
    keep_texts: bool

    def is_made_by(self, training: Training) -> bool:
        """Return whether this training would make that model once more; refuse to make another one in its place."""
        from laconic.methods.rerun import what_differs
        from laconic.packed.folder import is_packed

        now, alone = {"propensity": asdict(training.corpus.constants())}, is_packed(self.folder)
        if self.keep_torch and not alone:
            now["storage"] = asdict(self.storage)
        difference = what_differs(self.folder, training.facts, now) or (self._lacks() if alone else "")
        if difference:
            raise ConfigError(
                f"{self.folder}: there is a finished model, but {difference}; --force replaces it, or choose another "
                "name (--out)"
            )
        return True

    def _lacks(self) -> str:
        """Describe what is wanted of the model, but not in its packed version, if that is all there is of it."""
        from laconic.packed.kept_texts import FILE

        if self.keep_torch:
            return "it keeps the packed model alone (--no-keep-torch)"
        return "it keeps no training texts" if self.keep_texts and not (self.folder / FILE).exists() else ""


def _is_packed(model: Path, *, keep_texts: bool) -> bool:
    """Return whether a model was packed, and with its training texts if they are to be kept."""
    from laconic.predict.load import packed_of

    packed = packed_of(model)
    return packed is not None and (packed.num_kept > 0 or not keep_texts)


def _trained(
    job: TrainingJob,
    recipe: Recipe,
    corpus: Corpus | None,
    asked: Mapping[str, Any],
    among: Among,
    stages: list[StageFacts],
) -> SavedModel | None:
    """Train and return the model with the command and duration; None if the same model is already there.

    `corpus` is None on ranks that take the data from another one, which return None too. `asked` are the words in which
    a choice of the method was asked for; empty if one was named. `stages` gets the stages of the run.
    """
    from laconic.methods.distillation import Config as Distilling
    from laconic.methods.distillation import with_teacher_facts, with_teacher_labels
    from laconic.methods.fit import shared_learning
    from laconic.methods.train import Training
    from laconic.storage.manifest import kind_of
    from laconic.storage.model_folder import RUN, read_model
    from laconic.system.machine import memory_held
    from laconic.training.deadline import deadline_of
    from laconic.training.run import Run
    from laconic.training.run_folder import ASKED
    from laconic.training.stages import measured

    (ranks, device, trackers), folder = among, job.folder / RUN
    teacher = None if job.teacher is None else read_model(job.teacher)
    finished = (
        _Finished(job.folder, job.storage, job.keep_torch, job.keep_texts)
        if not job.force and kind_of(job.folder)
        else None
    )
    if corpus is not None and teacher is not None:
        corpus = with_teacher_labels(teacher, corpus, device, Distilling())
    began, anew = perf_counter(), not folder.exists()
    known = recipe.parts is not None and ranks.world == 1
    deadline = deadline_of(recipe.parts or {}, recipe.budget, job.began) if known else None
    held = memory_held()
    estimated = {} if deadline is None else {"seconds": round(deadline.announced, 1), "memory": recipe.memory}
    with training_display(err, is_announced=deadline is not None) as watcher:
        run = Run(
            folder,
            watcher=watcher,
            device=device,
            ignore_memory=job.ignore_memory,
            asked=asked,
            trackers=trackers,
            ranks=ranks,
            stages=stages,
            deadline=deadline,
        )
        with measured("preparation", stages.append):
            training = None if corpus is None else Training.of(corpus, recipe.method, recipe.config, job.ensemble)
        learning = shared_learning(None if training is None else training.learning, ranks)
        is_made = False
        if training is not None and finished is not None and ranks.is_first and not run.unfinished(training.facts):
            is_made = finished.is_made_by(training)
        if any(ranks.any(is_made)):
            return None
        learnt = learning.run(run)
    if training is None:
        return None
    trained = training.model(learnt)
    trained = trained if teacher is None else with_teacher_facts(trained, teacher)
    made = {"command": command_line()} | ({ASKED: asked} if asked else {})
    parts = [stage._asdict() for stage in stages]
    took = {"seconds": round(perf_counter() - began, 2), "stages": parts} if anew else {}  # not known of a stopped run
    if deadline is not None:
        took |= {
            "estimated": {**estimated, "held": held},
            "decisions": {name: list(one) for name, one in deadline.amounts.items()},
        }
    tracked = {"trackers": trackers.ids} if trackers.ids else {}
    return replace(trained, facts={**trained.facts, **made, **took, **tracked})


def command_line() -> str:
    return "laconic " + shlex.join(sys.argv[1:])


def _pictures(model: SavedModel) -> dict[str, Callable[[Path], None]]:
    """Return the pictures of a finished run by name; none without matplotlib."""
    if not find_spec("matplotlib"):
        return {}
    from laconic.analysis.plots import plot_training
    from laconic.storage.card import stages_of

    shared = model.facts.get("training") or {}  # by members, if anything
    pictures = {"training.png": ("Training", model.facts)}
    if members := model.facts.get("members"):
        pictures = {
            f"training{number}.png": (
                f"Training of member {number + 1}, seed {member.get('seed')}",
                {**member, "training": {**shared, **(member.get("training") or {})}},
            )
            for number, member in enumerate(members)
        }
    return {
        name: partial(plot_training, stages, title=title)
        for name, (title, facts) in pictures.items()
        if (stages := stages_of(facts))
    }
