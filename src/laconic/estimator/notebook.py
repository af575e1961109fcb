"""Show an estimator as HTML, for notebooks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

from laconic.predict.interface import TextPredictor
from laconic.storage.card import SHOWN


def table(parameters: Mapping[str, Any], predictor: TextPredictor | None, labels: Sequence[str]) -> str:
    """Return a table of the parameters and, once fitted, of what the model is."""
    rows = dict(parameters)
    if predictor is not None:
        facts = predictor.facts
        rows |= {"trained": facts["method"], "labels": f"{len(labels):,}"}
        rows |= {"training texts": f"{facts['sizes']['texts']:,}", "packed": predictor.packed is not None}
        metrics = facts.get("metrics", {})
        shown = {name: metrics["metrics"][name] for name in SHOWN if name in metrics.get("metrics", {})}
        rows |= {f"{name} ({metrics['split']})": f"{value:.1f}" for name, value in shown.items()}
    cells = "".join(f"<tr><th>{escape(name)}</th><td>{escape(str(value))}</td></tr>" for name, value in rows.items())
    return f"<table><caption>Laconic{'' if predictor is not None else ', not fitted'}</caption>{cells}</table>"
