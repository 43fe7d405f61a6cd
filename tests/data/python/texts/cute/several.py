import cutlass
from cutlass import cute
from cuda.bindings.driver import CUstream


@cute.kernel
def first(x: cute.Tensor):
    thread, _, _ = cute.arch.thread_idx()
    x[thread] = x[thread] * 2


@cute.kernel
def second(x: cute.Tensor):
    thread, _, _ = cute.arch.thread_idx()
    x[thread] = x[thread] + 1


@cute.jit
def both(x: cute.Tensor, stream: CUstream):
    first(x).launch(grid=[1, 1, 1], block=[64, 1, 1], stream=stream)
    second(x).launch(grid=[2, 1, 1], block=[32, 1, 1], stream=stream)
    second(x).launch(grid=[3, 1, 1], block=[32, 1, 1], stream=stream)


@cute.jit
def none(x: cute.Tensor):
    pass


@cute.jit
def broken(x: cute.Tensor):
    first(x, 7).launch(grid=[1, 1, 1], block=[64, 1, 1])


class Doubled:
    def __init__(self, threads):
        self.threads = threads

    @cute.kernel
    def kernel(self, x: cute.Tensor, scale: cutlass.Float32):
        thread, _, _ = cute.arch.thread_idx()
        x[thread] = x[thread] * scale

    @cute.jit
    def __call__(self, x: cute.Tensor, scale: cutlass.Float32):
        self.kernel(x, scale).launch(grid=[8, 1, 1], block=[self.threads, 1, 1], cluster=[2, 1, 1])


doubled = Doubled(64)
