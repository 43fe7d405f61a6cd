"""Record catalogue kernels on this machine's GPU: ``make record``, or ``python3 recordings/record.py [KERNEL …]``.

ncu stores its command line and the sources' paths in a report. So that no folder of this machine ends up in the
project, everything happens in a copy under /tmp/ncu-swizzle, other projects' headers included.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
NEUTRAL = Path("/tmp/ncu-swizzle")
PARTS = ("ncu_swizzle", "kernels", "rules", "reports")
SITE = NEUTRAL / "site"  # packages whose headers kernels include

sys.path.insert(0, str(ROOT))
from ncu_swizzle import catalog, headers, repfile  # noqa: E402
from ncu_swizzle.catalog import Catalog, Family  # noqa: E402
from ncu_swizzle.files import write_json  # noqa: E402


def main(names: list[str]) -> None:
    """Record the kernels named, all of them by default."""
    found = catalog.load()
    shutil.rmtree(NEUTRAL, ignore_errors=True)
    for part in PARTS:
        shutil.copytree(ROOT / part, NEUTRAL / part, ignore=shutil.ignore_patterns("__pycache__"))
    names = names or [kernel.name for _, kernel in found]
    for family in {found.find(name)[0].name: found.find(name)[0] for name in names}.values():
        copy_headers(family)
    compile_all(found, names)
    for name in names:
        family, _ = found.find(name)
        report = profile(name)
        (measured,) = repfile.read(report)
        place = ROOT / "recordings" / gpu_name(measured.machine.gpu) / family.name
        place.mkdir(parents=True, exist_ok=True)
        shutil.copy(report, place)
        facts = json.loads(repfile.facts_path(report).read_text(encoding="utf-8"))
        write_json(place / repfile.facts_path(report).name, {"engine": "recorded", **facts})
        print(f"{name}: {place.relative_to(ROOT) / report.name}, {report.stat().st_size:,} bytes", flush=True)


def copy_headers(family: Family) -> None:
    for header in family.headers:
        package, _, inside = header.partition(":")
        shutil.copytree(headers.locate(header), SITE / package / inside, dirs_exist_ok=True)
        (SITE / package / "__init__.py").touch()  # a package without it would yield to one that has it


def environment() -> dict[str, str]:
    """Return the environment in which the copy, and no other, is what runs."""
    return {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, (NEUTRAL, SITE, os.environ.get("PYTHONPATH", ""))))}


def compile_all(found: Catalog, names: list[str]) -> None:
    """Check small problems of all kernels side by side: that fills the cache of compiled kernels."""
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        list(pool.map(check, [name for name in names if not found.find(name)[1].library]))


def check(name: str) -> None:
    family, _ = catalog.load().find(name)
    sizes = [f"--problem={p.name}={p.smallest}" for p in family.parameters]
    command = [sys.executable, "-m", "ncu_swizzle.launch", "--facts", str(NEUTRAL / f"{name}.json"), *sizes, name]
    subprocess.run(command, cwd=NEUTRAL, env=environment(), check=True)


def profile(name: str) -> Path:
    """Profile one kernel from the neutral folder and return its report."""
    output = NEUTRAL / "swizzle-out" / name
    command = [sys.executable, "-m", "ncu_swizzle", "profile", name, "--engine", "ncu"]
    alone = ["--baseline", "none", "--reference", "none", "-o", str(output)]
    subprocess.run([*command, *alone], cwd=NEUTRAL, env=environment(), check=True, stdout=subprocess.DEVNULL)
    return output / f"{name}.ncu-rep"


def gpu_name(full: str) -> str:
    """Return the folder's name for a GPU: "NVIDIA H100 80GB HBM3" is h100."""
    model = re.search(r"\b([A-Z]+\d+[A-Z]*)\b", full.removeprefix("NVIDIA "))
    return (model[1] if model else re.sub(r"\W+", "-", full)).lower()


if __name__ == "__main__":
    main(sys.argv[1:])
