"""The swizzle or padding to try, given opcode, width and degree."""

from swizzle_pack import frontend


def get_identifier():
    return "SwizzleAdvice"


def get_name():
    return "Swizzle Advice"


def get_description():
    return "The swizzle or padding to try, given opcode, width and degree."


def get_section_identifier():
    return "SwizzleConflicts"


def apply(handle):
    frontend.apply(handle, "SwizzleAdvice")
