"""What an ELF file of NVIDIA's says of its kernels: parameters, registers, symbols, line tables, constants.
One reader opens the file; nothing here compiles or runs anything.
"""
