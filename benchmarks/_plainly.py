"""laconic's command line with label rows' gradients of torch's own, written out: what the kernels are compared with.

python -m benchmarks._plainly train DATA ...
"""

from __future__ import annotations

from unittest import mock

from laconic.cli.main import main
from laconic.training import losses

if __name__ == "__main__":
    with mock.patch.object(losses, "_by_kernels", return_value=False):
        main()
