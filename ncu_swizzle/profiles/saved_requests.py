"""The shared-memory requests in a saved emulated profile: packed, as a kernel makes thousands."""

from __future__ import annotations

import base64
import binascii
import zlib
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from ncu_swizzle.errors import DamagedFile
from ncu_swizzle.validate import Count

if TYPE_CHECKING:
    from ncu_swizzle.emulate.requests import AccessRequests

KEPT = 1 << 10  # distinct requests per instruction
SHARED_BYTES = 1 << 20  # beyond any address in shared memory
LANES = 32
NO_SOURCE = -1  # of a lane of a copy that writes zeros


@dataclass(frozen=True)
class SavedRequests:
    """The distinct requests of the instruction at `pc`: `count` of them, over the blocks that ran.

    `packed` is Base64 of zlib of little-endian 64-bit integers, for each request: how often it is made, the mask of
    active lanes, 32 byte addresses in shared memory and, if it is a `copy`, 32 relative global addresses that it reads,
    -1 for zeros.
    `complete` is whether there are no others.
    """

    pc: Count
    op: str
    count: Count
    copy: bool
    complete: bool
    packed: str

    @classmethod
    def of(cls, pc: int, made: AccessRequests) -> SavedRequests:
        """Return an instruction's requests, the most frequent ones if there are many."""
        import numpy as np

        if len(made.times) > KEPT:
            frequent = np.sort(np.argsort(-made.times, kind="stable")[:KEPT])
            made = replace(made.chosen(frequent), complete=False)
        lanes = (made.active.astype(np.int64) << np.arange(LANES)).sum(axis=1)
        parts = [
            made.times[:, None],
            lanes[:, None],
            made.addresses,
            *([made.source] if made.source is not None else []),
        ]
        table = np.concatenate(parts, axis=1).astype("<i8")
        packed = base64.b64encode(zlib.compress(table.tobytes())).decode()
        return cls(pc, made.op, len(made.times), made.source is not None, made.complete, packed)

    def unpacked(self) -> AccessRequests:
        """Return the requests; raise DamagedFile if they are not what `of` wrote."""
        import numpy as np

        from ncu_swizzle.emulate.requests import AccessRequests
        from ncu_swizzle.errors import UsageError
        from ncu_swizzle.smem import operations

        columns = 2 + LANES * (2 if self.copy else 1)
        size = 8 * columns * self.count
        try:
            operations.find(self.op)
            if self.count > KEPT:
                raise ValueError("more requests than are kept")
            unzip = zlib.decompressobj()
            content = unzip.decompress(base64.b64decode(self.packed, validate=True), size + 1)
            if len(content) != size:
                raise ValueError("a different number of requests")
            table = np.frombuffer(content, "<i8").reshape(self.count, columns).astype(np.int64)
            times, lanes, addresses, source = np.split(table, (1, 2, 2 + LANES), axis=1)
            negative = (table[:, : 2 + LANES] < 0).any() or (source < NO_SOURCE).any()
            if negative or (addresses >= SHARED_BYTES).any() or (lanes >> LANES).any() or (times < 1).any():
                raise ValueError("impossible values")
        except (ValueError, binascii.Error, zlib.error, UsageError) as error:
            raise DamagedFile(
                f"the requests of the instruction at {self.pc:#x} are damaged: {error}", "profile the kernel again"
            ) from error
        active = (lanes >> np.arange(LANES) & 1).astype(bool)
        return AccessRequests(self.op, addresses, active, times[:, 0], source if self.copy else None, self.complete)
