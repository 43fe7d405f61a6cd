"""The kernels of bench/recording/memory_rows.py: rows of accesses and branches, their CUDA, and where their SASS is."""

from __future__ import annotations

import hashlib
import os
import re
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from bench.recording.memory_forms import (
    ALL,
    LANE,
    LOCAL,
    SHARED,
    Form,
    Pattern,
    forms,
    integers,
    masks,
    mixed,
    patterns,
    placed,
    sized,
)
from ncu_swizzle.cubin.lines import line_table
from ncu_swizzle.kernels.toolchain import Toolchain

ARCH = "sm_90"
STACK = ("local", "generic", "generic atomic")  # spaces of the forms whose kernels have a local array
TABLE = 480  # patterns of a kernel: 128 bytes each, and constant memory has 64 KiB
PARTIAL = (0x0000FFFF, 0x7FFFFFFF, 0xA5C3F01E, 0xFFFFFFFC, 0x00010000, 0x0FF00FF0)  # masks of live lanes
CONTROL = frozenset(["BRA", "BRX", "BRXU", "BSSY", "BSYNC", "BREAK", "CALL", "RET", "EXIT", "WARPSYNC", "YIELD"])
VALUES = {"r": "e + lane", "l": "e + 77ull", "f": "1.f", "d": "1.", "h": "static_cast<u16>(lane)"}
TYPES = {"r": "u32", "l": "u64", "f": "float", "d": "double", "h": "u16"}


@dataclass(frozen=True, kw_only=True)
class Row:
    """What one source line measures: a form or a branching construct, and the patterns it is executed with in turn.

    `mode` is straight, loop (all patterns by one instruction) or branch (the flags are a divergent branch, no guard).
    """

    name: str
    form: Form | None
    patterns: tuple[Pattern, ...]
    mode: str = "straight"
    guarded: bool = True

    @property
    def opcodes(self) -> Iterable[str]:
        return self.form.opcodes if self.form else CONTROL


@dataclass(frozen=True, kw_only=True)
class Kernel:
    name: str
    rows: tuple[Row, ...]
    masks: tuple[int, ...]
    hardware: bool = False


@dataclass(frozen=True, kw_only=True)
class Site:
    """An instruction that is measured: its offset in the kernel and the row whose line it comes from."""

    offset: int
    sass: str
    row: Row


# ---------------------------------------------------------------------------------------------- rows


def seeded(name: str) -> np.random.Generator:
    return np.random.default_rng(int.from_bytes(hashlib.sha256(name.encode()).digest()[:8], "little"))


def candidates(form: Form, rng: np.random.Generator) -> list[Pattern]:
    if form.space == "generic":
        return mixed(form.width, rng)
    if form.space == "generic atomic":
        return [pattern for pattern in mixed(form.width, rng) if 2 not in pattern.extra]
    if form.space == "sized":
        return sized(form.width, rng)
    if form.space == "placed":
        return placed(form.width, rng)
    return patterns(form.width, rng, *([LOCAL] if form.space == "local" else []))


def rows_of(form: Form) -> list[Row]:
    """Return a form's rows: `count` patterns, those of forms with many also in loops and divergent branches."""
    rng = seeded(form.name)
    every = candidates(form, rng)
    chosen = [every[k] for k in rng.permutation(len(every))[: form.count]]
    rows, many = [], form.count >= 80 and form.flag == "guard"
    while chosen:
        draw = rng.random() if many else 1.0
        length = min(int(rng.integers(2, 6)), len(chosen)) if draw < 0.08 else 1
        mode = "loop" if length > 1 else "branch" if draw < 0.16 else "straight"
        taken, chosen = chosen[:length], chosen[length:]
        full = form.flag == "guard" and all(pattern.flags == ALL for pattern in taken)
        guarded = form.flag == "guard" and mode != "branch" and not (full and rng.random() < 0.5)
        rows.append(Row(name=form.name, form=form, patterns=tuple(taken), mode=mode, guarded=guarded))
    return rows


LOOP = '_Pragma("unroll 1") for (u32 k = 0; k < '
BODY = LOOP + "n; ++k) sum = sum * {0} + k;"
FLAG = "static_cast<int>(e) < 0"
CONSTRUCTS = {
    "if": f"if ({FLAG}) {{ {BODY.format(5)} }}",
    "if else": f"if ({FLAG}) {{ {BODY.format(7)} }} else {{ {BODY.format(9)} }}",
    "trips": f"{LOOP}x; ++k) sum = sum * 11 + k;",
    "break": f"{LOOP}9; ++k) {{ if (k == x) break; if (k == 2 && {FLAG}) {{ {BODY.format(13)} }} sum += k; }}",
    "switch": "switch (x & 7) { "
    + " ".join(f"case {k}: {{ {BODY.format(17 + 2 * k)} }} break;" for k in range(7))
    + " default: ++sum; }",
    "uniform": f"if (static_cast<int>(table[{{at}}][0]) < 0) {{ {BODY.format(33)} }}",
    "nested": f"if ({FLAG}) {{ {BODY.format(35)} if (x & 1) {{ {BODY.format(37)} }} else {{ {BODY.format(39)} }} }}",
    "call": f"if ({FLAG}) sum = called(sum, n);",
    "vote": f"if (__any_sync(__activemask(), {FLAG})) {{ {BODY.format(41)} }}",
    "indirect": 'asm volatile("{ T: .branchtargets A, B, C, D; brx.idx %1, T; A: add.u32 %0, %0, 3; bra E; '
    'B: mul.lo.u32 %0, %0, 5; bra E; C: xor.b32 %0, %0, 77; bra E; D: not.b32 %0, %0; E: }" : "+r"(sum) : "r"(x & 3));',
    "table": 'asm volatile("{ T: .branchtargets A, B, A, C; brx.idx %1, T; A: add.u32 %0, %0, 3; bra E; '
    'B: mul.lo.u32 %0, %0, 5; bra E; C: xor.b32 %0, %0, 77; E: }" : "+r"(sum) : "r"(x & 3));',
    "empty": f"if ({FLAG} && n == 7) {{ {BODY.format(43)} }}",
}


def branches() -> list[Row]:
    """Return every construct under every mask of flags."""
    rows = []
    for name in CONSTRUCTS:
        rng = seeded(name)
        for mask in masks(rng):
            most = int(rng.integers(1, 9))
            trips = rng.integers(0, most, 32) if rng.random() < 0.8 else np.full(32, most)
            pattern = Pattern(kind=name, offsets=integers(0 * LANE), flags=mask, extra=integers(trips))
            rows.append(Row(name=name, form=None, patterns=(pattern,), mode="construct", guarded=False))
    return rows


LEAVING = Row(  # the lanes that a launch has not
    name="exit", form=None, patterns=(Pattern(kind="exit", offsets=(0,) * 32),), mode="construct", guarded=False
)


def kernels(only: str = "") -> list[Kernel]:
    """Return the kernels: rows in the order of forms, then branches, then single forms for the hardware's counters.

    `only`: a regular expression; forms and constructs without it in their names are left out, for a further recording.
    """
    chosen = [form for form in forms() if re.search(only, form.name)]
    local = [form for form in chosen if form.space in STACK]
    others = [form for form in chosen if form.space not in STACK]
    more = "more_" if only else ""
    made: list[Kernel] = []
    for prefix, group in (("memory", others), ("stack", local)):
        made += cut(more + prefix, [row for form in group for row in rows_of(form)])
    made += cut(f"{more}branches", [row for row in branches() if re.search(only, row.name)], PARTIAL[::2])
    for form in chosen:
        if form.hardware:
            made += alone(form)
    return made


def cut(prefix: str, rows: list[Row], partial: Sequence[int] = ()) -> list[Kernel]:
    """Return kernels whose tables fit into constant memory; each runs with all lanes and with two other masks."""
    made, pending, size = [], list[Row](), 0
    for row in [*rows, None]:
        if pending and (row is None or size + len(row.patterns) > TABLE):
            first = 2 * len(made)
            few = partial or (PARTIAL[first % len(PARTIAL)], PARTIAL[(first + 1) % len(PARTIAL)])
            made.append(Kernel(name=f"{prefix}_{len(made)}", rows=tuple(pending), masks=(ALL, *few)))
            pending, size = [], 0
        if row is not None:
            pending.append(row)
            size += len(row.patterns)
    return made


def alone(form: Form) -> list[Kernel]:
    """Return kernels of one form and one kind of pattern each."""
    groups = defaultdict(list)
    for pattern in candidates(form, seeded("alone " + form.name)):
        kind = pattern.kind.split()[0]
        groups[
            "masked" if kind == "masked" else "ordered" if kind in ("unit", "stride", "uniform") else "other"
        ].append(pattern)
    slug = re.sub(r"\W+", "_", form.name)
    return [
        Kernel(
            name=f"hw_{slug}_{kind}",
            rows=tuple(Row(name=form.name, form=form, patterns=(pattern,)) for pattern in chosen[:24]),
            masks=(ALL,),
            hardware=True,
        )
        for kind, chosen in groups.items()
    ]  # fmt: skip


# ---------------------------------------------------------------------------------------------- CUDA


HEAD = """\
typedef unsigned short u16; typedef unsigned u32; typedef unsigned long long u64;
static __device__ __forceinline__ u32 added(u32 value) { return value; }
static __device__ __forceinline__ u32 added(u64 value) { return u32(value) + u32(value >> 32); }
static __device__ __forceinline__ u32 added(u16 value) { return value; }
static __device__ __forceinline__ u32 added(float value) { return __float_as_uint(value); }
static __device__ __forceinline__ u32 added(double value) { return __double2loint(value) + __double2hiint(value); }
static __device__ __noinline__ u32 called(u32 sum, u32 n) {
    _Pragma("unroll 1") for (u32 k = 0; k < n; ++k) sum = sum * 3 + k;
    return sum;
}
"""
ENTRY = """\
extern "C" __global__ void {name}(char *buffer, u32 live, u32 n, u32 *out) {{
    __shared__ alignas(1024) char shared[{shared}];
    alignas(16) char stack[{local}];
    const u32 lane = threadIdx.x % 32, to = static_cast<u32>(__cvta_generic_to_shared(shared)) + 16 * lane;
    u64 policy; asm volatile("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(policy));
    u32 sum = lane;
    if (!(live >> lane & 1)) return;
"""
TAIL = """
    asm volatile("cp.async.wait_all;" ::: "memory");
    out[threadIdx.x] = sum + to;
}
"""


def source(kernel: Kernel) -> tuple[str, dict[int, Row]]:
    """Return a kernel's source, and the row of each of its lines that has one."""
    table = [pattern.words for row in kernel.rows for pattern in row.patterns]
    entries = ",\n".join("{" + ",".join(map(str, words)) + "}" for words in table)
    stack = any(row.form and row.form.space in STACK for row in kernel.rows)
    text = f"{HEAD}__constant__ u32 table[{len(table)}][32] = {{\n{entries}}};\n"
    text += ENTRY.format(name=kernel.name, shared=SHARED, local=LOCAL if stack else 1)
    lines, at, number = {}, 0, text.count("\n") + 1
    lines[number - 1] = LEAVING
    for row in kernel.rows:
        text += line(row, at) + "\n"
        lines[number] = row
        at, number = at + len(row.patterns), number + 1
    return text + TAIL, lines


def line(row: Row, at: int) -> str:
    """Return a row's source line; its patterns are the table's entries from `at` on."""
    if row.form is None:
        head = f"const u32 e = table[{at}][lane], x = e >> 26 & 31;"
        return f"{{ {head} (void)x; (void)e; {CONSTRUCTS[row.name].replace('{at}', str(at))} }}"
    if row.mode == "loop":
        body = f"const u32 e = table[{at} + i][lane]; {access(row, at)}"
        return f'_Pragma("unroll 1") for (u32 i = 0; i < {len(row.patterns)}; ++i) {{ {body} }}'
    if row.mode == "branch":  # a loop is not turned into predicates
        inside = f'_Pragma("unroll 1") for (u32 i = 1; i < n; ++i) {{ {access(row, at)} }}'
        return f"{{ const u32 e = table[{at}][lane]; if ({FLAG}) {{ {inside} }} }}"
    return f"{{ const u32 e = table[{at}][lane]; {access(row, at)} }}"


def access(row: Row, at: int) -> str:
    form = row.form
    assert form is not None
    names = [f"r{k}" for k in range(len(form.results))]
    declared = "".join(f"{TYPES[kind]} {name} = 0; " for kind, name in zip(form.results, names, strict=True))
    where = "buffer + (e & 0x3ffffff)"
    if form.space.startswith("generic"):
        where = "((e >> 26 & 31) == 0 ? buffer : (e >> 26 & 31) == 1 ? shared : stack) + (e & 0x3ffffff)"
    elif form.space == "local":
        where = "stack + (e & 0x3ffffff)"
    outputs = [f'"+{kind}"({name})' for kind, name in zip(form.results, names, strict=True)]
    to = "to + 16 * (e >> 26 & 31) - 16 * lane" if form.space == "placed" else "to"
    inputs = [f'"l"({where})', '"r"(e)', '"r"(e >> 26 & 31)', f'"r"({to} + {512 * (at % 16)})', '"l"(policy)']
    inputs += [f'"{kind}"({VALUES[kind]})' for kind in form.sources]
    count = len(outputs)
    first = count + 5
    values = [f"%{k}" for k in range(first, first + len(form.sources))]
    half = len(values) // 2
    ptx = form.ptx.format(
        guard="@p" if row.guarded else "", address="a" if form.space == "local" else f"%{count}",
        extra=f"%{count + 2}", to=f"%{count + 3}", policy=f"%{count + 4}", d=braced([f"%{k}" for k in range(count)]),
        s=braced(values), s0=braced(values[:half]), s1=braced(values[half:]),
    )  # fmt: skip
    setup = f".reg .pred p; setp.lt.s32 p, %{count + 1}, 0; " if row.guarded or form.flag == "ignore" else ""
    if form.space == "local":
        setup += f".reg .u64 a; cvta.to.local.u64 a, %{count}; "
    added = "".join(f" sum += added({name});" for name in names)
    asm = f'asm volatile("{{ {setup}{ptx} }}" : {", ".join(outputs)} : {", ".join(inputs)});'
    return declared + asm + added


def braced(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else "{" + ", ".join(names) + "}"


# ---------------------------------------------------------------------------------------------- SASS


def compiled(kernel: Kernel, folder: Path) -> tuple[Kernel, bytes, list[Site]]:
    """Return a kernel's cubin and the instructions that are measured; write the cubin."""
    text, lines = source(kernel)
    code = Toolchain().compile(text, ["-lineinfo", "-w"], ARCH, [])
    (folder / f"{kernel.name}.cubin").write_bytes(code)
    table, sites = line_table(code, kernel.name), []
    for offset, sass in instructions(Toolchain().disassemble(code, kernel.name), kernel.name):
        stack = table.stack(offset)
        row = lines.get(stack[-1][1]) if stack else None
        if row is not None and opcode(sass) in row.opcodes:
            sites.append(Site(offset=offset, sass=sass, row=row))
    return kernel, code, sites


def certain(sites: list[Site]) -> list[Site]:
    """Return the sites without accesses that the compiler made several instructions of."""
    counts = Counter(id(site.row) for site in sites)
    return [site for site in sites if site.row.form is None or counts[id(site.row)] == 1]


def instructions(text: str, function: str) -> Iterator[tuple[int, str]]:
    inside = False
    for line_ in text.splitlines():
        if line_.startswith("\t.section") or line_.startswith(".section"):
            inside = f".text.{function}," in line_
        elif inside and (match := re.match(r"\s+/\*([0-9a-f]{4,})\*/\s+(.*?)\s*;", line_)):
            yield int(match[1], 16), " ".join(match[2].split())


def opcode(sass: str) -> str:
    words = sass.split()
    return words[words[0].startswith("@")].partition(".")[0]


def checked(kernel: Kernel, sites: list[Site]) -> list[str]:
    """Return what is wrong: lines without the SASS that is to be measured, or with more than one of it."""
    counts = Counter(id(site.row) for site in sites)
    return [
        f"{kernel.name}: {row.name} {row.mode}: {counts[id(row)]} instructions"
        for row in kernel.rows
        if counts[id(row)] != 1 and (row.form is not None or not counts[id(row)])
    ]


def everything(folder: Path, only: str = "") -> dict[str, tuple[Kernel, bytes, list[Site]]]:
    """Compile all kernels in parallel."""
    folder.mkdir(parents=True, exist_ok=True)
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        return {made[0].name: made for made in pool.map(lambda kernel: compiled(kernel, folder), kernels(only))}


def report_forms(made: dict[str, tuple[Kernel, bytes, list[Site]]]) -> None:
    found: dict[str, Counter[str]] = defaultdict(Counter)
    for _, _, sites in made.values():
        for site in sites:
            words = site.sass.split()
            found[site.row.name][words[words[0].startswith("@")]] += 1
    for name, counts in found.items():
        print(f"{name:55} {', '.join(f'{times} {sass}' for sass, times in counts.most_common(6))}")
    wrong = [problem for kernel, _, sites in made.values() for problem in checked(kernel, sites)]
    for problem, times in Counter(text.partition(": ")[2] for text in wrong).most_common():
        print(f"UNEXPECTED {times} times: {problem}")
    rows: Counter[bool] = Counter()
    for kernel, _, sites in made.values():
        for site in certain(sites):
            rows[site.row.form is None] += len(kernel.masks)
    launches = sum(len(kernel.masks) for kernel, _, _ in made.values())
    print(f"{len(made)} kernels, {launches} launches; {len(wrong)} lines unexpected")
    print(f"expected: {rows[False]} rows of accesses, {rows[True]} of branches")
