"""Many kernels before and after their fixes, launched on a GPU."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from ncu_swizzle.engines.measured import LaunchJob
from ncu_swizzle.fix import on_gpu
from ncu_swizzle.fix.claims import Claim
from ncu_swizzle.kernels.family import Target
from ncu_swizzle.kernels.toolchain import Toolchain

LARGE = {"n": 2048, "blocks": 4096, "w": 4096, "h": 4096, "seq": 2048}  # takes longer than to launch it
SMALLER = {"rows-sum": {"blocks": 256}, "stages-flat": {"blocks": 1024}}
SAMPLES = 5  # of each version's time
TIMEOUT_S = 600
HEAD = ["| kernel | outputs | time |", "|---|---|---|"]
Pairs = Mapping[str, tuple[Target, Target]]


def measured(pairs: Pairs, folder: Path) -> dict[str, tuple[Claim, ...]]:
    """Return the claims of a GPU about each pair, launched in one process."""
    toolchain = Toolchain(timeout_s=TIMEOUT_S)

    def compiled(name: str) -> LaunchJob:
        before, after = pairs[name]
        return on_gpu.compiled_pair(_large(before), after, folder / name, toolchain)

    with ThreadPoolExecutor() as compilers:  # which are processes of their own
        every = list(compilers.map(compiled, pairs))
    return dict(zip(pairs, on_gpu.measure(every, folder, toolchain, SAMPLES), strict=True))


def table(claims: Mapping[str, tuple[Claim, ...]]) -> str:
    """Return what was measured in Markdown."""
    rows = [
        f"| {name} | {' | '.join(f'{claim.state}: {_cell(claim.reason)}' for claim in each)} |"
        for name, each in claims.items()
    ]
    return "\n".join([*HEAD, *rows]) + "\n"


def _large(target: Target) -> Target:
    sizes = LARGE | SMALLER.get(target.name, {})
    return replace(target, problem={name: sizes.get(name, size) for name, size in target.problem.items()})


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")
