"""Configurations of Annif's web application that know laconic as a backend, for the variable ANNIF_CONFIG."""

from __future__ import annotations

import annif.default_config

from laconic.integrations.annif import register

register()


class ProductionConfig(annif.default_config.ProductionConfig):  # type: ignore[misc]  # Annif has no types
    """Annif's configuration for production."""


class Config(annif.default_config.Config):  # type: ignore[misc]  # Annif has no types
    """Annif's configuration for development."""
