"""Write the model card from the facts in model.json; facts that a model lacks are left out.

What not every model has is left out where it is not there: the training's history (of an ensemble one for each of its
`members`), `metrics` (split, metrics, intervals) and `command`, the command line that made the model.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from laconic.config import dotted
from laconic.storage.facts import ModelFacts
from laconic.units import counted

SHOWN = ("P@1", "P@3", "P@5", "nDCG@5", "PSP@1", "PSP@3", "PSP@5", "tail R@10")
_STAGES = {  # what a stage is called, and where facts have its epochs
    "surrogate": ("training", "surrogate"),
    "shortlister": ("training", "shortlister"),
    "before the refit": ("training", "before_refit"),
    "ranker": ("training", "epochs"),
    "re-ranker": ("reranking", "epochs"),
    "fusion": ("fusion", "epochs"),
}
_INPUTS = {"text": "texts", "sparse": "sparse features (no text)", "dense": "dense features (no text)"}
VALIDATION = "held out of training, except to choose the epoch and to calibrate scores"
_TEXTS = {
    "held-out": " On texts that were held out of the file that the model was trained on.",
    **dict.fromkeys(("validation", "valid"), f" On texts {VALIDATION}."),
}
_FILES = """Nothing here is a pickle: tensors are safetensors, the rest is text. `manifest.json` has every file's size
and sha256; the tensor `label_counts` has each label's number of training texts, which PSP needs."""


def model_card(values: Mapping[str, Any]) -> str:
    facts = ModelFacts(values)
    sizes, name = facts.sizes, _cell(facts.data_name)
    parts = [
        f"# {facts.method} on {name}",
        f"A model made by laconic {facts.version}: it ranks {counted(sizes['labels'], 'label')} for a short text.",
        _use(facts),
        _table(_facts(facts, name)),
        *_figures(facts.metrics, changed=bool(facts.changes)),
        *_command(facts.command),
        *_settings(facts.config),
        _FILES,
    ]
    return "\n\n".join(parts) + "\n"


def _use(facts: ModelFacts) -> str:
    evaluate = "    laconic evaluate {this folder} DATA"
    if facts.inputs != "text":
        return evaluate
    return f"""    echo 'a short text' | laconic predict {{this folder}} -k 5
{evaluate}

```python
from laconic import Laconic

Laconic.load("this folder").predict("a short text", k=5)  # label names and scores
```"""


def _facts(facts: ModelFacts, name: str) -> dict[str, str]:
    sizes = facts.sizes
    per_text = sizes["pairs"] / max(sizes["texts"], 1)
    pairs = f"{counted(sizes['pairs'], 'pair')} of text and label ({per_text:.1f} a text)"
    return {
        "method": f"`{facts.method}`" + _over(facts.config) + _members(facts.members),
        "learnt from": f"{name}: {counted(sizes['texts'], 'text')}, {counted(sizes['labels'], 'label')}, {pairs}",
        "reads": _INPUTS[facts.inputs],
        **_training_of(facts),
        **_trainings(facts.members),
        **theorem_rows(facts),
        **score_rows(facts),
        **({"propensity": "A = {a}, B = {b}".format(**facts["propensity"])} if "propensity" in facts else {}),
        **({"made": facts["created"]} if "created" in facts else {}),
        **_changes(facts.changes),
    }


def _changes(changes: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """List the changes to the model since training, the latest last."""
    found = []
    for change in changes:
        counts = [counted(change[name], name[:-1]) for name in ("labels", "texts", "examples") if change.get(name)]
        found.append(f"`{change.get('verb')}` ({', '.join(counts)}), {change.get('date')}")
    return {"changed": "; ".join(found)} if found else {}


def theorem_rows(facts: Mapping[str, Any]) -> dict[str, str]:
    """Describe the terms of DECAF's Theorem 3.1, for the model or each member; empty for other methods."""
    histories = [("", facts), *((f", seed {member.get('seed')}", member) for member in facts.get("members") or [])]
    found = {whose: (one.get("training") or {}).get("theorem_3_1") for whose, one in histories}
    shown = "sparsity {sparsity:.2g}, recall {recall:.1%} on training texts, excess loss of the order {bound:.2g}"
    return {f"Theorem 3.1{whose}": shown.format(**one) for whose, one in found.items() if one}


def score_rows(facts: Mapping[str, Any]) -> dict[str, str]:
    """Say whether scores are probabilities and, where the facts tell, why they are not."""
    match facts:
        case {"calibration": {"how": str(how), "texts": int(texts)}}:
            held = f"{counted(texts, 'text')} that training has not seen"
            found = f"probabilities, calibrated on {held} ({how})"
        case {"not_calibrated": str(why)}:
            found = f"not calibrated: {_cell(why)}"
        case _:
            found = "not calibrated"
    return {"scores": found, **_threshold_row(facts)}


def _threshold_row(facts: Mapping[str, Any]) -> dict[str, str]:
    match facts.get("threshold"):
        case {"aim": str(aim), "score": float(score), "texts": int(texts), "precision": float(p), "recall": float(r)}:
            figures = f"precision {p:.1f} %, recall {r:.1f} % on {counted(texts, 'text')}"
            return {"stored threshold": f"{score:.4g} for {aim}: {figures}"}
    return {}


def _over(config: Mapping[str, Any]) -> str:
    """Describe the wrappers over the method."""
    found = f", re-ranked ({config['reranker']['encoder']})" if "reranker" in config else ""
    found += ", with labels' own texts learnt" if "extra_texts" in config else ""
    return found + (f", fused with {fused_channels(config['fusion'])}" if "fusion" in config else "")


def fused_channels(fusion: Mapping[str, Any]) -> str:
    """Name the channels that the settings of fusion add to a method."""
    wanted = {
        "label trees": fusion.get("trees"),
        "nearest texts": fusion.get("neighbours"),
        "label texts": fusion.get("label_texts"),
        "siamese": fusion.get("siamese"),
        "transformer": fusion.get("encoder", {}).get("folder"),
    }
    *others, last = [name for name, setting in wanted.items() if setting] or ["no other channel"]
    return f"{', '.join(others)} and {last}" if others else last


def _members(members: Sequence[Mapping[str, Any]]) -> str:
    seeds = ", ".join(str(member.get("seed")) for member in members)
    return f": {len(members)} members (seeds {seeds}), whose scores are averaged" if members else ""


def _trainings(members: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """Describe the training of each member in a row of its own."""
    found = {member.get("seed"): _training_of(member) for member in members}
    return {f"{name}, seed {seed}": value for seed, rows in found.items() for name, value in rows.items()}


def _training_of(facts: Mapping[str, Any]) -> dict[str, str]:
    """Describe the training of a model or member and of its re-ranker."""
    reranking = _training(facts.get("reranking") or {})
    return _training(facts.get("training") or {}) | {f"{name}, re-ranker": value for name, value in reranking.items()}


def stages_of(facts: Mapping[str, Any]) -> dict[str, list[Mapping[str, Any]]]:
    """Return the epochs of every stage that a model, or a member of one, was trained in, first to last."""
    found = {name: (facts.get(group) or {}).get(key) for name, (group, key) in _STAGES.items()}
    return {name: epochs for name, epochs in found.items() if epochs}


def _training(training: Mapping[str, Any]) -> dict[str, str]:
    history = [epoch for stage in stages_of({"training": training}).values() for epoch in stage]
    if not history:
        return {}
    seconds, last = sum(epoch.get("seconds", 0) for epoch in history), history[-1]
    rows = {"training": f"{counted(len(history), 'epoch')}, {seconds:,.0f} s, loss {last['loss']:.4g} at the end"}
    if best := training.get("best_epoch"):
        judged = training.get("before_refit") or training.get("epochs") or []
        scores = {epoch["epoch"]: epoch.get("score") for epoch in judged}
        figure = "" if scores.get(best) is None else f", nDCG@5 {scores[best]:.1f} on texts held out of training"
        rows["best epoch"] = f"{best}{figure}"
    return rows


def _figures(measured: Mapping[str, Any], *, changed: bool = False) -> list[str]:
    """Tabulate the metrics that papers quote, each with half of its interval."""
    metrics, intervals = measured.get("metrics") or {}, measured.get("intervals") or {}
    shown = [metric for metric in SHOWN if metric in metrics]
    if not shown:
        return []
    cells = [f"{metrics[metric]:.1f}{_half(intervals.get(metric))}" for metric in shown]
    table = "\n".join(f"| {' | '.join(row)} |" for row in (shown, ["---"] * len(shown), cells))
    where = f" on the split `{measured['split']}`" if "split" in measured else ""
    meaning = "In percent, ± half of a 95 % interval (texts drawn anew)." if intervals else "In percent."
    of = _TEXTS.get(measured.get("split", ""), "")
    before = " Measured before the model was changed." if changed else ""
    return [f"## Figures{where}", table, meaning + of + before]


def _half(interval: tuple[float, float] | list[float] | None) -> str:
    return "" if interval is None else f" ±{(interval[1] - interval[0]) / 2:.1f}"


def _command(command: str | None) -> list[str]:
    return ["## Made by", f"```console\n$ {command}\n```"] if command else []


def _settings(config: Mapping[str, Any]) -> list[str]:
    lines = [f"- `{name} = {value!r}`" for name, value in dotted(config)]
    return ["## Settings", "\n".join(lines)] if lines else []


def _table(rows: Mapping[str, str]) -> str:
    return "\n".join(["| | |", "|---|---|", *(f"| {name} | {value} |" for name, value in rows.items())])


def _cell(text: str) -> str:
    """Escape a name from outside so that it stays within a table's line."""
    return " ".join(text.replace("|", "\\|").split())
