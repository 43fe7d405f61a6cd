"""Arrays that conflict and are not declared in the source that is rewritten: the kernel is not clean."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import PurePath

from ncu_swizzle.fix.excess import of_launch
from ncu_swizzle.fix.result import TileFix
from ncu_swizzle.fix.subject import FixSubject
from ncu_swizzle.source import cuda
from ncu_swizzle.source.arrays import shared_declarations
from ncu_swizzle.source.scopes import Scopes


def elsewhere(subject: FixSubject) -> Iterator[TileFix]:
    """Yield a tile that is not fixed for each array of the binary that conflicts and is not in the source."""
    source = subject.target.source.name
    excess = of_launch(subject.emulated, {array.symbol: array.span for array in subject.unplaced}).moved
    for array in subject.unplaced:
        if left := excess[array.symbol]:
            file, line = _declared(array.name, subject) or (source, 1)
            where = f"it is declared in {file}, and" if file != source else "its declaration was not found, as"
            yield TileFix(
                array.name, line, left, reason=f"{where} only {source} is rewritten", reason_line=line, file=file
            )


def _declared(name: str, subject: FixSubject) -> tuple[str, int] | None:
    """Return file and line of a shared array's declaration, in what the kernel includes."""
    for path, text in subject.emulated.profile.sources.items():
        if "__shared__" not in text or name not in text:
            continue
        file = cuda.parse(text.encode("utf-8", "surrogateescape"), PurePath(path).name)
        for declaration in shared_declarations(Scopes(file)):
            if declaration.name == name:
                return PurePath(path).name, file.line(declaration.declared)
    return None
