"""Attack the comparison of results and the judge: ``python3 bench/attacks/results.py [--mutants] [--cheats]``.

Mutants: right kernels whose tile is written by one mapping and read by another, whose stages are mixed up, or whose
fragments are in another order. Which of them are wrong is worked out in Python from the same expressions, without the
emulator. Each wrong one must be found, and no right one refused.

Cheats: kernels that look as if they did the work of BEFORE. Each must be refused by the judge, with a reason.

Needs nvcc and no GPU. Ends with 1 if a mutant or cheat passes, or a right kernel is refused.
"""

from __future__ import annotations

import argparse
import itertools
import json
import sys
import tempfile
import tomllib
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from ncu_swizzle.base.errors import NcuSwizzleError
from ncu_swizzle.engines import executed, judgement
from ncu_swizzle.engines.emulation import EmulationSettings
from ncu_swizzle.kernels import naming
from ncu_swizzle.kernels.family import Target
from ncu_swizzle.kernels.options import CatalogOptions, KernelDescription
from ncu_swizzle.kernels.toolchain import Toolchain

PER_FILE = 48  # kernels that are compiled together
# Where element (r, c) of a tile of 32 x 32 lies: plain, padded, by XOR, rotated, transposed; as C and Python read it.
MAPPINGS = (
    "32 * r + c", "33 * r + c", "36 * r + c", "33 * r + c + 1", "32 * r + (c ^ r)", "32 * r + (c ^ (r & 15))",
    "32 * r + (c ^ (r & 7))", "32 * r + (c ^ (r & 30))", "32 * r + (c ^ (r >> 1))", "32 * r + (c ^ (r >> 2))",
    "32 * r + (c ^ (2 * r & 31))", "32 * r + (c ^ (r & 3) << 2)", "32 * r + (c ^ (31 - r))", "32 * r + (c + r) % 32",
    "32 * r + (c + (r & 15)) % 32", "32 * r + (c + 2 * r) % 32", "32 * c + r", "32 * c + (r ^ c)", "33 * c + r",
)  # fmt: skip
STAGES = ("t % 3", "(t + 1) % 3", "(t + 2) % 3", "t % 2", "(t >> 1) % 3", "2 - t % 3", "0")
TILE = """
extern "C" __global__ void {name}(float *out, const float *x, int n) {{
    __shared__ float tile[1200];
    const int column = threadIdx.x, block = blockIdx.x * 1024;
    for (int row = threadIdx.y; row < 32; row += 8) {{
        const int r = row, c = column;
        tile[{write}] = x[block + 32 * r + c];
    }}
    __syncthreads();
    for (int row = threadIdx.y; row < 32; row += 8) {{
        const int r = column, c = row;
        out[block + 32 * row + column] = tile[{read}];
    }}
}}
"""
RING = """
extern "C" __global__ void {name}(float *out, const float *x, int n) {{
    __shared__ float stage[3][256];
    const int lane = threadIdx.x + 32 * threadIdx.y, block = blockIdx.x * 1024;
    float sum = 0;
    for (int t = 0; t < 3; ++t) stage[t][lane] = 0;
    __syncthreads();
    for (int t = 0; t < 4; ++t) {{
        stage[{write}][lane] = x[block + 256 * t + lane];
        __syncthreads();
        sum = sum * 2 + stage[{read}][lane ^ 32];
        __syncthreads();
    }}
    for (int t = 0; t < 4; ++t) out[block + 256 * t + lane] = sum;
}}
"""
FRAGMENT = """
extern "C" __global__ void {name}(float *out, const float *x, int n) {{
    __shared__ __half a[256], b[128];
    const int lane = threadIdx.x + 32 * threadIdx.y, block = blockIdx.x * 1024;
    a[lane] = __float2half(x[block + lane]);
    if (lane < 128) b[lane] = __float2half(x[block + 256 + lane]);
    __syncthreads();
    const int g = threadIdx.x / 4, q = threadIdx.x % 4;
    unsigned f[4], h[2];
    float d[4];
    for (int r = 0; r < 4; ++r) f[r] = *(unsigned *)&a[(g + 8 * (r % 2)) * 16 + 2 * q + 8 * (r / 2)];
    for (int r = 0; r < 2; ++r) h[r] = *(unsigned *)&b[g * 16 + 2 * q + 8 * r];
    asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "
        "{{%0,%1,%2,%3}}, {{%4,%5,%6,%7}}, {{%8,%9}}, {{%10,%10,%10,%10}};"
        : "=f"(d[0]), "=f"(d[1]), "=f"(d[2]), "=f"(d[3])
        : "r"(f[{a0}]), "r"(f[{a1}]), "r"(f[{a2}]), "r"(f[{a3}]), "r"(h[{b0}]), "r"(h[{b1}]), "f"(0.f));
    for (int r = threadIdx.y; r < 8; r += 8) for (int i = lane; i < 1024; i += 256) out[block + i] = 0;
    __syncthreads();
    if (threadIdx.y == 0) for (int r = 0; r < 4; ++r) out[block + (g + 8 * (r / 2)) * 8 + 2 * q + r % 2] = d[r];
}}
"""
REFERENCES = """
import numpy as np


def tile(x):
    return x.reshape(-1, 32, 32).transpose(0, 2, 1).reshape(x.shape)


def ring(x):
    total = 0
    for t in range(4):
        total = total * 2 + x.reshape(-1, 4, 256).astype(np.float64)[:, t]
    return np.tile(total[:, np.arange(256) ^ 32], (1, 4)).reshape(x.shape)


def fragment(x):
    blocks = x.reshape(-1, 1024).astype(np.float16).astype(np.float64)
    a, b = blocks[:, :256].reshape(-1, 16, 16), blocks[:, 256:384].reshape(-1, 8, 16)
    out = np.zeros(blocks.shape)
    out[:, :128] = (a @ b.transpose(0, 2, 1)).reshape(-1, 128)
    return out.reshape(x.shape)
"""


@dataclass(frozen=True)
class Mutant:
    """A kernel, what was done to it, and whether it is right all the same."""

    name: str
    reference: str
    text: str
    what: str
    right: bool


def mutants() -> Iterator[Mutant]:
    """Yield right kernels, and those that are not."""
    for number, (write, read) in enumerate(itertools.product(MAPPINGS, repeat=2)):
        text = TILE.format(name=f"tile{number}", write=write, read=read)
        yield Mutant(f"tile{number}", "tile", text, f"written at {write}, read at {read}", _same(write, read))
    for number, (write, read) in enumerate(itertools.product(STAGES, repeat=2)):
        right = all(_at(write, t=t) == _at(read, t=t) for t in range(4))
        text = RING.format(name=f"ring{number}", write=write, read=read)
        yield Mutant(f"ring{number}", "ring", text, f"stage {write} written, {read} read", right)
    orders = itertools.product(itertools.permutations(range(4)), itertools.permutations(range(2)))
    for number, (a, b) in enumerate(orders):
        names = {f"a{k}": one for k, one in enumerate(a)} | {f"b{k}": one for k, one in enumerate(b)}
        # Both halves of K exchanged in A and in B is the same product.
        right = (a, b) in (((0, 1, 2, 3), (0, 1)), ((2, 3, 0, 1), (1, 0)))
        text = FRAGMENT.format(name=f"fragment{number}", **names)
        yield Mutant(f"fragment{number}", "fragment", text, f"fragments in the order {a}, {b}", right)


def _at(expression: str, **names: int) -> int:
    return int(eval(expression, {}, names))


def _same(write: str, read: str) -> bool:
    """Return whether each element is read from where it was written, and not overwritten in between."""
    held: dict[int, tuple[int, int]] = {}
    places = list(itertools.product(range(32), repeat=2))
    for r, c in places:
        held[_at(write, r=r, c=c)] = (r, c)
    return all(held.get(_at(read, r=r, c=c)) == (r, c) for r, c in places)


def described(folder: Path, kernels: list[Mutant]) -> Iterator[tuple[Mutant, Target]]:
    """Compile kernels, and yield each with its target."""
    (folder / "reference.py").write_text(REFERENCES, encoding="utf-8")
    lines = []
    for first in range(0, len(kernels), PER_FILE):
        some = kernels[first : first + PER_FILE]
        unit = "#include <cuda_fp16.h>\n" + "".join(each.text for each in some)
        (folder / f"unit{first}.cubin").write_bytes(Toolchain().compile(unit, ["-O3"], "sm_90", []))
        lines += [
            f'[kernel.{each.name}]\nsource = "unit{first}.cubin"\nentry = "{each.name}"\nblock = "32, 8"\ngrid = "2"\n'
            f'args = ["out=float32[2048]:out", "x=float32[2048]:random", "n=int32:2048"]\n'
            f'reference = "reference.py:{each.reference}"\n'
            for each in some
        ]
    (folder / "ncu-swizzle.toml").write_text("\n".join(lines), encoding="utf-8")
    description = replace(
        KernelDescription(), sources=CatalogOptions(config=str(folder / "ncu-swizzle.toml"), trust=True)
    )
    for each in kernels:
        yield each, naming.resolve([each.name], description)[0].targets[-1]


def found(target: Target) -> str:
    """Return what the comparison with the reference finds; "" if nothing."""
    try:
        outputs = executed.check_outputs(target, EmulationSettings())
    except NcuSwizzleError as error:
        return str(error)
    return "; ".join(each.wrong or each.unknown for each in outputs if each.wrong or each.unknown)


def attack_with_mutants(folder: Path, most: int) -> bool:
    """Return whether all wrong kernels are found, and no right one is refused; print what was found."""
    every = list(mutants())
    chosen = [each for number, each in enumerate(every) if each.right or number % max(1, len(every) // most) == 0]
    missed, refused, counts = [], [], {True: 0, False: 0}
    for mutant, target in described(folder, chosen):
        counts[mutant.right] += 1
        what = found(target)
        if mutant.right and what:
            refused.append(f"{mutant.name}, {mutant.what}: {what}")
        elif not mutant.right and not what:
            missed.append(f"{mutant.name}, {mutant.what}")
    found_ = counts[False] - len(missed)
    print(f"{counts[False]} wrong kernels, {found_} found; {counts[True]} right ones, {len(refused)} refused")
    for line in (*missed, *refused):
        print("  ", line)
    return not missed and not refused


# ---------------------------------------------------------------------------------------------- cheats


HEAD = """
$MORE
extern "C" __global__ void work(float *out, const float *x, int n) {
    __shared__ float tile[32][33];
    const int i = blockIdx.y * 32 + threadIdx.y, j = blockIdx.x * 32 + threadIdx.x;
    const int a = blockIdx.x * 32 + threadIdx.y, b = blockIdx.y * 32 + threadIdx.x;
    $BODY
}
"""
PARTS = {
    "VALUE": "$LOAD float v = $RIGHT;",
    "WORK": "$LOAD $STORE",
    "LOAD": "tile[threadIdx.y][threadIdx.x] = x[i * n + j]; __syncthreads();",
    "STORE": "out[a * n + b] = $RIGHT;",
    "RIGHT": "3 * tile[threadIdx.x][threadIdx.y] + 1",
}
DESCRIBED = """
[kernel.{name}]
source = "{name}.cu"
entry = "work"
problem = {{ n = {{ default = 256, multiple = 32 }} }}
grid = "n // 32, n // 32"
block = "32, 32"
args = {args}
"""
TOLD = tomllib.loads((Path(__file__).parent / "cheats.toml").read_text("utf-8"))
WORKS = {
    "": {"head": HEAD, "body": "$WORK", "args": ["out=float32[n,n]:out", "x=float32[n,n]:random", "n=int32:n"]},
    **TOLD["work"],
}


def source(body: str, more: str = "", work: str = "") -> str:
    """Return the source of a kernel with this body, for one of the works."""
    text = WORKS[work]["head"].replace("$BODY", body).replace("$MORE", more)
    for name, part in PARTS.items():
        text = text.replace(f"${name}", part)
    return text


def attack_with_cheats(folder: Path) -> bool:
    """Return whether every cheat is refused, and no right kernel; print each with the reason.

    What no run on random inputs shows, and right ones that cannot be told, are judged, too, and count for neither.
    """
    wrong = Counter[str]()
    kernels = [(expected, each) for expected in ("same", "cheat", "unseen", "untold") for each in TOLD[expected]]
    for expected, each in kernels:
        found_ = judged(folder, source(each["body"], each.get("more", ""), each.get("work", "")), each.get("work", ""))
        # What cannot be told is not accepted either.
        accepted = found_.outcome is judgement.Judged.SAME
        passes = accepted is (expected == "same") or expected == "unseen"
        passes &= expected != "untold" or found_.outcome is judgement.Judged.UNKNOWN
        wrong[expected] += not passes
        why = "".join(f", {reason[:160]}" for reason in found_.reasons)
        print(f"{'' if passes else 'WRONG '}{expected}, {found_.outcome}: {each['name']}{why}", flush=True)
    right = f"{len(TOLD['same'])} right ones, {wrong['same']} refused"
    print(f"{len(TOLD['cheat'])} cheats, {wrong['cheat']} accepted; {right}")
    return not any(wrong.values())


def judged(folder: Path, after: str, work: str = "") -> judgement.Judgement:
    """Return the judgement on a kernel, against the one that does the work."""
    (folder / "before.cu").write_text(source(WORKS[work]["body"], work=work), encoding="utf-8")
    (folder / "after.cu").write_text(after, encoding="utf-8")
    project = folder / "ncu-swizzle.toml"
    args = json.dumps(WORKS[work]["args"])
    kernels = (DESCRIBED.format(name=name, args=args) for name in ("before", "after"))
    project.write_text("".join(kernels), encoding="utf-8")
    description = replace(KernelDescription(), sources=CatalogOptions(config=str(project)))
    versions = [named.targets[-1] for named in naming.resolve(["before", "after"], description)]
    return judgement.judge(versions[0], versions[1], EmulationSettings())


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mutants", action="store_true", help="only these")
    parser.add_argument("--cheats", action="store_true", help="only these")
    parser.add_argument("--most", type=int, default=1000, help="about so many mutants")
    arguments = parser.parse_args()
    both = arguments.mutants == arguments.cheats
    held = []
    with tempfile.TemporaryDirectory(prefix="ncu-swizzle-") as folder:
        if arguments.mutants or both:
            held.append(attack_with_mutants(Path(folder), arguments.most))
        if arguments.cheats or both:
            held.append(attack_with_cheats(Path(folder)))
    return 0 if all(held) else 1


if __name__ == "__main__":
    sys.exit(main())
