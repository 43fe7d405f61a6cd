"""``ncu-swizzle doctor``: can this machine measure, and if not, which command fixes it? Each check is a function of a
`System` and returns its finding; nothing here changes the machine.

    System → checks (hardware, tools, surroundings) → trial, if nothing is bad → Diagnosis → terminal or JSON
"""
