"""What memory_rows.py measures: instruction forms in PTX, and patterns of 32 byte offsets under masks."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

LANE = np.arange(32)
ALL = 0xFFFFFFFF
BUFFER = 1 << 26  # bytes; offsets have 26 bits
SHARED, LOCAL = 8192, 2048  # bytes of the arrays that generic and local accesses reach
SPACES = ("global", "shared", "local")  # of a generic access, by the number in a pattern's `extra`

Array = np.ndarray


@dataclass(frozen=True, kw_only=True)
class Pattern:
    """One execution's lanes: byte offsets, the lanes whose flag is set, and a small number per lane.

    The flag is the guard of most forms. `extra` is the space of a generic access, the size that a copy reads or the
    16 bytes that it writes, the trip count of a loop.
    """

    kind: str
    offsets: tuple[int, ...]
    flags: int = ALL
    extra: tuple[int, ...] = (0,) * 32

    @property
    def words(self) -> list[int]:
        """The table's entry of each lane: offset, 5 bits of `extra`, flag."""
        return [
            offset | extra << 26 | (self.flags >> lane & 1) << 31
            for lane, (offset, extra) in enumerate(zip(self.offsets, self.extra, strict=True))
        ]


@dataclass(frozen=True, kw_only=True)
class Form:
    """An instruction: PTX with {guard}, {address}, {to}, {extra}, {policy}, {d} and {s}, the last two of these classes.

    `opcodes` are those of the SASS that is measured; `space` is where its addresses are.
    """

    name: str
    ptx: str
    width: int
    opcodes: tuple[str, ...]
    results: str = ""
    sources: str = ""
    space: str = "global"
    count: int = 24  # patterns
    flag: str = "guard"  # what a pattern's flags mean: guard, or ignore (of a copy)
    hardware: bool = False  # also measured alone, next to the hardware's counters


# ---------------------------------------------------------------------------------------------- patterns


def masks(rng: np.random.Generator) -> list[int]:
    """Return masks: full, empty, halves, quarters, alternating, single lanes, heads, tails, random densities."""
    fixed = [
        ALL, 0, 0xFFFF, 0xFFFF0000, 0x55555555, 0xAAAAAAAA, 0x33333333, 0xFF, 0xFF00, 0xFF000000, 0x00FFFF00,
        0x0F0F0F0F, 0xF0F0F0F0, 1, 1 << 13, 1 << 31, 0x80000001, 0x00018000, 0x7FFFFFFF, 0xFFFFFFFE, 0x7, 0x1FFFF,
    ]  # fmt: skip
    densities = np.repeat(np.linspace(0.05, 0.95, 10), 2)
    return fixed + [mask_of(rng.random(32) < density) for density in densities]


def mask_of(lanes: Array) -> int:
    return sum(1 << int(lane) for lane in np.flatnonzero(lanes))


def lanes(width: int, rng: np.random.Generator) -> Iterator[tuple[str, Array]]:
    """Yield kinds and byte offsets, multiples of the width, of all lanes."""
    for base in (0, 1, 2, 4, 8, 12, 16, 24, 28, 32, 36, 48, 64, 96, 100, 112, 124, 127, 128, 144, 1 << 20):
        if base % width == 0:
            yield "unit", base + width * LANE
    strides = (0, 2, 3, 4, 5, 6, 7, 8, 9, 12, 15, 16, 17, 24, 31, 32, 33, 48, 64, 65, 96, 128, 129, 256, 1000, 4096)
    for stride in strides:
        yield "stride", width * stride * LANE
    for stride in (2, 3, 4, 8, 16, 32):
        yield "stride", width + width * stride * LANE
    yield "reversed", width * (31 - LANE)
    for group in (2, 4, 8, 16):
        yield "broadcast", width * (LANE // group)
        yield "duplicate", width * (LANE % group)
    for x in (1, 2, 3, 5, 8, 16, 21, 31):
        yield "xor", width * (LANE ^ x)
    for _ in range(4):
        yield "permuted", width * rng.permutation(32)
    for lines in (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64):
        yield "random", width * rng.integers(0, 128 * lines // width, 32)
        yield "random", spread(lines, width, rng)
        yield "random", spread(lines, width, rng)
    for group in (2, 4, 8, 16, 2, 4, 8, 16):
        bases = width * rng.integers(0, 4096 // width, 32)
        yield "groups", bases[LANE // group] + width * (LANE % group)
    for gap in (0, 16, 32, 48, 64, 96, 128, 160, 256):
        yield "halves", width * (LANE % 16) + LANE // 16 * gap
        yield "quarters", width * (LANE % 8) + LANE // 8 * gap
    for sectors in (1, 2, 3, 4, 5, 8, 12, 16):
        chosen = 32 * rng.integers(0, 256, sectors)
        yield "sectors", chosen[rng.integers(0, sectors, 32)] + width * rng.integers(0, 32 // width, 32)
    for _ in range(3):
        yield "far", width * rng.integers(0, BUFFER // width, 32)


def spread(lines: int, width: int, rng: np.random.Generator) -> Array:
    """Return offsets in that many 128-byte lines, which lie anywhere in a mebibyte."""
    chosen = 128 * rng.integers(0, 8192, lines)
    return chosen[rng.integers(0, lines, 32)] + width * rng.integers(0, 128 // width, 32)


def patterns(width: int, rng: np.random.Generator, most: int = BUFFER) -> list[Pattern]:
    """Return patterns of that width below `most` bytes: all lanes, every mask on two of them, and lanes under masks."""
    shapes = [(kind, offsets % most) for kind, offsets in lanes(width, rng)]
    if most < BUFFER:  # a local array: threads at the same index, too
        shapes += [("uniform", np.full(32, width * k)) for k in (0, 1, 2, 3, 5, 8, 13, 21, 34)]
    every = masks(rng)
    pairs = [(*shape, ALL) for shape in shapes]
    pairs += [("masked unit", width * LANE, mask) for mask in every]
    pairs += [("masked", shapes[rng.integers(len(shapes))][1], mask) for mask in every]
    pairs += [(f"masked {kind}", offsets, every[rng.integers(len(every))]) for kind, offsets in shapes]
    return [Pattern(kind=kind, offsets=integers(offsets), flags=mask) for kind, offsets, mask in pairs]


def integers(values: Array) -> tuple[int, ...]:
    return tuple(int(value) for value in values)


def mixed(width: int, rng: np.random.Generator) -> list[Pattern]:
    """Return patterns of generic accesses: all lanes in one space, halves in two, any lane anywhere."""
    spaces = [
        *(np.full(32, space) for space in range(3) for _ in range(3)), LANE // 16, LANE // 16 * 2, 1 + LANE // 16,
        LANE % 2, LANE % 3, (LANE == 7) * 1, (LANE == 7) * 2, (LANE != 7) * 1, (LANE != 7) * 2,
        *(rng.integers(0, 3, 32) for _ in range(4)), *(rng.integers(0, 2, 32) for _ in range(2)),
    ]  # fmt: skip
    limits = np.array((BUFFER, SHARED, LOCAL))
    every = patterns(width, rng)
    return [
        Pattern(
            kind=f"{pattern.kind} in {'+'.join(SPACES[k] for k in np.unique(space))}",
            offsets=integers(np.array(pattern.offsets) % limits[space]),
            flags=pattern.flags,
            extra=integers(space),
        )
        for index, pattern in enumerate(every)
        for space in [spaces[index % len(spaces)]]
    ]


def sized(width: int, rng: np.random.Generator) -> list[Pattern]:
    """Return patterns of copies whose lanes read fewer bytes than they write: all alike, or not."""
    sizes = [np.full(32, size) for size in range(width + 1)] + [rng.integers(0, width + 1, 32) for _ in range(12)]
    sizes += [np.where(rng.random(32) < density, width, 0) for density in np.linspace(0.1, 0.9, 9)]
    every = patterns(width, rng)
    return [
        Pattern(
            kind=f"{every[k].kind} sized",
            offsets=every[k].offsets,
            flags=every[k].flags,
            extra=integers(sizes[k % len(sizes)]),
        )
        for k in rng.permutation(len(every))
    ]


def placed(width: int, rng: np.random.Generator) -> list[Pattern]:
    """Return patterns of copies whose lanes write anywhere in 512 bytes, 16 bytes each; several may write the same."""
    every = patterns(width, rng)
    made = []
    for index, pattern in enumerate(every):
        targets = [
            LANE ^ int(rng.integers(1, 32)), rng.permutation(32), (LANE + int(rng.integers(1, 32))) % 32,
            2 * rng.permutation(16)[LANE // 2] + LANE % 2, rng.integers(0, 32, 32), 31 - LANE,
            8 * (LANE // 8) + (LANE % 8 ^ LANE // 8), LANE // 2, LANE % 8 + 8 * rng.integers(0, 4, 32), LANE & -2,
            8 * (LANE % 4) + LANE // 4, np.full(32, 5),
        ]  # fmt: skip
        to = targets[index % len(targets)]
        offsets = np.array(pattern.offsets)
        if index % 5 == 0:  # what is read follows what is written
            offsets = width * (to ^ int(rng.choice((0, 0, 1, 2, 6, 8)))) + 16 * int(rng.integers(0, 4))
        made.append(Pattern(kind=f"{pattern.kind} placed", offsets=integers(offsets), flags=pattern.flags,
                            extra=integers(to)))  # fmt: skip
    return made


# ---------------------------------------------------------------------------------------------- forms

BYTES = {"u8": 1, "s8": 1, "u16": 2, "s16": 2, "u32": 4, "u64": 8, "b128": 16}
LOADS = ("LDG",)
STORES = ("STG",)


def accessed(kind: str) -> tuple[int, str]:
    """Return bytes and register classes of a type such as v4.u32."""
    vector, _, element = kind.rpartition(".")
    count = int(vector[1:]) if vector else 1
    if element == "b128":
        return 16, "ll"
    return count * BYTES[element], count * {"u64": "l", "u16": "h", "s16": "h"}.get(element, "r")


def load(modifiers: str, kind: str, **more: object) -> Form:
    width, registers = accessed(kind)
    tail = ", {policy}" if "cache_hint" in modifiers else ""
    name = f"ld{modifiers}.{kind}"
    ptx = f"{{guard}} {name} {{d}}, [{{address}}]{tail};"
    if kind == "b128":
        ptx = f".reg .b128 q; mov.b128 q, {{d}}; {{guard}} {name} q, [{{address}}]{tail}; mov.b128 {{d}}, q;"
    return Form(**{"name": name, "ptx": ptx, "width": width, "opcodes": LOADS, "results": registers, **more})  # type: ignore[arg-type]


def store(modifiers: str, kind: str, **more: object) -> Form:
    width, registers = accessed(kind)
    tail = ", {policy}" if "cache_hint" in modifiers else ""
    name = f"st{modifiers}.{kind}"
    ptx = f"{{guard}} {name} [{{address}}], {{s}}{tail};"
    if kind == "b128":
        ptx = f".reg .b128 q; mov.b128 q, {{s}}; {{guard}} {name} [{{address}}], q{tail};"
    return Form(**{"name": name, "ptx": ptx, "width": width, "opcodes": STORES, "sources": registers, **more})  # type: ignore[arg-type]


WIDTHS = ("u8", "u16", "u32", "u64", "v4.u32")
LOAD_VARIANTS = (
    ".global.ca", ".global.cg", ".global.cs", ".global.lu", ".global.cv", ".volatile.global", ".relaxed.cta.global",
    ".relaxed.gpu.global", ".relaxed.sys.global", ".acquire.gpu.global", ".global.L1::evict_first",
    ".global.L1::evict_last", ".global.L1::evict_unchanged", ".global.L1::no_allocate", ".global.L2::64B",
    ".global.L2::128B", ".global.L2::256B", ".global.L2::cache_hint", ".global.L1::no_allocate.L2::cache_hint.L2::128B",
    ".global.nc.L1::no_allocate.L2::128B", ".global.nc.L2::256B", ".global.nc.L1::evict_last",
    ".global.nc.L2::cache_hint",
)  # fmt: skip
STORE_VARIANTS = (
    ".global.wb", ".global.cg", ".global.cs", ".global.wt", ".volatile.global", ".relaxed.cta.global",
    ".relaxed.gpu.global", ".relaxed.sys.global", ".release.gpu.global", ".global.L1::evict_first",
    ".global.L1::evict_last", ".global.L1::no_allocate", ".global.L2::cache_hint",
)  # fmt: skip


def forms() -> list[Form]:
    """Return every form that is measured."""
    made = [load(".global", kind, count=170, hardware=kind != "u16") for kind in WIDTHS]
    made += [load(".global", kind) for kind in ("s8", "s16", "v2.u16", "v2.u32", "v2.u64", "b128")]
    made += [load(".global.nc", kind, count=100, hardware=kind == "u32") for kind in WIDTHS]
    made += [load(".global.nc", kind) for kind in ("s8", "v2.u32", "v2.u64")]
    made += [load(modifiers, kind) for modifiers in LOAD_VARIANTS for kind in ("u32", "v4.u32")]
    made += [load(modifiers, "u8") for modifiers in LOAD_VARIANTS[:10:3]]
    made += [load(modifiers, "u64") for modifiers in LOAD_VARIANTS[1::3]]
    made += [
        load(".mmio.relaxed.sys.global", "u32"),
        load("u.global", "u32", ptx="{guard} ldu.global.u32 {d}, [{address}];"),
    ]
    made += [store(".global", kind, count=170, hardware=kind not in ("u16", "u64")) for kind in WIDTHS]
    made += [store(".global", kind) for kind in ("v2.u16", "v2.u32", "v2.u64", "b128")]
    made += [store(modifiers, kind) for modifiers in STORE_VARIANTS for kind in ("u32", "v4.u32")]
    made += [store(modifiers, "u8") for modifiers in STORE_VARIANTS[::4]]
    made += [store(modifiers, "u64") for modifiers in STORE_VARIANTS[2::3]]
    made += [store(".mmio.relaxed.sys.global", "u32")]
    made += [load("", kind, count=110, space="generic", opcodes=("LD",)) for kind in WIDTHS]
    made += [store("", kind, count=110, space="generic", opcodes=("ST",)) for kind in WIDTHS]
    made += [load(m, "u32", space="generic", opcodes=("LD",)) for m in (".volatile", ".relaxed.gpu", ".cg")]
    made += [store(m, "u32", space="generic", opcodes=("ST",)) for m in (".volatile", ".relaxed.gpu", ".cs")]
    made += [
        load(".local", kind, count=130, space="local", opcodes=("LDL",), hardware=kind in ("u32", "v4.u32"))
        for kind in WIDTHS
    ]
    made += [
        store(".local", kind, count=130, space="local", opcodes=("STL",), hardware=kind == "u32") for kind in WIDTHS
    ]
    made += [load(m, "u32", space="local", opcodes=("LDL",)) for m in (".local.cg", ".local.lu", ".local.cs")]
    made += [store(m, "u32", space="local", opcodes=("STL",)) for m in (".local.cg", ".local.cs", ".local.wt")]
    return [*made, *copies(), *reductions(), *atomics(), *prefetches(), *generic_atomics()]


def copies() -> Iterator[Form]:
    copied = ("LDGSTS",)
    for cache, width in (("ca", 4), ("ca", 8), ("ca", 16), ("cg", 16)):

        def copy(head: str, tail: str, count: int, suffix: str = "", **more: object) -> Form:
            name = f"cp.async.{cache}.shared.global{suffix}"  # noqa: B023 - called at once
            ptx = f"{head} {name} [{{to}}], [{{address}}], {width}{tail};"  # noqa: B023
            return Form(
                **{"name": f"{name}.{width}", "ptx": ptx, "width": width, "opcodes": copied, "count": count, **more}  # type: ignore[arg-type]  # noqa: B023
            )

        yield copy("{guard}", "", 110, hardware=width != 8)
        sizes = copy("{guard}", ", {extra}", 100)
        yield Form(**{**vars(sizes), "name": f"{sizes.name} zfill", "space": "sized"})
        ignored = copy("", ", p", 80)
        yield Form(**{**vars(ignored), "name": f"{ignored.name} ignore", "flag": "ignore"})
        for suffix in (".L2::64B", ".L2::128B", ".L2::256B"):
            yield copy("{guard}", "", 24, suffix)
        # .L2::cache_hint is left out: of it, ptxas 13.0 makes an LDGSTS [R+UR0], desc[UR1], an illegal instruction.
        if width in (4, 16):
            there = copy("{guard}", "", 240 if cache == "cg" else 60, hardware=cache == "cg")
            yield Form(**{**vars(there), "name": f"{there.name} placed", "space": "placed"})
        if cache == "cg":
            yield Form(
                **{**vars(ignored), "name": f"{ignored.name} ignore placed", "space": "placed", "flag": "ignore"}
            )


REGISTERS = {"b16": "h", "b32": "r", "u32": "r", "s32": "r", "u64": "l", "s64": "l", "b64": "l", "f32": "f", "f64": "d"}
SIZES = {"b16": 2, "f16": 2, "bf16": 2, "u64": 8, "s64": 8, "b64": 8, "f64": 8, "b128": 16}


def operand(kind: str) -> tuple[int, str]:
    """Return bytes and register classes of an atomic's type."""
    packed = {"f16": "h", "bf16": "h", "f16x2": "r", "bf16x2": "r", "b128": "ll"}
    return SIZES.get(kind, 4), REGISTERS.get(kind) or packed[kind]


def reduction(operation: str, kind: str, scope: str = "", vector: int = 0, **more: object) -> Form:
    width, register = operand(kind)
    rounding = ".noftz" if "f16" in kind and operation == "add" else ""
    parts = [f"red{scope}.global", *([f"v{vector}.{kind}"] if vector else []), operation + rounding]
    name = ".".join([*parts, *([] if vector else [kind])])
    if vector:
        name = f"red{scope}.global.v{vector}.{kind}.{operation}{rounding}"
    count = vector or 1
    return Form(
        **{  # type: ignore[arg-type]
            "name": name, "ptx": f"{{guard}} {name} [{{address}}], {{s}};", "width": width * count,
            "opcodes": ("RED", "REDG"), "sources": register * count, **more,
        }
    )  # fmt: skip


def reductions() -> Iterator[Form]:
    for kind in ("u32", "u64", "f32"):
        yield reduction("add", kind, count=120, hardware=kind != "f32")
    for kind in ("f64", "f16x2", "bf16x2"):
        yield reduction("add", kind, count=50)
    for name in ("min.s32", "max.u32", "max.s64", "min.u64", "and.b32", "or.b64", "xor.b32", "inc.u32", "dec.u32"):
        yield reduction(*name.split("."))
    for scope in (".relaxed.cta", ".relaxed.sys", ".release.gpu"):
        yield reduction("add", "u32", scope)
    vectors = {"f32": (2, 4), "f16": (2, 4, 8), "bf16": (8,), "f16x2": (2, 4), "bf16x2": (4,)}
    for kind, vector in ((kind, vector) for kind, counts in vectors.items() for vector in counts):
        yield reduction("add", kind, vector=vector, count=40)


def atomic(operation: str, kind: str, scope: str = "", vector: int = 0, **more: object) -> Form:
    width, register = operand(kind)
    rounding = ".noftz" if "f16" in kind and operation == "add" else ""
    name = f"atom{scope}.global.{operation}{rounding}.{kind}"
    if vector:
        name = f"atom{scope}.global.v{vector}.{kind}.{operation}{rounding}"
    count, taken = vector or 1, 2 if operation == "cas" else 1
    ptx = f"{{guard}} {name} {{d}}, [{{address}}], {{s}};"
    if operation == "cas":
        ptx = f"{{guard}} {name} {{d}}, [{{address}}], {{s0}}, {{s1}};"
    if kind == "b128":
        second = ".reg .b128 r; mov.b128 r, {s1}; " if taken == 2 else ""
        first = "{s0}" if taken == 2 else "{s}"
        ptx = (
            f".reg .b128 q; .reg .b128 o; mov.b128 o, {{d}}; mov.b128 q, {first}; {second}"
            f"{{guard}} {name} o, [{{address}}], q{', r' if taken == 2 else ''}; mov.b128 {{d}}, o;"
        )
    return Form(
        **{  # type: ignore[arg-type]
            "name": name, "ptx": ptx, "width": width * count, "opcodes": ("ATOM", "ATOMG"),
            "results": register * count, "sources": register * count * taken, **more,
        }
    )  # fmt: skip


def atomics() -> Iterator[Form]:
    yield atomic("add", "u32", count=120, hardware=True)
    for operation, kind in (
        ("cas", "b32"),
        ("cas", "b64"),
        ("exch", "b32"),
        ("exch", "b64"),
        ("add", "u64"),
        ("add", "f32"),
    ):
        yield atomic(operation, kind, count=80, hardware=operation == "cas" and kind == "b32")
    for operation, kind in (("add", "f16x2"), ("add", "f64"), ("cas", "b128"), ("exch", "b128")):
        yield atomic(operation, kind, count=50)
    for name in ("min.s32", "max.u64", "max.s64", "and.b32", "or.b64", "xor.b32", "inc.u32", "dec.u32", "add.bf16x2"):
        yield atomic(*name.split("."))
    for scope in (".relaxed.cta", ".relaxed.sys", ".acquire.gpu", ".release.gpu", ".acq_rel.gpu"):
        yield atomic("add", "u32", scope)
    for kind, vector in (("f32", 2), ("f32", 4), ("f16", 4), ("f16x2", 4), ("bf16x2", 2)):
        yield atomic("add", kind, vector=vector, count=40)


def generic_atomics() -> Iterator[Form]:
    """Yield atomics through addresses of global and of shared memory; local memory has none."""
    for operation, kind in (("add", "u32"), ("cas", "b32"), ("exch", "b64"), ("max", "u64"), ("add", "u64")):
        form = atomic(operation, kind, count=48)
        name = form.name.replace(".global", "")
        yield Form(**{**vars(form), "name": name, "ptx": form.ptx.replace(form.name, name), "space": "generic atomic"})
    form, name = reduction("add", "u32", count=48), "red.add.u32"
    ptx = f"{{guard}} {name} [{{address}}], {{s}};"
    more = {"name": name, "ptx": ptx, "space": "generic atomic", "opcodes": ("ATOM", "RED")}
    yield Form(**{**vars(form), **more})


def prefetches() -> Iterator[Form]:
    for name in (
        "prefetch.global.L1",
        "prefetch.global.L2",
        "prefetch.global.L2::evict_last",
        "prefetch.global.L2::evict_normal",
    ):
        yield Form(name=name, ptx=f"{{guard}} {name} [{{address}}];", width=1, opcodes=("CCTL",))
