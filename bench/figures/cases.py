"""What a fix gains in the cases of docs/cases that have none measured yet.

``python3 bench/figures/cases.py``, on a GPU.

cumsum   bench/figures/pairs' kernel with rows laid out like those of PyTorch's, and the same with every other row XORed
tf32     examples/python's Triton product with row-major operands, with B's K contiguous, and in float16

Prints degrees, durations by ncu, and what ConflictCost says beside what was saved. With ``--engine emulated`` no GPU is
needed and there are no durations.

"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from bench.figures import pairs, rules, tables
from ncu_swizzle.base import paths
from ncu_swizzle.engines import machine, ncu, reader
from ncu_swizzle.engines import settings as options_
from ncu_swizzle.reports.model import Profile

TIMEOUT_S = 60
TRITON = tables.ROOT / "examples" / "python"
PRODUCTS = ("matmul-tf32-128x128x32", "matmul-tf32-turned-b", "matmul-f16-128x128x32")
CUMSUM = "cumsum"


def cumsum() -> Iterator[tuple[str, Profile]]:
    """Yield both kernels of the pair, measured."""
    program = pairs.compiled()
    pairs.run(str(program), CUMSUM)  # checked against the reference, and timed by events
    report = pairs.NEUTRAL / "cumsum.ncu-rep"
    options = options_.Options(launch_count=2, launches=options_.Launches())
    command = [str(program), "--once", CUMSUM]
    ncu.collect(machine.find(), command, report, options, TIMEOUT_S, paths.child_environment())
    yield from zip((CUMSUM, f"{CUMSUM}, XORed"), reader.read(report), strict=True)


def products(engine: str) -> Iterator[tuple[str, Profile]]:
    """Yield the products, profiled."""
    for name in PRODUCTS:
        with tempfile.TemporaryDirectory() as folder:
            alone = ("--baseline", "none", "--reference", "none", "--trust")
            command = [
                sys.executable,
                "-m",
                "ncu_swizzle",
                "profile",
                name,
                *alone,
                "--engine",
                engine,
                "-o",
                folder,
                "-f",
            ]
            subprocess.run(command, cwd=TRITON, check=True, stdout=subprocess.DEVNULL, env=paths.child_environment())
            yield name, Profile.from_json(Path(folder, f"{name}.json").read_text(encoding="utf-8"))


def lines(case: list[tuple[str, Profile]]) -> Iterator[str]:
    """Yield a row for each kernel; the first is what the others are compared with."""
    for name, profile in case:
        took = f"{profile.duration_ns / 1e6:.4f} ms" if profile.duration_ns else "not measured"
        pair = rules.compared(case[0], (name, profile)) if profile.duration_ns and name != case[0][0] else None
        saved = (pair.interval, f"{pair.measured:.1f}") if pair else ("", "")
        yield tables.row(name, f"{profile.total.degree or 0:.2f}", took, *saved)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--engine", choices=("ncu", "emulated"), default="ncu")
    engine = parser.parse_args().engine
    print(tables.head("kernel", "degree", "duration", "ConflictCost, % of the first", "saved, %"))
    for case in ([list(cumsum())] if engine == "ncu" else []) + [list(products(engine))]:
        print("\n".join(lines(case)), flush=True)


if __name__ == "__main__":
    main()
