"""Measure what ncu counts for global, local and generic accesses and for branches: ``memory_rows.py FOLDER``.

Writes CUDA kernels in which every source line has one memory instruction, whose lanes take offsets and a predicate from
a table in constant memory (forms and patterns: bench/recording/memory_forms.py), or one branching construct; compiles
them, runs each with several masks of live lanes under ncu's section SourceCounters, some also with hardware counters.
FOLDER gets `memory_patterns.csv.gz` (offsets, flags, extra per pattern), `memory_rows.csv.gz` (a row per SASS
instruction, launch and patterns, with every per-instruction metric of the report), `memory_hardware.csv.gz` and the
cubin of the branches. ``--compile`` needs no GPU: it checks that each line has the SASS that is to be measured, and
prints it by form.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import hashlib
import json
import lzma
import os
import re
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from bench.figures.tables import ROOT
from bench.recording.memory_forms import Pattern
from bench.recording.memory_kernels import Row, Site, certain, everything, report_forms
from ncu_swizzle.base import child
from ncu_swizzle.base.errors import NcuSwizzleError, TimeLimit
from ncu_swizzle.engines import machine
from ncu_swizzle.kernels import launching
from ncu_swizzle.reports import container
from ncu_swizzle.reports.container import ReportResult

BATCH = 14  # kernels of one ncu process
EXTRAS = ("smsp__branch_targets_threads_uniform",)  # not in the section, which has the divergent ones
OPERATIONS = [f"global_op_{op}" for op in ("ld", "st", "red", "atom", "ldgsts")] + ["local_op_ld", "local_op_st"]
HARDWARE = [f"l1tex__t_{what}_pipe_lsu_mem_{op}.sum" for what in ("sectors", "requests") for op in OPERATIONS]
HARDWARE += [f"lts__t_sectors_srcunit_tex_op_{op}.sum" for op in ("read", "write", "red", "atom")]
HARDWARE += [
    f"smsp__sass_{what}.sum" for what in ("sectors_mem_global", "sectors_mem_global_ideal", "sectors_mem_local")
]
HARDWARE += ["smsp__sass_l1tex_tags_mem_global.sum", "l1tex__t_output_wavefronts_pipe_lsu_mem_global_op_ld.sum"]

# ---------------------------------------------------------------------------------------------- the GPU


def launch(folder: Path, names: Sequence[str], masks_of: dict[str, list[int]]) -> None:
    """Run kernels; print each name when it is done. Under ncu every launch becomes a result of the report."""
    launching.open_device()
    cuda = launching.cuda
    buffer, out = cuda.mem_alloc((1 << 26) + 4096), cuda.mem_alloc(4096)
    cuda.memset_d8(buffer, 0, 1 << 26)
    for name in names:
        module = cuda.module_from_file(str(folder / f"{name}.cubin"))
        function = module.get_function(name)
        for mask in masks_of[name]:
            function(buffer, np.uint32(mask), np.uint32(2), out, grid=(1, 1), block=(32, 1, 1))
            launching.synchronize()
        print(f"DONE {name}", flush=True)


def started(folder: Path, names: Sequence[str], wrapper: Sequence[str], timeout_s: float) -> tuple[int, str]:
    """Run kernels in another process, under ncu if the wrapper is its command; return exit status and output."""
    command = [*wrapper, sys.executable, str(Path(__file__).resolve()), str(folder), "--launch", ",".join(names)]
    environment = {**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{os.environ.get('PYTHONPATH', '')}"}
    printed: list[str] = []
    try:
        return child.run(command, timeout_s, environment=environment, on_output=printed.append).status, "".join(printed)
    except TimeLimit:
        return -1, "".join(printed) + "\nout of time"


def working(folder: Path, names: list[str], deadline: float) -> list[str]:
    """Return the kernels that run without an error; one that fails is left out, and the rest is tried again."""
    fine: list[str] = []
    while names and time.monotonic() < deadline:
        status, printed = started(folder, names, [], max(5, deadline - time.monotonic()))
        done = re.findall(r"^DONE (\S+)$", printed, re.MULTILINE)
        fine += done
        if status == 0:
            return fine
        names = names[len(done) :]
        print(f"{names[:1]} failed: {printed.strip().splitlines()[-1:]}", flush=True)
        names = names[1:]
    return fine


def available(ncu: Path) -> frozenset[str]:
    """Return the base names of the metrics that ncu can collect."""
    text = subprocess.run([str(ncu), "--query-metrics"], capture_output=True, text=True, check=False).stdout
    return frozenset(line_.split()[0] for line_ in text.splitlines() if line_.strip())


def measured(folder: Path, names: list[str], options: Sequence[str], timeout_s: float) -> tuple[ReportResult, ...]:
    """Run kernels under ncu; return the report's results, empty if there is none."""
    report = folder / "batch.ncu-rep"
    report.unlink(missing_ok=True)
    ncu = machine.find()
    common = ["--clock-control", "none", "--section", "SourceCounters", "--export", str(report), "--force-overwrite"]
    start = time.monotonic()
    status, printed = started(folder, names, [str(ncu), *common, *options], timeout_s)
    print(f"{names[0]} to {names[-1]}: exit status {status}, {time.monotonic() - start:.0f} s", flush=True)
    try:
        return container.inspect(report).results
    except NcuSwizzleError as error:
        print("\n".join([str(error), *printed.strip().splitlines()[-6:]]), flush=True)
        return ()


def per_pc(result: ReportResult) -> dict[str, dict[int, int]]:
    """Return every metric that has a value per instruction, except for samples."""
    columns = {}
    for name in result.lists:
        if name.startswith(
            ("launch__", "device__", "smsp__pcsamp", "nvlink", "numa", "c2clink", "sass__", "profiler__", "derived__")
        ):
            continue
        try:
            values = result.per_instruction(name)
        except ValueError:
            continue
        if any(address > 1 << 16 for address in values):
            columns[name] = values
    return columns


# ---------------------------------------------------------------------------------------------- rows on file


class Numbered:
    """Patterns, numbered in the order in which they come."""

    def __init__(self) -> None:
        self.numbers: dict[tuple[Any, ...], int] = {}

    def of(self, pattern: Pattern) -> int:
        return self.numbers.setdefault((pattern.kind, pattern.offsets, pattern.flags, pattern.extra), len(self.numbers))

    def rows(self) -> Iterator[list[Any]]:
        for (kind, offsets, flags, extra), number in self.numbers.items():
            yield [number, kind, joined(offsets), f"{flags:08x}", joined(extra) if any(extra) else ""]


def joined(values: Iterable[int]) -> str:
    return " ".join(map(str, values))


def held_out(row: Row, mask: int) -> int:
    """Return 1 for the half of the rows, by hash, that no rule may be derived from."""
    text = f"{row.name} {mask} {[(pattern.offsets, pattern.flags, pattern.extra) for pattern in row.patterns]}"
    return hashlib.sha256(text.encode()).digest()[0] & 1


def masked_by(site: Site) -> str:
    """Return what a pattern's flags are: the guard, the lanes of a branch (ptxas makes one for atomics), or nothing."""
    if site.row.form is None or (not site.row.guarded and site.row.mode != "branch"):
        return "nothing"
    return "predicate" if site.sass.startswith("@") else "branch"


def rows_on_file(result: ReportResult, mask: int, sites: list[Site], numbered: Numbered) -> Iterator[dict[str, Any]]:
    columns = per_pc(result)
    start = result.address or min(columns["inst_executed"])
    for site in certain(sites):
        row, form = site.row, site.row.form
        yield {
            "kernel": result.function, "offset": site.offset, "form": row.name, "mode": row.mode,
            "width": form.width if form else "", "space": form.space if form else "", "masked_by": masked_by(site),
            "live": f"{mask:08x}", "patterns": joined(map(numbered.of, row.patterns)),
            "held_out": held_out(row, mask), "sass": site.sass,
            **{name: values[start + site.offset] for name, values in columns.items() if start + site.offset in values},
        }  # fmt: skip


def write(path: Path, head: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    with gzip.open(path, "wt", newline="", compresslevel=9) as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(head)
        writer.writerows(rows)
    print(f"{path.name}: {path.stat().st_size:,} bytes", flush=True)


FIRST = ["kernel", "offset", "form", "mode", "width", "space", "masked_by", "live", "patterns", "held_out", "sass"]


def record(folder: Path, scratch: Path, limit_s: float, only: str) -> None:
    """Compile and run everything in the scratch folder; write the files into the other."""
    deadline = time.monotonic() + limit_s
    made = everything(scratch, only)
    report_forms(made)
    masks_of = {name: list(kernel.masks) for name, (kernel, _, _) in made.items()}
    (scratch / "masks.json").write_text(json.dumps(masks_of))
    names = working(scratch, list(made), deadline)
    print(f"{len(names)} of {len(made)} kernels run; {deadline - time.monotonic():.0f} s left", flush=True)
    plain, hardware = ([name for name in names if made[name][0].hardware == wanted] for wanted in (False, True))
    # Branches first: what is left out at the limit is more of the same.
    plain = sorted(plain, key=lambda name: "branches" not in name)
    known, extras = available(machine.find()), list(EXTRAS)
    counters = [name for name in HARDWARE if not known or name.rpartition(".")[0] in known]
    print(f"{len(counters)} hardware counters", flush=True)
    numbered, rows, totals = Numbered(), list[dict[str, Any]](), list[dict[str, Any]]()
    batches = [
        (chosen[k : k + BATCH], more)
        for chosen, more in ((plain, []), (hardware, counters))
        for k in range(0, len(chosen), BATCH)
    ]
    for batch, more in batches:
        left = deadline - time.monotonic()
        if left < 8:
            print(f"no time left for {len(batch)} kernels", flush=True)
            continue
        asked = [*extras, *more]
        results = measured(scratch, batch, ["--metrics", ",".join(asked)] if asked else [], left)
        if not results and extras:  # this ncu does not have them
            extras = []
            options = ["--metrics", ",".join(more)] if more else []
            results = measured(scratch, batch, options, max(8, deadline - time.monotonic()))
        seen: Counter[str] = Counter()
        for result in results:
            kernel, _, sites = made[result.function]
            mask = kernel.masks[seen[result.function]]
            seen[result.function] += 1
            rows += rows_on_file(result, mask, sites, numbered)
            if kernel.hardware:
                values = {name: result.metrics[name] for name in (*counters, *per_pc(result)) if name in result.metrics}
                totals.append({"kernel": kernel.name, "form": kernel.rows[0].name, **values})
    folder.mkdir(parents=True, exist_ok=True)
    head = [*FIRST, *sorted({name for row in rows for name in row} - set(FIRST))]
    write(folder / "memory_rows.csv.gz", head, ([row.get(name, "") for name in head] for row in rows))
    write(folder / "memory_patterns.csv.gz", ("number", "kind", "offsets", "flags", "extra"), numbered.rows())
    names = sorted({name for row in totals for name in row} - {"kernel", "form"})
    write(folder / "memory_hardware.csv.gz", ("kernel", "form", *names),
          ([row["kernel"], row["form"], *(row.get(name, "") for name in names)] for row in totals))  # fmt: skip
    for name, (_, code, _) in made.items():
        if "branches" in name:
            (folder / f"{name}.cubin.xz").write_bytes(lzma.compress(code))
    print(f"{len(rows)} rows, {sum(row['held_out'] for row in rows)} of them held out", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--compile", action="store_true", help="compile and check; needs no GPU")
    parser.add_argument(
        "--limit", type=float, default=420, metavar="SECONDS", help="then stop, and write what there is"
    )
    parser.add_argument("--only", default="", metavar="REGEX", help="forms and constructs with such names")
    parser.add_argument("--launch", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.compile:
        report_forms(everything(arguments.folder, arguments.only))
    elif arguments.launch:
        launch(arguments.folder, arguments.launch.split(","), json.loads((arguments.folder / "masks.json").read_text()))
    else:
        with tempfile.TemporaryDirectory() as scratch:
            record(arguments.folder, Path(scratch), arguments.limit, arguments.only)


if __name__ == "__main__":
    main()
