"""``ncu-swizzle fix``: rewrite a kernel so that its shared arrays are free of bank conflicts, and prove it.

    what is typed ─ sources ─► Targets ─ fixing ─► KernelFix ─ sources ─► SourceFix ─ shown ─► patch, page, JSON

    fixing: by_name (named) or subject (cuda, scopes, reaching, launched) → candidates → draft, xor_edits
            → guard (ownership, extents, effects, ranges) → proving (rows, excess, values)
            → other kernels (applied, includers)

The parser is tree-sitter's, imported only when a source is read; what walks a source sees the copy that `cuda` makes of
its tree, of nodes that are never None. What cannot be proved is not offered; a claim that cannot be checked is unknown,
with the reason.
"""
