"""The facts file beside a report of ours (``kernel2.facts.json``): what was launched, on what, from which sources.

The program that launches a kernel writes it, see `launch`; the report's size and SHA-256 are added once ncu is done.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ncu_swizzle import paths, validate
from ncu_swizzle.errors import DamagedFile
from ncu_swizzle.files import AGAIN, read_json, write_json


@dataclass(frozen=True)
class Facts:
    """What the program that launched the kernel wrote down; all empty for a report of another origin."""

    content: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def beside(cls, report: Path) -> Facts:
        path = facts_path(report)
        if not path.exists():
            return cls()
        content = read_json(path)
        problem = _wrong_facts(content)
        if problem:
            raise DamagedFile(f"{path} is not whole: {problem}", "profile the kernel again")
        return cls(content)

    def verify(self, report: Path, digest: str) -> None:
        """Raise DamagedFile where the report, of this SHA-256, is not to the byte the one that was made."""
        sealed = self.content.get("report", {}).get("sha256")
        if sealed and sealed != digest:
            raise DamagedFile(
                f"{report} is not the report that was made: its SHA-256 differs from {facts_path(report).name}",
                AGAIN,
            )

    def relative(self, file: str) -> str:
        """Return a source's path below the folder that it was compiled from; a foreign path as it is."""
        return paths.below(file, self.content.get("source_roots", ()))


# What is read of a facts file, by its type.
_FACTS = {
    **dict.fromkeys(("engine", "kernel", "title", "family", "commit", "digest"), str),
    **dict.fromkeys(("machine", "report"), Mapping[str, str | int]),
    **dict.fromkeys(("source_roots", "notes"), tuple[str, ...]),
    "problem": Mapping[str, int],
    "sources": Mapping[str, str],
    "errors": Mapping[str, Mapping[str, float]],
}


def _wrong_facts(content: Any) -> str:
    """Say what is wrong with the content of a facts file; empty where nothing is."""
    if not isinstance(content, dict):
        return "it holds no facts"
    for name, hint in _FACTS.items():
        if name in content and (mismatch := validate.check(hint)(content[name])):
            return f"{name}{mismatch}"
    if content.get("kernel") and not isinstance(content.get("report", {}).get("sha256"), str):
        return "it does not tell the report's SHA-256"
    if "digest" in content and content["digest"] != facts_digest(content):
        return "it was altered after it was written"
    return ""


def facts_digest(content: Mapping[str, Any]) -> str:
    """Return the digest of everything in a facts file but the digest itself."""
    digested = {name: value for name, value in content.items() if name != "digest"}
    return "sha256:" + hashlib.sha256(json.dumps(digested, sort_keys=True).encode()).hexdigest()


def seal(report: Path, notes: Sequence[str] = ()) -> None:
    """Add to the facts beside a new report: its size and SHA-256, what ncu warned of, and a digest of all."""
    path = facts_path(report)
    content = read_json(path)
    content["report"] = {"sha256": sha256(report), "bytes": report.stat().st_size}
    if notes:
        content["notes"] = list(notes)
    write_json(path, {**content, "digest": facts_digest(content)})


def facts_path(report: Path) -> Path:
    return report.with_suffix(".facts.json")


def sha256(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()
