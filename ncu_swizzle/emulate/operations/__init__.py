"""Implements the arithmetic of SASS: one function per opcode, which `operands.compiled` turns into a step on a Machine.
Memory and control instructions are elsewhere in `emulate`.
"""

from __future__ import annotations
