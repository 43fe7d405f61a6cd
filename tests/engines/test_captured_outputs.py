"""What captured launches left in memory on a GPU, against what executing them leaves."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ncu_swizzle.base import cache, codes
from ncu_swizzle.capture.launches import open_launches
from ncu_swizzle.engines import replay
from ncu_swizzle.engines.emulation import EmulationSettings
from ncu_swizzle.engines.replay import ReplaySettings
from ncu_swizzle.reports.model import Profile, violations
from tests.support.captures import changed, recorded
from tests.support.marks import NEEDS_ALL
from tests.support.process import Typed

pytestmark = NEEDS_ALL
COUNTS, BINS = "parameter 0+8", 256


def contents(part: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = part["contents"]
    return found


def left(manifest: dict[str, Any]) -> None:
    """Add what an H100 left: `counting` has it as what the next launch found; nobody looked after the last one."""
    count, permute, again = manifest["launches"]
    for launch, following in ((count, permute), (permute, again), (again, again)):
        found = {part["address"]: contents(part) for part in following["buffers"]}
        launch["outputs"] = [found.get(part["address"], contents(part)) for part in launch["buffers"]]
        launch["outputs"] += [contents(part) for part in launch["variables"]]
    again["outputs"][1] = {"sha256": "", "why": "nobody looked"}


def checked(file: Path, change: Callable[[dict[str, Any]], None] = lambda manifest: None) -> list[Profile]:
    """Return the profiles of `counting` with its outputs, after a change of its manifest."""

    def edit(manifest: dict[str, Any]) -> None:
        left(manifest)
        change(manifest)

    changed(recorded("counting"), file, edit)
    with replay.opened(file, ReplaySettings(emulation=EmulationSettings(check=True))) as launches:
        return launches.profiles()


def test_what_an_h100_left_is_left_here_bit_by_bit(tmp_path: Path) -> None:
    count, permute, again = checked(tmp_path / "x.launches")
    for profile, name in ((count, COUNTS), (permute, "parameter 1")):
        (output,) = profile.checked
        assert (output.name, output.checked, output.elements) == (name, BINS, BINS)
        assert (output.error, output.wrong, output.unknown, output.inexact) == (0.0, "", "", ())
        assert not [*violations(profile)]
    (unknown,) = again.checked
    assert (unknown.checked, unknown.unknown) == (0, f"{BINS} elements: nobody looked")


def test_a_wrong_word_is_named_with_its_writer(tmp_path: Path) -> None:
    def swap(manifest: dict[str, Any]) -> None:
        count, permute, _ = manifest["launches"]
        count["outputs"][1] = contents(count["buffers"][1])  # nothing was counted
        permute["outputs"][0] = contents(count["buffers"][1])  # and what was is gone

    count, permute, _ = checked(tmp_path / "x.launches", swap)
    with open_launches(recorded("counting")) as file:
        right = np.frombuffer(file.memory(file.manifest.launches[1].buffers[0].contents.sha256), np.int32)
    (output,) = count.checked
    first = int(np.flatnonzero(right)[0])
    assert output.wrong.startswith(
        f"{np.count_nonzero(right)} differ from the GPU's: at +{4 * first:#x} is {right[first]:#010x}, not 0x00000000, "
        f"written by thread ({first}, 0, 0) of block "
    )
    assert output.wrong.endswith("counting.cu:30")
    assert [each.code for each in violations(count)] == [codes.WRONG_OUTPUT]
    lost = next(each for each in permute.checked if each.wrong)
    assert lost.wrong.endswith("which nothing has written here")


def test_the_gate_refuses_what_differs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    typed = Typed(tmp_path, monkeypatch, capsys)

    def forget(manifest: dict[str, Any]) -> None:
        left(manifest)
        count = manifest["launches"][0]
        count["outputs"][1] = contents(count["buffers"][1])  # nothing was counted

    changed(recorded("counting"), tmp_path / "x.launches", forget)
    refused = typed("check x.launches --check --max-excessive 1000000")
    assert refused.returncode == 1
    assert "differ from the GPU's" in refused.stdout + refused.stderr
    assert typed("check x.launches --max-excessive 1000000").returncode == 0


def test_of_a_large_buffer_the_digest_is_compared(tmp_path: Path) -> None:
    def leave_out(manifest: dict[str, Any]) -> None:
        _, permute, again = manifest["launches"]
        permute["outputs"][1] = {"sha256": cache.sha256(b""), "why": ""}
        again["buffers"][1]["contents"] = {"sha256": "", "why": "not captured"}

    (_, permute, _) = checked(tmp_path / "x.launches", leave_out)
    (output,) = permute.checked
    assert output.wrong == "it differs from the GPU's, of which the file has only the SHA-256"


def test_a_list_of_launches_says_what_was_compared(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    typed = Typed(tmp_path, monkeypatch, capsys)
    changed(recorded("counting"), tmp_path / "x.launches", left)
    said = " ".join(typed("profile x.launches --check").stdout.split())
    assert "Outputs were compared of 3 of 3 launches; of 2 all are right." in said
    assert "permute #2: output parameter 1 checked, 0 of 256 elements" in said
    (tmp_path / "x.launches").write_bytes(recorded("counting").read_bytes())
    without = " ".join(typed("profile x.launches --check").stdout.split())
    assert "outputs were not checked: the file does not hold what they are after the launch" in without
