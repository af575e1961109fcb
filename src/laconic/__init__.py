"""laconic: from a short text to the right few of millions of labels."""

import sys
from typing import TYPE_CHECKING, Any

if sys.platform == "win32":  # a folder cannot be written there so that a crash leaves it whole
    raise ImportError("laconic does not run on Windows itself; use Linux, in WSL 2 for instance, or macOS")

__all__ = ["Laconic", "__version__", "pull", "push"]
__version__ = "0.2.0"

if TYPE_CHECKING:
    from laconic.estimator import Laconic
    from laconic.storage.remote import pull, push
else:

    def __getattr__(name: str) -> Any:
        """Laconic brings torch along, so it is imported when it is asked for."""
        if name == "Laconic":
            try:
                from laconic.estimator import Laconic
            except ModuleNotFoundError as error:
                from laconic.errors import missing_package

                raise ModuleNotFoundError(missing_package("Laconic", error) or str(error), name=error.name) from None
            return Laconic
        if name in ("pull", "push"):
            from laconic.storage import remote

            return getattr(remote, name)
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
