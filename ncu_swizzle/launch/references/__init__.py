"""What each family's output should be. One module per family, named in its family.toml:

``expected(inputs, problem, rng)`` returns ``{output: (index, values)}``: for each output buffer the elements
that are checked (an index into it, everything where that is affordable) and their values in float64.

``library(problem)`` returns a function of no arguments that solves the problem with a library, on the GPU.
"""
