"""Where an emulation has memory that a launch does not name, in addresses that no process has.

They are beyond the 47 bits in which a process has its memory: a captured launch has the addresses of a real one.
"""

STACK_TOP = 0x00FFFDC0  # the end of local memory, which c[0x0][0x28] holds
SHARED_WINDOW = 0x00008001  # the upper halves of generic addresses, of shared and of local memory
LOCAL_WINDOW = 0x00008002
PARAMETER_WINDOW = 0x00008003_00000000  # generic address of constant bank 0, whose parameters a kernel may point to
# Of the first function that the driver supplies; its lower half is beyond the end of any kernel.
EXTERNALS = 0x8005_F000_0000
LOW = 0xFFFFFFFF  # the half of an address that indirect jumps are followed by
