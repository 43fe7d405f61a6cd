"""The texts of instructions, kept: the same function of the same cubin need not be disassembled again.

NVIDIA's disassembler takes half a second to start, far longer than all the rest of reading a report. What it said is
kept in the user's cache, one file per function, by the SHA-256 of its cubin and by the disassembler's own size and
date. Addresses in the texts are kept as offsets: a function lies elsewhere in every run.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib.util
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from ncu_swizzle import paths
from ncu_swizzle.container import Result
from ncu_swizzle.errors import NcuSwizzleError
from ncu_swizzle.files import read_bytes, write_atomically

KEPT = 400  # functions; beyond that the oldest go
_ADDRESS = re.compile(r"0x[0-9a-f]{9,16}\b")  # immediates of SASS have 32 bits at most
_OFFSET = re.compile(r"\{([0-9a-f]+)\}")


@dataclass(frozen=True)
class Kept:
    """What is known of a function: the text at each offset from its first instruction."""

    texts: dict[int, str]

    def at(self, pcs: Sequence[int]) -> list[str] | None:
        """Return the texts at these addresses, the function's first one first; None where any is unknown."""
        base = pcs[0] if pcs else 0
        try:
            return [_OFFSET.sub(lambda m: hex(base + int(m[1], 16)), self.texts[pc - base]) for pc in pcs]
        except KeyError:
            return None


def recall(result: Result) -> Kept | None:
    """Return what is kept of the result's function; None where nothing is, or nothing that can be trusted."""
    file = _file(result)
    if file is None or not file.is_file():
        return None
    try:
        content = json.loads(read_bytes(file))
        texts = content["texts"]
        if content["digest"] != _digest(texts):
            return None
        return Kept({int(offset, 16): text for offset, text in texts.items()})
    except (NcuSwizzleError, ValueError, LookupError, TypeError, AttributeError, RecursionError):
        return None


def keep(result: Result, pcs: Sequence[int], sass: Sequence[str]) -> None:
    """Keep the texts of a function; without a cache the next reading takes longer, that is all."""
    file = _file(result)
    texts = _relative(pcs, sass)
    if file is None or texts is None:
        return
    content = json.dumps({"texts": texts, "digest": _digest(texts)}).encode()
    with contextlib.suppress(NcuSwizzleError, OSError):
        write_atomically(file, content)
        _thin_out(file.parent)


def _relative(pcs: Sequence[int], sass: Sequence[str]) -> dict[str, str] | None:
    """Return the texts by offset, addresses within the function as ``{offset}``; None where others are named."""
    if not pcs or pcs[0] < 1 << 32:
        return None
    base, end = pcs[0], pcs[-1] + 16
    texts = {}
    for pc, text in zip(pcs, sass, strict=True):
        named = [int(address, 16) for address in _ADDRESS.findall(text)]
        if "{" in text or any(not base <= address <= end for address in named):
            return None
        texts[f"{pc - base:x}"] = _ADDRESS.sub(lambda m: f"{{{int(m[0], 16) - base:x}}}", text)
    return texts


def _file(result: Result) -> Path | None:
    reader = _disassembler()
    if not result.cubin or not reader:
        return None
    key = hashlib.sha256(result.cubin)
    key.update(f"\0{result.function}\0{reader}".encode())
    return paths.cache() / "sass" / f"{key.hexdigest()[:40]}.json"


@cache
def _disassembler() -> str:
    """Return what tells one ncu_report from another; empty where there is none."""
    spec = importlib.util.find_spec("ncu_report")
    if spec is None or spec.origin is None:
        return ""
    libraries = sorted(Path(spec.origin).parent.glob("_ncu_report*.so"))
    return " ".join(f"{file.stat().st_size}-{file.stat().st_mtime_ns}" for file in libraries)


def _digest(texts: object) -> str:
    return hashlib.sha256(json.dumps(texts, sort_keys=True).encode()).hexdigest()


def _thin_out(folder: Path) -> None:
    files = sorted(folder.glob("*.json"), key=lambda file: file.stat().st_mtime_ns)
    for file in files[:-KEPT]:
        file.unlink(missing_ok=True)
