"""SHA-256 digests, the same way everywhere in the package.

They are not keyed: they detect damage, careless edits and bad merges, not somebody who recomputes them.
"""

from __future__ import annotations

import hashlib
import json
from typing import Any


def sha256(data: bytes) -> str:
    """Return the SHA-256 of the bytes in hex."""
    return hashlib.sha256(data).hexdigest()


def sha256_of_texts(*texts: str) -> str:
    """Return the SHA-256 of the texts in hex, separated by NUL; what UTF-8 cannot hold counts as a question mark."""
    return sha256("\0".join(texts).encode(errors="replace"))


def sha256_of_json(content: Any, ascii_only: bool = False) -> str:
    """Return "sha256:" and the SHA-256 in hex of plain data, written as JSON with sorted keys.

    `ascii_only` escapes all other characters first. Existing facts files were hashed that way, existing profiles and
    baselines were not: one way for both would invalidate one of them.
    """
    text = json.dumps(content, sort_keys=True, ensure_ascii=ascii_only)
    return "sha256:" + sha256(text.encode(errors="surrogatepass"))  # of file names that are not UTF-8
