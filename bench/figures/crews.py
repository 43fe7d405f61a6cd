"""Options of benches that loop over many kernels without timing them: ``--workers 4`` does as many at a time."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from ncu_swizzle.base.errors import UsageError
from ncu_swizzle.engines.settings import FleetOptions, Progress
from ncu_swizzle.sweep.crew import results_of
from ncu_swizzle.sweep.worker import FleetJob, FleetTask

Work = Callable[[str], Any]


def add_option(parser: argparse.ArgumentParser) -> None:
    """Add --workers."""
    parser.add_argument("--workers", default="", metavar="N", help="in N processes of this machine")


def each(work: Work, names: Sequence[str], workers: str) -> list[Any]:
    """Return what the work gives for each name, in their order."""
    options = FleetOptions(workers=workers)
    if options.given and not options.count:
        raise UsageError(f"--workers {workers}: not a number of processes", "--workers 2")
    return results_of(
        FleetJob(work=_done, common=work, examine=_alike), [FleetTask(name, name) for name in names], options
    )


def _done(work: Work, name: str, _folder: Path, _progress: Progress) -> Any:
    return work(name)


def _alike(_work: Work) -> None:
    """Say that all processes of a machine are alike."""
