"""Kernels with wrong versions of the kinds that no mapping of a tile makes, but a careless edit does.

Barriers, fences and waits left out or moved; guards; types; what only one block, or only the last one, does.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from ncu_swizzle.kernels import build, project
from ncu_swizzle.kernels.family import Target
from ncu_swizzle.kernels.project import specs


@dataclass(frozen=True)
class Adversary:
    """A kernel `k`, its launch, and edits by what they do: each replaces one text by another, once."""

    text: str
    launch: str
    edits: dict[str, tuple[str, str]]

    def target(self, folder: Path) -> Target:
        """Return the kernel as it is, written to a folder."""
        (folder / "k.cu").write_text(self.text, encoding="utf-8")
        (folder / project.OWN).write_text(f'[kernel.k]\nsource = "k.cu"\n{self.launch}\n', encoding="utf-8")
        (spec,) = specs(project.project_in(folder / project.OWN))
        family = build.family_of(spec)
        return Target(family, family.kernels[0], family.problem())

    def wrong(self, what: str) -> str:
        """Return a wrong version."""
        old, new = self.edits[what]
        assert self.text.count(old) >= 1, old
        return self.text.replace(old, new, 1)


ADVERSARIES = {
    "reduction": Adversary(
        """
__global__ void k(const float *x, float *y, int n) {
    __shared__ float s[256];
    int t = threadIdx.x, i = blockIdx.x * 256 + t;
    s[t] = i < n ? x[i] : 0.f;
    __syncthreads();
    for (int d = 128; d > 0; d >>= 1) {
        if (t < d) s[t] += s[t + d];
        __syncthreads();
    }
    if (t == 0) y[blockIdx.x] = s[0];
}
""",
        'grid = 5\nblock = 256\nargs = ["x=float32[1100]:random", "y=float32[5]:out", "n=int32:1100"]',
        {
            "the barrier after the writes is gone": ("    __syncthreads();\n    for", "    for"),
            "the loop's barrier is gone": ("        __syncthreads();\n    }", "    }"),
            "the guard of the ragged end is gone": ("i < n ? x[i] : 0.f", "x[i]"),
            "the guard is off by one": ("i < n ?", "i <= n ?"),
            "the last element is left out": ("i < n ?", "i < n - 1 ?"),
            "the result is written by all": ("if (t == 0) y", "y"),
            "the array is too small": ("float s[256]", "float s[128]"),
        },
    ),
    "copies": Adversary(
        """
#include <cuda_pipeline.h>
__global__ void k(const float4 *x, float *y, int steps) {
    __shared__ __align__(16) float s[2][1024];
    int t = threadIdx.x;
    auto load = [&](int st, int i) {
        __pipeline_memcpy_async(&s[st][t * 4], &x[(blockIdx.x * steps + i) * 256 + t], 16);
        __pipeline_commit();
    };
    load(0, 0);
    float sum = 0;
    for (int i = 0; i < steps; ++i) {
        if (i + 1 < steps) load((i + 1) & 1, i + 1); else __pipeline_commit();
        __pipeline_wait_prior(1);
        __syncthreads();
        for (int k = 0; k < 4; ++k) sum += s[i & 1][t % 32 * 32 + t / 32 * 4 + k];
        __syncthreads();
    }
    y[blockIdx.x * 256 + t] = sum;
}
""",
        'grid = 3\nblock = 256\nargs = ["x=float32[3,4,1024]:random", "y=float32[768]:out", "steps=int32:4"]',
        {
            "it waits for one copy fewer": ("wait_prior(1)", "wait_prior(2)"),
            "it does not wait": ("        __pipeline_wait_prior(1);\n", ""),
            "it waits after the barrier": (
                "__pipeline_wait_prior(1);\n        __syncthreads();",
                "__syncthreads();\n        __pipeline_wait_prior(1);",
            ),
            "a group is not committed": ("else __pipeline_commit()", "else {}"),
            "one buffer is read": ("s[i & 1]", "s[0]"),
            "one buffer is written": ("load((i + 1) & 1", "load(0"),
            "the next copy may overtake the reads": ("+ k];\n        __syncthreads();", "+ k];"),
            "its copies are not aligned": ("s[st][t * 4]", "s[st][t * 4 + 1]"),
        },
    ),
    "edges": Adversary(
        """
__global__ void k(const float *x, float *y, int w, int h) {
    __shared__ float s[32][33];
    int cx = blockIdx.x * 32 + threadIdx.x, cy = blockIdx.y * 32 + threadIdx.y;
    for (int j = 0; j < 32; j += 8)
        if (cx < w && cy + j < h) s[threadIdx.y + j][threadIdx.x] = x[(cy + j) * w + cx];
    __syncthreads();
    cx = blockIdx.y * 32 + threadIdx.x, cy = blockIdx.x * 32 + threadIdx.y;
    for (int j = 0; j < 32; j += 8)
        if (cx < h && cy + j < w) y[(cy + j) * h + cx] = s[threadIdx.x][threadIdx.y + j];
}
""",
        'grid = "5, 4"\nblock = "32, 8"\n'
        'args = ["x=float32[107,137]:random", "y=float32[137,107]:out", "w=int32:137", "h=int32:107"]',
        {
            "a write leaves its guard": ("if (cx < w && cy + j < h)", "if (cy + j < h)"),
            "a result leaves its guard": ("if (cx < h && cy + j < w)", "if (cx < h)"),
            "one block reads another column": (
                "s[threadIdx.x][threadIdx.y + j]",
                "s[threadIdx.x][threadIdx.y + j ^ (blockIdx.x == 2 && blockIdx.y == 1)]",
            ),
            "one block doubles its results": (
                "= s[threadIdx.x]",
                "= (blockIdx.x == 1 && blockIdx.y == 1 ? 2 : 1) * s[threadIdx.x]",
            ),
            "an index is narrower, and wraps in the last blocks": (
                "int cx = blockIdx.x * 32 + threadIdx.x",
                "int cx = (signed char)(blockIdx.x * 32 + threadIdx.x)",
            ),
            "the elements are narrower": ("float s[32][33]", "short s[32][33]"),
        },
    ),
    "ticket": Adversary(
        """
__device__ unsigned int done;
__global__ void k(const float *x, float *part, float *y, int n) {
    __shared__ float s[256];
    __shared__ bool last;
    int t = threadIdx.x;
    s[t] = x[blockIdx.x * 256 + t];
    __syncthreads();
    for (int d = 128; d > 0; d >>= 1) {
        if (t < d) s[t] += s[t + d];
        __syncthreads();
    }
    if (t == 0) {
        part[blockIdx.x] = s[0];
        __threadfence();
        last = atomicAdd(&done, 1u) == gridDim.x - 1;
    }
    __syncthreads();
    if (last && t < n) y[t] = part[t] * 2;
}
""",
        "grid = 4\nblock = 256\n"
        'args = ["x=float32[1024]:random", "part=float32[4]:out", "y=float32[4]:out", "n=int32:4"]',
        {
            "the fence before the ticket is gone": ("        __threadfence();\n", ""),
            "what the last block does is another thing": ("part[t] * 2", "part[t]"),
            "another block's result is overwritten": ("part[blockIdx.x] =", "part[blockIdx.x ^ 1] ="),
            "results are in reverse": ("part[blockIdx.x] =", "part[gridDim.x - 1 - blockIdx.x] ="),
            "blocks sum what is another's": ("x[blockIdx.x *", "x[(gridDim.x - 1 - blockIdx.x) *"),
            "the ticket counts by two": ("1u)", "2u)"),
            "the last block's results are elsewhere": ("y[t] =", "y[t ^ 1] ="),
            "the last block reads another block's": ("part[t] *", "part[t ^ 1] *"),
            "another block is taken for the last": ("gridDim.x - 1;", "gridDim.x - 2;"),
            "every block acts as the last": ("if (last &&", "if ("),
            "one block asks for two tickets": ("last = ", "if (blockIdx.x == 2) atomicAdd(&done, 1u); last = "),
            "a store overtakes the fence": (
                "part[blockIdx.x] = s[0];\n        __threadfence();",
                "__threadfence();\n        part[blockIdx.x] = s[0];",
            ),
        },
    ),
    "blocks": Adversary(
        """
__global__ void k(const float *x, float *y) {
    __shared__ float s[32][33];
    int b = blockIdx.x, t = threadIdx.x;
    for (int r = 0; r < 32; ++r) s[r][t] = x[(b * 32 + r) * 32 + t];
    __syncthreads();
    for (int r = 0; r < 32; ++r) y[(b * 32 + r) * 32 + t] = s[t][r] + b % 7;
}
""",
        'grid = 64\nblock = 32\nargs = ["x=float32[65536]:random", "y=float32[65536]:out"]',
        {
            "one block of 64 adds one": ("+ b % 7", "+ b % 7 + (b == 37)"),
            "one block of 64 writes over another": ("y[(b * 32", "y[((b == 21 ? 20 : b) * 32"),
            "blocks from 7 on differ": ("b % 7", "b % 14"),
        },
    ),
}

# Kernels with a tile of 32 rows and columns that is read by columns, and what cannot be followed behind it. Each is
# right with an XOR, and wrong with an edit on top of that.
COLUMNS = """
#define AT(y, x) tile[y][x]
__global__ void k({parameters}) {{
    __shared__ float tile[32][32];
    const int t = threadIdx.x, at = (blockIdx.x * 32 + t) * 32;
    for (int r = 0; r < 32; ++r) AT(r, t) = x[(blockIdx.x * 32 + r) * 32 + t];
    __syncthreads();
    {body}
}}
"""
XOR = ("#define AT(y, x) tile[y][x]", "#define AT(y, x) tile[y][(x) ^ (y)]")


def _columns(arguments: dict[str, str], body: str, edits: dict[str, tuple[str, str]]) -> Adversary:
    """Return an adversary; arguments by their declarations, with their types and fills."""
    parameters = ", ".join(("const float *x", *arguments))
    described = ["x=float32[4096]:random"]
    described += [f"{declared.split()[-1].lstrip('*')}={value}" for declared, value in arguments.items()]
    text = COLUMNS.format(parameters=parameters, body=body)
    return Adversary(text, f"grid = 4\nblock = 32\nargs = {described}", edits)


UNFOLLOWED = {
    "queue": _columns(
        {"float *y": "float32[4096]:out", "unsigned *count": "uint32[1]:zeros"},
        "for (int r = 0; r < 32; ++r) { float v = AT(t, r); if (v > 1.f) y[atomicAdd(count, 1u)] = v; }",
        {
            "a place in the queue is another": ("y[atomicAdd(count, 1u)]", "y[atomicAdd(count, 1u) ^ 1]"),
            "what is appended is another": ("= v; }", "= v * 2; }"),
            "two places are taken": ("1u)", "2u)"),
            "it appends less": ("v > 1.f", "v > 2.f"),
        },
    ),
    "list": _columns(
        {"int *next": "int32[128]:out", "float *y": "float32[4096]:out", "unsigned *count": "uint32[1]:zeros"},
        "for (int r = 0; r < 32; ++r) y[at + r] = AT(t, r);\n"
        "    const int head = atomicExch(next + blockIdx.x, t);\n"
        "    if (head >= 0) y[head] = next[head] + t; else if (atomicCAS(count, 0u, 1u)) y[0] = head;",
        {
            "another is linked": ("= next[head]", "= next[head ^ 1]"),
            "a link is elsewhere": ("y[head] =", "y[head + 1] ="),
            "the head is exchanged for another": ("blockIdx.x, t)", "blockIdx.x, t ^ 1)"),
            "the end is another": ("head >= 0", "head > 0"),
            "the swap is another": ("0u, 1u)", "0u, 2u)"),
            "the swap is taken the other way round": ("else if (atomic", "else if (!atomic"),
        },
    ),
    "clock": _columns(
        {"float *y": "float32[4096]:out", "long long *time": "int64[128]:out"},
        "const long long start = clock64();\n"
        "    for (int r = 0; r < 32; ++r) y[at + r] = AT(t, r);\n"
        "    time[at / 32] = clock64() - start;",
        {
            "time runs backwards": ("clock64() - start", "start - clock64()"),
            "the time is another thread's": ("time[at / 32]", "time[at / 32 ^ 1]"),
            "the end alone is kept": ("clock64() - start", "clock64()"),
        },
    ),
    "zeros": _columns(
        {
            "const float *bias": "float32[4096]:zeros",
            "const float *gain": "float32[4096]:ones",
            "const int *flag": "int32[4]:zeros",
            "float *y": "float32[4096]:random",
            "float none": "float32:0",
        },
        "for (int r = 0; r < 32; ++r) y[at + r] += AT(t, r) * gain[at + r] + bias[at + r] + none * x[at + r];\n"
        "    if (flag[blockIdx.x]) y[at] += x[at] + 1;",
        {
            "another bias is added": ("bias[at + r]", "bias[at + (r ^ 1)]"),
            "another gain is taken": ("gain[at + r]", "gain[at + (r ^ t)]"),
            "what is multiplied by 0 is another": ("none * x[at + r]", "none * x[at + 1023 & 4095]"),
            "what no flag allows is another": ("x[at] + 1", "x[at] + 2"),
            "what no flag allows reads another element": ("+= x[at] + 1", "+= x[at ^ 1] + 1"),
            "another result is added to": ("y[at + r] +=", "y[at + (r ^ 1)] = y[at + r] +"),
        },
    ),
}
