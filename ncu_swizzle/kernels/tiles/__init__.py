"""The shared-memory tiles of the shipped kernels and every access to them, declared by hand, one module per family."""
