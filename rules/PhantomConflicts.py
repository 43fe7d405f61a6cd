"""Counts of the hardware bank-conflict counters that are not conflicts."""

from swizzle_pack import frontend


def get_identifier():
    return "PhantomConflicts"


def get_name():
    return "Phantom Bank Conflicts"


def get_description():
    return "Counts of the hardware bank-conflict counters that are not conflicts."


def get_section_identifier():
    return "SwizzleConflicts"


def apply(handle):
    frontend.apply(handle, "PhantomConflicts")
