"""Make tables of log2, sine and tanh of what this machine's GPU computes.

``python3 bench/recording/mufu/operands.py`` writes lg2.xz, sin.xz and tanh.xz of emulate/approximations, and to
tests/data/emulate/mufu.npz sums over each 2^20 of all 2^32 operands and some results. With ``--emulated``, which needs
no GPU, compares the emulator's results with these sums (20 minutes of CPU), and ends with 1 if any differs.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

ROOT = Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT))

from bench.recording.mufu.tables import save
from ncu_swizzle.emulate.operations.approximations import FUNCTIONS, POINT, SQUARE_ROOT, UNSEEN
from ncu_swizzle.kernels import launching
from ncu_swizzle.kernels.toolchain import Toolchain
from tests.support.mufu import BLOCK, sum_of_results

Words = NDArray[np.uint32]
RECORDED = ROOT / "tests" / "data" / "emulate" / "mufu.npz"
NAMES = ("LG2", "SIN", "COS", "TANH")
AT_ONE = 7377  # in units of 2^-POINT
BLOCKS, MANTISSAS = (1 << 32) // BLOCK, 1 << 23
TO_TURNS, ONE = np.float32(0.15915494).tobytes(), np.float32(1).tobytes()


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
    save("SIN", np.concatenate([lower[::-1], upper]))
    tanh = [results(module, "TANH", row << 23, 1 << unseen, MANTISSAS >> unseen) for row, unseen in UNSEEN.items()]
    save("TANH", np.concatenate(tanh))
    save("LG2", log2_words(*(results(module, "LG2", row << 23, 1, MANTISSAS) for row in (127, 126))))
    return 0


def results(module: Any, name: str, first: int, step: int, count: int) -> Words:
    """Return the results of operands that are so many words apart."""
    out = np.zeros(count, np.uint32)
    arguments = launching.cuda.Out(out), np.uint32(first), np.uint32(step)
    module.get_function(f"results_{name}")(*arguments, grid=(count // 256, 1), block=(256, 1, 1))
    return out


def log2_words(ones: Words, halves: Words) -> Words:
    """Return the words of log2 by the results for 1 to 2, and for 1/2 to 1, which have more bits near 1."""
    words = np.where(np.arange(MANTISSAS) < SQUARE_ROOT, ones, halves) & np.uint32(0x7FFFFFFF)
    # That of 1 is exactly 0; its mantissa adds more to other exponents: between 2^-24 and 2^-23, as 1/2 shows.
    words[0] = np.float32(AT_ONE * 2.0**-POINT).view(np.uint32)
    return words


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
