"""The worked example of CONTRIBUTING.md, followed to the letter in a copy of the catalogue."""

import re
import shutil
import textwrap
from pathlib import Path

from ncu_swizzle.kernels import catalog
from ncu_swizzle.kernels.family import Family, Kernel
from tests.support.places import ROOT


def follow(folder: Path) -> tuple[Family, Kernel]:
    """Add the variant `rotated` to a copy of the catalogue below the folder, and find it there."""
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    entry = textwrap.dedent("\n".join(re.findall(r"^ {7}\S.*$", text, re.MULTILINE)))
    assert 'name = "rotated"' in entry
    file = re.findall(r'^file = "(.*)"$', entry, re.MULTILINE)[0]
    kernels = folder / "kernels"
    shutil.copytree(ROOT / "kernels", kernels)
    kernel2 = (kernels / "attention" / "2_swizzled.cu").read_text(encoding="utf-8")
    copy = kernel2.replace("kernel2", "rotated").replace("layout::XorSwizzle", "layout::AddSwizzle")
    (kernels / "attention" / file).write_text(copy, encoding="utf-8")
    with (kernels / "attention" / "family.toml").open("a", encoding="utf-8") as family_file:
        family_file.write(f"\n{entry}\n")
    return catalog.load(kernels).named("rotated")
