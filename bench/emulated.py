"""The emulated engine held against the recordings: ``python3 bench/emulated.py [KERNEL …] [--write]``.

For each kernel of the catalogue: instructions that access shared memory whose executions, wavefronts and ideal
wavefronts are all equal to what ncu counted, different, or unknown; the time from an empty cache, compilation
included; the most memory that the process or the compiler held. ``--write`` puts the table into docs/emulated.md.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from ncu_swizzle import paths
from ncu_swizzle.catalog import collection
from ncu_swizzle.catalog.target import Target
from ncu_swizzle.engines import emulation  # noqa: E402
from ncu_swizzle.errors import NcuSwizzleError  # noqa: E402
from ncu_swizzle.ncurep import reader  # noqa: E402
from ncu_swizzle.profiles.model import Profile  # noqa: E402
from ncu_swizzle.texts import in_words  # noqa: E402

PAGE = ROOT / "docs" / "emulated.md"
MARK = re.compile(r"(<!-- emulated: written by bench/emulated.py -->\n).*?(<!-- end of emulated -->)", re.DOTALL)
HEAD = [
    "| kernel | problem | equal | different | unknown | blocks run | seconds | MB |",
    "|---|---|---|---|---|---|---|---|",
]


def compared(emulated: Profile, recorded: Profile) -> dict[str, int]:
    """Return how many accesses to shared memory are equal, different and unknown; `others` are extra or lacking."""
    first = recorded.instructions[0].pc
    theirs = {one.pc - first: one for one in recorded.instructions if one.access}
    found = dict.fromkeys(("equal", "different", "unknown"), 0)
    for one in emulated.instructions:
        other = theirs.pop(one.pc, None)
        if not one.access and other is None:
            continue
        if one.access and None in (one.executed, one.wavefronts, one.ideal):
            found["unknown"] += 1
        elif other is None:
            found["equal" if not one.executed else "different"] += 1  # ncu does not list what never ran
        else:
            same = (one.executed, one.wavefronts, one.ideal) == (other.executed, other.wavefronts, other.ideal)
            found["equal" if same else "different"] += 1
    found["different"] += len(theirs)
    return found


def measure(name: str) -> dict[str, object]:
    """Emulate one kernel, in this process, and hold it against its recording."""
    family, kernel = collection.shipped().find(name)
    recorded = reader.read(paths.recordings() / "h100" / family.name / f"{name}.ncu-rep")[0]
    start = time.perf_counter()
    made = emulation.emulate_target(Target(family, kernel, family.problem()))
    seconds = time.perf_counter() - start
    most = max(resource.getrusage(who).ru_maxrss for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    ran = f"{made.counts.blocks_run:,} of {made.counts.blocks:,}"
    sizes = in_words(family.problem())
    return {**compared(made.profile, recorded), "problem": sizes, "ran": ran, "seconds": seconds, "mb": most / 1024}


def line(name: str) -> str:
    """Return a kernel's line of the table, made in a process of its own with an empty cache."""
    with tempfile.TemporaryDirectory() as cache:
        environment = {**os.environ, "XDG_CACHE_HOME": cache}
        command = [sys.executable, __file__, "--one", name]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        return f"| {name} | {done.stderr.strip().splitlines()[-1]} | | | | | | |"
    found = json.loads(done.stdout)
    counts = f"{found['equal']} | {found['different']} | {found['unknown']}"
    return f"| {name} | {found['problem']} | {counts} | {found['ran']} | {found['seconds']:.1f} | {found['mb']:.0f} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("kernels", nargs="*")
    parser.add_argument("--write", action="store_true", help="put the table into docs/emulated.md")
    parser.add_argument("--one", help="of one kernel, as JSON")
    asked = parser.parse_args()
    if asked.one:
        try:
            print(json.dumps(measure(asked.one)))
        except NcuSwizzleError as error:
            sys.exit(f"{type(error).__name__}: {error}")
        return
    names = asked.kernels or [kernel.name for _, kernel in collection.shipped() if not kernel.library]
    lines = list(HEAD)
    print("\n".join(lines), flush=True)
    for name in names:
        lines.append(line(name))
        print(lines[-1], flush=True)
    if asked.write:
        text = PAGE.read_text(encoding="utf-8")
        table = "\n".join(lines)
        PAGE.write_text(MARK.sub(lambda found: f"{found[1]}{table}\n{found[2]}", text), encoding="utf-8")


if __name__ == "__main__":
    main()
