"""The rule pack: evaluated on a profile, listed, and installed into Nsight Compute's own section folders.

A manifest with the SHA-256 of every file marks a copy as ours. Files that it does not name, or that were changed since,
are neither replaced nor removed.
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from ncu_swizzle.base import paths
from ncu_swizzle.base.cache import sha256
from ncu_swizzle.base.errors import BadFile, DamagedFile, EnvironmentLacking, NotWritable, reason
from ncu_swizzle.base.files import brief, not_writable, read_bytes, write_atomically, write_json
from ncu_swizzle.base.texts import in_json
from ncu_swizzle.reports import attribution, memory
from ncu_swizzle.reports.attribution import FrameOwners
from ncu_swizzle.reports.model import Profile
from ncu_swizzle.reports.options import EMULATED

if TYPE_CHECKING:
    from swizzle_pack.facts import Facts
    from swizzle_pack.finding import Finding

    from ncu_swizzle.reports.comparison import Comparison


# Evaluate the rule pack on a profile: the same files with the same decisions that run inside ncu.


@cache
def pack(module: str) -> ModuleType:
    """Import a module of the pack, such as ``rules``, from the folder passed to ncu."""
    folder = str(paths.rules())
    if folder not in sys.path:
        sys.path.append(folder)
    return importlib.import_module(f"swizzle_pack.{module}")


def facts(profile: Profile) -> Facts:
    """Return a profile in the pack's types.

    Source lines are those that ncu reports or, for a header of CUDA, the line of the user that it is inlined into.
    """
    types = pack("facts")
    ownership = FrameOwners(profile)
    whole = not any(group.unknown for group in memory.by_opcode(profile).values())  # a part is not said to be all
    instructions = [(instruction, ownership.named(instruction)) for instruction in profile.instructions]
    result: Facts = types.Facts(
        {name: value for name in profile.metrics if (value := profile.number(name)) is not None},
        tuple(
            types.Instruction(
                executed=instruction.executed or 0,
                wavefronts=instruction.wavefronts or 0,
                ideal=instruction.ideal or 0,
                pc=instruction.pc,
                sass=instruction.sass,
                access=instruction.access,
                file=line[0] if line else "",
                line=line[1] if line else 0,
                samples=instruction.samples,
                sectors=(whole and instruction.traffic.sectors) or 0,
                ideal_sectors=(whole and instruction.traffic.ideal) or 0,
                header=instruction.named[0] if instruction.named and line != instruction.named else "",
            )
            for instruction, line in instructions
        ),
        # Only emulated profiles have requests, whose tiles a mapping is tried on.
        tuple(advice.text for advice in attribution.advice(profile)) if profile.requests else (),
        tuple(note.text for note in profile.layouts),
    )
    return result


def findings(profile: Profile) -> tuple[Finding, ...]:
    """Return the findings of all rules for a launch; none for computed counts of which some are unknown: ncu did not
    leave them out, and the profile's notes say why.
    """
    known = facts(profile)
    if profile.engine == EMULATED and pack("facts").missing(known):
        return ()
    return tuple(pack("rules").decide_all(known))


def is_ours(rule: str) -> bool:
    """Return whether a rule that ncu ran belongs to the pack."""
    return (paths.rules() / f"{rule}.py").is_file() if rule.isidentifier() else False


# The rule pack's findings, as data.

SCHEMA = 1
LaunchFindings = tuple[str, "tuple[Finding, ...]"]  # a launch's label, and its findings


def launch_findings(comparison: Comparison) -> tuple[LaunchFindings, ...]:
    """Return the findings for every profile of a comparison."""
    return tuple((label, findings(profile)) for label, profile in comparison.named)


def rows(launches: Sequence[LaunchFindings]) -> list[dict[str, Any]]:
    """Return the findings as plain data, one entry per finding."""
    return [{"label": label, **asdict(finding)} for label, told in launches for finding in told]


def to_json(launches: Sequence[LaunchFindings]) -> str:
    """Return the findings as one JSON object."""
    return in_json({"schema": SCHEMA, "findings": rows(launches)})


MANIFEST = "ncu-swizzle.manifest.json"


@dataclass(frozen=True)
class PackRule:
    """One rule of the pack, as ncu sees it."""

    name: str
    section: str
    description: str


def rules() -> tuple[PackRule, ...]:
    """Return the rules of the pack, sorted by name."""
    pack("frontend")
    shells = (_load(file) for file in sorted(paths.rules().glob("*.py")))
    return tuple(
        PackRule(shell.get_identifier(), shell.get_section_identifier(), shell.get_description()) for shell in shells
    )


def _load(file: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(file.stem, file)
    if spec is None or spec.loader is None:
        raise BadFile(f"{file} is not a rule", "install ncu-swizzle again")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def sections() -> tuple[str, ...]:
    """Return the identifiers of the pack's sections, which are their file names."""
    return tuple(sorted(file.stem for file in paths.rules().glob("*.section")))


def contents() -> dict[str, bytes]:
    """Return every file of the pack by its relative path."""
    root = paths.rules()
    files = sorted([*root.glob("*.section"), *root.glob("*.py"), *root.glob("swizzle_pack/*.py")])
    return {file.relative_to(root).as_posix(): file.read_bytes() for file in files}


def destinations(given: Path | None) -> list[Path]:
    """Return the folder given, or the section folder of every Nsight Compute version this user has run."""
    if given is not None:
        return [given]
    documents = Path.home() / "Documents" / "NVIDIA Nsight Compute"
    folders = sorted(folder for folder in documents.glob("*/Sections") if folder.is_dir())
    if not folders:
        raise EnvironmentLacking(
            f"no section folder in {documents}",
            "run ncu --list-sections once to create it, or name a folder with --dest",
        )
    return folders


# ---------------------------------------------------------------------------------- install and uninstall


def install(folder: Path) -> list[str]:
    """Copy the pack there and return the files written; raise NotWritable if a file that is not ours is in the way.

    Either everything is written or nothing. An older copy of ours is replaced.
    """
    files, ours = contents(), _manifest(folder)
    foreign = [name for name in files if not _is_ours(folder / name, ours.get(name), files[name])]
    if foreign:
        raise NotWritable(
            f"{folder} holds {', '.join(foreign)}, which ncu-swizzle did not write or which changed since",
            "move it away, or name another folder with --dest",
        )
    digests = {name: sha256(content) for name, content in files.items()}
    try:
        folder.mkdir(parents=True, exist_ok=True)
        write_json(folder / MANIFEST, {"files": {**ours, **digests}})  # first, so that a partial copy can be removed
        for name, content in files.items():
            (folder / name).parent.mkdir(exist_ok=True)
            write_atomically(folder / name, content)
        _remove(folder, {name: digest for name, digest in ours.items() if name not in files})
        write_json(folder / MANIFEST, {"files": digests})
    except OSError as error:
        raise not_writable(f"to {folder}", error) from error
    return [*files, MANIFEST]


def uninstall(folder: Path) -> tuple[list[str], list[str]]:
    """Remove what `install` wrote there; return the files removed, and those kept because they changed since."""
    ours = _manifest(folder)
    if not ours:
        raise BadFile(f"{folder} holds no copy of the rule pack", "ncu-swizzle rules install creates one")
    try:
        removed, kept = _remove(folder, ours)
        (folder / MANIFEST).unlink()
    except OSError as error:
        raise NotWritable(f"cannot remove from {folder}: {reason(error)}", "check its permissions") from error
    return removed, kept


def _remove(folder: Path, files: Mapping[str, str]) -> tuple[list[str], list[str]]:
    removed, kept = [], []
    for name, digest in files.items():
        file = folder / name
        if not file.is_file():
            continue
        if sha256(file.read_bytes()) != digest:
            kept.append(name)
            continue
        file.unlink()
        removed.append(name)
        for compiled in file.parent.glob(f"__pycache__/{file.stem}.*.pyc"):
            compiled.unlink()
    for parent in {(folder / name).parent for name in files}:
        for emptied in (parent / "__pycache__", parent):
            if emptied != folder:
                with contextlib.suppress(OSError):
                    emptied.rmdir()  # fails unless empty
    return removed, kept


def _is_ours(file: Path, recorded: str | None, content: bytes) -> bool:
    if not file.exists() and not file.is_symlink():
        return True
    if not file.is_file() or file.is_symlink():
        return False
    existing = file.read_bytes()
    return existing == content or sha256(existing) == recorded


def _manifest(folder: Path) -> dict[str, str]:
    file = folder / MANIFEST
    if not file.is_file():
        return {}
    try:
        content = json.loads(read_bytes(file).decode())["files"]
        names = {str(name): str(digest) for name, digest in content.items()}
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
        raise DamagedFile(f"{file} is damaged: {brief(error)}", "remove the pack's files there by hand") from error
    outside = [name for name in names if Path(name).is_absolute() or ".." in Path(name).parts]
    if outside:
        raise DamagedFile(f"{file} names files outside its folder: {', '.join(outside)}", "remove it by hand")
    return names
