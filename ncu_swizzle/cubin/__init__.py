"""Read cubins, NVIDIA's ELF files: kernels, their parameters, registers, symbols, line tables and constants.
One function opens the file; nothing here compiles or runs anything.
"""
