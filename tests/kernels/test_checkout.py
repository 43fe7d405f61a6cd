"""Which files a project file may name, whose project file is read, and what of a checkout stands in a profile."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from ncu_swizzle.base.errors import BadCatalog, Untrusted
from ncu_swizzle.gate import checking
from ncu_swizzle.kernels import catalog, naming, project, toolchain
from ncu_swizzle.kernels.nvcc_options import Checkout
from ncu_swizzle.kernels.options import CatalogOptions
from tests.support.own_kernel import KERNEL, description
from tests.support.places import table


def test_the_checkout_is_what_git_says_but_never_the_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    deep = tmp_path / "home" / "work" / "kernels"
    deep.mkdir(parents=True)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    assert Checkout(deep).root == deep
    (tmp_path / "home" / "work" / ".git").mkdir()
    assert Checkout(deep).root == tmp_path / "home" / "work"
    (tmp_path / "home" / "work" / ".git").rmdir()
    (tmp_path / "home" / ".git").mkdir()
    (tmp_path / ".git").mkdir()
    assert Checkout(deep).root == deep


OUTSIDE = table("kernels/descriptions.toml")["outside"]


def test_files_outside_the_checkout_need_trust(checkout: Path) -> None:
    (checkout / "link.cu").symlink_to("../my.cu")
    (checkout / "a=b").mkdir()
    for old, new in OUTSIDE:
        text = KERNEL.replace(old, new, 1)
        assert text != KERNEL
        (checkout / "ncu-swizzle.toml").write_text(text, encoding="utf-8")
        with pytest.raises(Untrusted, match=f"ncu-swizzle.toml.*needs your trust: it is outside {checkout}"):
            naming.everything(start=checkout)
        assert "catalog" in new or naming.everything(CatalogOptions(trust=True), checkout).named("tile"), new


def test_the_command_line_s_own_files_may_be_anywhere(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(checkout)
    described = description(args=("x=../x.npy", "y=float32[n,n]:out", "n"))
    catalog, (names,) = naming.catalog_with(["my.cu"], described)
    assert catalog.named(names[0])[0].arguments[0].fill.endswith("x.npy")


def test_a_baseline_outside_the_checkout_needs_trust(checkout: Path) -> None:
    (checkout / "ncu-swizzle.toml").write_text('[check]\nbaseline = "../private.json"\n', encoding="utf-8")
    with pytest.raises(Untrusted, match=r"\[check\]: baseline: \.\./private\.json needs your trust"):
        checking.settings("", checkout)
    assert checking.settings("", checkout, trust=True).baseline == checkout / "../private.json"


def test_a_family_is_a_project_file_too(toy: Callable[[str, str], Path]) -> None:
    for old, new in (
        ('title = "Toy"', 'title = "Toy"\noptions = ["-ccbin", "/x"]'),
        ('title = "Plain"', 'title = "Plain"\noptions = ["-Xcompiler", "-B."]'),
        ('title = "Plain"', 'title = "Plain"\nfile = "../../../my.cu"'),
        ('shape = ["n", "n"]', 'shape = ["n", "n"]\nfill = "../../../x.npy"'),
    ):
        folder = toy(old, new)
        with pytest.raises(Untrusted, match=r"toy/family\.toml: .*needs your trust"):
            catalog.load(folder)
        assert catalog.load(folder, trust=True).named("toy-plain"), new


def test_headers_are_those_of_a_package_and_looking_for_them_runs_nothing(toy: Callable[[str, str], Path]) -> None:
    for header in ("antigravity.x:y", "numpy:../..", "numpy:..", "numpy:/etc", ":x", "..x"):
        folder = toy('title = "Toy"', f'title = "Toy"\nheaders = ["{header}"]')
        for trust in (True, False):
            with pytest.raises(BadCatalog, match="not PACKAGE:FOLDER"):
                catalog.load(folder, trust=trust)


def test_a_package_s_submodule_would_be_imported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Why `headers` has no dots."""
    (tmp_path / "evil_package").mkdir()
    (tmp_path / "evil_package" / "__init__.py").write_text(f"open({str(tmp_path / 'marker')!r}, 'w')", encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    assert toolchain.locate("evil_package:.")
    assert not (tmp_path / "marker").exists()


def test_a_kernel_s_name_is_a_word_and_no_path(toy: Callable[[str, str], Path]) -> None:
    for name in ("--facts=x", "a/b", "../../x", "", " x", "x\\ny"):
        with pytest.raises(BadCatalog, match="not a valid name"):
            catalog.load(toy('name = "toy-plain"', f'name = "{name}"'))


def test_links_to_private_files_are_not_shown(checkout: Path, toy: Callable[[str, str], Path]) -> None:
    (checkout / "secret.cuh").symlink_to("../secret.cuh")
    (checkout / "near.cuh").write_text("// near\n", encoding="utf-8")
    (checkout / "linked.cuh").symlink_to("near.cuh")
    includes = '#include "secret.cuh"\n#include "linked.cuh"\n#include "../secret.cuh"\n'
    source = checkout / "my.cu"
    source.write_text(includes + source.read_text(encoding="utf-8"), encoding="utf-8")
    texts = naming.everything(start=checkout).named("tile")[0].source_texts()
    assert {"my.cu", "linked.cuh"} == texts.keys()
    folder = toy("", "")
    (folder / "toy" / "secret.cuh").symlink_to(checkout.parent / "secret.cuh")
    os.mkfifo(folder / "toy" / "pipe.cuh")
    texts = catalog.load(folder).named("toy-plain")[0].source_texts()
    assert [*texts] == ["kernels/toy/plain.cu"]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
def test_a_settings_file_of_another_user_is_not_picked_up(checkout: Path) -> None:
    """Anyone can leave one in /tmp."""
    below = checkout / "mine"
    below.mkdir()
    os.chown(checkout / "ncu-swizzle.toml", 12345, 12345)
    with pytest.raises(Untrusted, match="belongs to another user") as refused:
        project.nearest_project(below)
    assert refused.value.hint == f"--config {checkout / 'ncu-swizzle.toml'}, or --config none"
    assert project.project_file(str(checkout / "ncu-swizzle.toml"), below)
    os.chown(below, 12345, 12345)  # now it is that user's checkout, to which we went
    assert project.nearest_project(below)
