"""What was found of one source, and whether it still holds."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from ncu_swizzle.service.answer import Answer, Row, stamp


@dataclass(frozen=True)
class Seen:
    """The rows of `lines` about a source, the text that they are about, and explanations of its lines so far."""

    text: str
    rows: tuple[Row, ...] = ()
    stamps: tuple[tuple[str, int, int], ...] = ()  # of what it was made from
    declared: Mapping[str, str] = field(default_factory=dict)  # kernels whose launch is declared, and their sources
    error: str = ""
    explained: dict[tuple[str, int], Answer] = field(default_factory=dict)

    @classmethod
    def of(cls, answer: Answer, text: str) -> Seen:
        """Return what an answer says of a text."""
        stamps = tuple((path, time, size) for path, time, size in answer.facts.get("read", ()))
        return cls(text, answer.rows, stamps, answer.facts.get("declared", {}))

    @property
    def lasts(self) -> bool:
        """Whether nothing that it was made from has changed since."""
        return bool(self.stamps) and all(stamp(each[0]) == each for each in self.stamps)

    @property
    def lines(self) -> Sequence[Row]:
        """The rows about lines."""
        return [row for row in self.rows if "line" in row]

    @property
    def kernels(self) -> Sequence[Row]:
        """The rows about whole kernels."""
        return [row for row in self.rows if "function" in row]

    def at(self, number: int) -> Iterator[Row]:
        """Yield the rows about a line, counted from 1."""
        return (row for row in self.lines if row["line"] == number)
