"""Executes SASS in NumPy to count how often each instruction issues and the wavefronts of each shared-memory access.
It depends only on `smem` and `base`.

    text of nvdisasm → code.Code → run.emulate(code, counts.Launch(…)) → counts.Counts

Unknown values (mostly data from global memory) stay unknown and are named; nothing is guessed. docs/emulator.md
describes the limits.
"""
