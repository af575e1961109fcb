"""The sparse matrix of scipy, and what stands in its place where only packed models are answered."""

from typing import TYPE_CHECKING

__all__ = ["csr_array"]

if TYPE_CHECKING:
    from scipy.sparse import csr_array
else:
    try:
        from scipy.sparse import csr_array
    except ModuleNotFoundError as missing:
        _missing = missing

        class csr_array:  # noqa: N801 - it stands for scipy's class of that name
            """A class without instances: annotations and isinstance need the name, packed models never make one."""

            def __init__(self, *arguments: object, **options: object) -> None:
                raise _missing
