"""Several jobs of the launching program in one process, which opens the GPU once.

    python -m ncu_swizzle.kernels.batch JOBS

JOBS is a JSON list; each job has the `folder` that it runs in and the `arguments` of ``python -m ncu_swizzle.kernels``.
Each leaves its own facts, or its failure, and the next one runs.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from ncu_swizzle.kernels import __main__ as launch


def main(argv: Sequence[str]) -> int:
    """Run the jobs of a file; return the worst exit status."""
    status = 0
    for job in json.loads(Path(argv[0]).read_text(encoding="utf-8")):
        os.chdir(job["folder"])
        status = max(status, launch.main(job["arguments"]))
    return status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
