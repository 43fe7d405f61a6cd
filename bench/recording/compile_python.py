"""Compile kernels of examples/python for record_python.py on a machine that lacks their library: no GPU is needed here.

    python3 bench/recording/compile_python.py KERNEL …

tests/data/python/compiled gets each kernel's cubin, its launch, and its compiler's name. Like record_python.py the
program copies itself to /tmp/ncu-swizzle first, and no folder of this machine's Python stays in the cubins.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
HERE = ROOT / "tests" / "data" / "python"
NEUTRAL = Path("/tmp/ncu-swizzle")
PARTS = ("ncu_swizzle", "rules", "kernels", "reports", "examples/python", "tests/data/python", "bench")
HOME = "NCU_SWIZZLE_COMPILE_INTO"  # the variable that tells the copy where its cubins go
ARCH = "sm_90"
TIMEOUT_S = 300


sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from ncu_swizzle.frontends.compiled import built
from ncu_swizzle.kernels import family, naming
from ncu_swizzle.kernels.family import Target
from ncu_swizzle.kernels.options import CatalogOptions


def main(names: list[str]) -> int:
    """Compile the kernels named, in the copy; raise NcuSwizzleError if one does not compile."""
    if HOME not in os.environ:
        shutil.rmtree(NEUTRAL, ignore_errors=True)
        for part in PARTS:
            shutil.copytree(ROOT / part, NEUTRAL / part, ignore=shutil.ignore_patterns("__pycache__", "recorded"))
        environment = {**os.environ, "PYTHONPATH": str(NEUTRAL), HOME: str(HERE / "compiled")}
        command = [sys.executable, str(NEUTRAL / "bench" / "recording" / Path(__file__).name), *names]
        return subprocess.run(command, cwd=NEUTRAL, env=environment, check=False).returncode
    home = Path(os.environ[HOME])
    home.mkdir(exist_ok=True)
    catalog = naming.everything(CatalogOptions(str(NEUTRAL / "examples/python/ncu-swizzle.toml"), trust=True))
    for described, kernel in catalog:
        if kernel.name in names:
            compile_one(Target(described, kernel, described.problem()), home)
    return 0


def compile_one(target: Target, home: Path) -> None:
    """Compile one kernel and write what record_python.py reads."""
    made = built(target, ARCH, TIMEOUT_S)
    python = sys.prefix.encode()
    code = made.code.replace(python, b"/site".ljust(len(python), b"-")[: len(python)])
    (home / f"{target.name}.cubin").write_bytes(code)
    family.write(replace(made.target.family, kernels=(made.target.kernel,)), home / f"{target.name}.json")
    (home / f"{target.name}.txt").write_text(made.compiler, encoding="utf-8")
    print(f"{target.name}: {made.compiler}, {len(code):,} bytes", flush=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
