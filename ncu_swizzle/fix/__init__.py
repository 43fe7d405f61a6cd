"""``ncu-swizzle fix``: rewrite a kernel so that its shared arrays are free of bank conflicts, and prove it.

    what is typed ─ sources ─► Targets ─ fixing ─► KernelFix ─ sources ─► SourceFix ─ shown ─► patch, page, JSON

    fixing: subject (scopes, webs, probing) → candidates → edits (draft, xor_edits, padding_edits) → guard → compiled
            → proving (rows, excess, values) → other kernels (result, applied, includers)

The parser is tree-sitter's, imported only when a source is read. What cannot be proved is not
offered; a claim that cannot be checked is unknown, with the reason.
"""
