"""Conflicts that a swizzle with too narrow a mask leaves."""

from swizzle_pack import frontend


def get_identifier():
    return "PartialSwizzle"


def get_name():
    return "Partial Swizzle"


def get_description():
    return "Conflicts that a swizzle with too narrow a mask leaves."


def get_section_identifier():
    return "SwizzleConflicts"


def apply(handle):
    frontend.apply(handle, "PartialSwizzle")
