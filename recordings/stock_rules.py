"""Record the speedups that NVIDIA's rules estimate for kernels with conflicts: ``python3 recordings/stock_rules.py``.

Needs a GPU and ncu. The estimates of each rule, in percent, go to ``recordings/<gpu>/stock_rules.json``; docs/rules.md
compares them with what was measured.
"""

from __future__ import annotations

import csv
import sys
import tempfile
from pathlib import Path
from typing import Any

from ncu_swizzle.base import paths

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from ncu_swizzle.base import child
from ncu_swizzle.base.files import write_json
from ncu_swizzle.engines import machine, measured
from ncu_swizzle.kernels import family as catalog
from ncu_swizzle.kernels.catalog import shipped

# The sections that the stock rules about shared memory need; neither is in ncu's default set.
SECTIONS = ("MemoryWorkloadAnalysis_Tables", "SourceCounters", "WarpStateStats", "SpeedOfLight")
RULES = ("SharedMemoryConflicts", "UncoalescedSharedAccess")
TIMEOUT_S = 300.0


def main() -> None:
    """Record all kernels that are the baseline of another kernel and have a degree above 1."""
    catalog_ = shipped()
    names = sorted({kernel.baseline for _, kernel in catalog_ if kernel.baseline})
    conflicting = [name for name in names if max(catalog_.named(name)[1].degree.values(), default=1) > 1]
    program = machine.find()
    promises: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as folder:
        for name in conflicting:
            promises[name] = promise(program, *catalog_.named(name), Path(folder))
            print(name, promises[name], flush=True)
    version = child.run([str(program), "--version"], TIMEOUT_S, ROOT).log.strip().splitlines()[-1]
    for family in sorted(paths.recordings().glob("*/attention")):
        write_json(family.parent / "stock_rules.json", {"ncu": version, "promises": promises})


def promise(program: Path, family: catalog.Family, kernel: catalog.Kernel, folder: Path) -> dict[str, list[float]]:
    """Return the speedups that each rule estimates for one launch, in percent."""
    report = folder / f"{kernel.name}.ncu-rep"
    launch = measured.launch_command(family, [kernel], family.problem(), "profile", "facts.json")
    sections = [part for section in SECTIONS for part in ("--section", section)]
    command = [str(program), "--profile-from-start", "off", "--clock-control", "none", *sections]
    command += ["--export", str(report), "--force-overwrite", "--", *launch]
    ended = child.run(command, TIMEOUT_S, folder, paths.child_environment())
    if ended.status:
        sys.exit(ended.log)
    page = child.run([str(program), "--import", str(report), "--page", "details", "--csv"], TIMEOUT_S, folder)
    return estimates(page.log)


def estimates(page: str) -> dict[str, list[float]]:
    """Return each rule's estimates from ncu's details page in CSV, the largest first."""
    lines = page[page.index('"ID"') :].splitlines()
    stated: dict[str, list[float]] = {rule: [] for rule in RULES}
    for row in csv.DictReader(lines):
        if row["Rule Name"] in stated and row["Estimated Speedup"]:
            stated[row["Rule Name"]].append(float(row["Estimated Speedup"]))
    return {rule: sorted(values, reverse=True) for rule, values in stated.items()}


if __name__ == "__main__":
    main()
