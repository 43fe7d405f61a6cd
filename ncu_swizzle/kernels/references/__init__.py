"""What the shipped kernels must compute, in higher precision, one module per family."""
