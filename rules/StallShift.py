"""Where warps stall, and which stall dominates once the conflicts are gone."""

from swizzle_pack import frontend


def get_identifier():
    return "StallShift"


def get_name():
    return "Stall Reasons And What Follows"


def get_description():
    return "Where warps stall, and which stall dominates once the conflicts are gone."


def get_section_identifier():
    return "SwizzleConflicts"


def apply(handle):
    frontend.apply(handle, "StallShift")
