"""The rules of global and local memory against what an H100 was measured to count.

``python3 bench/figures/sectors.py``.

Prints the tables of docs/sectors.md. ``--emulate`` compiles the kernels of bench/recording/memory_kernels.py again,
emulates them and compares every figure; it needs nvcc 13.0, whose code has the offsets of the measured one. ``--pack
FOLDER ...`` makes the files of tests/data from those that bench/recording/memory_rows.py wrote, in that order.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import lzma
import struct
import sys
import tempfile
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from io import StringIO
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from bench.figures.tables import ROOT, head, row
from ncu_swizzle.base.traffic import METRICS, SECTOR
from ncu_swizzle.cubin.elf import Cubin
from ncu_swizzle.emulate.counts import Counts, Launch
from ncu_swizzle.emulate.run import emulate
from ncu_swizzle.engines import emulated_launch
from ncu_swizzle.kernels.toolchain import Toolchain
from ncu_swizzle.smem import wavefronts
from ncu_swizzle.smem.operations import LINE, Bools, Ints
from ncu_swizzle.smem.wavefronts import copy_sectors, global_sectors, local_sectors

DATA = ROOT / "tests" / "data"
ROWS, PATTERNS = "memory_rows", "memory_patterns"
HARDWARE = "memory_hardware_h100.csv.gz"
BRANCHES = {"branches_0": "branches_h100.cubin.xz", "more_branches_0": "branches_h100_more.cubin.xz"}
BASE = 0x7F00_0000_0000  # of the buffer; cudaMalloc aligns to 256 bytes
LANES = np.arange(32)
EXECUTED, THREADS, PREDICATED_ON = "inst_executed", "thread_inst_executed", "thread_inst_executed_true"
SECTORS, IDEAL = "memory_l2_theoretical_sectors_global", "memory_l2_theoretical_sectors_global_ideal"
TAGS, LOCAL = "memory_l1_tag_requests_global", "memory_l2_theoretical_sectors_local"
SHARED, SHARED_IDEAL = "memory_l1_wavefronts_shared", "memory_l1_wavefronts_shared_ideal"
TYPE, ACCESS_TYPE, SIZE = "memory_type", "memory_access_type", "memory_access_size_type"
COLUMNS = (
    EXECUTED, THREADS, PREDICATED_ON, SECTORS, IDEAL, TAGS, LOCAL, SHARED, SHARED_IDEAL, TYPE, ACCESS_TYPE, SIZE
)  # fmt: skip
TARGETS = "smsp__branch_targets_threads_uniform", "smsp__branch_targets_threads_divergent"
KEPT = (*COLUMNS, *TARGETS)
UNKNOWN, NOT_MEASURED = -2, -1
SHARED_OPERATION = {1: "u8", 2: "u16", 4: "b32", 8: "b64", 16: "v4.b32"}
TYPES = 4, 16, 8  # of memory, by the number in a pattern's `extra`: global, shared, local
ACCESS_TYPES = {"LD": 2, "LDG": 2, "LDL": 2, "ST": 4, "STG": 4, "STL": 4, "LDGSTS": 6, "ATOMG": 8, "ATOM": 8}
SIZES = {1: 2, 2: 8, 4: 32, 8: 64, 16: 128}

# ---------------------------------------------------------------------------------------------- what was measured


@dataclass(frozen=True, eq=False, kw_only=True)
class Measurements:
    """R rows, each of one SASS instruction in one launch of a warp, which executed it with one or more of P patterns.

    The E executions of all rows are in their order; flags and extra as in bench/recording/memory_forms.py.
    """

    rows: list[dict[str, str]]
    offsets: Ints  # (P, 32) bytes from the start of the space
    flags: Bools  # (P, 32)
    extra: Ints  # (P, 32)

    @cached_property
    def row_of(self) -> Ints:
        """The row of each execution, (E,)."""
        return np.repeat(np.arange(len(self.rows)), [entry["patterns"].count(" ") + 1 for entry in self.rows])

    @cached_property
    def pattern_of(self) -> Ints:
        """The pattern of each execution, (E,)."""
        return np.array(" ".join(entry["patterns"] for entry in self.rows).split(), np.int64)

    @cached_property
    def opcodes(self) -> np.ndarray:
        """The first word of each row's instruction without its guard, (R,)."""
        return np.array([opcode(entry["sass"]).partition(".")[0] for entry in self.rows])

    @cached_property
    def widths(self) -> Ints:
        """The bytes per lane of each row's access, (R,); 0 for control."""
        return np.array([int(entry["width"] or 0) for entry in self.rows])

    @cached_property
    def generic(self) -> Bools:
        """Whether each row's lanes may be in several memories, (R,)."""
        return self.where("space", "generic", "generic atomic")

    @cached_property
    def live(self) -> Bools:
        """The lanes of each row's launch that have not exited, (R, 32)."""
        return bits([int(entry["live"], 16) for entry in self.rows])

    @cached_property
    def active(self) -> Bools:
        """The lanes that do the access, (E, 32)."""
        always = self.where("masked_by", "nothing")[self.row_of, None]
        return self.live[self.row_of] & (self.flags[self.pattern_of] | always)

    def where(self, column: str, *values: str) -> Bools:
        """Return whether each row has one of the values in a column, (R,)."""
        return np.isin(self.column(column), values)

    @cache  # noqa: B019 - there is one
    def column(self, name: str) -> np.ndarray:
        """Return the texts of a column, (R,)."""
        return np.array([entry[name] for entry in self.rows])

    def matching(self, word: str) -> Bools:
        """Return whether each row's SASS has a word, (R,)."""
        return np.array([word in entry["sass"] for entry in self.rows])

    def measured(self, column: str) -> Ints:
        """Return a metric of each row, (R,), NOT_MEASURED if ncu has none of it."""
        return np.array([int(entry[column] or NOT_MEASURED) for entry in self.rows])

    def total(self, figures: Ints, executions: Ints | None = None) -> Ints:
        """Return the sum of each row's executions, (R,); UNKNOWN if one of them is."""
        chosen = self.row_of if executions is None else self.row_of[executions]
        sums = np.bincount(chosen, np.maximum(figures, 0), len(self.rows)).astype(np.int64)
        sums[np.bincount(chosen, figures < 0, len(self.rows)) > 0] = UNKNOWN
        return sums


def bits(masks: Sequence[int]) -> Bools:
    lanes: Bools = (np.array(masks, np.int64)[:, None] >> LANES & 1).astype(bool)
    return lanes


def read(name: str) -> list[dict[str, str]]:
    with lzma.open(DATA / f"{name}_h100.csv.xz", "rt", newline="") as lines:
        return list(csv.DictReader(lines))


def numbers(texts: Iterable[str]) -> Ints:
    """Return 32 numbers per text, zeros for an empty one."""
    return np.array(" ".join(text or "0 " * 32 for text in texts).split(), np.int64).reshape(-1, 32)


@cache
def measurements() -> Measurements:
    """Return what is in tests/data."""
    patterns = read(PATTERNS)
    return Measurements(
        rows=read(ROWS),
        offsets=numbers(entry["offsets"] for entry in patterns),
        flags=bits([int(entry["flags"], 16) for entry in patterns]),
        extra=numbers(entry["extra"] for entry in patterns),
    )


# ---------------------------------------------------------------------------------------------- what the rules say


@cache
def predicted(m: Measurements) -> dict[str, Ints]:
    """Return each column as the rules have it, (R,) each; UNKNOWN where there is none."""
    figures = {column: np.zeros(len(m.rows), np.int64) for column in COLUMNS}
    # Under a guard, all live lanes execute the instruction; in a branch only those that take it, if there are any.
    under_guard = m.where("masked_by", "predicate")[m.row_of]
    lanes, live = m.active.sum(axis=1), m.live[m.row_of].sum(axis=1)
    figures[EXECUTED] = m.total((under_guard | (lanes > 0)).astype(np.int64))
    figures[THREADS] = m.total(np.where(under_guard, live, lanes))
    figures[PREDICATED_ON] = m.total(lanes)
    for width in SIZES:
        here = m.widths == width
        accesses(m, figures, here & (m.opcodes != "LDGSTS") & ~m.where("space", "local"), width)
        accesses_to_local(m, figures, here & m.where("space", "local", "generic"), width)
        copies(m, figures, here & (m.opcodes == "LDGSTS"), width)
    kinds(m, figures)
    for column_ in (SHARED, SHARED_IDEAL):
        figures[column_][m.opcodes == "ATOM"] = UNKNOWN
    for column in figures.values():
        column[m.where("mode", "construct")] = UNKNOWN
    return figures


def accesses(m: Measurements, figures: Mapping[str, Ints], rows: Bools, width: int) -> None:
    """Add what loads, stores, reductions and atomics take in global memory, and generic ones in shared memory."""
    chosen = np.flatnonzero(rows[m.row_of])
    generic = m.generic[m.row_of[chosen]]
    at, space, active = m.offsets[m.pattern_of[chosen]], m.extra[m.pattern_of[chosen]], m.active[chosen]
    counted = global_sectors(BASE + at, active & ~(generic[:, None] & (space != 0)), width)
    for column, figure in ((SECTORS, counted.actual), (IDEAL, counted.ideal), (TAGS, counted.tags)):
        figures[column][rows] = m.total(figure, chosen)[rows]
    for opcode_, kind in (("LD", "ld"), ("ST", "st")):
        mine = np.flatnonzero(m.opcodes[m.row_of[chosen]] == opcode_)
        requests = at[mine], active[mine] & (space[mine] == 1)
        count_wavefronts(m, figures, chosen[mine], f"{kind}.shared.{SHARED_OPERATION[width]}", *requests)


def count_wavefronts(m: Measurements, figures: Mapping[str, Ints], executions: Ints, *request: Any) -> None:
    """Set the wavefronts in shared memory of the rows of some executions, which are all of these."""
    result = wavefronts(*request)
    rows = np.unique(m.row_of[executions])
    for column, figure in ((SHARED, result.actual), (SHARED_IDEAL, result.ideal)):
        figures[column][rows] = m.total(np.where(result.known, figure, UNKNOWN), executions)[rows]


def accesses_to_local(m: Measurements, figures: Mapping[str, Ints], rows: Bools, width: int) -> None:
    """Add what accesses take in local memory."""
    chosen = np.flatnonzero(rows[m.row_of])
    elsewhere = m.generic[m.row_of[chosen], None] & (m.extra[m.pattern_of[chosen]] != 2)
    counted = local_sectors(m.offsets[m.pattern_of[chosen]], m.active[chosen] & ~elsewhere, width)
    figures[LOCAL][rows] = m.total(counted, chosen)[rows]


def copies(m: Measurements, figures: Mapping[str, Ints], rows: Bools, width: int) -> None:
    """Add what LDGSTS takes, whose lane i writes at 16 i, or `extra` times 16.

    Lanes that write zeros read nothing. Past L1, ncu takes P0 for false (docs/wavefronts.md): under !P0, it counts all
    lanes, but for the tags; with zeros, too, is unknown.
    """
    zeros = np.char.find(m.column("form"), " zfill") > 0
    ignoring = np.char.find(m.column("form"), " ignore") > 0
    for cache_, past_l1 in (("ca", False), ("cg", True)):
        here = rows & (m.matching("BYPASS") == past_l1)
        chosen = np.flatnonzero(here[m.row_of])
        at, active = BASE + m.offsets[m.pattern_of[chosen]], m.active[chosen]
        extra = m.extra[m.pattern_of[chosen]]
        reads = np.where(zeros[m.row_of[chosen], None], extra > 0, True)
        reads &= ~(ignoring[m.row_of[chosen], None] & m.flags[m.pattern_of[chosen]])
        placed = m.where("space", "placed")[m.row_of[chosen], None]
        to = 16 * np.where(placed, extra, LANES)
        not_read = m.matching("@!P0 ")[m.row_of[chosen], None] & past_l1
        moved = np.where(not_read, m.live[m.row_of[chosen]], active)
        read = moved & reads
        counted = copy_sectors(at, to, read) if past_l1 else global_sectors(at, read, width)
        tags = global_sectors(at, active & reads, width).tags
        odd = not_read[:, 0] & (zeros | ignoring)[m.row_of[chosen]]
        for column, figure in ((SECTORS, counted.actual), (IDEAL, counted.ideal), (TAGS, tags)):
            figures[column][here] = m.total(np.where(odd & (column != TAGS), UNKNOWN, figure), chosen)[here]
        if len(chosen):
            count_wavefronts(m, figures, chosen, f"cp.async.{cache_}.{width}", to, moved, at - BASE)
        for column in (SHARED, SHARED_IDEAL):  # bench/figures/wavefronts.py measures those of zeros
            figures[column][here & (zeros | ignoring)] = UNKNOWN


def kinds(m: Measurements, figures: Mapping[str, Ints]) -> None:
    """Add which memory is accessed, how, and in which width; nothing without executions or, for memory, lanes."""
    spaces = np.where(m.generic[m.row_of, None], m.extra[m.pattern_of], 0)
    for number, bit in enumerate(TYPES):
        there = (m.active & (spaces == number)).any(axis=1)
        figures[TYPE][m.total(there.astype(np.int64)) > 0] |= bit
    some = figures[PREDICATED_ON] > 0
    figures[TYPE][some & m.where("space", "local")] = TYPES[2]
    figures[TYPE][some & (m.opcodes == "LDGSTS")] = TYPES[0] | TYPES[1]
    for number, (name, width) in enumerate(zip(m.opcodes, m.widths, strict=True)):
        if figures[EXECUTED][number] and width:
            figures[SIZE][number] = SIZES[width]
            figures[ACCESS_TYPE][number] = ACCESS_TYPES.get(name, 0) if name != "LDGSTS" or some[number] else 0


# ---------------------------------------------------------------------------------------------- tables


@dataclass(kw_only=True)
class Tally:
    equal: int = 0
    different: int = 0
    unknown: int = 0

    def add(self, rules: Ints, measured: Ints) -> None:
        there = measured != NOT_MEASURED
        self.unknown += int((there & (rules == UNKNOWN)).sum())
        self.equal += int((there & (rules == measured)).sum())
        self.different += int((there & (rules != UNKNOWN) & (rules != measured)).sum())

    @property
    def cells(self) -> tuple[str, str, str]:
        return f"{self.equal:,}", f"{self.different:,}", f"{self.unknown:,}"


def opcode(sass: str) -> str:
    """Return the first word of an instruction without its guard: LDG, LDGSTS.BYPASS."""
    words = sass.split()
    parts = words[words[0].startswith("@")].split(".")
    return f"{parts[0]}.BYPASS" if "BYPASS" in parts else parts[0]


def tallies(m: Measurements) -> tuple[dict[tuple[str, bool], Tally], dict[tuple[str, bool], Tally]]:
    """Return what is equal by opcode and by column, each by whether the rows were held out."""
    rules = predicted(m)
    held = m.where("held_out", "1")
    access = ~m.where("mode", "construct")
    opcodes = np.array([opcode(entry["sass"]) for entry in m.rows])
    by_opcode: dict[tuple[str, bool], Tally] = defaultdict(Tally)
    by_column: dict[tuple[str, bool], Tally] = defaultdict(Tally)
    for column in COLUMNS:
        measured = m.measured(column)
        for half in (False, True):
            those = access & (held == half)
            by_column[column, half].add(rules[column][those], measured[those])
            for name in np.unique(opcodes[those]):
                mine = those & (opcodes == name)
                by_opcode[str(name), half].add(rules[column][mine], measured[mine])
    return by_opcode, by_column


def accuracy() -> str:
    """Return the tables of docs/sectors.md."""
    parts = []
    for title, counted in zip(("instruction", "column"), tallies(measurements()), strict=True):
        titles = ("equal", "different", "no rule")
        lines = [head(title, *titles, *(f"held out: {name}" for name in titles))]
        names = dict.fromkeys(name for name, _ in counted)
        lines += [row(f"`{name}`", *counted[name, False].cells, *counted[name, True].cells) for name in names]
        parts.append("\n".join(lines))
    return "\n\n".join(parts)


@dataclass(frozen=True, kw_only=True)
class Counters:
    """Sums over a kernel: sectors by ncu's column and by hardware, and what hardware seems to count instead."""

    form: str
    counted: int
    hardware: int
    instead: int


def counters(m: Measurements) -> Iterator[Counters]:
    """Yield the kernels that were also measured with the hardware's counters."""
    kernels = recorded(DATA / HARDWARE)
    of_row = m.measured(SECTORS), m.measured(LOCAL)
    for entry in kernels:
        operation = {"cp": "ld"}.get(entry["form"].split(".")[0], entry["form"].split(".")[0])
        space = "local" if ".local" in entry["form"] else "global"
        mine = np.flatnonzero(m.where("kernel", entry["kernel"]) & (m.widths > 0) & m.where("form", entry["form"]))
        hardware = int(float(entry[f"l1tex__t_sectors_pipe_lsu_mem_{space}_op_{operation}.sum"]))
        if (space, operation) == ("global", "st"):
            hardware -= 4  # of the store of 32 words at each kernel's end
        executions = np.flatnonzero(np.isin(m.row_of, mine))
        yield Counters(
            form=entry["form"], counted=int(of_row[space == "local"][mine].sum()), hardware=hardware,
            instead=sum(counted_instead(m, execution, operation) for execution in executions),
        )  # fmt: skip


def counted_instead(m: Measurements, execution: int, operation: str) -> int:
    """Return what hardware counts of a request to global memory where it does not count sectors.

    Of atomics, in each sector the most lanes that are at one address; of copies past L1, for two neighbouring lanes
    each the lines that they read.
    """
    addresses = m.offsets[m.pattern_of[execution]]
    active = m.active[execution]
    if operation == "ld":
        pairs = np.stack([LANES // 2, addresses // LINE], axis=1)[active]
        return len(np.unique(pairs, axis=0))
    most: Counter[int] = Counter()
    for address, lanes in Counter(addresses[active].tolist()).items():
        most[address // SECTOR] = max(most[address // SECTOR], lanes)
    return most.total()


def hardware() -> str:
    """Return the table of software's and hardware's sectors, by form."""
    lines = [head("instruction", "kernels", "ncu's column", "`l1tex__t_sectors`", "counted instead")]
    forms = defaultdict(list)
    for entry in counters(measurements()):
        forms[entry.form].append(entry)
    for form, entries in forms.items():
        counted, counter, instead = (
            sum(getattr(entry, name) for entry in entries) for name in ("counted", "hardware", "instead")
        )
        lines.append(
            row(f"`{form}`", len(entries), f"{counted:,}", f"{counter:,}", f"{instead:,}" * (counted != counter))
        )
    return "\n".join(lines)


# ---------------------------------------------------------------------------------------------- emulated


def emulated(code: bytes, kernel: str, live: int) -> Counts:
    """Return what the emulator counts of one launch of a kernel of bench/recording/memory_kernels.py."""
    cubin = Cubin(code, f"{kernel}.cubin")
    program = emulated_launch.code(cubin, kernel, Toolchain().disassemble(cubin.data, cubin.name))
    buffer, out = BASE, BASE + (1 << 32)
    parameters = struct.pack("<QIIQ", buffer, live, 2, out)
    return emulate(program, Launch(grid=(1, 1, 1), block=(32, 1, 1), parameters=parameters))


class OtherCode(Exception):
    """A kernel was measured before bench/ or nvcc changed it."""


def compared(counts: Counts, rows: Iterable[Mapping[str, str]]) -> Iterator[tuple[Mapping[str, str], str, int, Any]]:
    """Yield each figure of rows of one launch: row, metric, measured, emulated (None if unknown)."""
    emulated_rows = {entry.offset: entry for entry in counts.rows}
    for entry in rows:
        ours = emulated_rows.get(int(entry["offset"]))
        # Targets of branches are written as offsets, or as labels.
        if ours is None or opcode(ours.sass) != opcode(entry["sass"]):
            raise OtherCode
        figures = {EXECUTED: ours.executed}
        figures |= {metric: getattr(ours.traffic, field) for field, metric in METRICS.items()}
        for metric, value in figures.items():
            if entry[metric]:
                yield entry, metric, int(entry[metric]), value


# What bench/recording/memory_rows.py --only was given in the second recording: forms that had failed, or were new.
SECOND = r"^cp\.async|^red\.global\.add\.(u32|u64|f32|f64)|^atom\.(add|cas|exch|max)|^red\.add|^table"


def emulate_all(only: str) -> None:
    """Print, by kernel, how many figures are equal, different and unknown."""
    from bench.recording.memory_kernels import compiled, kernels

    rows = defaultdict(list)
    for entry in read(ROWS):
        if entry["kernel"].startswith(only):
            rows[entry["kernel"], entry["live"]].append(entry)
    sources = {kernel.name: kernel for chosen in ("", SECOND) for kernel in kernels(chosen)}
    codes: dict[str, bytes] = {name: lzma.decompress((DATA / file).read_bytes()) for name, file in BRANCHES.items()}
    total: Counter[str] = Counter()
    with tempfile.TemporaryDirectory() as folder:
        for (name, live), mine in rows.items():
            if name not in codes:
                codes[name] = compiled(sources[name], Path(folder))[1]
            tally: Counter[str] = Counter()
            try:
                figures = list(compared(emulated(codes[name], name, int(live, 16)), mine))
            except OtherCode:
                print(f"{name} {live}: not the code that was measured: nvcc or bench/ has changed", flush=True)
                continue
            for entry, metric, theirs, ours in figures:
                result = "unknown" if ours is None else "equal" if ours == theirs else "different"
                tally[result] += 1
                if result == "different":
                    print(name, entry["offset"], entry["sass"], metric, theirs, ours)
            print(name, live, dict(tally), flush=True)
            total += tally
    print(dict(total))


# ---------------------------------------------------------------------------------------------- packing


def pack(folders: Sequence[Path]) -> None:
    """Write the files of tests/data from recordings; of a kernel in several, the first is taken."""
    rows: list[dict[str, str]] = []
    patterns: list[dict[str, str]] = []
    sums: dict[str, dict[str, str]] = {}
    for folder in folders:
        first, earlier = len(patterns), {entry["kernel"] for entry in rows}
        patterns += [
            {**entry, "number": str(first + int(entry["number"]))} for entry in recorded(folder / f"{PATTERNS}.csv.gz")
        ]
        for entry in recorded(folder / f"{ROWS}.csv.gz"):
            if entry["kernel"] not in earlier:
                shifted = " ".join(str(first + int(number)) for number in entry["patterns"].split())
                rows.append({**entry, "patterns": shifted})
        sums = {entry["kernel"]: entry for entry in recorded(folder / "memory_hardware.csv.gz")} | sums
    identity = [name for name in rows[0] if "_" not in name or name in ("held_out", "masked_by")]
    write(DATA / f"{ROWS}_h100.csv.xz", [*identity, *(name for name in rows[0] if name in KEPT)], rows)
    write(DATA / f"{PATTERNS}_h100.csv.xz", list(patterns[0]), patterns)
    write(DATA / HARDWARE, sorted({name for entry in sums.values() for name in entry}), list(sums.values()))


def recorded(file: Path) -> list[dict[str, str]]:
    with gzip.open(file, "rt", newline="") as lines:
        return list(csv.DictReader(lines))


def write(file: Path, columns: Sequence[str], rows: Iterable[Mapping[str, str]]) -> None:
    text = StringIO()
    writer = csv.DictWriter(text, columns, extrasaction="ignore", lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    data = text.getvalue().encode()
    packed = lzma.compress(data, preset=9 | lzma.PRESET_EXTREME)
    file.write_bytes(packed if file.suffix == ".xz" else gzip.compress(data, mtime=0))
    print(f"{file.name}: {file.stat().st_size:,} bytes")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pack", nargs="+", type=Path, metavar="FOLDER", help="make the files of tests/data")
    parser.add_argument(
        "--emulate", nargs="?", const="", metavar="KERNEL", help="compare with the emulator, kernels named like that"
    )
    arguments = parser.parse_args()
    if arguments.pack:
        pack(arguments.pack)
    elif arguments.emulate is not None:
        emulate_all(arguments.emulate)
    else:
        print(f"{accuracy()}\n\n{hardware()}")


if __name__ == "__main__":
    main()
