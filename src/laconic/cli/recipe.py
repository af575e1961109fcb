"""What `laconic train` is asked to train: a method with its settings, and the folder that the model goes to."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from laconic.config import AUTO, Settings, check_method, method_called, preset_path, read_settings
from laconic.errors import ConfigError

if TYPE_CHECKING:
    from laconic.data.corpus import Corpus
    from laconic.methods.rerun import Choice
    from laconic.training.deadline import Part

_ENDINGS = {".gz", ".csv", ".tsv", ".jsonl", ".ndjson", ".json", ".parquet", ".txt"}
_WRAPPED = {"reranker": ", re-ranked", "extra_texts": ", label texts learnt", "fusion": ", fused"}


class Recipe(NamedTuple):
    """A method with its settings."""

    method: str
    settings: Settings
    options: Mapping[str, float]  # settings of training that have an option of their own
    config: Any = None  # None: the method is still to be chosen, or the settings to be checked
    budget: float | None = None  # seconds, for the choice
    why: str = ""  # this method was chosen
    parts: Mapping[str, Any] | None = None  # of the run, with estimated times, where a method was chosen
    memory: int = 0  # bytes that a chosen method is estimated to hold at most
    members: int = 1  # of an ensemble that was chosen

    @property
    def words(self) -> str:
        """Name the method and what is put over it."""
        return self.method + "".join(more for group, more in _WRAPPED.items() if group in self.settings)

    @property
    def asked(self) -> dict[str, Any]:
        """Return the request for a choice of a method, to be stored with what was chosen; empty if one is named."""
        if self.method != AUTO:
            return {}
        return {"settings": self.settings, "options": self.options, "budget": self.budget}


def asked_recipe(
    method: str,
    *,
    budget: str,
    preset: str,
    encoder: str,
    settings: list[str],
    wrappers: Mapping[str, bool],
    options: Mapping[str, float | None],
) -> Recipe:
    """Return the requested recipe; report a wrong name before anything is read or imported."""
    from laconic.data.encoder_folder import is_folder_name
    from laconic.units import seconds_of

    method = method_called(method)
    named = "" if method == AUTO else f"--method {method} names one"
    joins = not named and not preset and is_folder_name(encoder)  # as one more channel of what is chosen
    if not named and (preset or (encoder and not joins)):
        method, named = "inceptionxml", f"--{'preset' if preset else 'encoder'} is of inceptionxml"
    if named:
        check_method(method)
    if named and budget:
        raise ConfigError(f"--budget chooses a method, but {named}; leave one of them out")
    encoders = [f"{'fusion.encoder.folder' if joins else 'encoder'}={json.dumps(encoder)}"] * bool(encoder)
    wanted = read_settings(preset_path(method, preset) if preset else None, [*settings, *encoders])
    for group, asked in wrappers.items():
        if asked:
            wanted.setdefault(group, {})
    given = {name: value for name, value in options.items() if value is not None}
    return Recipe(method, wanted, given, budget=seconds_of(budget) if budget else None)


def checked_recipe(recipe: Recipe) -> Recipe:
    """Add the config of a named method, so that a wrong setting is reported before data is read."""
    from laconic.methods.registry import config_of

    if recipe.method == AUTO:
        return recipe
    settings = _with_options(recipe.method, recipe.settings, recipe.options)
    return recipe._replace(settings=settings, config=config_of(recipe.method, settings))


def settled_recipe(
    recipe: Recipe,
    corpus: Corpus,
    device: str,
    earlier: Choice | None = None,
    *,
    packing: bool = True,
    members: int = 1,
) -> Recipe:
    """Choose a method by the data, the machine and the time budget where none was named.

    `earlier` is the choice that the same request has made before; it is made again. With `members`, an ensemble of so
    many is wanted.
    """
    from laconic.methods.auto import choose, config_for, describe_situation
    from laconic.methods.registry import config_of
    from laconic.methods.stage_memory import planned_within
    from laconic.training.run import device_named

    if recipe.config is not None:
        return recipe._replace(members=members)
    gpu = device_named(device).type == "cuda"
    budget = None if recipe.budget is None else recipe.budget / members
    situation = describe_situation(corpus, gpu=gpu, budget=budget, packing=packing)
    if earlier is not None:
        check_method(earlier.method)
        config, why = config_of(earlier.method, earlier.config), f"{earlier.method}, as when this command was first run"
        parts = planned_within(situation, earlier.method, config, earlier.members)
        found = recipe._replace(method=earlier.method, settings=earlier.config, config=config, why=why)
        return found._replace(parts=parts, members=earlier.members)
    choice = choose(situation)
    if "fusion" in recipe.settings and "fusion" not in choice.settings:
        raise ConfigError(
            f"--encoder FOLDER and settings of fusion are for a combined model, but the choice is {choice.why}; leave "
            "them out, give more texts or time, or name a method (--method inceptionxml --encoder FOLDER)"
        )
    try:
        wanted = _with_options(choice.method, recipe.settings, recipe.options)
    except ConfigError as error:
        raise ConfigError(f"{error} ({choice.method} was chosen; name a method that has it)") from None
    settings, config = config_for(choice, wanted)
    members *= choice.members
    parts = planned_within(situation, choice.method, config, members)
    return recipe._replace(
        method=choice.method,
        settings=settings,
        config=config,
        why=choice.why + _besides(config, parts),
        parts=parts,
        memory=choice.memory,
        members=members,
    )


def _besides(config: Any, parts: Mapping[str, Part]) -> str:
    """Say how long the training of a transformer takes besides what was chosen."""
    from laconic.units import human_seconds

    if config.fusion is None or not config.fusion.encoder.folder:
        return ""
    seconds = sum(part.seconds for name, part in parts.items() if name.startswith("fusion-encoder."))
    return f", and {human_seconds(seconds)} for {config.fusion.encoder.folder}"


def _with_options(method: str, settings: Settings, options: Mapping[str, float]) -> Settings:
    """Put settings of training into the method and into its re-ranker, whichever of them has such a setting."""
    from laconic.methods.config import RerankerConfig
    from laconic.methods.registry import METHODS

    settings = dict(settings)
    own, of_reranker = ({field.name for field in fields(kind)} for kind in (METHODS[method].config, RerankerConfig))
    reranked = "reranker" in settings
    for name, value in options.items():
        if name not in own and not (reranked and name in of_reranker):
            option = "--lr" if name == "learning_rate" else f"--{name.replace('_', '-')}"
            raise ConfigError(
                f"{option}: {method} has no setting {name!r}; `laconic settings {method}` shows those it has"
            )
        if name in own:
            settings[name] = value
        if reranked and name in of_reranker:
            settings["reranker"] = {name: value, **settings["reranker"]}
    return settings


def usual_folder(data: str, recipe: Recipe, preset: str) -> Path:
    """Return the model folder where none is named: of the data's name and the method's, in the current folder."""
    name = Path(data).resolve().name or "model"
    while Path(name).suffix.lower() in _ENDINGS:
        name = Path(name).stem
    return Path("-".join([name, recipe.method, *[Path(preset).stem] * bool(preset)]))
