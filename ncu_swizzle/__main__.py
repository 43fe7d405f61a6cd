"""Where ``ncu-swizzle`` and ``python -m ncu_swizzle`` start."""

from __future__ import annotations

import gc
import sys
from pathlib import Path

HELP = Path(__file__).with_name("help.txt")  # what typer prints, kept because importing typer takes longer

GARBAGE = 100_000  # objects between two looks for cycles: by default, they are a third of reading and rendering


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
