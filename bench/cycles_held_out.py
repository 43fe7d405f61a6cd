"""Launches of bench/costs and bench/fresh: compiled here, measured on an H100.

Executions and wavefronts are the emulator's, too; of ncu's metrics the model gets how many blocks fit on an SM.
"""

from __future__ import annotations

import json
import lzma
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import costs_changes
from cycles_launches import Launch, described, kept_execution, on_all_cores

from ncu_swizzle.base.errors import NcuSwizzleError
from ncu_swizzle.engines import emulation
from ncu_swizzle.kernels import fills
from ncu_swizzle.kernels.family import Target
from ncu_swizzle.kernels.toolchain import Toolchain

SEED = 1  # of inputs that decide what is executed


def pairs(kept: Path, folder: Path = costs_changes.OWN) -> list[tuple[Launch, Launch]]:
    """Return the launches before and after each change, at all sizes that were measured."""
    recorded = lzma.decompress((folder / "recorded" / "costs.json.xz").read_bytes())
    rows = {row["pair"]: row for row in json.loads(recorded)["rows"]}
    compiled = costs_changes.compiled(costs_changes.of_own(folder), kept / "cubins")
    jobs = [job for job in costs_changes.jobs(compiled) if job.name in rows]
    found = on_all_cores(_pair, [(job, rows[job.name], kept) for job in jobs])
    return [pair for pair in found if pair]


def _pair(job: costs_changes.Job, row: Mapping[str, Any], kept: Path) -> tuple[Launch, Launch] | None:
    try:
        before, after = (_launch(job, side, target, row[side]["metrics"], kept) for side, target in job.change.sides)
    except NcuSwizzleError as error:
        print(f"{job.name} is not emulated: {error}", flush=True)
        return None
    return before, after


def _launch(job: costs_changes.Job, side: str, target: Target, metrics: Mapping[str, Any], kept: Path) -> Launch:
    target = replace(target, problem=job.problem)
    found = emulation.executable(target, emulation.EmulationSettings(Toolchain(timeout_s=300)))
    binary, sample = found.emulated.binary, target.family.sample
    launch = found.launch(SEED if sample is None else sample)
    executed = kept_execution(kept / f"{job.name}-{side}.npz", binary.cubin, binary.symbol, launch)
    sizes = [(fills.size(each, job.problem), each.output) for each in target.family.arguments if each.shape]
    read, written = (sum(size for size, output in sizes if output == which) for which in (False, True))
    numbers = {name: value[0] if isinstance(value, list) else value for name, value in metrics.items()}
    text = binary.cubin.section(f".text.{binary.symbol}")
    return described(job.name, job.change.program, found.emulated.profile, text, executed, numbers, (read, written))
