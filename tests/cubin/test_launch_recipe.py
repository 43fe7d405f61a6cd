"""Launch recipes: tensor maps of recorded kernels, x86-64 instructions one by one, and what is not followed."""

import re
import struct
from dataclasses import replace

import pytest

from ncu_swizzle.base.errors import NcuSwizzleError
from ncu_swizzle.cubin import launch_recipe
from ncu_swizzle.cubin.elf import Cubin
from ncu_swizzle.cubin.launch_recipe import PARAMETERS, NotFollowed, RecipeMachine
from ncu_swizzle.emulate import tensor_map
from ncu_swizzle.emulate.tensor_map import Tiled
from ncu_swizzle.engines import emulated_launch
from tests.support.python_kernels import launched, recorded

RAGGED = "cutile-matmul-ragged"
HEAP = emulated_launch.HEAP


def cubin(name: str = RAGGED) -> Cubin:
    return Cubin(recorded()[1][name], name)


def test_the_maps_of_a_product_are_of_its_matrices() -> None:
    code = cubin()
    launch = emulated_launch.launch_of(launched(RAGGED), code, code.kernels[0])
    assert len(launch.parameters) == code.attributes(code.kernels[0]).parameter_bytes
    a, b = (tensor_map.decoded_map(launch.parameters[start : start + 128]) for start in (112, 240))  # threads store C
    half = {"data_type": 6, "swizzle": 3, "promotion": 2}
    assert a == Tiled(address=HEAP, sizes=(264, 500), strides=(528,), box=(64, 64), **half)
    assert b is not None
    assert (b.sizes, b.strides, b.box) == ((520, 264), (1040,), (64, 64))
    assert tensor_map.copied_bytes(launch.parameters[112:240]) == 64 * 64 * 2


def test_a_kernel_without_maps_keeps_its_parameters() -> None:
    code = cubin("cutile-copy")
    assert launch_recipe.completed(code, code.kernels[0], bytes(32)) == bytes(32)


# Machine code, and what it leaves in the first parameter if the four begin as 7, 2**63 + 5, 0xfffffff0 and 3. RCX is
# their address.
STEPS = {
    "mov rax, [rcx+8]; mov [rcx], rax": ("48 8b 41 08 48 89 01", 2**63 + 5),
    "mov eax, [rcx+16]; mov [rcx], rax": ("8b 41 10 48 89 01", 0xFFFFFFF0),
    "movsxd rax, [rcx+16]; mov [rcx], rax": ("48 63 41 10 48 89 01", 2**64 - 16),
    "movzx eax, byte [rcx+16]; mov [rcx], rax": ("0f b6 41 10 48 89 01", 0xF0),
    "movsx eax, byte [rcx+16]; mov [rcx], rax": ("0f be 41 10 48 89 01", 0xFFFFFFF0),
    "mov byte [rcx], -1": ("c6 01 ff", 0xFF),
    "mov qword [rcx], -1": ("48 c7 01 ff ff ff ff", 2**64 - 1),
    "movabs rax, 0x3f00000000000000; mov [rcx], rax": ("48 b8 00 00 00 00 00 00 00 3f 48 89 01", 0x3F << 56),
    "add qword [rcx], 4": ("48 83 01 04", 11),
    "sub dword [rcx], 8": ("83 29 08", 0xFFFFFFFF),
    "mov al, 5; and [rcx], al": ("b0 05 20 01", 5),
    "mov rax, [rcx]; imul rax, [rcx+24]; mov [rcx], rax": ("48 8b 01 48 0f af 41 18 48 89 01", 21),
    "imul eax, [rcx], 100; mov [rcx], rax": ("6b 01 64 48 89 01", 700),
    "mov rdx, [rcx+24]; lea rax, [rdx+rdx*4+3]; mov [rcx], rax": ("48 8b 51 18 48 8d 44 92 03 48 89 01", 18),
    "shl qword [rcx], 3": ("48 c1 21 03", 56),
    "mov rdx, [rcx+8]; sar rdx, 1; mov [rcx], rdx": ("48 8b 51 08 48 d1 fa 48 89 11", 2**63 + 2**62 + 2),
    "mov rdx, [rcx+8]; shr rdx, 63; mov [rcx], rdx": ("48 8b 51 08 48 c1 ea 3f 48 89 11", 1),
    "neg qword [rcx]": ("48 f7 19", 2**64 - 7),
    "not dword [rcx]": ("f7 11", 0xFFFFFFF8),
    "inc qword [rcx]; dec qword [rcx]; dec qword [rcx]": ("48 ff 01 48 ff 09 48 ff 09", 6),
    "xor edx, edx; cmp qword [rcx], 7; sete dl; mov [rcx], rdx": ("31 d2 48 83 39 07 0f 94 c2 48 89 11", 1),
    "xor edx, edx; cmp qword [rcx+8], 7; setl dl; mov [rcx], rdx": ("31 d2 48 83 79 08 07 0f 9c c2 48 89 11", 1),
    "xor edx, edx; cmp qword [rcx+8], 7; setb dl; mov [rcx], rdx": ("31 d2 48 83 79 08 07 0f 92 c2 48 89 11", 0),
    "mov eax, 1; test eax, eax; jne +4; add qword [rcx], 1": ("b8 01 00 00 00 85 c0 75 04 48 83 01 01", 7),
    "mov rax, [rcx+24]; cmp rax, 2; cmovg rax, [rcx]": ("48 8b 41 18 48 83 f8 02 48 0f 4f 01 48 89 01", 7),
    "push rbx; mov rbx, [rcx+24]; mov [rcx], rbx; pop rbx": ("53 48 8b 59 18 48 89 19 5b", 3),
    "push 3 by the stack; mov [rsp-8], rcx; mov rax, [rsp-8]; mov [rcx], rax": (
        "48 89 4c 24 f8 48 8b 44 24 f8 48 89 01", PARAMETERS,
    ),
    "xchg rax, [rcx+24] with rax = 9; mov [rcx], rax": ("b8 09 00 00 00 48 87 41 18 48 89 01", 3),
}  # fmt: skip


@pytest.mark.parametrize("name", STEPS)
def test_an_instruction_does_what_an_x86_does(name: str) -> None:
    code, expected = STEPS[name]
    machine = RecipeMachine(bytes.fromhex(code) + b"\xc3", bytearray(struct.pack("<4Q", 7, 2**63 + 5, 0xFFFFFFF0, 3)))
    machine.run()
    assert struct.unpack_from("<Q", machine.parameters)[0] == expected


REFUSED = {
    "eb fe": "it takes over 65,536 instructions",
    "ff 51 30": "it divides, or calls a function",
    "48 89 07": "an address depends on what is not known here",  # RDI
    "48 89 01": "a parameter depends on what is not known here",
    "48 85 c0 74 00": "a branch depends on what is not known here",
    "48 c7 41 20 00 00 00 00": "it reaches memory besides the parameters and its stack",
    "48 c7 41 f8 00 00 00 00": "it reaches memory besides the parameters and its stack",
    "48 8b 05 00 00 00 00": "it reads its own code or constants",
    "0f 05": "is not known here",
    "e8 00 00 00 00": "the instruction 0xe8 is not known here",
    "e9 00 10 00 00": "it jumps out of the function",
    "48 8b": "it ends within an instruction at 0x0",
}


@pytest.mark.parametrize("code", REFUSED)
def test_what_is_not_followed_is_said(code: str) -> None:
    with pytest.raises(NotFollowed, match=re.escape(REFUSED[code])):
        RecipeMachine(bytes.fromhex(code), bytearray(32)).run()


def test_a_recipe_that_is_not_followed_stops_the_launch_and_no_other() -> None:
    code = cubin()
    host = code.section(launch_recipe.SECTION)
    damaged = Cubin(code.data.replace(host, host[:64] + b"\x0f\x05" + host[66:]), code.name)  # its first instruction
    with pytest.raises(NcuSwizzleError, match="is not followed: the instruction 0x0f 0x05 is not known here, at 0x0"):
        launch_recipe.completed(damaged, code.kernels[0], bytes(72))
    other = Cubin(code.data.replace(host, host[:18] + b"\xb7\x00" + host[20:]), code.name)  # AArch64's
    with pytest.raises(NcuSwizzleError, match="is code for EM_AARCH64"):
        launch_recipe.completed(other, code.kernels[0], bytes(72))
    assert replace(code.attributes(code.kernels[0])) == damaged.attributes(code.kernels[0])
