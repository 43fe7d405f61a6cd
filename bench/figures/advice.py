"""Advice against brute force: ``python3 bench/figures/advice.py [--layouts N] [--kernels N] [--seed S]``.

Random tiles, as arrays with accesses and as kernels that are compiled and emulated: pitches of 8 to 80, rows of 4 to 32
threads, halos, columns, diagonals, strides, reversals, elements of 1 to 16 bytes, arrays of three dimensions and of
structs, dynamic shared memory. Of every answer:

- each piece of code that is printed is compiled by the host's C++ compiler, and asked where each element lies: it has
  to be one-to-one and in bounds, and the wavefronts that it takes, counted here lane by lane, those that are claimed;
- some of them are compiled by nvcc, in kernels that make the same accesses through them, and emulated;
- each "none of the N XORs and M row lengths" is searched anew: the XORs by an SMT solver, the lengths, the XORs of a
  row's number, both together and the swap of row and column by counting all of them.

Nothing of ``ncu_swizzle.smem`` is used for that but the texts and the numbers that it claims. Needs g++ and z3-solver;
kernels need CUDA's compiler. The last line has the figures; a wrong answer is printed, and the exit code is 1.
"""

from __future__ import annotations

import argparse
import itertools
import os
import random
import re
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import z3

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

import ncu_swizzle
from ncu_swizzle.cubin.shared_arrays import SharedArray
from ncu_swizzle.explain.explained import SuggestAnswer, code_of
from ncu_swizzle.smem.observed import observed_tiles
from ncu_swizzle.smem.requests import AccessRequests
from ncu_swizzle.smem.suggestions import in_narrower_accesses

LINE, WORD, WARP = 128, 4, 32
LANE = np.arange(WARP)
STORES = {1: "st.shared.u8", 2: "st.shared.u16", 4: "st.shared.b32", 8: "st.shared.b64", 16: "st.shared.v4.b32"}
LOADS = {
    1: "ld.shared.u8",
    2: "ld.shared.u16",
    4: "ld.shared.b32",
}  # wide loads may merge phases, which is not counted here
BITS = 5


@dataclass(frozen=True)
class Requests:
    """What a tile is asked for, apart from the product: element indices, (N, 32), and the bytes of a lane."""

    indices: np.ndarray
    active: np.ndarray
    width: int
    times: np.ndarray  # (N,)


@dataclass(frozen=True)
class Case:
    """An answer, what it is about, and the elements of its array."""

    name: str
    answer: SuggestAnswer
    requests: tuple[Requests, ...]
    element: int


# ---------------------------------------------------------------------------------------------- what is asked


def patterns(rng: random.Random, pitch: int, rows: int) -> Iterator[np.ndarray]:
    """Yield the element indices of some requests, (N, 32), all within `rows` rows of a pitch."""
    width = rng.choice([w for w in (4, 8, 16, 32) if w <= pitch])
    x, y, high = LANE % width, LANE // width, WARP // width
    for kind in rng.sample(("rows", "halo", "columns", "reversed", "diagonal", "strided", "flat"), rng.randint(1, 3)):
        steps = np.arange(0, max(1, rows - high - 4), high)[: rng.choice((2, 8))][:, None]
        room = pitch - width
        if kind == "rows":
            yield (y + steps) * pitch + x + rng.randint(0, room)
        elif kind == "halo":
            shifts = [(dy, dx) for dy in range(max(1, min(3, rows - high))) for dx in range(min(3, room + 1))]
            yield np.concatenate([(y + steps + dy) * pitch + x + dx for dy, dx in shifts])
        elif kind == "columns":
            down = LANE % min(rows, 32)
            yield down * pitch + np.arange(min(pitch, 4))[:, None]
        elif kind == "reversed":
            yield (y + steps) * pitch + (width - 1 - x) + rng.randint(0, room)
        elif kind == "diagonal":
            yield (LANE % rows) * pitch + (LANE + np.arange(4)[:, None]) % pitch
        elif kind == "strided":
            by = rng.choice((2, 3, 4, 5, 8, 16))
            yield (LANE * by + np.arange(3)[:, None]) % (rows * pitch)
        else:
            yield (LANE + WARP * np.arange(2)[:, None]) % (rows * pitch)


def layout_cases(rng: random.Random, count: int) -> Iterator[Case]:
    """Yield answers about random tiles of an array."""
    for number in range(count):
        element = rng.choice((1, 2, 4, 4, 4, 8, 16))
        pitch, rows = rng.choice([rng.randint(8, 80), rng.choice((16, 32, 64)), rng.choice((17, 18, 20, 24, 33))]), 0
        rows = rng.randint(12, max(12, min(40, 2048 // pitch)))
        start = 1024 + 16 * rng.randint(0, 40)
        made: list[Requests] = []
        for indices in patterns(rng, pitch, rows):
            active = np.ones(indices.shape, bool)
            if rng.random() < 0.25:
                active = (np.arange(WARP) < rng.randint(2, 31)) & active
            if rng.random() < 0.1:
                active = np.array([[rng.random() < 0.7 for _ in range(WARP)] for _ in indices]) | (LANE == 0)
            made.append(Requests(indices, active, element, np.ones(len(indices), np.int64)))
        if element == 4 and pitch % 4 == 0 and rng.random() < 0.3:  # vectors beside single elements
            quads = 4 * (LANE + WARP * np.arange(2)[:, None]) % (rows * pitch // 4 * 4)
            made.append(Requests(quads, np.ones(quads.shape, bool), 16, np.ones(2, np.int64)))
        requests = {}
        for at, each in enumerate(made):
            names = STORES if each.width not in LOADS or rng.random() < 0.5 else LOADS
            requests[16 * at] = AccessRequests(
                op=names[each.width],
                places=(start + element * each.indices).astype(np.int32),
                active=each.active,
                times=each.times,
            )
        array = SharedArray(name="tile", symbol="tile", start=start, size=rows * pitch * element, align=16)
        for tile in observed_tiles(requests, lambda offset: f"{offset}", arrays=(array,)):
            answer = SuggestAnswer(
                title=f"layout {number}: {rows} x {pitch} of {element}",
                accesses=tile.accesses,
                suggestion=tile.suggestion(),
                row=tile.plain.shape[1] if tile.known else 0,
            )
            # What an array is asked for may be two tiles: each has its own accesses, from its own start.
            whole = len(tile.offsets) == len(made)
            yield Case(answer.title, answer, tuple(made) if whole else requests_of(answer), element)


def requests_of(answer: SuggestAnswer) -> tuple[Requests, ...]:
    """Return the accesses that an answer is about, as element indices from its tile's start."""
    made, columns = list[Requests](), answer.suggestion.plain.mapping.shape[1]
    for access in answer.accesses:
        indices = access.rows * columns + access.columns
        active = np.ones(indices.shape, bool) if access.active is None else access.active
        times = np.broadcast_to(np.asarray(access.times), (len(indices),))
        made.append(Requests(indices, active, access.operation.width_bytes, times))
    return tuple(made)


KERNELS = {
    "rows": "t[y][x + {s}] = in[threadIdx.y * {w} + x]; __syncthreads(); v = t[y][x + {s}];",
    "halo": "for (int j = y; j < {h}; j += {n}) for (int i = x; i < {p}; i += {w}) t[j][i] = in[j * {p} + i];"
    " __syncthreads(); for (int a = 0; a < {e}; ++a)"
    " for (int b = 0; b < {e}; ++b) v += t[y + a][x + b] * (a + 2 * b + 1);",
    "turn": "t[y][x] = in[y * {w} + x]; __syncthreads(); v = t[x % {h}][y];",
    "long": "for (int j = x; j < {p}; j += {w}) t[y][j] = in[{p} * y + j]; __syncthreads();"
    " for (int j = x; j < {p}; j += {w}) v += t[y][{p} - 1 - j];",
    "own": "for (int k = 0; k < {e}; ++k) (&t[0][0])[(y * {w} + x) * {e} + k] = in[k * {w} + x]; __syncthreads();"
    " for (int k = 0; k < {e}; ++k) v += (&t[0][0])[(y * {w} + x) * {e} + k];",
    "cube": "for (int k = 0; k < 3; ++k) u[k][y][x] = in[(k * {n} + y) * {w} + x]; __syncthreads();"
    " for (int k = 0; k < 3; ++k) v += u[k][x % {h}][y] + u[k][y][x];",
    "struct": "for (int k = 0; k < {e}; ++k) r[y * {w} + x].a[k] = in[k * {w} + x]; __syncthreads();"
    " for (int k = 0; k < {e}; ++k) v += r[y * {w} + x].a[{e} - 1 - k];",
    "dynamic": "d[y * {p} + x] = in[y * {w} + x]; __syncthreads(); v = d[x % {h} * {p} + y] + d[y * {p} + x];",
}
TYPES = ("signed char", "short", "float", "float", "double")


def kernel_cases(rng: random.Random, count: int, folder: Path) -> Iterator[Case]:
    """Yield answers about random kernels, all compiled in one go."""
    texts, launches = [], []
    for number in range(count):
        kind = rng.choice(tuple(KERNELS))
        width = rng.choice((4, 8, 16, 32))
        high = rng.choice([n for n in (2, 4, 8, 16) if 32 <= width * n <= 512])
        extra = rng.choice((0, 1, 2, 4, 8, rng.randint(0, 20)))
        shape = {"w": width, "n": high, "e": rng.choice((1, 3, 5)) if kind != "own" else rng.choice((2, 4, 8, 16)),
                 "s": rng.randint(0, extra), "p": width + extra, "h": high + 4}  # fmt: skip
        if kind == "halo":
            shape |= {"p": width + shape["e"] - 1, "h": high + shape["e"] - 1}
        elif kind == "long":
            shape["p"] = width * rng.choice((2, 4, 8))
        elif kind in ("turn", "cube", "dynamic"):
            shape |= {"h": max(width, high), "p": max(width + extra, high)}
        elif kind == "own":
            shape |= {"p": width * shape["e"], "h": high}
        element = rng.choice(TYPES)
        declared = {
            "cube": f"__shared__ {element} u[3][{shape['h']}][{shape['p']}];",
            "struct": f"struct S {{ {element} a[{shape['e']}]; }}; __shared__ S r[{width * high}];",
            "dynamic": f"extern __shared__ double raw[]; {element} *d = reinterpret_cast<{element} *>(raw);",
        }.get(kind, f"__shared__ {element} t[{shape['h']}][{shape['p']}];")
        texts.append(
            f'extern "C" __global__ void k{number}(const float *in, float *out) {{\n    {declared}\n'
            "    int x = threadIdx.x, y = threadIdx.y; float v = 0;\n"
            f"    {KERNELS[kind].format(**shape)}\n    out[y * {width} + x] = v;\n}}\n"
        )
        shared = 8 * shape["h"] * shape["p"] if kind == "dynamic" else 0
        launches.append((f"k{number}", f"{width},{high}", shared, f"{kind} {element} {shape}"))
    source = folder / "kernels.cu"
    source.write_text("".join(texts), encoding="utf-8")
    for entry, block, shared, name in launches:
        arguments = ["in=float32[65536]:random", "out=float32[65536]:out"]
        described = {"entry": entry, "grid": "1", "block": block, "shared": str(shared), "args": arguments}
        for answer in ncu_swizzle.suggest(source, **described, config="none"):
            element = answer.suggestion.plain.mapping.element_bytes
            yield Case(f"{entry}: {name}", answer, requests_of(answer), element)


# ---------------------------------------------------------------------------------------------- what is true


def wavefronts(byte: np.ndarray, active: np.ndarray, width: int) -> int:
    """Return the wavefronts of one request by its lanes' bytes, lane by lane, without merging."""
    lanes, unit, total = min(WARP, LINE // width), max(width, WORD), 0
    for first in range(0, WARP, lanes):
        wanted: dict[int, set[int]] = {}
        for lane in range(first, first + lanes):
            if active[lane]:
                word = int(byte[lane]) // unit
                wanted.setdefault(word % (LINE // unit), set()).add(word)
        total += max(map(len, wanted.values()), default=0)
    return total


def least(active: np.ndarray, width: int) -> int:
    """Return the phases in which lanes are active: the fewest wavefronts."""
    lanes = min(WARP, LINE // width)
    return sum(bool(active[first : first + lanes].any()) for first in range(0, WARP, lanes))


def clean(case: Case, place: np.ndarray) -> bool:
    """Return whether no request conflicts if each element, by its index, lies at a place, in elements."""
    for each in case.requests:
        for row in range(len(each.indices)):
            byte = place[each.indices[row]] * case.element
            if wavefronts(byte, each.active[row], each.width) > least(each.active[row], each.width):
                return False
    return True


def taken_apart(case: Case) -> Case | None:
    """Return the case with narrower accesses, for which another mapping is named; None if there is none."""
    suggestion, made = case.answer.suggestion, list[Requests]()
    if suggestion.apart is None:
        return None
    for each in case.requests:
        step = max(1, suggestion.narrow // case.element)
        firsts = range(0, max(1, each.width // case.element), step) if each.width > suggestion.narrow else (0,)
        width = min(each.width, suggestion.narrow)
        made += [replace(each, indices=each.indices + first, width=width) for first in firsts]
    element = suggestion.plain.mapping.element_bytes
    accesses = tuple(
        part for each in case.answer.accesses for part in in_narrower_accesses(each, suggestion.narrow, element)
    )
    answer = replace(case.answer, accesses=accesses, suggestion=replace(suggestion, clean=(suggestion.apart,)))
    return Case(f"{case.name}, by {suggestion.narrow} bytes", answer, tuple(made), case.element)


WORDS = {1: "unsigned char", 2: "unsigned short", 4: "unsigned", 8: "uint2", 16: "uint4"}


def wrong_when_emulated(cases: Sequence[tuple[Case, str, np.ndarray]], folder: Path) -> Iterator[str]:
    """Yield what differs if kernels that make the cases' accesses by printed code are compiled by nvcc and emulated."""
    texts, launches = ["#include <cstdint>\n"], []
    for number, (case, text, printed) in enumerate(cases):
        columns = case.answer.suggestion.plain.mapping.shape[1]
        body, expected, cells = list[str](), 0, list[np.ndarray]()
        place = placed_elements(case, printed)
        for each in case.requests:
            first = sum(map(len, cells)) // WARP
            cells.append(np.where(each.active, each.indices, -1).ravel())
            call = "at(i)" if "int index" in text else f"at(i / {columns}, i % {columns})"
            body.append(
                f"    for (int r = {first}; r < {first + len(each.indices)}; ++r) {{ int i = cells[r * 32 + lane];\n"
                f"        if (i >= 0) store(({WORDS[each.width]} *)(raw + p{number}::Tile::{call})); }}\n"
            )
            for row in range(len(each.indices)):
                byte = np.where(each.active[row], place[each.indices[row]], 0)
                expected += wavefronts(byte, each.active[row], each.width)
        texts.append(
            f"namespace p{number} {{\n{re.sub('#include.*', '', text)}}}\n"
            f'extern "C" __global__ void e{number}(const int *cells) {{\n'
            "    extern __shared__ __align__(128) unsigned char raw[];\n    int lane = threadIdx.x;\n"
            + "".join(body) + "}\n"
        )  # fmt: skip
        np.save(folder / f"cells{number}.npy", np.concatenate(cells).astype(np.int32))
        launches.append((case.name, f"e{number}", int(printed[-1]), folder / f"cells{number}.npy", expected))
    source = folder / "printed.cu"
    stores = (f"static __device__ void store({word} *p) {{ asm volatile({put}); }}\n" for word, put in PUTS.items())
    source.write_text("".join([texts[0], *stores, *texts[1:]]), encoding="utf-8")
    for name, entry, shared, cells_file, expected in launches:
        described = {"entry": entry, "grid": "1", "block": "32", "shared": str(shared), "args": [f"cells={cells_file}"]}
        profile = ncu_swizzle.profile(source, **described, engine="emulated", config="none").profile
        if profile.total.wavefronts != expected:
            yield f"{name}: {profile.total.wavefronts} wavefronts emulated, {expected} counted"


_AT = '"l"(__cvta_generic_to_shared(p))'
PUTS = {
    "unsigned char": f'"st.shared.u8 [%0], 0;" :: {_AT}',
    "unsigned short": f'"st.shared.u16 [%0], 0;" :: {_AT}',
    "unsigned": f'"st.shared.b32 [%0], 0;" :: {_AT}',
    "uint2": f'"st.shared.v2.b32 [%0], {{%1, %1}};" :: {_AT}, "r"(0)',
    "uint4": f'"st.shared.v4.b32 [%0], {{%1, %1, %1, %1}};" :: {_AT}, "r"(0)',
}


def placed_by_code(texts: Sequence[str], sizes: Sequence[tuple[int, int]], folder: Path) -> list[np.ndarray]:
    """Return where the printed code puts each element, in bytes, by row and column or index: it is compiled and run."""
    parts = [
        "#include <cstdint>\n#include <cstdio>\n#define __host__\n#define __device__\n#define __forceinline__ inline\n"
    ]
    calls = []
    for number, (text, (rows, columns)) in enumerate(zip(texts, sizes, strict=True)):
        body = re.sub(r"#include.*\n", "", text)
        parts.append(f"namespace n{number} {{\n{body}}}\n")
        if "int row" in text:
            loop = (
                f"for (int r = 0; r < {rows}; ++r) for (int c = 0; c < {columns}; ++c) put(n{number}::Tile::at(r, c));"
            )
        else:
            loop = f"for (int i = 0; i < {rows * columns}; ++i) put(n{number}::Tile::at(i));"
        calls.append(f"    {{ {loop} put(n{number}::Tile::kBytes); }}\n")
    parts.append("static void put(int x) { std::fwrite(&x, 4, 1, stdout); }\nint main() {\n" + "".join(calls) + "}\n")
    source, program = folder / "placed.cpp", folder / "placed"
    source.write_text("".join(parts), encoding="utf-8")
    subprocess.run(["g++", "-std=c++17", "-O1", "-o", program, source], check=True)
    numbers = np.frombuffer(subprocess.run([program], check=True, capture_output=True).stdout, np.int32)
    bounds = np.cumsum([0, *(rows * columns + 1 for rows, columns in sizes)])
    return [numbers[first:end] for first, end in itertools.pairwise(bounds.tolist())]


def placed_elements(case: Case, printed: np.ndarray) -> np.ndarray:
    """Return where printed code puts each element of the array as it is, in bytes; -1 for those that it does not take.

    `printed` are the places by the new rows and columns.
    """
    chosen = case.answer.chosen
    rows, columns = chosen.mapping.shape
    now = chosen.was or (chosen.mapping.transform.every if hasattr(chosen.mapping.transform, "every") else columns)
    now = columns if now < columns or case.answer.row == 0 else now
    place = np.full(max(rows * now, 1), -1, np.int64)
    index = np.arange(rows * columns) // columns * now + np.arange(rows * columns) % columns
    place[index] = printed[:-1].astype(np.int64)
    return place


def wrong_code(case: Case, printed: np.ndarray) -> str:
    """Return what is wrong with a piece of code; empty if nothing is."""
    chosen, place = case.answer.chosen, placed_elements(case, printed)
    places, size = printed[:-1].astype(np.int64), int(printed[-1])
    touched = np.unique(np.concatenate([
        (each.indices[each.active][:, None] + np.arange(max(1, each.width // case.element))).ravel()
        for each in case.requests
    ]))  # fmt: skip
    if (place[touched] < 0).any():
        return "an element that is accessed has no place"
    if len(np.unique(place[touched])) != len(touched):
        return "two elements share a place"
    if len(np.unique(places)) != len(places):
        return "two cells share a place"
    if int(place[touched].max()) + case.element > size or int(place[touched].min()) < 0:
        return "an element lies outside of the tile"
    counted = 0
    for each in case.requests:
        for row in range(len(each.indices)):
            byte = np.where(each.active[row], place[each.indices[row]], 0)
            if (byte % each.width)[each.active[row]].any():
                return "a wide access is not aligned"
            counted += int(each.times[row]) * wavefronts(byte, each.active[row], each.width)
    return "" if counted == chosen.actual else f"{counted} wavefronts, {chosen.actual} claimed"


# ---------------------------------------------------------------------------------------------- what there is none of


def an_xor(case: Case, granule: int, top: int) -> str:
    """Return an XOR of address bits that frees everything, by a solver; empty if there is none."""
    row_bits, low = (LINE // case.element).bit_length() - 1, granule.bit_length() - 1
    differences: set[tuple[int, int]] = set()
    for each in case.requests:
        lanes, unit = min(WARP, LINE // each.width), max(each.width, WORD) // case.element or 1
        bits = max(0, unit.bit_length() - 1)
        for row in range(len(each.indices)):
            for first in range(0, WARP, lanes):
                on = [
                    int(i) >> bits << bits
                    for i in each.indices[row][first : first + lanes][each.active[row][first : first + lanes]]
                ]
                differences |= {(a ^ b, bits) for a, b in itertools.combinations(set(on), 2)}
    chosen = {(t, s): z3.Bool(f"m{t}_{s}") for t in range(low, row_bits) for s in range(row_bits, top)}
    solver = z3.Solver()
    for difference, bits in differences:
        moved = []
        for target in range(bits, row_bits):
            bit = z3.BoolVal(bool(difference >> target & 1))
            for source in range(row_bits, top):
                if difference >> source & 1 and (target, source) in chosen:
                    bit = z3.Xor(bit, chosen[target, source])
            moved.append(bit)
        solver.add(z3.Or(*moved) if moved else z3.BoolVal(False))
    answer = solver.check()
    if answer == z3.unsat:
        return ""
    return (
        f"{answer}: {[key for key, bit in chosen.items() if z3.is_true(solver.model()[bit])]}"
        if answer == z3.sat
        else "?"
    )


def a_length(case: Case, granule: int, now: int, longest: int) -> str:
    """Return a length of rows that frees everything; empty if there is none."""
    size = 1 + max(int(each.indices.max()) + each.width // case.element for each in case.requests)
    index = np.arange(size)
    first = used_columns(case, granule, now) if case.answer.row else now + granule
    for length in range(first, now + longest + 1, granule):
        if length != now and clean(case, index // now * length + index % now):
            return f"rows of {length}"
    return ""


def used_columns(case: Case, granule: int, now: int) -> int:
    """Return how many columns are accessed, in whole granules."""
    used = max(
        int((each.indices[each.active] % now).max()) + max(1, each.width // case.element) for each in case.requests
    )
    return min(-(-used // granule) * granule, now)


def a_swap(case: Case, now: int, rows: int) -> str:
    """Return that the swap of row and column frees everything; empty if it does not."""
    index = np.arange(rows * now)
    return "swapped indices" if clean(case, index % now * rows + index // now) else ""


def swizzles(low: int, row_bits: int, top: int) -> Iterator[tuple[int, int, int]]:
    for base in range(low, row_bits):
        for bits in range(1, row_bits - base + 1):
            for shift in range(bits, top - base):
                yield bits, base, shift


def xored(place: np.ndarray, bits: int, base: int, shift: int) -> np.ndarray:
    mask = ((1 << bits) - 1) << base
    return place ^ (place >> shift & mask)


def an_xor_of_rows(case: Case, granule: int, now: int, rows: int) -> str:
    """Return an XOR of a row's number into its columns that frees everything; empty if there is none."""
    index = np.arange(rows * now)
    row, column = index // now, index % now
    for base in range(granule.bit_length() - 1, granule.bit_length() - 1 + BITS):
        for bits, drop in itertools.product(range(1, BITS + 1), range(max(1, (rows - 1).bit_length()))):
            if now % (1 << (base + bits)) or (1 << (base + bits)) * case.element > LINE:
                continue
            place = row * now + (column ^ ((row >> drop & ((1 << bits) - 1)) << base))
            if clean(case, place):
                return f"column ^ (row >> {drop} & {(1 << bits) - 1}) << {base}"
    return ""


def both(case: Case, granule: int, now: int, rows: int) -> str:
    """Return a length of rows and an XOR that free everything together; empty if there are none."""
    used = used_columns(case, granule, now) if case.answer.row else now
    index, longest = np.arange(rows * now), LINE // case.element
    row_bits = longest.bit_length() - 1
    for length in range(used, now + longest + 1, granule):
        place = index // now * length + index % now
        if length < now and clean(case, place):
            return f"rows of {length}"
        top = ((rows - 1) * length + used - 1).bit_length()
        for bits, base, shift in swizzles(granule.bit_length() - 1, row_bits, top):
            if length != now and clean(case, xored(place, bits, base, shift)):
                return f"rows of {length} with Swizzle<{bits},{base},{shift}>"
    return ""


def wrong_claim(case: Case) -> str:
    """Return what frees everything although it is claimed that nothing does; empty if that is right."""
    suggestion = case.answer.suggestion
    plain, tried = suggestion.plain.mapping, suggestion.tried
    granule = max(max(1, each.width // case.element) for each in case.requests)
    rows, now = plain.shape
    top = (rows * now - 1).bit_length()
    targets, sources = (
        (LINE // case.element).bit_length() - 1 - (granule.bit_length() - 1),
        top - ((LINE // case.element).bit_length() - 1),
    )
    if tried.xors != 1 << max(0, targets) * max(0, sources):
        return f"{tried.xors} XORs are claimed to be all of 2^({targets} x {sources})"
    found = an_xor(case, granule, top)
    found = found or (
        a_length(case, granule, now, LINE // case.element) if tried.lengths and now % granule == 0 else ""
    )
    found = found or (a_swap(case, now, rows) if tried.swaps else "")
    found = found or (an_xor_of_rows(case, granule, now, rows) if tried.of_rows else "")
    return found or (both(case, granule, now, rows) if tried.both else "")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--layouts", type=int, default=500)
    parser.add_argument("--kernels", type=int, default=120)
    parser.add_argument("--emulated", type=int, default=24, help="pieces of code that nvcc compiles")
    parser.add_argument("--seed", type=int, default=1)
    chosen = parser.parse_args()
    rng, figures, wrong = random.Random(chosen.seed), Counter[str](), list[str]()
    os.environ.setdefault("NO_COLOR", "1")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        cases = [*layout_cases(rng, chosen.layouts), *kernel_cases(rng, chosen.kernels, folder)]
        every = [*cases, *filter(None, map(taken_apart, cases))]
        coded = [(case, text) for case in every if (text := code_of(case.answer).get("CUDA"))]
        printed = placed_by_code(
            [text for _, text in coded], [case.answer.chosen.mapping.shape for case, _ in coded], folder
        )
        right = []
        for (case, text), places in zip(coded, printed, strict=True):
            figures["pieces of code"] += 1
            if why := wrong_code(case, places):
                wrong.append(f"{case.name}: {why}\n{text}")
            else:
                right.append((case, text, places))
        chosen_ones = rng.sample(right, min(chosen.emulated, len(right)))
        figures["of them emulated"] = len(chosen_ones)
        wrong += wrong_when_emulated(chosen_ones, folder)
    for case in cases:
        suggestion = case.answer.suggestion
        figures["answers"] += 1
        figures["rows known"] += bool(case.answer.row)
        if suggestion.best is None and suggestion.complete:
            figures["none of"] += 1
            figures["with narrower accesses"] += suggestion.apart is not None
            if found := wrong_claim(case):
                wrong.append(f"{case.name}: none of {suggestion.tried}, but {found}")
        elif suggestion.best is None:
            figures["not complete"] += 1
        elif suggestion.best.mapping == suggestion.plain.mapping:
            figures["clean as it is"] += 1
        else:
            figures["mappings found"] += 1
            if suggestion.best.actual != suggestion.best.ideal and suggestion.best.avoidable:
                wrong.append(f"{case.name}: {suggestion.best.spelled} is not clean")
    for text in wrong:
        print(text)
    print(f"{len(wrong)} wrong; " + ", ".join(f"{count} {what}" for what, count in figures.items()))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
