"""Keep what Triton's cache has of tests/data/python/inlined.py.

``python3 bench/recording/keep_triton_cache.py``, without GPU.

It takes Triton 3.6: newer ones have the callers in their cubins. Like record_python.py the program copies the sources
to /tmp/ncu-swizzle first, and no folder of this machine's Python stays in the files.

"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
HERE = ROOT / "tests" / "data" / "python"
NEUTRAL = Path("/tmp/ncu-swizzle/inlined")
KEPT = (".cubin", ".ptx", ".ttgir", ".ttir")
sys.path.insert(0, str(ROOT))

from ncu_swizzle.frontends import contract, triton_jit
from ncu_swizzle.frontends.contract import CompileRequest, Given


def main() -> int:
    """Compile the kernel for a matrix of 1024 x 1024 in tiles of 32, as it was recorded; return 0."""
    shutil.rmtree(NEUTRAL, ignore_errors=True)
    NEUTRAL.mkdir(parents=True)
    for name in ("inlined.py", "inlined_helpers.py"):
        shutil.copy(HERE / name, NEUTRAL)
    matrices = [Given(name=name, dtype="float32", shape=(1024, 1024)) for name in ("source", "target")]
    numbers = [Given(name="size", dtype="literal", value="1024"), Given(name="TILE", dtype="literal", value="32")]
    request = CompileRequest(
        file=str(NEUTRAL / "inlined.py"), function="turn_tiles", arguments=(*matrices, *numbers), grid=("32", "32")
    )
    with tempfile.TemporaryDirectory() as cache:
        os.environ["TRITON_CACHE_DIR"] = cache
        module = contract.module(Path(request.file))
        triton_jit.compiled(module.turn_tiles, "", request, module)
        (cubin,) = Path(cache).glob("*/turn_tiles.cubin")
        for suffix in KEPT:
            kept = (HERE / "cached" / "turn_tiles").with_suffix(suffix)
            kept.write_bytes(_without_python(cubin.with_suffix(suffix).read_bytes()))
            print(f"{kept.name}: {kept.stat().st_size:,} bytes")
    return 0


def _without_python(content: bytes) -> bytes:
    """Return a file with another name of the same length for the folder of this machine's Python."""
    python = sys.prefix.encode()
    return content.replace(python, b"/site".ljust(len(python), b"-")[: len(python)])


if __name__ == "__main__":
    sys.exit(main())
