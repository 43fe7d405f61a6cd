"""The entry point of ``ncu-swizzle`` and ``python -m ncu_swizzle``."""

from __future__ import annotations

import gc
import sys
from pathlib import Path

HELP = Path(__file__).with_name("help.txt")  # typer's output, stored because importing typer is slow

GARBAGE = 100_000  # objects between garbage collections, which by default take a third of reading and rendering


def main() -> int:
    """Run the command line and return the exit code."""
    if sys.argv[1:] in ([], ["--help"]):
        sys.stdout.write(HELP.read_text(encoding="utf-8"))
        return 0
    gc.set_threshold(GARBAGE)
    from ncu_swizzle import cli

    return cli.main()


if __name__ == "__main__":
    sys.exit(main())
