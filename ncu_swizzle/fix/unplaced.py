"""Arrays that conflict and are not declared in the source that is rewritten: in a header, or by a library."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from ncu_swizzle.fix.excess import of_launch
from ncu_swizzle.fix.result import TileFix
from ncu_swizzle.fix.subject import FixSubject
from ncu_swizzle.source import cuda
from ncu_swizzle.source.arrays import shared_declarations
from ncu_swizzle.source.scopes import Scopes


def unplaced(subject: FixSubject) -> Iterator[TileFix]:
    """Yield the conflicting arrays that the source does not declare, each at the line that includes its header."""
    for array in subject.unplaced:
        excess = of_launch(subject.emulated, {array.name: array.span}).moved[array.name]
        if excess:
            header = _header(subject, array.name)
            named = f"declared in {header}" if header else "not declared"
            reason = f"{array.name} is {named}, and only {subject.target.source.name} is rewritten"
            line = _including(subject, header)
            yield TileFix(array.name, line, excess, reason=reason, reason_line=line)


def _header(subject: FixSubject, name: str) -> str:
    """Return the name of the included file that declares a shared array; empty if none does."""
    for path, text in subject.target.family.included().items():
        content = text.encode("utf-8", "surrogateescape")
        if Path(path).name != subject.target.source.name and b"__shared__" in content and name.encode() in content:
            scopes = Scopes(cuda.parse(content, Path(path).name))
            if any(made.name == name for made in shared_declarations(scopes)):
                return Path(path).name
    return ""


def _including(subject: FixSubject, header: str) -> int:
    """Return the line that includes a header; the first one if none does."""
    file = subject.file
    for node in file.nodes("preproc_include"):
        if header and header in file.of(node):
            return file.line(node)
    return 1
