"""The model card: what a person who finds a model folder wants to know, from the facts in its model.json."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def model_card(facts: Mapping[str, Any]) -> str:
    data, sizes = facts["data"], facts["sizes"]
    return f"""# {facts["method"]} on {data["name"]}

A model made by laconic {facts["laconic"]}: it ranks {sizes["labels"]:,} labels for a short text.

    laconic predict {{this folder}} -k 5
    laconic evaluate {{this folder}} DATA

| | |
|---|---|
| method | `{facts["method"]}` |
| trained on | {data["name"]}: {sizes["texts"]:,} texts, {sizes["pairs"]:,} pairs of text and label |
| reads | {_INPUTS[facts["inputs"]]} |
| made | {facts["created"]} |

## Settings

{_settings(facts["config"])}

Nothing here is a pickle: tensors are safetensors, the rest is text. `manifest.json` has every file's size and sha256.
"""


_INPUTS = {"text": "texts", "sparse": "sparse features (no text)", "dense": "dense features (no text)"}


def _settings(config: Mapping[str, Any], prefix: str = "") -> str:
    lines = []
    for name, value in config.items():
        if isinstance(value, Mapping):
            lines.append(_settings(value, f"{prefix}{name}."))
        else:
            lines.append(f"- `{prefix}{name} = {value!r}`")
    return "\n".join(lines)
