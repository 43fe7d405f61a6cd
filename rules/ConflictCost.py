"""What the excessive wavefronts cost in time, with an interval, up to the next wall."""

from swizzle_pack import frontend


def get_identifier():
    return "ConflictCost"


def get_name():
    return "Cost Of Bank Conflicts"


def get_description():
    return "What the excessive wavefronts cost in time, with an interval, up to the next wall."


def get_section_identifier():
    return "SwizzleConflicts"


def apply(handle):
    frontend.apply(handle, "ConflictCost")
