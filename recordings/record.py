"""Record catalogue kernels on this machine's GPU: ``make record``, or ``python3 recordings/record.py [KERNEL …]``.

ncu stores its command line and the sources' paths in a report. So that no folder of this machine ends up in the
project, everything happens in a copy under /tmp/ncu-swizzle.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
NEUTRAL = Path("/tmp/ncu-swizzle")
PARTS = ("ncu_swizzle", "kernels", "rules", "reports")

sys.path.insert(0, str(ROOT))
from ncu_swizzle import catalog, repfile  # noqa: E402
from ncu_swizzle.files import write_json  # noqa: E402


def main(names: list[str]) -> None:
    """Record the kernels named, all of them by default."""
    found = catalog.load()
    shutil.rmtree(NEUTRAL, ignore_errors=True)
    for part in PARTS:
        shutil.copytree(ROOT / part, NEUTRAL / part, ignore=shutil.ignore_patterns("__pycache__"))
    for name in names or [kernel.name for _, kernel in found]:
        family, _ = found.find(name)
        report = profile(name)
        (measured,) = repfile.read(report)
        place = ROOT / "recordings" / gpu_name(measured.machine.gpu) / family.name
        place.mkdir(parents=True, exist_ok=True)
        shutil.copy(report, place)
        facts = json.loads(repfile.facts_path(report).read_text(encoding="utf-8"))
        write_json(place / repfile.facts_path(report).name, {"engine": "recorded", **facts})
        print(f"{name}: {place.relative_to(ROOT) / report.name}, {report.stat().st_size:,} bytes")


def profile(name: str) -> Path:
    """Profile one kernel from the neutral folder and return its report."""
    output = NEUTRAL / "swizzle-out" / name
    command = [sys.executable, "-m", "ncu_swizzle", "profile", name, "--engine", "ncu"]
    alone = ["--baseline", "none", "--reference", "none", "-o", str(output)]
    environment = {**os.environ, "PYTHONPATH": f"{NEUTRAL}{os.pathsep}{os.environ.get('PYTHONPATH', '')}"}
    subprocess.run([*command, *alone], cwd=NEUTRAL, env=environment, check=True)
    return output / f"{name}.ncu-rep"


def gpu_name(full: str) -> str:
    """Return the folder's name for a GPU: "NVIDIA H100 80GB HBM3" is h100."""
    model = re.search(r"\b([A-Z]+\d+[A-Z]*)\b", full.removeprefix("NVIDIA "))
    return (model[1] if model else re.sub(r"\W+", "-", full)).lower()


if __name__ == "__main__":
    main(sys.argv[1:])
