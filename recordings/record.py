"""Record catalogue kernels on this machine's GPU: ``make record``, or ``python3 recordings/record.py [KERNEL …]``.

``--workers gpus`` records on all of its GPUs, a kernel at a time on each.

The facts hold the commit of the sources; NCU_SWIZZLE_COMMIT sets it if this is a copy outside git.

ncu stores its command line and the sources' paths in a report. To keep this machine's paths out of the project, the
program copies itself and everything it needs to /tmp/ncu-swizzle, other projects' headers included, and continues
there.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
NEUTRAL = Path("/tmp/ncu-swizzle")
PARTS = ("ncu_swizzle", "kernels", "rules", "reports", "recordings/record.py")
SITE = NEUTRAL / "site"  # packages whose headers kernels include
HOME = "NCU_SWIZZLE_RECORD_INTO"  # the variable that tells the copy where to put the recordings
COMMIT = "NCU_SWIZZLE_COMMIT"

sys.path.insert(0, str(ROOT))
from ncu_swizzle.base.files import write_json
from ncu_swizzle.engines import measured as measured_
from ncu_swizzle.engines.settings import GPUS, Context, FleetOptions, Progress, Request
from ncu_swizzle.kernels import toolchain
from ncu_swizzle.kernels.catalog import Catalog, shipped
from ncu_swizzle.kernels.family import Family
from ncu_swizzle.kernels.git import commit_of
from ncu_swizzle.reports import container
from ncu_swizzle.reports.options import NCU
from ncu_swizzle.sweep.crew import results_of
from ncu_swizzle.sweep.worker import FleetJob, FleetTask


def main(arguments: list[str]) -> None:
    """Record the named kernels; by default, all of them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="KERNEL")
    parser.add_argument("--workers", default="", choices=("", GPUS), help="record on all GPUs of this machine")
    given = parser.parse_args(arguments)
    catalog = shipped()
    names = given.names or [kernel.name for _, kernel in catalog.run()]
    if HOME in os.environ:
        compile_all(catalog, names)
        record_all(catalog, names, Path(os.environ[HOME]), FleetOptions(workers=given.workers))
    else:
        copy_everything(catalog)
        path = os.pathsep.join(map(str, (NEUTRAL, SITE, os.environ.get("PYTHONPATH", ""))))
        known = os.environ.get(COMMIT) or commit_of(ROOT / "kernels")
        environment = {**os.environ, "PYTHONPATH": path, HOME: str(ROOT / "recordings"), COMMIT: known}
        command = [sys.executable, str(NEUTRAL / "recordings" / "record.py"), *arguments]
        sys.exit(subprocess.run(command, cwd=NEUTRAL, env=environment, check=False).returncode)


def copy_everything(catalog: Catalog) -> None:
    shutil.rmtree(NEUTRAL, ignore_errors=True)
    for part in PARTS:
        target = NEUTRAL / part
        target.parent.mkdir(parents=True, exist_ok=True)
        if (ROOT / part).is_dir():
            shutil.copytree(ROOT / part, target, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(ROOT / part, target)
    for family in catalog.families:
        for header in family.headers:
            package, _, inside = header.partition(":")
            shutil.copytree(toolchain.locate(header), SITE / package / inside, dirs_exist_ok=True)
            (SITE / package / "__init__.py").touch()  # a package with this file takes precedence over one without


def compile_all(catalog: Catalog, names: list[str]) -> None:
    """Check small problems of all kernels in parallel, which fills the cache of compiled kernels."""
    own = [(family, kernel.name) for family, kernel in catalog if kernel.name in names and not kernel.library]
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        list(pool.map(lambda variant: check(*variant), own))


def check(family: Family, name: str) -> None:
    sizes = [f"--problem={parameter.name}={parameter.smallest}" for parameter in family.parameters]
    facts = NEUTRAL / f"{name}.json"
    subprocess.run([sys.executable, "-m", "ncu_swizzle.kernels", "--facts", str(facts), *sizes, name], check=True)


def record_all(catalog: Catalog, names: Sequence[str], home: Path, fleet: FleetOptions) -> None:
    """Record kernels one after the other, or on several GPUs; the first failure ends it."""
    job = FleetJob(work=recorded_by_worker, common=(catalog, home), examine=alike, measures=fleet.given)
    results_of(job, [FleetTask(name, name) for name in dict.fromkeys(names)], fleet)


def recorded_by_worker(common: tuple[Catalog, Path], name: str, _folder: Path, _progress: Progress) -> None:
    """Record one kernel in the neutral folder, not in the worker's: a report holds its path."""
    record(common[0], name, common[1])


def alike(_common: tuple[Catalog, Path]) -> None:
    """Say nothing of this machine: each recording names its GPU."""


def record(catalog: Catalog, name: str, home: Path) -> None:
    """Measure one kernel and copy its report and facts to the recordings."""
    family, _ = catalog.named(name)
    folder = NEUTRAL / "swizzle-out" / name
    folder.mkdir(parents=True, exist_ok=True)
    measured = measured_.measure(catalog.target(name), Context(request=Request(engine=NCU), folder=folder))
    report = folder / measured.report
    recordings = home / gpu_name(measured.machine.gpu) / family.name
    recordings.mkdir(parents=True, exist_ok=True)
    shutil.copy(report, recordings)
    facts = json.loads(container.facts_path(report).read_text(encoding="utf-8"))
    del facts["digest"]
    recorded = {"engine": "recorded", **facts, "commit": os.environ[COMMIT]}
    write_json(recordings / container.facts_path(report).name, recorded)
    container.seal(recordings / report.name, facts.get("notes", ()))
    print(f"{name}: {report.stat().st_size:,} bytes", flush=True)


def gpu_name(full: str) -> str:
    """Return the folder name for a GPU: "NVIDIA H100 80GB HBM3" is h100."""
    model = re.search(r"\b([A-Z]+\d+[A-Z]*)\b", full.removeprefix("NVIDIA "))
    return (model[1] if model else re.sub(r"\W+", "-", full)).lower()


if __name__ == "__main__":
    main(sys.argv[1:])
