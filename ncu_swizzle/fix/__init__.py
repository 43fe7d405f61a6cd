"""``ncu-swizzle fix``: rewrite a kernel so that its shared arrays are free of bank conflicts, and prove it.

    source read (scopes, reach, webs) → candidates → edits (xor_edits, padding_edits, draft) → guard → proving → result

The parser is tree-sitter's, of the extra ``fix``, imported only when a source is read. What cannot be proved is not
offered; a claim that cannot be checked is unknown, with the reason.
"""
