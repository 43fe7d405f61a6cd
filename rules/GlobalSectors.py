"""Sectors of global memory beyond the ideal number, by file and line, and which lines ncu's own rule adds up."""

from swizzle_pack import frontend


def get_identifier():
    return "GlobalSectors"


def get_name():
    return "Excessive Sectors Of Global Memory"


def get_description():
    return "Sectors of global memory beyond the ideal number, by file and line; ncu's own rule ignores the file."


def get_section_identifier():
    return "SwizzleConflicts"


def apply(handle):
    frontend.apply(handle, "GlobalSectors")
