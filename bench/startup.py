"""How long ``ncu-swizzle --help`` takes relative to a bare interpreter: ``python3 bench/startup.py``.

Both are timed as whole processes, alternating; the ratio is the median over pairs. Run it with the interpreter of the
environment that ncu-swizzle is installed in.
"""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path
from statistics import median

PAIRS = 40
WARM_UP = 3


def seconds(command: list[str]) -> float:
    start = time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - start


def main() -> None:
    help_ = [str(Path(sys.executable).with_name("ncu-swizzle")), "--help"]
    bare = [sys.executable, "-c", ""]
    pairs = [(seconds(help_), seconds(bare)) for _ in range(WARM_UP + PAIRS)][WARM_UP:]
    print("| | median |")
    print("|---|---|")
    print(f"| `ncu-swizzle --help` | {1e3 * median(pair[0] for pair in pairs):.1f} ms |")
    print(f"| `python3 -c ''` | {1e3 * median(pair[1] for pair in pairs):.1f} ms |")
    print(f"| ratio | {median(a / b for a, b in pairs):.2f} |")


if __name__ == "__main__":
    main()
