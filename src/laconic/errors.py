"""Errors that users can fix; the command line prints their message without a traceback and exits with 2."""

from laconic import __version__

_WHEEL = f"laconic_xmc-{__version__}-py3-none-any.whl"


class UserError(Exception):
    """Something the user can put right; the message says what, the value, where, and what to do."""


class DataError(UserError):
    """A file of texts, labels, predictions or vectors that cannot be read as it stands."""


class ConfigError(UserError):
    """An option that is unknown or outside its range."""


class ModelError(UserError):
    """A model folder that is incomplete, damaged, of another version, or not a model at all."""


class TrainingError(UserError):
    """A run that cannot go on as it was set up."""


def install_hint(extra: str) -> str:
    """Return how to install an extra of the distribution."""
    return f"pip install '.[{extra}]' in a checkout of laconic, or pip install '{_WHEEL}[{extra}]'"
