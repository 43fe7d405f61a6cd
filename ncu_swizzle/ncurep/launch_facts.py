"""The facts file next to one of our reports (``kernel2.facts.json``): what was launched, on what, from which sources.

The launching program writes it, see `launch.__main__`; the report's size and SHA-256 are added when ncu is done.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ncu_swizzle import digest, paths, validate
from ncu_swizzle.cubin.location import Location
from ncu_swizzle.errors import DamagedFile
from ncu_swizzle.files import AGAIN, read_json, write_json
from ncu_swizzle.validate import Amount, Count


@dataclass(frozen=True)
class Facts:
    """What the launching program recorded; empty for a report that is not ours."""

    content: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def beside(cls, report: Path) -> Facts:
        path = facts_path(report)
        if not path.exists():
            return cls()
        content = read_json(path)
        problem = _wrong_facts(content)
        if problem:
            raise DamagedFile(f"{path} is damaged: {problem}", "profile the kernel again")
        return cls(content)

    def verify(self, report: Path, sha256: str) -> None:
        """Raise DamagedFile if the report's SHA-256, `sha256`, is not the recorded one."""
        sealed = self.content.get("report", {}).get("sha256")
        if sealed and sealed != sha256:
            raise DamagedFile(
                f"{report} was changed: its SHA-256 differs from the one in {facts_path(report).name}",
                AGAIN,
            )

    def relative(self, file: str) -> str:
        """Return a source's path relative to the folder it was compiled from; any other path unchanged."""
        return paths.below(file, self.content.get("source_roots", ()))


# The types of the entries that are read.
_FACTS = {
    **dict.fromkeys(("engine", "kernel", "title", "family", "commit", "digest"), str),
    **dict.fromkeys(("machine", "report"), Mapping[str, str | int]),
    **dict.fromkeys(("source_roots", "notes"), tuple[str, ...]),
    "problem": Mapping[str, Count],
    "sources": Mapping[str, str],
    "errors": Mapping[str, Mapping[str, Amount]],
    # Of kernels that Triton compiled, by the digests of their cubins, see `python_kernels`.
    "callers": Mapping[str, tuple[tuple[Count, tuple[Location, ...]], ...]],
    "ttgir": Mapping[str, str],
    "explicit": tuple[str, ...],
}


def _wrong_facts(content: Any) -> str:
    """Return what is wrong with the content of a facts file; empty if nothing is."""
    if not isinstance(content, dict):
        return "it holds no facts"
    for name, hint in _FACTS.items():
        if name in content and (mismatch := validate.check(hint)(content[name])):
            return f"{name}{mismatch}"
    if content.get("kernel") and not isinstance(content.get("report", {}).get("sha256"), str):
        return "it lacks the report's SHA-256"
    if "digest" in content and content["digest"] != facts_digest(content):
        return "it was changed after it was written"
    return ""


def facts_digest(content: Mapping[str, Any]) -> str:
    """Return the digest of everything in a facts file except the digest itself."""
    digested = {name: value for name, value in content.items() if name != "digest"}
    return digest.sha256_of_json(digested, ascii_only=True)


def seal(report: Path, notes: Sequence[str] = ()) -> None:
    """Complete the facts of a new report with its size and SHA-256, ncu's warnings, and a digest of everything."""
    path = facts_path(report)
    content = read_json(path)
    content["report"] = {"sha256": digest.sha256(report.read_bytes()), "bytes": report.stat().st_size}
    if notes:
        content["notes"] = list(notes)
    write_json(path, {**content, "digest": facts_digest(content)})


def facts_path(report: Path) -> Path:
    return report.with_suffix(".facts.json")
