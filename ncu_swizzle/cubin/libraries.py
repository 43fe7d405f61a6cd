"""Which source files are headers of CUDA or of a library, and not the user's own: told by their path alone.

A report may come from another machine, so nothing is looked up on this one.
"""

from __future__ import annotations

import re
from functools import lru_cache

_INSTALLED = (
    r"^/usr/(local/)?(include|lib\w*|share)/",
    r"^/nix/store/",
    r"(^|/)(site|dist)-packages/",
    r"(^|/)\w*conda\d?/(envs/[^/]+/|pkgs/[^/]+/)?(include|lib)/",
    r"^/(usr/local|opt)/(nvidia/([^/]+/)*)?cuda[^/]*/([^/]+/)*include/",
    r"(^|/)cuda(-|/v?)\d+(\.\d+)*(-\w+)*/([^/]+/)*include/",  # cuda-12.4, CUDA/v12.4, cuda/12.3
    r"(^|/)targets/[\w-]+/include/",
)
# CUDA's own headers with device code, and those of libraries, wherever a copy of them lies.
_KNOWN = (
    r"(^|/)crt/\w+\.(h|hpp)$",
    r"(^|/)(device_(atomic_|double_)?functions|math_functions|vector_functions)\.(h|hpp)$",
    r"(^|/)cuda_(fp\d+|bf16|pipeline\w*|awbarrier\w*)\.(h|hpp)$",
    r"(^|/)sm_\d\d_\w+\.(h|hpp)$",
    r"(^|/)cooperative_groups(/.+)?\.(h|hpp)$",
    r"(^|/)(include|cccl|libcudacxx)/(cub|thrust|cute|cutlass|cccl|cuda/(std|__\w+))/",
    r"(^|/)cutlass/(include|tools)/",
    r"^(cute|cutlass)/",  # below an installed package's root
    r"^<",  # <built-in>
)
_LIBRARY = re.compile("|".join((*_INSTALLED, *_KNOWN)), re.IGNORECASE)
_WMMA = re.compile(r"(^|/)crt/mma\.hpp?$")


@lru_cache(maxsize=4096)
def is_library(file: str) -> bool:
    """Return whether a source file belongs to CUDA or an installed or vendored library."""
    return bool(_LIBRARY.search(_plain(file)))


def is_wmma(file: str) -> bool:
    """Return whether a source file is the header of ``nvcuda::wmma``."""
    return bool(_WMMA.search(_plain(file)))


def _plain(file: str) -> str:
    """Return the path with slashes, without the ``bin/..`` that nvcc writes."""
    plain = file.replace("\\", "/")
    while (shorter := re.sub(r"(^|/)(?!\.\.?/)[^/]+/\.\./", r"\1", plain, count=1)) != plain:
        plain = shorter
    return plain
