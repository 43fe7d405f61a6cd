"""The ncu command that collects what a report lacks, made of the command that made the report.

A report keeps ncu's whole command line, its words joined by spaces: where words held spaces themselves, nobody can
tell any more, so the program's part is repeated as it stands.
"""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass

from ncu_swizzle import paths
from ncu_swizzle.cubin import demangled
from ncu_swizzle.profiles.model import Profile

SECTION = "SwizzleConflicts"
UNKNOWN_PROGRAM = "PROGRAM"
MOST_MANGLED = 120  # characters; a longer name helps nobody on a command line


def _options(text: str) -> frozenset[str]:
    return frozenset(text.split())


# Options of ncu's that no value follows.
FLAGS = _options(
    "-f --force-overwrite --nvtx --null-stdin --call-stack --csv --quiet --verbose --open-in-ui --details-all "
    "--print-fp --print-rule-details --disable-profiler-start-stop --lockstep-kernel-launch "
    "--section-folder-restore --list-sections --list-sets --list-metrics --list-rules --query-metrics --list-chips "
    "-h --help -v --version"
)
# Options that say how the program is run and where ncu looks; the others say what is collected, of which kernels.
KEPT = _options(
    "--profile-from-start --target-processes --target-processes-filter --replay-mode --app-replay-match "
    "--app-replay-mode --clock-control --cache-control --devices --nvtx --nvtx-include --nvtx-exclude --range-filter "
    "--disable-profiler-start-stop --null-stdin --config-file --config-file-path --preload-library --kill "
    "--check-exit-code --source-folders"
)
# With these, the occurrences in the report are not those in the program.
SKIPPING = _options("-s --launch-skip --launch-skip-before-match --kernel-id --filter-mode")
CHOOSING = _options("-k --kernel-name --kernel-name-base -c --launch-count") | SKIPPING


@dataclass(frozen=True)
class Session:
    """A command line of ncu's: its options with their values, and the program with its arguments."""

    options: tuple[tuple[str, ...], ...] = ()
    program: str = ""


def parse(command: str) -> Session:
    """Split a command line as reports keep it; empty where it is none of ncu's."""
    words = [(found.group(), found.start()) for found in re.finditer(r"\S+", command)]
    options: list[tuple[str, ...]] = []
    position = 1
    while position < len(words):
        word, start = words[position]
        if word == "--":
            return Session(tuple(options), command[start + 2 :].strip())
        if not word.startswith("-"):
            return Session(tuple(options), command[start:].strip())
        name, equals, value = word.partition("=")
        position += 1
        if equals:
            options.append((name, value))
        elif name in FLAGS or position == len(words):
            options.append((name,))
        else:
            options.append((name, words[position][0]))
            position += 1
    return Session(tuple(options))


def command(profile: Profile) -> str:
    """Return what to type to collect all that is read of this very kernel, with the program where it is known."""
    session = parse(profile.command)
    return _command(session, KEPT, _filter(profile, session))


def command_for_all(profile: Profile) -> str:
    """Return what to type to collect it of all kernels that the profile's report is of."""
    return _command(parse(profile.command), KEPT | CHOOSING, [])


def _command(session: Session, kept: frozenset[str], chosen: list[str]) -> str:
    words = ["ncu", "--section-folder", str(paths.rules()), "--section", SECTION]
    for name, *values in session.options:
        if name in kept and not (name == "--replay-mode" and "range" in "".join(values)):
            words += [name, *values]
    words += [*chosen, "--import-source", "yes", "--export", "complete"]
    return f"{shlex.join(words)} -- {session.program or UNKNOWN_PROGRAM}"


def _filter(profile: Profile, session: Session) -> list[str]:
    """Return the options that choose this kernel; none for a range, whose kernels are not known."""
    launch, kernel = profile.launch, profile.kernel
    if launch.workload != "kernel":
        return []
    if kernel.mangled and len(kernel.mangled) <= MOST_MANGLED:
        chosen = ["--kernel-name-base", "mangled", "--kernel-name", kernel.mangled]
    else:
        chosen = ["--kernel-name", demangled.function(kernel.function) or kernel.name]
    known = launch.occurrence and not SKIPPING & {option[0] for option in session.options}
    return [*chosen, *(["--launch-skip", str(launch.occurrence)] if known else []), "--launch-count", "1"]
