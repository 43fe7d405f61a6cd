"""Record what this machine's GPU makes of tests/data/emulate/products.cu, or compare the emulator with what it made.

``python3 bench/recording/products.py`` writes tests/data/emulate/products.json: of each form of a product and each kind
of inputs digests of its first sums, and of the digests of all, 131,072. With ``--emulated``, which needs no
GPU, prints how many of these blocks of sums the emulator computes the same, and ends with 1 if any differs.
"""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from ncu_swizzle.kernels import launching
from ncu_swizzle.kernels.toolchain import Toolchain
from tests.support.products import FORMS, KEPT, MODES, Form, Words, digest, executed_sums, inputs, sums_of, words_of

DATA = ROOT / "tests" / "data" / "emulate"
TARGET = DATA / "products.json"
Run = Callable[[Form, NDArray[np.uint32]], Words]


def main(arguments: list[str]) -> int:
    """Record or compare; return the exit code."""
    if "--emulated" not in arguments:
        machine, run = on_gpu()
        found = {name: digests(form, run) for name, form in FORMS.items()}
        kept = {name: [mode[0] for mode in modes] for name, modes in found.items()}
        every = {name: [of_all(mode) for mode in modes] for name, modes in found.items()}
        TARGET.write_text(json.dumps({**machine, "kept": kept, "all": every}, indent=1) + "\n", encoding="utf-8")
        return 0
    recorded, wrong = json.loads(TARGET.read_text(encoding="utf-8"))["all"], 0
    for name in [name for name in arguments if name in FORMS] or FORMS:
        found = [of_all(mode) for mode in digests(FORMS[name], executed_sums)]
        differ = [mode for mode, one, other in zip(MODES, found, recorded[name], strict=True) if one != other]
        print(f"{name}: {len(MODES) - len(differ)} of {len(MODES)} kinds of inputs equal{differ or ''}", flush=True)
        wrong += len(differ)
    return 1 if wrong else 0


def digests(form: Form, run: Run) -> list[list[str]]:
    """Return the digests of each KEPT sums of each kind of inputs."""
    sums = [run(form, words_of(form, *inputs(form, mode))) for mode in range(len(MODES))]
    return [[digest(form, part) for part in each.reshape(-1, KEPT)] for each in sums]


def of_all(parts: list[str]) -> str:
    """Return one digest of the digests of a kind of inputs."""
    return hashlib.sha256("".join(parts).encode()).hexdigest()[:16]


def on_gpu() -> tuple[dict[str, str], Run]:
    """Return the machine's GPU and driver, and what runs a kernel on it."""
    gpu = launching.open_device()
    cuda = launching.cuda
    code = Toolchain().compile(f'#include "{DATA / "products.cu"}"\n', ["-O3"], "sm_90a", [])
    module = cuda.module_from_buffer(code)

    def run(form: Form, words: NDArray[np.uint32]) -> Words:
        out = np.zeros((len(words), form.threads * form.counts[2]), np.uint32)
        module.get_function(form.name)(
            cuda.Out(out), cuda.In(np.ascontiguousarray(words)), grid=(len(words), 1), block=(form.threads, 1, 1)
        )
        return sums_of(form, out).reshape(-1)

    version = cuda.get_driver_version()
    return {"gpu": gpu.name(), "driver": f"CUDA {version // 1000}.{version % 1000 // 10}"}, run


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
