"""What `explain` answers: bank maps, predictions and suggestions; each query becomes an answer, printed or as JSON.

The model itself is `smem`; the shipped kernels' accesses are declared in `kernels.tiles`.
"""
