"""Measure what instructions and memory cost on this machine's GPU, in cycles.

``python3 bench/recording/latencies.py [FILE]``.

Compiles and runs latencies.cu and bursts.cu, then lets ncu count the cycles of their small launches (if there is an
ncu), at the clock at which they run without it, and writes FILE, by default bench/recording/latencies.json: of each
measurement the median, the quartiles, the least and the most of its repetitions, and the cycles of each launch.
``--check`` needs no GPU: it disassembles latencies.cu and compares the instructions between two readings of the clock
with those that the chain is to have. Nor does ``--medians``, which writes the medians of FILE where the package reads
them.
"""

from __future__ import annotations

import argparse
import csv
import io
import json
import re
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

SOURCE = Path(__file__).with_suffix(".cu")
BURSTS = Path(__file__).with_name("bursts.cu")
MEASURED = Path(__file__).with_suffix(".json")
UNREAD, READ = " of code, | behind | in a loop$", ("nothing", "code<", "jump<")  # by the package
MEDIANS = SOURCE.parents[1] / "ncu_swizzle" / "cycles" / "h100.json"
ARCH = "arch=compute_90a,code=sm_90a"
SHORT, LONG = 8, 40  # steps, as in latencies.cu
METRICS = {
    "sm__cycles_elapsed.max": "elapsed", "sm__cycles_active.avg": "active", "sm__cycles_active.max": "longest",
    "gpu__time_duration.sum": "ns",
}  # fmt: skip
OTHERS, LAUNCHES = 49, 67  # launches before those of `straight`, and of all, in each repetition
CHASES = {-4: "256 KB, 2048 steps", -3: "256 KB, 8192 steps", -2: "4 MB, 2048 steps", -1: "4 MB, 8192 steps"}
CODE_KB = (4, 8, 16, 32, 64, 128, 256)
# What does not belong to a step, or a step has none of: addresses, waiting, what ptxas puts between.
BESIDE = frozenset({"MOV", "NOP", "S2R", "LDC", "UMOV", "UIADD3", "ULDC", "IMAD", "VIADD", "SHF", "ISETP", "PLOP3"})


def measured(program: Path) -> dict[str, Any]:
    """Return the name of the GPU, and the values of each measurement."""
    done = subprocess.run([program], check=True, stdout=subprocess.PIPE, text=True)
    gpu, *lines = (line.split("\t") for line in done.stdout.splitlines())
    return {"gpu": gpu[1], "measured": {name: spread(unit, values) for name, unit, *values in lines}}


def spread(unit: str, values: list[str]) -> dict[str, Any]:
    least, lower, middle, upper, most = np.quantile(np.array(values, float), (0, 0.25, 0.5, 0.75, 1))
    figures = {"median": middle, "lower": lower, "upper": upper, "least": least, "most": most}
    return {"unit": unit, "repeats": len(values)} | {name: round(float(value), 4) for name, value in figures.items()}


def launches(program: Path) -> list[dict[str, Any]]:
    """Return what ncu counts of each of the small launches, in groups of the same kernel and size."""
    command = ["ncu", "--csv", "--page", "raw", "--print-units", "base", "--clock-control", "none"]
    command += ["--metrics", ",".join(METRICS), str(program), "launches"]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    table = done.stdout[done.stdout.index('"ID"') :]
    groups: dict[tuple[str, ...], dict[str, list[float]]] = {}
    for number, row in enumerate(row for row in csv.DictReader(io.StringIO(table)) if row["ID"]):
        name = row["Kernel Name"].rpartition("(")[0].removeprefix("void ").replace("(int)", "")
        place = number % LAUNCHES - OTHERS  # what a launch of latencies.cu is given is not in its row
        if name == "straight":
            name += f", {CODE_KB[place // 2]} KB"
        if name == "chase":
            name += f", {CHASES[place]}"
        group = groups.setdefault((name, row["Grid Size"], row["Block Size"]), {})
        for metric, short in METRICS.items():
            group.setdefault(short, []).append(float(row[metric].replace(",", "")))
    return [{"kernel": name, "grid": grid, "block": block} | group for (name, grid, block), group in groups.items()]


def write(found: dict[str, Any], file: Path) -> None:
    file.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


def medians(found: dict[str, Any]) -> str:
    """Return what the package may read of all that was measured, as a line for each measurement and launch."""
    of_launches = [
        {name: median(value) if isinstance(value, list) else value for name, value in each.items()}
        for each in found["launches"] if each["kernel"].startswith(READ)
    ]  # fmt: skip
    values = {name: each["median"] for name, each in found["measured"].items() if not re.search(UNREAD, name)}
    lines = ",\n".join(f"  {json.dumps(name)}: {value}" for name, value in values.items())
    rows = ",\n".join(f"  {json.dumps(each)}" for each in of_launches)
    gpu = json.dumps(found["gpu"])
    return f'{{\n "gpu": {gpu},\n "measured": {{\n{lines}\n }},\n "launches": [\n{rows}\n ]\n}}\n'


def compiled(source: Path, folder: str, *options: str) -> Path:
    program = Path(folder, source.stem)
    command = ["nvcc", "-O3", "-std=c++17", "-gencode", ARCH, *options, source, "-o", program, "-ldl"]
    subprocess.run(command, check=True)
    return program


# ---------------------------------------------------------------------------------------------------------- --check


def checked(sass: str) -> list[str]:
    """Return the chains whose short and long part do not have the same instructions SHORT and LONG times."""
    wrong, found = [], 0
    for name, code in re.findall(r"\.text\.(\w*chain\w*):\n(.*?)(?=\n\t?\.section|\Z)", sass, re.DOTALL):
        parts = [Counter[str]()]
        for opcode, rest in re.findall(r"\*/\s+(?:@!?U?P\w+ )?([A-Z][\w.]*)(.*?);", code):
            if "SR_CLOCK" in rest:
                parts.append(Counter())
            else:
                parts[-1][opcode.partition(".")[0]] += 1
        found += 1
        short, long = (parts[number] if len(parts) > number else Counter() for number in (1, 2))
        step = {opcode: count // SHORT for opcode, count in short.items() if opcode not in BESIDE and count >= SHORT}
        if len(parts) != 4 or any(long[opcode] != LONG * count for opcode, count in step.items()):
            wrong.append(f"{name}: {dict(short)}, {dict(long)}")
        if not step and not long.keys() & {"VIADD", "SHF", "IMAD", "LDC", "NOP"}:
            wrong.append(f"{name}: nothing in a step")
    return wrong if found else ["no chains in the program"]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", nargs="?", type=Path, default=MEASURED)
    parser.add_argument("--check", action="store_true", help="compare the machine code with what is to be measured")
    parser.add_argument("--medians", action="store_true", help="write those of FILE into the package")
    arguments = parser.parse_args()
    if arguments.medians:
        MEDIANS.write_text(medians(json.loads(arguments.file.read_text(encoding="utf-8"))), encoding="utf-8")
        return 0
    with tempfile.TemporaryDirectory() as folder:
        if arguments.check:
            binary = compiled(SOURCE, folder, "-cubin")
            sass = subprocess.run(["nvdisasm", "-c", binary], check=True, capture_output=True, text=True).stdout
            wrong = checked(sass)
            print("\n".join(wrong) or "every chain is in the machine code")
            return 1 if wrong else 0
        programs = [compiled(source, folder) for source in (SOURCE, BURSTS)]
        found: dict[str, Any] = {"measured": {}}
        for program in programs:
            more = measured(program)
            found = {"gpu": more["gpu"], "measured": found["measured"] | more["measured"]}
            write(found, arguments.file)
        for program in programs if shutil.which("ncu") else ():
            found["launches"] = [*found.get("launches", []), *launches(program)]
            write(found, arguments.file)
    return 0


if __name__ == "__main__":
    sys.exit(main())
