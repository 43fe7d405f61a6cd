"""What the hardware's bank-conflict counters count besides conflicts."""

from swizzle_pack import frontend


def get_identifier():
    return "PhantomConflicts"


def get_name():
    return "Phantom Bank Conflicts"


def get_description():
    return "What the hardware's bank-conflict counters count besides conflicts."


def get_section_identifier():
    return "SwizzleConflicts"


def apply(handle):
    frontend.apply(handle, "PhantomConflicts")
