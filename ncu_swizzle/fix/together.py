"""Files of a fix that are written together: all of them, or none."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence

from ncu_swizzle.errors import NotWritable, UsageError
from ncu_swizzle.files import note_finished, read_bytes, replace, replacing
from ncu_swizzle.fix.sources import ChangedFile


def written_together(files: Sequence[ChangedFile], hint: str) -> None:
    """Write files under temporary names, then rename them; what was renamed before one fails is put back.

    Raises UsageError with the hint if one is no longer what was read, NotWritable if one cannot be written.
    """
    for file in files:
        if read_bytes(file.path) != file.before:
            raise UsageError(f"{file.path} has changed since it was read", hint)
    try:
        with contextlib.ExitStack() as renamed:
            for file in files:
                renamed.enter_context(replacing(file.path)).write(file.after)
    except NotWritable:
        for file in files:
            with contextlib.suppress(NotWritable):
                if read_bytes(file.path) == file.after:
                    replace(file.path, file.before)
        raise
    for file in files:
        note_finished(file.path)
