"""What NVIDIA's reader said before, kept in the user's cache: asking it again would take half a second and more.

An entry is one JSON file with a digest, named after what was asked and after the reader's own size and date: another
version may say other things. Without a cache all is asked again, that is the only difference.
"""

from __future__ import annotations

import contextlib
import importlib.util
import json
from functools import cache
from pathlib import Path
from typing import Any

from ncu_swizzle import digest
from ncu_swizzle import paths
from ncu_swizzle.errors import NcuSwizzleError
from ncu_swizzle.files import read_bytes, write_atomically

MOST = 400  # entries; beyond that the oldest go


def load(*question: bytes) -> Any:
    """Return what was said; None where nothing is kept, or nothing that can be trusted."""
    file = _file(question)
    if file is None or not file.is_file():
        return None
    try:
        content = json.loads(read_bytes(file))
        return content["said"] if content["digest"] == digest.sha256_of_json(content["said"], ascii_only=True) else None
    except (NcuSwizzleError, ValueError, LookupError, TypeError, RecursionError):
        return None


def save(said: Any, *question: bytes) -> None:
    """Keep what was said, plain JSON."""
    file = _file(question)
    if file is None:
        return
    content = json.dumps({"said": said, "digest": digest.sha256_of_json(said, ascii_only=True)}).encode()
    with contextlib.suppress(NcuSwizzleError, OSError):
        write_atomically(file, content)
        _thin_out(file.parent)


def _file(question: tuple[bytes, ...]) -> Path | None:
    reader = _reader()
    if not reader:
        return None
    key = digest.sha256_of_texts(reader, *map(digest.sha256, question))
    return paths.cache() / "reader" / f"{key[:40]}.json"


@cache
def _reader() -> str:
    """Return what tells one ncu_report from another; empty where there is none."""
    spec = importlib.util.find_spec("ncu_report")
    if spec is None or spec.origin is None:
        return ""
    libraries = sorted(Path(spec.origin).parent.glob("_ncu_report*.so"))
    return " ".join(f"{file.stat().st_size}-{file.stat().st_mtime_ns}" for file in libraries)


def _thin_out(folder: Path) -> None:
    files = sorted(folder.glob("*.json"), key=lambda file: file.stat().st_mtime_ns)
    for file in files[:-MOST]:
        file.unlink(missing_ok=True)
