"""CUDA C++ as its author wrote it: shared arrays, everything that reaches into them, and edits that touch nothing else.
The parser is tree-sitter's, of the extra ``fix``, imported only when a source is read.
"""
