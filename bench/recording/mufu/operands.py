"""Make tables of log2, sine and tanh of what this machine's GPU computes.

``python3 bench/recording/mufu/operands.py`` writes lg2.xz, sin.xz and tanh.xz of emulate/approximations, and to
tests/data/emulate/mufu.npz sums over each 2^20 of all 2^32 operands and some results. With ``--emulated``, which needs
no GPU, compares the emulator's results with these sums (20 minutes of CPU), and ends with 1 if any differs.
"""

from __future__ import annotations

import lzma
import sys
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

ROOT = Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT))

from ncu_swizzle.emulate.operations import approximations
from ncu_swizzle.emulate.operations.approximations import FUNCTIONS, POINT, QUARTER, SQUARE_ROOT, TABLES, UNSEEN
from ncu_swizzle.kernels import launching
from ncu_swizzle.kernels.toolchain import Toolchain
from tests.support.mufu import BLOCK, sum_of_results

Words = NDArray[np.uint32]
RECORDED = ROOT / "tests" / "data" / "emulate" / "mufu.npz"
NAMES = ("LG2", "SIN", "COS", "TANH")
AT_ONE = 7377  # 2^-36
BLOCKS, MANTISSAS = (1 << 32) // BLOCK, 1 << 23
TO_TURNS, ONE = np.float32(0.15915494).tobytes(), np.float32(1).tobytes()
FILTERS = [{"id": lzma.FILTER_LZMA2, "preset": 9 | lzma.PRESET_EXTREME, "dict_size": 1 << 24}]


def main(arguments: list[str]) -> int:
    """Record or compare; return the exit code."""
    if "--emulated" in arguments:
        return compared()
    launching.open_device()
    cubin = Toolchain().compile(f'#include "{Path(__file__).with_suffix(".cu")}"\n', ["-O3"], "sm_90a", [])
    module = launching.cuda.module_from_buffer(cubin.replace(TO_TURNS, ONE))
    spread = np.arange(512, dtype=np.uint32)[:, None] << np.uint32(23) | np.arange(4, dtype=np.uint32) * 0x1FFFF0
    recorded = dict(np.load(RECORDED)) | {"spread": spread.reshape(-1)}
    for name in NAMES:
        sums = np.zeros(BLOCKS, np.uint64)
        module.get_function(f"sums_{name}")(launching.cuda.InOut(sums), grid=(BLOCKS, 1), block=(256, 1, 1))
        recorded[f"sums_{name}"] = sums
        found = [results(module, name, int(row) << 23, 0x1FFFF0, 256)[:4] for row in range(512)]
        recorded[name] = np.concatenate(found)
    np.savez_compressed(RECORDED, **recorded)
    # Half of the first quarter of a turn is seen in that of sine, the other, inverted, in that of cosine.
    upper, lower = (results(module, name, 124 << 23, 2, MANTISSAS // 2) for name in ("SIN", "COS"))
    save("sin", sine_table(np.concatenate([lower[::-1], upper])))
    save("tanh", *tanh_table(module))
    save("lg2", log2_table(*(results(module, "LG2", row << 23, 1, MANTISSAS) for row in (127, 126))))
    return 0


def results(module: Any, name: str, first: int, step: int, count: int) -> Words:
    """Return the results of operands that are so many words apart."""
    out = np.zeros(count, np.uint32)
    arguments = launching.cuda.Out(out), np.uint32(first), np.uint32(step)
    module.get_function(f"results_{name}")(*arguments, grid=(count // 256, 1), block=(256, 1, 1))
    return out


def sine_table(words: Words) -> NDArray[np.int64]:
    """Return how far the results for all places in a quarter of a turn are off."""
    return words.astype(np.int64) - approximations.nearest_sine(np.arange(QUARTER + 1))


def log2_table(ones: Words, halves: Words) -> NDArray[np.int64]:
    """Return how far log2 is off, by the results for 1 to 2, and for 1/2 to 1, which have more bits near 1."""
    fraction = np.arange(MANTISSAS)
    near = approximations.nearest_log2(fraction)
    shift = approximations.bits_beyond(np.maximum(near - approximations.SLACK, 0))
    numbers = np.abs(np.where(fraction < SQUARE_ROOT, ones.view(np.float32), halves.view(np.float32)))
    off = ((numbers * 2.0**POINT).astype(np.int64) >> shift) - (near >> shift)
    # That of 1 is exactly 0; its mantissa adds more to other exponents: between 2^-24 and 2^-23, as 1/2 shows.
    off[0] = AT_ONE
    return off


def tanh_table(module: Any) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the second differences of each exponent's results, and their first two."""
    bends, ends = [], []
    for exponent, unseen in UNSEEN.items():
        words = results(module, "TANH", exponent << 23, 1 << unseen, MANTISSAS >> unseen).astype(np.int64)
        bends += [np.zeros(2, np.int64), np.diff(words, n=2)]
        ends.append(words[:2])
    return np.concatenate(bends), np.concatenate(ends)


def save(name: str, table: NDArray[np.int64], head: NDArray[np.int64] | None = None) -> None:
    """Write a table, behind words that may be longer."""
    assert np.abs(table).max() < 1 << 15
    content = table.astype("<i2").tobytes()
    content = content if head is None else head.astype("<i4").tobytes() + content
    (TABLES / f"{name}.xz").write_bytes(lzma.compress(content, filters=FILTERS))


def compared() -> int:
    """Print how many sums are those that were recorded."""
    recorded, wrong = np.load(RECORDED), 0
    for name in NAMES:
        sums = recorded[f"sums_{name}"]
        differing = [block for block in range(BLOCKS) if sum_of_results(FUNCTIONS[name], block) != sums[block]]
        print(f"{name}: {BLOCKS - len(differing):,} of {BLOCKS:,} sums of 2^20 results equal {differing or ''}")
        wrong += len(differing)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
