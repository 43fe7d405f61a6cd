"""What a block can have: threads, and how much of its SM's shared memory.

Source: CUDA C++ Programming Guide, "Technical Specifications per Compute Capability". The system reserves 1,024 bytes
for each resident block from sm_80 on, so a block can use 1 KiB less than its SM has.
"""

from __future__ import annotations

KIB_PER_SM = {"sm_80": 164, "sm_86": 100, "sm_89": 100, "sm_90": 228, "sm_100": 228, "sm_120": 100}
MOST_THREADS = 1024  # of a block
RESERVED_BYTES = 1024  # per block; on sm_90 and newer at the start of the block's shared memory
MOST_BLOCKS = 32  # resident on an SM at most; fewer on sm_86, sm_89 and sm_120


def sm_bytes(arch: str) -> int:
    """Return the bytes of shared memory of an SM: also a block's limit with its reserved bytes counted in."""
    return KIB_PER_SM[arch] * 1024


def block_bytes(arch: str) -> int:
    """Return the bytes that a block can use, static and dynamic together."""
    return sm_bytes(arch) - RESERVED_BYTES


def resident_blocks(arch: str, block_shared: int) -> int:
    """Return how many blocks with `block_shared` bytes each fit on an SM, as far as shared memory allows."""
    return min(sm_bytes(arch) // (block_shared + RESERVED_BYTES), MOST_BLOCKS)
