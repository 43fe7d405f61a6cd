"""The folder of one run: reports, profiles, the HTML page, and ``run.json`` that says what belongs to it.

A run is built in a hidden folder beside its place and moved there when it is whole, so that an interrupted one
leaves nothing behind.
"""

from __future__ import annotations

import contextlib
import errno
import json
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ncu_swizzle.errors import BadFile, DamagedFile, NotWritable
from ncu_swizzle.files import ELSEWHERE, read_bytes, write_json
from ncu_swizzle.pairing import Row
from ncu_swizzle.profile import Profile

MANIFEST = "run.json"
DEFAULT = Path("swizzle-out")


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
    made = [parent for parent in near.parents if not parent.exists()]
    try:
        near.parent.mkdir(parents=True, exist_ok=True)
        folder = Path(tempfile.mkdtemp(dir=near.parent, prefix=f".{near.name}."))
    except OSError as error:
        raise NotWritable(f"cannot write to {near.parent}: {error.strerror}", ELSEWHERE) from error
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        for parent in made:
            with contextlib.suppress(OSError):
                parent.rmdir()


def refuse_to_overwrite(export: Path | None, overwrite: bool) -> None:
    """Raise NotWritable, before any work is done, where an earlier run lies in the way."""
    if export is not None and not overwrite and (export / MANIFEST).exists():
        raise _taken(export, MANIFEST)


def _taken(place: Path, files: str) -> NotWritable:
    return NotWritable(f"{place} already holds {files}", "add -f to replace it, or name another place with -o")


def finish(
    staged: Path, kernel: str, profiles: Sequence[str], columns: Sequence[str] = (), rows: Sequence[Row] = ()
) -> None:
    """Write the manifest; `profiles` are the names of the saved profiles, the one before first.

    Of a program, the profiles are those in `rows`, from left to right and from top to bottom.
    """
    content: dict[str, Any] = {"kernel": kernel, "profiles": list(profiles)}
    if rows:
        names = iter(profiles)
        named = [[None if one is None else next(names) for one in row] for row in rows]
        content |= {"columns": list(columns), "rows": named}
    write_json(staged / MANIFEST, content)


def publish(staged: Path, kernel: str, export: Path | None, overwrite: bool) -> Path:
    """Move a finished run to its place and return it.

    Without `export`, that is swizzle-out/KERNEL, or the first free of KERNEL-2, KERNEL-3, …: nothing is lost.
    With it, files that are in the way are replaced only if `overwrite`; raises NotWritable otherwise.
    """
    if export is not None:
        return _move_into(staged, export, overwrite)
    number = 1
    while True:
        place = DEFAULT / (kernel if number == 1 else f"{kernel}-{number}")
        try:
            # A rename onto a folder that is not there or is empty either happens or does not.
            staged.chmod(0o755)
            staged.rename(place)
            return place
        except OSError as error:
            if error.errno not in (errno.ENOTEMPTY, errno.EEXIST, errno.ENOTDIR):
                raise NotWritable(f"cannot write {place}: {error.strerror}", ELSEWHERE) from error
            number += 1


def _move_into(staged: Path, place: Path, overwrite: bool) -> Path:
    files = sorted(staged.iterdir(), key=lambda file: file.name == MANIFEST)  # the manifest last
    try:
        place.mkdir(parents=True, exist_ok=True)
        taken = [file.name for file in files if (place / file.name).exists()]
        if taken and not overwrite:
            raise _taken(place, ", ".join(taken))
        for file in files:
            file.replace(place / file.name)
    except OSError as error:
        raise NotWritable(f"cannot write to {place}: {error.strerror}", ELSEWHERE) from error
    return place


def load(folder: Path) -> Run:
    """Read a run back; raise BadFile or DamagedFile."""
    manifest = folder / MANIFEST
    if not manifest.is_file():
        raise BadFile(f"{folder} is not the folder of a run: it has no {MANIFEST}", "ls swizzle-out shows the runs")
    try:
        content = json.loads(manifest.read_text(encoding="utf-8"))
        kernel, names = str(content["kernel"]), list(content["profiles"])
        columns, rows = tuple(content.get("columns", ())), [list(row) for row in content.get("rows", ())]
        if any(name is not None and name not in names for row in rows for name in row):
            raise ValueError("a row names a profile that is not of the run")
        if any(len(row) != len(columns) for row in rows):
            raise ValueError("a row has not as many profiles as there are columns")
    except (ValueError, KeyError, TypeError) as error:
        raise DamagedFile(f"{manifest} is not whole: {error}", "profile the kernel again") from error
    profiles = {name: load_profile(folder / name) for name in names}
    launches = tuple(tuple(profiles[name] if name else None for name in row) for row in rows)
    return Run(kernel, tuple(profiles.values()), launches, columns)


def load_profile(file: Path) -> Profile:
    """Read a saved profile; raise BadFile or DamagedFile."""
    try:
        text = read_bytes(file).decode()
    except UnicodeDecodeError as error:
        raise BadFile(f"{file} cannot be read: {error}", "give a file that ncu-swizzle profile wrote") from error
    return Profile.from_json(text, str(file))
