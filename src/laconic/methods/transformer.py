"""A pre-trained encoder under a method: its sizes and rules as settings, its learning rate, frozen vectors."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import torch

from laconic.data.dataset import Dataset
from laconic.data.encoder_folder import Pretrained, read_pretrained
from laconic.data.text import Splitter
from laconic.errors import ConfigError
from laconic.methods.common import encoded
from laconic.methods.config import TRANSFORMER, MethodConfig, PretrainedConfig
from laconic.models.encoders import ENCODERS, Encoder, Identity
from laconic.training.optimizer import OneCycle

C = TypeVar("C", bound=MethodConfig)


def pretrained_of(config: MethodConfig) -> Pretrained | None:
    """Read the pre-trained encoder whose folder the settings name, if they name one."""
    if not config.encoder or config.encoder in ENCODERS:
        return None
    if config.encoder == TRANSFORMER:
        raise ConfigError("encoder=transformer: name the folder of the pre-trained transformer instead")
    return read_pretrained(Path(config.encoder))


def with_pretrained(config: C, encoder: Pretrained) -> C:
    """Return the settings with the encoder's sizes and rules; refuse settings of words, which it does not read."""
    assert isinstance(config, PretrainedConfig)
    usual = type(config)()
    if (config.text, config.vocabulary, config.vectors) != (usual.text, usual.vocabulary, usual.vectors):
        raise ConfigError(
            f"encoder={config.encoder}: a pre-trained encoder reads texts by its own rules and pieces; leave the "
            "settings text, vocabulary and vectors out"
        )
    own = config.transformer
    sizes = replace(
        own,
        layers=min(own.layers or encoder.layers, encoder.layers),
        heads=encoder.heads,
        inner=encoder.inner,
    )
    return replace(
        config,
        encoder=TRANSFORMER,
        embedding=encoder.dim,
        length=min(config.length, encoder.positions),
        text=Splitter(rules=encoder.rules, stop_words=False),
        transformer=sizes,
    )


def encoder_plan(config: MethodConfig) -> dict[str, Any]:
    """Return what a training plan has of its own for a pre-trained encoder: its learning rate, and when rates rise."""
    if not isinstance(config, PretrainedConfig) or config.encoder != TRANSFORMER:
        return {}
    own = config.transformer
    return {"pretrained_rate": own.learning_rate, "schedule": OneCycle(warm_up=own.rising)}


def encoded_if_frozen(
    encoder: Encoder, config: MethodConfig, data: Dataset, held: Dataset, device: torch.device
) -> tuple[Encoder, Dataset, Dataset]:
    """Return what to train: the encoder with the data or, where it is frozen, its vectors and what returns them."""
    if not isinstance(config, PretrainedConfig) or config.encoder != TRANSFORMER or not config.transformer.frozen:
        return encoder, data, held

    def with_vectors(of: Dataset) -> Dataset:
        return replace(of, inputs=encoded(encoder.eval(), of.inputs, device).cpu().numpy())

    return Identity(encoder.dim), with_vectors(data), with_vectors(held)
