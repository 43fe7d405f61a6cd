"""The other shapes of a report: Markdown for a pull request, CSV of the instructions."""

import csv
import io
from collections import Counter
from dataclasses import replace

import pytest

from ncu_swizzle.render import formats
from ncu_swizzle.reports import frames
from ncu_swizzle.reports.comparison import compare
from ncu_swizzle.reports.model import KernelId
from tests.support.recordings import Recorded

HOSTILE = "</td><img src=x onerror=alert(1)> | [a](http://x.y) @someone #1 `code` *b*\n# head"


def test_a_table_has_as_many_cells_in_every_row(recorded: Recorded) -> None:
    profile = recorded("kernel1")
    hostile = replace(profile, kernel=KernelId(name=HOSTILE, function=HOSTILE))
    for profiles in ([profile], [hostile, recorded("kernel2")], [profile] * 9):
        block: list[int] = []
        for line in [*formats.render(compare(profiles)).splitlines(), ""]:
            if line.startswith("|"):
                block.append(line.replace("\\|", "").count("|"))
            else:
                assert len(set(block)) <= 1
                block = []


@pytest.mark.long
def test_markdown_fits_a_comment_however_many_profiles(recorded: Recorded) -> None:
    profile = recorded("tma-none")
    many = [
        replace(profile, kernel=KernelId(name=f"{'long-name-' * 12}{number}", function="")) for number in range(300)
    ]
    text = formats.render(compare(many))
    assert len(text.encode()) < 65_536
    assert text.endswith("Truncated to fit; the HTML report has everything.\n")


def test_csv_has_every_instruction_unrounded(recorded: Recorded) -> None:
    profiles = [recorded("kernel1"), recorded("kernel2")]
    rows = list(csv.DictReader(io.StringIO(formats.to_csv(compare(profiles)))))
    assert len(rows) == sum(len(profile.instructions) for profile in profiles)
    for label, profile in zip(("kernel1", "kernel2"), profiles, strict=True):
        own = [row for row in rows if row["profile"] == label]
        assert [row["sass"] for row in own] == [i.sass for i in profile.instructions]
        assert sum(int(row["excessive"] or 0) for row in own) == profile.total.excessive
        samples = sum(sum(i.samples.values()) for i in profile.instructions)
        assert sum(int(row["samples"]) for row in own) == samples
        assert sum(int(row[name]) for row in own for name in row if name.startswith("stall_")) == samples
        assert {row["engine"] for row in own} == {"recorded"}
        assert own[0]["offset"] == "0"
        classes: Counter[str] = Counter()
        for (name, _), executed in frames.count(profile).classes.items():
            classes[name] += executed
        for row in own:
            classes[row["class"]] -= int(row["executed"] or 0)
        assert not any(classes.values()), "the classes are those of the instruction mix"


@pytest.mark.parametrize("count", ["executed", "wavefronts", "ideal"])
def test_an_unknown_count_is_empty_in_csv(recorded: Recorded, count: str) -> None:
    profile = recorded("kernel1")
    bare = replace(profile, instructions=(replace(profile.instructions[0], **{count: None}),))
    (row,) = csv.DictReader(io.StringIO(formats.to_csv(compare([bare]))))
    assert row[count] == ""
