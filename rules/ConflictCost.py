"""Time that removing the excessive wavefronts would save, with an interval, limited by the next bottleneck."""

from swizzle_pack import frontend


def get_identifier():
    return "ConflictCost"


def get_name():
    return "Cost Of Bank Conflicts"


def get_description():
    return "Time that removing the excessive wavefronts would save, with an interval, limited by the next bottleneck."


def get_section_identifier():
    return "SwizzleConflicts"


def apply(handle):
    frontend.apply(handle, "ConflictCost")
