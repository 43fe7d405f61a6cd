"""Compile kernels of examples/python for record_python.py on a machine that lacks their library: no GPU is needed here.

    python3 bench/recording/compile_python.py KERNEL …

tests/data/python/compiled gets each kernel's cubin, its launch, and its compiler's name. Like record_python.py the
program copies itself to /tmp/ncu-swizzle first, and no folder of this machine's Python stays in the cubins.
"""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
HERE = ROOT / "tests" / "data" / "python"
PARTS = ("ncu_swizzle", "rules", "kernels", "reports", "examples/python", "tests/data/python", "bench")
ARCH = "sm_90"
TIMEOUT_S = 300
sys.path.insert(0, str(ROOT))

from bench.recording import neutral
from bench.recording.neutral import NEUTRAL
from ncu_swizzle.frontends.contract import built
from ncu_swizzle.kernels import family, naming
from ncu_swizzle.kernels.family import Target
from ncu_swizzle.kernels.options import CatalogOptions


def main(names: list[str]) -> int:
    """Compile the kernels named, in the copy; raise NcuSwizzleError if one does not compile."""
    home = neutral.home()
    if home is None:
        return neutral.run_copy(__file__, PARTS, HERE / "compiled", names)
    home.mkdir(exist_ok=True)
    catalog = naming.catalogue(CatalogOptions(str(NEUTRAL / "examples/python/ncu-swizzle.toml"), trust=True))
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
