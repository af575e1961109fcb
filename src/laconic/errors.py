"""Errors that users can fix; the command line prints their message without a traceback and exits with 2."""

_DISTRIBUTION = "laconic-xmc"
# The extra that brings each package which an import may miss; empty: what every installation has.
EXTRAS = {
    **dict.fromkeys(("torch", "scipy", "sklearn", "pyarrow", "safetensors"), "train"),
    **dict.fromkeys(("tensorboard", "matplotlib"), "track"),
    "rdflib": "vocabulary",
    "fsspec": "remote",
    "mlflow": "mlflow",
    "wandb": "wandb",
    "ray": "ray",
    "tokenizers": "transformers",
    "snowballstemmer": "languages",
    **dict.fromkeys(("onnx", "onnxruntime", "onnxscript"), "onnx"),
    **dict.fromkeys(("numba", "fastapi", "granian", "prometheus_client", "pydantic", "starlette", "uvloop"), ""),
}


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


class LostRankError(TrainingError):
    """A run of several processes, one of which has ended or does not answer."""


def install_hint(extra: str) -> str:
    """Return the command that installs an extra of the distribution; an empty one is the distribution itself."""
    wheel = f"{_DISTRIBUTION.replace('-', '_')}-VERSION-py3-none-any.whl"
    wanted = f"[{extra}]" if extra else ""
    return f"pip install '.{wanted}' in a checkout, or pip install '{wheel}{wanted}' of a wheel"


def missing_package(user: str, error: ModuleNotFoundError) -> str | None:
    """Describe a failed import of a package that an extra brings, with the command to type; None for any other one."""
    package = (error.name or "").partition(".")[0]
    if package not in EXTRAS:
        return None
    return f"{user} needs {package}, which is not installed; {install_hint(EXTRAS[package])}"
