"""Shared-memory wavefronts beyond the ideal number, by access kind, instruction and source line."""

from swizzle_pack import frontend


def get_identifier():
    return "SharedExcess"


def get_name():
    return "Excessive Shared Wavefronts"


def get_description():
    return "Shared-memory wavefronts beyond the ideal number, by access kind, instruction and source line."


def get_section_identifier():
    return "SwizzleConflicts"


def apply(handle):
    frontend.apply(handle, "SharedExcess")
