"""Functions that are not part of a module: the driver supplies them, such as vprintf, malloc and __assertfail.

What they do in shared memory is not the kernel's; they return to the instruction after the call, with a result that is
unknown. A launch in which an assertion fails has no counts, so `__assertfail` returns here, too: its caller goes on
there only if nothing else is to be done.
"""

from __future__ import annotations

EXTERNALS = 0x8005_F000_0000  # the address of the first one; its lower half is beyond the end of any kernel
RESULT = 0b11 << 4  # R4 and R5, as a set of registers
