"""The folder of one run: reports, profiles, the HTML page, and ``run.json`` that says what belongs to it.

A run is built in a hidden folder beside its place and moved there when it is whole, so that an interrupted one
leaves nothing behind.
"""

from __future__ import annotations

import contextlib
import errno
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ncu_swizzle import validate
from ncu_swizzle.errors import BadFile, DamagedFile, NotWritable
from ncu_swizzle.files import brief, locked, not_writable, read_bytes, read_json, slug, write_json
from ncu_swizzle.profiles.destination import Destination
from ncu_swizzle.profiles.model import Profile
from ncu_swizzle.profiles.pairing import Row

MANIFEST, REPORT = "run.json", "report.html"
DEFAULT = Path("swizzle-out")
AGAIN = "profile the kernel again"


@dataclass(frozen=True)
class Run:
    """A finished run: the kernel or program that was asked for, and all profiles, the one before first.

    Of a program, `rows` says which launches belong together, and `columns` whose they are, the program's own last.
    """

    kernel: str
    profiles: tuple[Profile, ...]
    rows: tuple[Row, ...] = ()
    columns: tuple[str, ...] = ()

    @property
    def subjects(self) -> tuple[Profile, ...]:
        """The profiles of what was asked for: a kernel's one, or the program's launches."""
        if self.rows:
            return tuple(row[-1] for row in self.rows if row[-1] is not None)
        return tuple(profile for profile in self.profiles if profile.kernel.name == self.kernel)[:1]


@contextlib.contextmanager
def staging(near: Path) -> Iterator[Path]:
    """Yield an empty folder on the same disk as `near`; remove it at the end, whatever happened.

    Folders above it that had to be made go too if nothing came to lie in them.
    """
    created = [parent for parent in near.parents if not parent.exists()]
    try:
        near.parent.mkdir(parents=True, exist_ok=True)
        folder = Path(tempfile.mkdtemp(dir=near.parent, prefix=f".{near.name}."))
    except OSError as error:
        raise not_writable(f"to {near.parent}", error) from error
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        for parent in created:
            with contextlib.suppress(OSError):
                parent.rmdir()


def refuse_to_overwrite(destination: Destination) -> None:
    """Raise NotWritable, before any work is done, where an earlier run lies in the way."""
    folder = destination.export
    if folder is not None and not destination.force_overwrite and (folder / MANIFEST).exists():
        raise _taken(folder, MANIFEST)


def _taken(folder: Path, files: str) -> NotWritable:
    return NotWritable(f"{folder} already holds {files}", "add -f to replace it, or name another place with -o")


def save_profiles(staged: Path, names: Sequence[str], profiles: Sequence[Profile]) -> list[str]:
    """Save the profiles under these names and return their files' names."""
    files = [f"{slug(name)}.json" for name in names]
    for file, profile in zip(files, profiles, strict=True):
        profile.save(staged / file)
    return files


def finish(
    staged: Path, kernel: str, profiles: Sequence[str], columns: Sequence[str] = (), rows: Sequence[Row] = ()
) -> None:
    """Write the manifest; `profiles` are the names of the saved profiles, the one before first.

    Of a program, the profiles are those in `rows`, from left to right and from top to bottom.
    """
    content: dict[str, Any] = {"kernel": kernel, "profiles": list(profiles)}
    if rows:
        names = iter(profiles)
        named = [[None if profile is None else next(names) for profile in row] for row in rows]
        content |= {"columns": list(columns), "rows": named}
    write_json(staged / MANIFEST, content)


def publish(staged: Path, kernel: str, destination: Destination) -> Path:
    """Move a finished run to its destination and return it.

    By default that is swizzle-out/KERNEL, or the first free of KERNEL-2, KERNEL-3, …: nothing is lost. In a folder
    that was named, existing files are replaced only with `force_overwrite`; raises NotWritable otherwise.
    """
    if destination.export is not None:
        return _move_into(staged, destination.export, destination.force_overwrite)
    number = 1
    while True:
        folder = DEFAULT / (kernel if number == 1 else f"{kernel}-{number}")
        try:
            # A rename onto a folder that is not there or is empty either happens or does not.
            staged.chmod(0o755)
            staged.rename(folder)
            return folder
        except OSError as error:
            if error.errno not in (errno.ENOTEMPTY, errno.EEXIST, errno.ENOTDIR):
                raise not_writable(folder, error) from error
            number += 1


def _move_into(staged: Path, folder: Path, overwrite: bool) -> Path:
    files = sorted(staged.iterdir(), key=lambda file: file.name == MANIFEST)  # the manifest last
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with locked(folder):  # of two runs at once all files are the later one's
            taken = [file.name for file in files if (folder / file.name).exists()]
            if taken and not overwrite:
                raise _taken(folder, ", ".join(taken))
            for file in files:
                file.replace(folder / file.name)
    except OSError as error:
        raise not_writable(f"to {folder}", error) from error
    return folder


def load(folder: Path) -> Run:
    """Read a run back; raise BadFile or DamagedFile."""
    manifest = folder / MANIFEST
    if not manifest.is_file():
        raise BadFile(f"{folder} is not the folder of a run: it has no {MANIFEST}", "ls swizzle-out shows the runs")
    content = read_json(manifest)
    if not isinstance(content, dict) or not isinstance(content.get("kernel"), str):
        raise DamagedFile(f"{manifest} is not whole: it names no kernel", AGAIN)
    names = content.get("profiles")
    if not isinstance(names, list) or not names or not all(isinstance(name, str) and _plain(name) for name in names):
        raise DamagedFile(f"{manifest} is not whole: it lists no profiles", AGAIN)
    columns, rows = _table(content, names, manifest)
    profiles = {name: load_profile(folder / name) for name in names}
    if not rows and all(profile.kernel.name != content["kernel"] for profile in profiles.values()):
        raise DamagedFile(f"{manifest} is not whole: none of its profiles is of {content['kernel']!r}", AGAIN)
    launches = tuple(tuple(profiles[name] if name else None for name in row) for row in rows)
    return Run(content["kernel"], tuple(profiles.values()), launches, columns)


def _table(
    content: dict[str, Any], names: Sequence[str], manifest: Path
) -> tuple[tuple[str, ...], list[list[str | None]]]:
    """Return which launches of a program belong together; nothing for a kernel's run."""
    columns, rows = content.get("columns", []), content.get("rows", [])
    well_formed = (
        isinstance(columns, list)
        and isinstance(rows, list)
        and all(isinstance(column, str) for column in columns)
        and all(isinstance(row, list) and len(row) == len(columns) for row in rows)
    )
    if not well_formed or any(name is not None and name not in names for row in rows for name in row):
        raise DamagedFile(f"{manifest} is not whole: its rows do not fit its profiles", AGAIN)
    return tuple(columns), rows


def _plain(name: str) -> bool:
    """Say whether it is the name of a file in the folder itself: a manifest points nowhere else."""
    return name not in ("", ".", "..") and "/" not in name and "\0" not in name


def load_profile(file: Path) -> Profile:
    """Read a saved profile; raise BadFile or DamagedFile."""
    data = read_bytes(file)
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        raise BadFile(f"{file} cannot be read: {error}", "give a file that ncu-swizzle profile wrote") from error
    try:
        profile = Profile.from_json(text, str(file))
    except (ValueError, LookupError, TypeError, AttributeError, ArithmeticError, RecursionError, MemoryError) as error:
        raise DamagedFile(f"{file} is damaged: {brief(error)}", AGAIN) from error
    mismatch = validate.mismatch(profile)
    if mismatch:
        raise DamagedFile(f"{file} is damaged: {mismatch}", AGAIN)
    return profile
