"""What SASS computes: an opcode is an expression over `primitives`, which say once what happens to a value, to its tag
and to its known bits. `operands.compiled_step` makes a step of it. Memory and control are elsewhere in `emulate`.
"""

from __future__ import annotations
