import triton
import triton.language as tl

NCU_SWIZZLE = {
    "turn": {
        "problem": {"n": 256},
        "grid": "n // BM, n // BN",
        "args": ["x=float32[n,n]", "y=float32[n,n]:out", "n=n", "BM=32", "BN=32"],
        "variant": {"wide": {"options": {"num_warps": 8}}, "narrow": {"options": {"num_warps": 1}}},
    },
    "small": {
        "entry": "turn",
        "grid": (1, 1),
        "args": ("x=float32[32,32]", "y=float32[32,32]:out", "n=32", "BM=32", "BN=32"),
    },
}


@triton.jit
def turn(x, y, n, BM: tl.constexpr, BN: tl.constexpr):
    i = tl.program_id(0) * BM + tl.arange(0, BM)
    j = tl.program_id(1) * BN + tl.arange(0, BN)
    tile = tl.load(x + i[:, None] * n + j[None, :])
    tl.store(y + j[:, None] * n + i[None, :], tl.trans(tile))


@triton.jit
def shifted(x, y, sizes, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(y + i, tl.load(x + i, mask=i < sizes[0]) + sizes[1], mask=i < sizes[0])
