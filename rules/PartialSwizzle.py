"""Conflicts left by a swizzle whose mask is too narrow."""

from swizzle_pack import frontend


def get_identifier():
    return "PartialSwizzle"


def get_name():
    return "Partial Swizzle"


def get_description():
    return "Conflicts left by a swizzle whose mask is too narrow."


def get_section_identifier():
    return "SwizzleConflicts"


def apply(handle):
    frontend.apply(handle, "PartialSwizzle")
