"""CUDA sources that several tests compile."""

from __future__ import annotations

from tests.support.places import DATA


def _source(name: str) -> str:
    """Return a source; it begins with an empty line, with which its cubins were kept."""
    return "\n" + (DATA / "sources" / f"{name}.cu").read_text(encoding="utf-8")


NAMED = _source("named")
TURN_AND_BEYOND = _source("turn_and_beyond")
SHIFT = _source("shift")
LAUNCHABLE = {
    "flat.cu": "__global__ void flat(float* a, float* b, int n) { int i = blockIdx.x * blockDim.x + threadIdx.x;"
    " __shared__ float s[256]; s[threadIdx.x] = a[i]; __syncthreads(); if (i < n) b[i] = s[255 - threadIdx.x]; }",
    "particles.cu": _source("particles"),
    "volume.cu": _source("volume"),
    "turn.cu": TURN_AND_BEYOND[: TURN_AND_BEYOND.index("extern __shared__")],
    "nothing.cu": "__global__ void nothing() { __shared__ int s[64]; s[threadIdx.x] = 1; }",
}
