"""What project files may pass to nvcc: options that change the code or the warnings, with values of a known form.

nvcc can run any program (-ccbin, -Xcompiler -fplugin=…), write any file (-o, -MF, -keep-dir) and read further options
from a file (-optf), and it passes most values to a shell as they are. So this is a list of what is allowed, in exactly
the spellings that nvcc has, and everything else needs --trust.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping

from ncu_swizzle.catalog.nvcc_options import FOLDERS, HEADER, RUNS_IN_PATHS, RUNS_QUOTED

# Without a value: options whose long name is the short one with another dash, then the others.
_ONE_NAME = (
    "allow-unsupported-compiler", "expt-extended-lambda", "expt-relaxed-constexpr", "extended-lambda",
    "extra-device-vectorization", "keep-device-functions", "m64", "restrict", "use_fast_math",
    "Wdefault-stream-launch", "Wext-lambda-captures-this", "Wmissing-launch-bounds", "Wno-deprecated-declarations",
    "Wno-deprecated-gpu-targets", "Wreorder",
)  # fmt: skip
FLAGS = frozenset(f"{dashes}{name}" for name in _ONE_NAME for dashes in ("-", "--")) | {
    "-lineinfo", "--generate-line-info", "-G", "--device-debug", "-g", "--debug", "-w", "--disable-warnings",
    "-ewp", "--extensible-whole-program", "-noeh", "--no-exceptions", "-nohdinitlist",
    "--no-host-device-initializer-list", "-nohdmoveforward", "--no-host-device-move-forward", "-src-in-ptx",
    "--source-in-ptx", "-res-usage", "--resource-usage", "-err-no", "--display-error-number", "-no-err-no",
    "--no-display-error-number",
}  # fmt: skip

SWITCH, NUMBER, NUMBERS = r"true|false", r"\d{1,9}", r"\d{1,9}(,\d{1,9})*"
KINDS = (
    "all-warnings|cross-execution-space-call|reorder|default-stream-launch|missing-launch-bounds"
    "|ext-lambda-captures-this|deprecated-declarations"
)
# Options of ptxas and of the host compiler, which preprocesses the source; in lists, a comma or a space apart.
PTXAS = (
    rf"-v|--verbose|-w|--disable-warnings|-Werror|--warning-as-error|-warn-spills|--warn-on-spills|-warn-lmem-usage"
    rf"|--warn-on-local-memory-usage|-warn-double-usage|--warn-on-double-precision-use|-O[0-4]|--opt-level=[0-4]"
    rf"|(-dlcm|--def-load-cache|-flcm|--force-load-cache)=(ca|cg|cs|cv|lu)"
    rf"|(-dscm|--def-store-cache|-fscm|--force-store-cache)=(cg|cs|wb|wt)"
    rf"|--?(allow-expensive-optimizations|fmad)=({SWITCH})|--?maxrregcount=({NUMBER})"
    rf"|(-regUsageLevel|--register-usage-level)=({NUMBER})|-disable-optimizer-consts|--disable-optimizer-constants"
    rf"|-opt-fp-atomics|--optimize-float-atomics|-no-bb-merge|--dont-merge-basicblocks"
)
HOST = r"-W(?![alp]$)[a-z][a-z0-9+-]*(=\d)?|-w|-g|-O[0-3sg]?|-f(PIC|pic|openmp|no-strict-aliasing)|-pthread|-m64"

# With a value: after =, as the next word, or (-O3) joined.
VALUES: Mapping[str, str] = {
    name: value
    for names, value in (
        ("-std --std", r"c\+\+\d\d"),
        ("-O --optimize", "[0-4]"),
        ("-Ofc --Ofast-compile", "0|min|mid|max"),
        ("-dopt --dopt", "on"),
        ("-maxrregcount --maxrregcount", NUMBER),
        ("-ftz --ftz -prec-div --prec-div -prec-sqrt --prec-sqrt -fmad --fmad", SWITCH),
        ("-rdc --relocatable-device-code -device-stack-protector --device-stack-protector", SWITCH),
        ("-brief-diag --brief-diagnostics -static-global-template-stub --static-global-template-stub", SWITCH),
        ("-ftemplate-depth --ftemplate-depth -ftemplate-backtrace-limit --ftemplate-backtrace-limit", NUMBER),
        ("-jtd --jump-table-density", NUMBER),
        ("-default-stream --default-stream", "legacy|null|per-thread"),
        ("-opt-info --optimization-info", "inline"),
        ("-diag-error --diag-error -diag-suppress --diag-suppress -diag-warn --diag-warn", NUMBERS),
        ("-Werror --Werror", rf"({KINDS})(,({KINDS}))*"),
        ("-Xptxas --ptxas-options", rf"\s*({PTXAS})([,\s]+({PTXAS}))*\s*"),
        ("-Xcompiler --compiler-options", rf"\s*({HOST})([,\s]+({HOST}))*\s*"),
    )
    for name in names.split()
}
# What nvcc puts between double quotes, where its shell would still execute some characters.
MACRO = re.compile(rf"[A-Za-z_]\w*(\([\w\s,.]*\))?(=[^{RUNS_QUOTED}]*)?")
NAMES = re.compile(r"[A-Za-z_]\w*(,[A-Za-z_]\w*)*")
FOLDER = re.compile(f"[^{RUNS_IN_PATHS}]+")
FILE = re.compile(rf"(?!.*(^|/)\.\.(/|$))[^{RUNS_IN_PATHS},]+")  # one, without .. in its path


def in_one_word(words: Iterable[str]) -> Iterator[str]:
    """Yield the options, those whose value is the next word joined to it by ``=``."""
    rest = iter(words)
    for word in rest:
        value = next(rest, None) if word in VALUES else None
        yield word if value is None else f"{word}={value}"


def is_allowed(option: str) -> bool:
    """Return whether a project file may pass an option, which is one of `in_one_word`.

    Include folders may be anywhere, for a source can include any file by its path anyway. Absolute headers of
    ``-include`` are left to the caller, who knows the project.
    """
    name, _, value = option.partition("=")
    if name in VALUES:
        return re.fullmatch(VALUES[name], value) is not None
    for prefix, pattern in (("-D", MACRO), ("-U", NAMES), *((prefix, FOLDER) for prefix in FOLDERS), (HEADER, FILE)):
        if option.startswith(prefix):
            return pattern.fullmatch(option.removeprefix(prefix)) is not None
    return option in FLAGS or re.fullmatch("-O[0-4]", option) is not None
