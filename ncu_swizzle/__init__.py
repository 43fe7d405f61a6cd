"""Shared-memory bank conflicts, measured: Nsight Compute before and after a swizzle."""
