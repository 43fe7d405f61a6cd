"""``ncu-swizzle fix``: rewrite a kernel so that its shared arrays are free of bank conflicts, and have it proved.

    what is typed ─ sources ─► Targets ─ fixing ─► KernelFix ─ sources ─► SourceFix ─ shown ─► patch, page, JSON

    fixing: by_name (named) or subject (cuda, scopes, reaching, launched) → candidates → draft, xor_edits
            → trial (excess, certified)

The parser is tree-sitter's, imported only when a source is read; what walks a source sees the copy that `cuda` makes of
its tree, of nodes that are never None. A proposal may be wrong: what is read from a source only serves to write it
well, and `certify` decides what is called proved.
"""
