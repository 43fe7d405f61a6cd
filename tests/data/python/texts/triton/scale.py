import triton
import triton.language as tl
from factors import times


@triton.jit
def scale(x, y, n, f, B: tl.constexpr, KIND: tl.constexpr = "plain"):
    i = tl.program_id(0) * B + tl.arange(0, B)
    v = tl.load(x + i, mask=i < n)
    tl.static_assert(KIND == "plain", "only the plain one")
    tl.store(y + i, times(tl.sum(v) + v, f), mask=i < n)


@triton.heuristics({"B": lambda args: triton.next_power_of_2(args["n"])})
@triton.jit
def whole(x, y, n, B: tl.constexpr):
    i = tl.arange(0, B)
    tl.store(y + i, tl.cumsum(tl.load(x + i, mask=i < n), 0), mask=i < n)


@triton.autotune([triton.Config({"B": 64}), triton.Config({"B": 128})], key=["n"])
@triton.heuristics({"EVEN": lambda args: args["n"] % args["B"] == 0})
@triton.jit
def chosen(x, n, B: tl.constexpr, EVEN: tl.constexpr):
    tl.store(x + tl.arange(0, B), EVEN + tl.program_id(0))
