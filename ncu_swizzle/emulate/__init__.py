"""SASS carried out in NumPy: how often each instruction runs, and the wavefronts of those on shared memory.

    text of nvdisasm → code.Code → run.emulate(code, run.Launch(…)) → run.Counts

No GPU is needed. What is not known (data from global memory, mostly) stays unknown and is named; nothing is guessed.
docs/emulator.md says how far this goes.
"""

from __future__ import annotations
