"""A kernel with a planted conflict, for those who look for one through the tools."""

from __future__ import annotations

from typing import Any

from tests.support.places import text

TRANSPOSE, ENTRY = text("sources/planted.cu"), text("sources/planted.toml")
LAUNCH: dict[str, Any] = {
    "grid": "n//32,n//32",
    "block": "32,32",
    "args": ["in=float32[n,n]:random", "out=float32[n,n]:out", "n=int32:n"],
    "problem": {"n": 128},
}
EXCESSIVE = 16 * 32 * 31  # wavefronts: 16 blocks of 32 warps, each reads a column of 32 words of one bank
