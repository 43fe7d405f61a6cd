"""Commands that take a launches file or a user's own kernels, but for what their command lines say."""

import json
from pathlib import Path

import pytest

from ncu_swizzle.kernels.toolchain import Toolchain
from tests.support.captures import recorded
from tests.support.marks import NEEDS_ALL
from tests.support.places import PROGRAMS
from tests.support.process import Command, Done

pytestmark = pytest.mark.usefixtures("launches_files")


@pytest.mark.long
@NEEDS_ALL
def test_a_pull_request_that_brings_a_conflict_back_fails(command: Command, tmp_path: Path) -> None:
    text = (PROGRAMS / "driver.cu").read_text(encoding="utf-8")

    def judged(old: str, new: str, job: str = "check") -> Done:
        (tmp_path / "driver.cu").write_text(text.replace(old, new), encoding="utf-8")
        unit = f'#include "{tmp_path / "driver.cu"}"\n'
        (tmp_path / "new.cubin").write_bytes(Toolchain().compile(unit, ["-lineinfo"], "sm_90", []))
        return command(job, "driver.launches", "--cubin", "new.cubin")

    good = judged("threadIdx.x * strides.row", "threadIdx.x * 33")
    assert good.returncode == 0, good.stdout + good.stderr
    bad = judged("threadIdx.x * strides.row", "threadIdx.x * 32")
    assert bad.returncode == 1
    assert "(driver.cu:27)" in bad.stdout
    other = judged("char odd,", "int odd,")
    assert other.returncode == 2
    assert "the parameters of columns changed" in other.stderr
    assert "the parameters of columns changed" in judged("char odd,", "int odd,", job="lint").stderr


@pytest.mark.long
@NEEDS_ALL
def test_cubins_can_be_named(command: Command, tmp_path: Path) -> None:
    from ncu_swizzle.capture.launches import open_launches

    with open_launches(recorded("driver")) as file:
        (tmp_path / "new.cubin").write_bytes(file.cubin(next(iter(file.manifest.cubins))))
    done = command("profile", "driver.launches", "--cubin", "new.cubin", "--json", "-")
    same = command("profile", "driver.launches", "--json", "-")
    assert json.loads(done.stdout)["kernels"] == json.loads(same.stdout)["kernels"]
