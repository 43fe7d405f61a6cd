"""Record what this machine's GPU makes of tests/data/emulate/arithmetic.cu.

``python3 bench/recording/record_arithmetic.py``.

Writes tests/data/emulate/arithmetic.json: for each kernel and operation, the words a result takes and the SHA-256 of
all results. With the name of a folder in which record_arithmetic.cu has already left its files, reads these.

"""

from __future__ import annotations

import hashlib
import json
import lzma
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SOURCE = Path(__file__).with_suffix(".cu")
TARGET = ROOT / "tests" / "data" / "emulate" / "arithmetic.json"
THREADS = 4096


def main(folders: list[str]) -> int:
    """Write the file; return the exit code."""
    with tempfile.TemporaryDirectory() as made:
        if not folders:
            program = f"{made}/record"
            subprocess.run(["nvcc", "-arch=sm_90", "-O3", "-fmad=false", str(SOURCE), "-o", program], check=True)
            subprocess.run([program, made], check=True)
        folder = Path(folders[0] if folders else made)
        found = {names.stem: digests(names) for names in sorted(folder.glob("*.names"))}
    TARGET.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    return 0


def digests(names: Path) -> dict[str, str]:
    """Return the operations of a kernel, in their order, with the size and the digest of their results."""
    words = names.with_suffix(".words")
    content = words.read_bytes() if words.exists() else lzma.decompress(Path(f"{words}.xz").read_bytes())
    result, start = {}, 0
    for line in names.read_text(encoding="utf-8").splitlines():
        name, size = line.split()
        end = start + 4 * THREADS * int(size)
        result[name] = f"{size} {hashlib.sha256(content[start:end]).hexdigest()}"
        start = end
    return result


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
