"""Cached answers of NVIDIA's module, which needs half a second or more for each.

An entry is JSON, keyed by the question and by the module's size and date: another version may answer differently.
One that does not have the expected types is dropped.
"""

from __future__ import annotations

import contextlib
import functools
import importlib.util
import json
from pathlib import Path
from typing import Any

from ncu_swizzle import cache, validate
from ncu_swizzle.digest import sha256, sha256_of_texts

KIND = "disassembly"


def load(shape: Any, *question: bytes) -> Any:
    """Return the cached answer, plain JSON of the type `shape`, see `validate.check`; or None."""
    key = _key(question)
    content = cache.load(KIND, key) if key else None
    if content is None:
        return None
    with contextlib.suppress(ValueError, RecursionError, MemoryError):
        answer = json.loads(content)
        if not validate.check(shape)(answer):
            return answer
    cache.drop(KIND, key)
    return None


def save(answer: Any, *question: bytes) -> None:
    """Cache an answer, plain JSON."""
    if key := _key(question):
        cache.save(KIND, key, json.dumps(answer).encode())


def _key(question: tuple[bytes, ...]) -> str:
    """Return the entry's key; empty if NVIDIA's module is not installed."""
    module = _module_version()
    if not module:
        return ""
    return f"{sha256_of_texts(module, *map(sha256, question))[:40]}.json"


@functools.cache
def _module_version() -> str:
    """Return a fingerprint of the installed ncu_report; empty if there is none."""
    spec = importlib.util.find_spec("ncu_report")
    if spec is None or spec.origin is None:
        return ""
    libraries = sorted(Path(spec.origin).parent.glob("_ncu_report*.so"))
    return " ".join(f"{file.stat().st_size}-{file.stat().st_mtime_ns}" for file in libraries)
