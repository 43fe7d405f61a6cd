"""How many replay passes the section takes with wgmma's counters: ``python3 bench/figures/passes.py [--ncu PATH]``.

For a machine with a Hopper GPU. One launch of `wgmma-128` is profiled with each of a few variants of the section
`SwizzleConflicts`, which may take at most 6 passes: as it is, with wgmma's counters, and with them in place of others.
Prints a line per variant; no variant is started after ``--seconds``. Nothing in rules/ is changed.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from bench.figures.tables import head, row
from ncu_swizzle.base import paths
from ncu_swizzle.engines import machine, measured
from ncu_swizzle.kernels import catalog

SECTION = "SwizzleConflicts"
MOST = 6
SIZE = 1024  # of the GEMM: counters need few launches, not long ones
GMMA = (
    "l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_gmma.sum",
    "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_gmma.sum",
)
TMA_BYTES = (
    "l1tex__m_xbar2l1tex_read_bytes_mem_global_op_tma_ld.sum",
    "l1tex__m_xbar2l1tex_read_bytes_mem_global_op_tma_ld_dest_multicast.sum",
    "l1tex__m_l1tex2xbar_write_bytes_mem_global_op_tma_st.sum",
)
ATOMICS = (
    "l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_atom.sum",
    "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_atom.sum",
)
ALL_SHARED = (
    "l1tex__data_bank_conflicts_pipe_lsu_mem_shared.sum",
    "l1tex__data_pipe_lsu_wavefronts_mem_shared.sum",
)
PASSES = re.compile(r"(\d+) pass(?:es)?\b")
METRIC = re.compile(r'  Metrics \{\n    Label: "[^"]*"\n    Name: "([^"]*)"\n(?:    Filter \{.*\}\n)?  \}\n')


@dataclass(frozen=True)
class Variant:
    """The section with some metrics more and some fewer."""

    name: str
    more: tuple[str, ...] = ()
    fewer: tuple[str, ...] = ()


VARIANTS = (
    Variant("as it is"),
    Variant("+ wgmma", GMMA),
    Variant("+ wgmma's conflicts", GMMA[:1]),
    Variant("+ wgmma, - atomics", GMMA, ATOMICS),
    Variant("+ wgmma, - atomics, - sums over all", GMMA, ATOMICS + ALL_SHARED),
    Variant("+ wgmma, - all but one of TMA's bytes", GMMA, TMA_BYTES[1:]),
    Variant("+ wgmma, - TMA's bytes", GMMA, TMA_BYTES),
)


def section(text: str, variant: Variant) -> str:
    """Return the section's text with a variant's metrics."""
    names = METRIC.findall(text)
    if missing := set(variant.fewer) - set(names):
        raise SystemExit(f"the section has no {', '.join(sorted(missing))}")
    text = METRIC.sub(lambda match: "" if match[1] in variant.fewer else match[0], text)
    added = "".join(f'  Metrics {{\n    Label: "{name}"\n    Name: "{name}"\n  }}\n' for name in variant.more)
    opening = "}\nMetrics {\n"
    if text.count(opening) != 1:
        raise SystemExit("the section has no list of metrics after its header")
    return text.replace(opening, opening + added)


def passes(ncu: Path, child: Sequence[str], text: str) -> int | str:
    """Return the passes of one launch, or the last line that ncu printed if it told none."""
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / f"{SECTION}.section").write_text(text, encoding="utf-8")
        given = ["--section-folder", folder, "--section", SECTION, "--clock-control", "none", "--launch-count", "1"]
        command = [str(ncu), "--profile-from-start", "off", *given, "--export", "probe.ncu-rep", "--", *child]
        ended = subprocess.run(
            command, cwd=folder, env=paths.child_environment(), capture_output=True, text=True, check=False
        )
    found = PASSES.findall(ended.stdout)
    said = (ended.stdout + ended.stderr).strip().splitlines() or ["nothing"]
    return int(found[-1]) if found and not ended.returncode else f"ended with {ended.returncode}: {said[-1]}"


def rows(ncu: Path, child: Sequence[str], seconds: float) -> Iterator[str]:
    """Yield a row per variant; those for which no time is left are named."""
    text = (paths.rules() / f"{SECTION}.section").read_text(encoding="utf-8")
    start = time.monotonic()
    for variant in VARIANTS:
        if time.monotonic() - start > seconds:
            yield row(variant.name, "not tried", "")
            continue
        found = passes(ncu, child, section(text, variant))
        fits = "" if isinstance(found, str) else "yes" if found <= MOST else "no"
        yield row(variant.name, found, fits)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ncu", type=Path)
    parser.add_argument("--kernel", default="wgmma-128")
    parser.add_argument("--seconds", type=float, default=50.0, help="no variant is started later than that")
    arguments = parser.parse_args()
    family, kernel = catalog.shipped().named(arguments.kernel)
    child = measured.launch_command(family, [kernel], family.problem({"n": SIZE}), "profile", "facts.json")
    print(head("section", "passes", f"at most {MOST}"), flush=True)
    for line in rows(machine.find(arguments.ncu), child, arguments.seconds):
        print(line, flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
