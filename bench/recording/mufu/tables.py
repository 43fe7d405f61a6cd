"""Make ncu_swizzle/emulate/approximations of what measure.cu wrote: ``python3 bench/recording/mufu/tables.py FOLDER``.

Each table is checked against results of scattered operands; some of these go to tests/data/emulate/mufu.npz. FCHK's
cycles are compared with the emulator's rule.
"""

from __future__ import annotations

import lzma
import sys
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

ROOT = Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT))

from ncu_swizzle.emulate.operations.approximations import FUNCTIONS, TABLES
from ncu_swizzle.emulate.operations.floats import needs_slow_path

Words = NDArray[np.uint32]
NAMES = ("RCP", "RSQ", "SQRT", "RCP64H", "RSQ64H", "EX2")  # the others: operands.py
SLOW = 150  # cycles: without the slow path it is below 120, with it above 180
TESTED = 2048  # results of each function that the tests compare
MANTISSAS = (0, 1, 0x2AAAAA, 0x7FFFFF)


def main(folder: Path) -> int:
    """Write the tables; return how many results are not those of the GPU."""
    wrong, tested = 0, {"operands": scattered(np.arange(TESTED, dtype=np.uint32))}
    for name in NAMES:
        function = FUNCTIONS[name]
        words = np.frombuffer(content(folder, f"{name.lower()}.words"), np.uint32)
        save(name, words[len(words) // 2 :] if name == "EX2" else words)  # 2^x has the upper half alone: x from 1 to 2
        results = np.frombuffer(content(folder, f"{name.lower()}.samples"), np.uint32)
        with np.errstate(all="ignore"):
            mine = function(scattered(np.arange(len(results), dtype=np.uint32))[None])[0]
        tested[name] = results[:TESTED]
        wrong += int((mine != results).sum())
        print(f"{name}: {(TABLES / f'{name.lower()}.xz').stat().st_size:,} bytes, {(mine != results).sum()} wrong")
    recorded = ROOT / "tests" / "data" / "emulate" / "mufu.npz"
    np.savez_compressed(recorded, **(dict(np.load(recorded)) | tested))
    slow = np.frombuffer(content(folder, "fchk.cycles"), np.uint8) > SLOW
    differing = int((needs_slow_path(*divisions(len(slow))) != slow).sum())
    print(f"FCHK: {len(slow):,} pairs, {differing} wrong")
    return wrong + differing


def save(name: str, words: Words) -> None:
    """Write a table: how many second differences of the words are large, their places, these, and all others."""
    bends = np.diff(np.diff(words, prepend=np.uint32(0)), prepend=np.uint32(0)).view(np.int32)
    places = np.flatnonzero(bends != bends.astype(np.int8))
    large = np.stack([places, bends[places]]).astype(np.uint32)
    bends[places] = 0
    content = np.uint32(len(places)).tobytes() + large.tobytes() + bends.astype(np.int8).tobytes()
    (TABLES / f"{name.lower()}.xz").write_bytes(lzma.compress(content, preset=9 | lzma.PRESET_EXTREME))


def content(folder: Path, name: str) -> bytes:
    """Return a file that measure.cu wrote, compressed or not."""
    packed = folder / f"{name}.xz"
    return lzma.decompress(packed.read_bytes()) if packed.exists() else (folder / name).read_bytes()


def scattered(number: Words) -> Words:
    """Return measure.cu's operands."""
    number = (number ^ np.uint32(61)) ^ (number >> np.uint32(16))
    number = number * np.uint32(9)
    number ^= number >> np.uint32(4)
    number = number * np.uint32(0x27D4EB2D)
    return number ^ (number >> np.uint32(15))


def divisions(count: int) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Return the dividends and divisors of measure.cu."""
    number, mantissas = np.arange(count, dtype=np.uint32), np.array(MANTISSAS, np.uint32)
    a = number >> 20 << 31 | (number & 255) << 23 | mantissas[number >> 16 & 3]
    b = number >> 21 << 31 | (number >> 8 & 255) << 23 | mantissas[number >> 18 & 3]
    return a.view(np.float32), b.view(np.float32)


if __name__ == "__main__":
    sys.exit(1 if main(Path(sys.argv[1])) else 0)
