"""``ncu-swizzle doctor``: can this machine measure, and if not, what has to be typed?

    System → checks (hardware, tools, place) → trial, if nothing is wrong → Diagnosis → terminal or JSON

Each check is a function of a `System`, and returns what it found: nothing here changes the machine.
"""
