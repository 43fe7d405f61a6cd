"""Excess, what is left of a conflict, and the fix to try, from the counts alone."""

from swizzle_pack import frontend


def get_identifier():
    return "SharedCounts"


def get_name():
    return "Excess And Advice From Counts Alone"


def get_description():
    return "SharedExcess, PartialSwizzle and SwizzleAdvice for a launch of which SwizzleWavefronts alone was collected."


def get_section_identifier():
    return "SwizzleWavefronts"


def apply(handle):
    frontend.apply_to_counts(handle, "SharedExcess", "PartialSwizzle", "SwizzleAdvice")
