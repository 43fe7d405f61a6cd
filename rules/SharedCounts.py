"""Excess, partial conflicts, and the fix to try, from wavefront counts alone."""

from swizzle_pack import frontend


def get_identifier():
    return "SharedCounts"


def get_name():
    return "Excess And Advice From Counts Alone"


def get_description():
    return "SharedExcess, PartialSwizzle and SwizzleAdvice for launches with only SwizzleWavefronts collected."


def get_section_identifier():
    return "SwizzleWavefronts"


def apply(handle):
    frontend.apply_to_counts(handle, "SharedExcess", "PartialSwizzle", "SwizzleAdvice")
