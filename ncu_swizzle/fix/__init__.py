"""``ncu-swizzle fix``: rewrite a kernel so that its shared arrays are free of bank conflicts, and have it proved.

    what is typed ─ sources ─► Targets ─ fixing ─► KernelFix ─ sources ─► SourceFix ─ shown ─► patch, page, JSON

    fixing: named or subject (cuda, names, frames, walking, probes) → candidates → draft, xor_edits
            → trial (claims)

The parser is tree-sitter's, imported only when a source is read; what walks a source sees the copy that `cuda` makes of
its tree, of nodes that are never None. A proposal may be wrong: `walking` goes through the kernel as a thread does and
notes each access that it understands, which only serves to write a patch well; `certify` decides what is called proved.
"""
