"""laconic: from a short text to the right few of millions of labels."""

from typing import TYPE_CHECKING, Any

__all__ = ["Laconic", "__version__"]
__version__ = "0.1.0"

if TYPE_CHECKING:
    from laconic.estimator import Laconic
else:

    def __getattr__(name: str) -> Any:
        """Laconic brings torch along, so it is imported when it is asked for."""
        if name == "Laconic":
            from laconic.estimator import Laconic

            return Laconic
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
