"""CuTe DSL: elementwise, transposes, sums of rows, and products with FMA, ldmatrix and mma, TMA and wgmma.

Tensors are row-major. Layouts of shared memory are constants: ``--before WIDTH=32 --after WIDTH=33`` compares two.
"""

import cutlass
from cutlass import cute
from cutlass.cute.nvgpu import OperandMajorMode, cpasync, warp, warpgroup
from cutlass.tensor_utils import LayoutEnum
from cutlass.utils import SmemAllocator, hopper_helpers

THREADS = 256


@cute.kernel
def scaled_add_kernel(x: cute.Tensor, y: cute.Tensor, z: cute.Tensor, scale: cutlass.Float32, copy: cute.TiledCopy):
    thread, _, _ = cute.arch.thread_idx()
    block, _, _ = cute.arch.block_idx()
    mine = copy.get_slice(thread)
    xs, ys, zs = (mine.partition_S(each[(None, block)]) for each in (x, y, z))
    sums = cute.make_fragment_like(xs)
    sums.store(xs.load() * scale + ys.load())
    cute.autovec_copy(sums, zs)


@cute.jit
def scaled_add(x: cute.Tensor, y: cute.Tensor, z: cute.Tensor, scale: cutlass.Float32):
    """z = scale * x + y, four elements per thread."""
    atom = cute.make_copy_atom(cute.nvgpu.CopyUniversalOp(), x.element_type)
    copy = cute.make_tiled_copy_tv(atom, cute.make_layout(THREADS), cute.make_layout(4))
    tiles = [cute.zipped_divide(each, cute.make_layout(4 * THREADS)) for each in (x, y, z)]
    scaled_add_kernel(*tiles, scale, copy).launch(grid=[cute.size(tiles[0], mode=[1]), 1, 1], block=[THREADS, 1, 1])


@cute.kernel
def transpose_kernel(
    x: cute.Tensor, y: cute.Tensor, layout: cute.ComposedLayout | cute.Layout, tile: cutlass.Constexpr
):
    column, row, _ = cute.arch.thread_idx()
    bx, by, _ = cute.arch.block_idx()
    held = SmemAllocator().allocate_tensor(x.element_type, layout, 16)
    source = cute.local_tile(x, (tile, tile), (by, bx))
    target = cute.local_tile(y, (tile, tile), (bx, by))
    for step in cutlass.range_constexpr(0, tile, 8):
        held[row + step, column] = source[row + step, column]
    cute.arch.sync_threads()
    for step in cutlass.range_constexpr(0, tile, 8):
        target[row + step, column] = held[column, row + step]


@cute.jit
def transpose(x: cute.Tensor, y: cute.Tensor, WIDTH: cutlass.Constexpr = 32):
    """y = x', through a tile with rows of WIDTH elements: 32 conflict, 33 do not."""
    layout = cute.make_layout((32, 32), stride=(WIDTH, 1))
    grid = [x.shape[1] // 32, x.shape[0] // 32, 1]
    transpose_kernel(x, y, layout, 32).launch(grid=grid, block=[32, 8, 1])


@cute.jit
def transpose_swizzled(x: cute.Tensor, y: cute.Tensor, BITS: cutlass.Constexpr = 5):
    """y = x', through a tile whose columns are permuted by Swizzle<BITS,0,5>."""
    plain = cute.make_layout((32, 32), stride=(32, 1))
    layout = cute.make_composed_layout(cute.make_swizzle(BITS, 0, 5), 0, plain)
    grid = [x.shape[1] // 32, x.shape[0] // 32, 1]
    transpose_kernel(x, y, layout, 32).launch(grid=grid, block=[32, 8, 1])


@cute.kernel
def row_sums_kernel(x: cute.Tensor, sums: cute.Tensor, apart: cutlass.Constexpr):
    thread, _, _ = cute.arch.thread_idx()
    row, _, _ = cute.arch.block_idx()
    parts = SmemAllocator().allocate_tensor(cutlass.Float32, cute.make_layout(THREADS, stride=apart), 16)
    total = cutlass.Float32(0.0)
    for column in cutlass.range(thread, x.shape[1], THREADS):
        total += x[row, column]
    parts[thread] = total
    cute.arch.sync_threads()
    for halving in cutlass.range_constexpr(8):
        half = THREADS >> halving + 1
        if thread < half:
            parts[thread] += parts[thread + half]
        cute.arch.sync_threads()
    if thread == 0:
        sums[row] = parts[0]


@cute.jit
def row_sums(x: cute.Tensor, sums: cute.Tensor, APART: cutlass.Constexpr = 1):
    """The sum of every row; the parts of a block's threads are APART elements apart."""
    row_sums_kernel(x, sums, APART).launch(grid=[x.shape[0], 1, 1], block=[THREADS, 1, 1])


@cute.kernel
def sgemm_kernel(
    a: cute.Tensor, b: cute.Tensor, c: cute.Tensor, layouts: cutlass.Constexpr, copy: cute.TiledCopy, mma: cute.TiledMma
):
    thread, _, _ = cute.arch.thread_idx()
    bx, by, _ = cute.arch.block_idx()
    allocator = SmemAllocator()
    held_a = allocator.allocate_tensor(cutlass.Float32, cute.make_layout((128, 8), stride=(1, layouts)), 16)
    held_b = allocator.allocate_tensor(cutlass.Float32, cute.make_layout((128, 8), stride=(1, layouts)), 16)
    tiles_a = cute.local_tile(a, (128, 8), (bx, None))
    tiles_b = cute.local_tile(b, (128, 8), (by, None))
    tile_c = cute.local_tile(c, (128, 128), (bx, by))
    mine = copy.get_slice(thread)
    from_a, from_b = mine.partition_S(tiles_a), mine.partition_S(tiles_b)
    to_a, to_b = mine.partition_D(held_a), mine.partition_D(held_b)
    part = mma.get_slice(thread)
    part_a, part_b, part_c = part.partition_A(held_a), part.partition_B(held_b), part.partition_C(tile_c)
    own_a, own_b, total = mma.make_fragment_A(part_a), mma.make_fragment_B(part_b), mma.make_fragment_C(part_c)
    total.fill(0.0)
    for k in cutlass.range(cute.size(tiles_a, mode=[2])):
        cute.copy(copy, from_a[None, None, None, k], to_a)
        cute.copy(copy, from_b[None, None, None, k], to_b)
        cute.arch.cp_async_commit_group()
        cute.arch.cp_async_wait_group(0)
        cute.arch.sync_threads()
        cute.autovec_copy(part_a, own_a)
        cute.autovec_copy(part_b, own_b)
        cute.gemm(mma, total, own_a, own_b, total)
        cute.arch.sync_threads()
    cute.autovec_copy(total, part_c)


@cute.jit
def sgemm(a: cute.Tensor, b: cute.Tensor, c: cute.Tensor, WIDTH: cutlass.Constexpr = 128):
    """c = a b' in float32: tiles of 128x8, K-major, columns WIDTH elements apart, filled by cp.async of 4 bytes."""
    atom = cute.make_copy_atom(cpasync.CopyG2SOp(), cutlass.Float32, num_bits_per_copy=32)
    copy = cute.make_tiled_copy_tv(atom, cute.make_layout((32, 8), stride=(8, 1)), cute.make_layout((1, 1)))
    permutation = (cute.make_layout((16, 4), stride=(4, 1)), cute.make_layout((16, 4), stride=(4, 1)), None)
    mma = cute.make_tiled_mma(
        cute.nvgpu.MmaUniversalOp(cutlass.Float32), cute.make_layout((16, 16, 1), stride=(16, 1, 0)), permutation
    )
    grid = [a.shape[0] // 128, b.shape[0] // 128, 1]
    sgemm_kernel(a, b, c, WIDTH, copy, mma).launch(grid=grid, block=[THREADS, 1, 1])


@cute.kernel
def tensor_core_kernel(
    a: cute.Tensor,
    b: cute.Tensor,
    c: cute.Tensor,
    layout: cute.ComposedLayout,
    copy: cute.TiledCopy,
    mma: cute.TiledMma,
):
    thread, _, _ = cute.arch.thread_idx()
    bx, by, _ = cute.arch.block_idx()
    allocator = SmemAllocator()
    held_a = allocator.allocate_tensor(a.element_type, layout, 16)
    held_b = allocator.allocate_tensor(b.element_type, layout, 16)
    tiles_a = cute.local_tile(a, (128, 32), (bx, None))
    tiles_b = cute.local_tile(b, (128, 32), (by, None))
    tile_c = cute.local_tile(c, (128, 128), (bx, by))
    mine = copy.get_slice(thread)
    from_a, from_b = mine.partition_S(tiles_a), mine.partition_S(tiles_b)
    to_a, to_b = mine.partition_D(held_a), mine.partition_D(held_b)
    part = mma.get_slice(thread)
    own_a = mma.make_fragment_A(part.partition_A(held_a))
    own_b = mma.make_fragment_B(part.partition_B(held_b))
    part_c = part.partition_C(tile_c)
    total = mma.make_fragment_C(part_c)
    total.fill(0.0)
    load = cute.make_copy_atom(warp.LdMatrix8x8x16bOp(False, 4), a.element_type)
    load_a, load_b = cute.make_tiled_copy_A(load, mma), cute.make_tiled_copy_B(load, mma)
    read_a, read_b = load_a.get_slice(thread), load_b.get_slice(thread)
    shared_a, shared_b = read_a.partition_S(held_a), read_b.partition_S(held_b)
    into_a, into_b = read_a.retile(own_a), read_b.retile(own_b)
    for k in cutlass.range(cute.size(tiles_a, mode=[2])):
        cute.copy(copy, from_a[None, None, None, k], to_a)
        cute.copy(copy, from_b[None, None, None, k], to_b)
        cute.arch.cp_async_commit_group()
        cute.arch.cp_async_wait_group(0)
        cute.arch.sync_threads()
        for step in cutlass.range_constexpr(2):
            cute.copy(load_a, shared_a[None, None, step], into_a[None, None, step])
            cute.copy(load_b, shared_b[None, None, step], into_b[None, None, step])
            cute.gemm(mma, total, own_a[None, None, step], own_b[None, None, step], total)
        cute.arch.sync_threads()
    rounded = cute.make_fragment_like(total, c.element_type)
    rounded.store(total.load().to(c.element_type))
    cute.autovec_copy(rounded, part_c)


@cute.jit
def tensor_core(a: cute.Tensor, b: cute.Tensor, c: cute.Tensor, BITS: cutlass.Constexpr = 2):
    """c = a b' in float16 by mma and ldmatrix, through tiles of 128x32 under Swizzle<BITS,3,3>: 2 suit, 0 conflict."""
    plain = cute.make_layout((8, 32), stride=(32, 1))
    layout = cute.tile_to_shape(cute.make_composed_layout(cute.make_swizzle(BITS, 3, 3), 0, plain), (128, 32), (0, 1))
    atom = cute.make_copy_atom(
        cpasync.CopyG2SOp(cache_mode=cpasync.LoadCacheMode.GLOBAL), a.element_type, num_bits_per_copy=128
    )
    copy = cute.make_tiled_copy_tv(atom, cute.make_layout((32, 4), stride=(4, 1)), cute.make_layout((1, 8)))
    op = warp.MmaF16BF16Op(a.element_type, cutlass.Float32, (16, 8, 16))
    mma = cute.make_tiled_mma(op, cute.make_layout((2, 2, 1)), permutation_mnk=(32, 32, 16))
    grid = [a.shape[0] // 128, b.shape[0] // 128, 1]
    tensor_core_kernel(a, b, c, layout, copy, mma).launch(grid=grid, block=[128, 1, 1])


@cute.kernel
def hopper_kernel(
    map_a: cute.CopyAtom,
    a: cute.Tensor,
    map_b: cute.CopyAtom,
    b: cute.Tensor,
    c: cute.Tensor,
    layout_a: cute.ComposedLayout,
    layout_b: cute.ComposedLayout,
    mma: cute.TiledMma,
    stages: cutlass.Constexpr,
):
    thread, _, _ = cute.arch.thread_idx()
    bx, by, _ = cute.arch.block_idx()
    allocator = SmemAllocator()
    full = allocator.allocate_array(cutlass.Int64, stages)
    held_a = allocator.allocate_tensor(cutlass.Float16, layout_a.outer, 128, swizzle=layout_a.inner)
    held_b = allocator.allocate_tensor(cutlass.Float16, layout_b.outer, 128, swizzle=layout_b.inner)
    tiles_a = cute.local_tile(a, (128, 64), (bx, None))
    tiles_b = cute.local_tile(b, (128, 64), (by, None))
    one = cute.make_layout(1)
    to_a, from_a = cpasync.tma_partition(map_a, 0, one, cute.group_modes(held_a, 0, 2), cute.group_modes(tiles_a, 0, 2))
    to_b, from_b = cpasync.tma_partition(map_b, 0, one, cute.group_modes(held_b, 0, 2), cute.group_modes(tiles_b, 0, 2))
    copied = cute.size_in_bytes(cutlass.Float16, cute.select(layout_a, [0, 1])) + cute.size_in_bytes(
        cutlass.Float16, cute.select(layout_b, [0, 1])
    )
    steps = cute.size(tiles_a, mode=[2])
    warp_number = cute.arch.make_warp_uniform(cute.arch.warp_idx())
    if warp_number == 0:
        with cute.arch.elect_one():
            for stage in cutlass.range_constexpr(stages):
                cute.arch.mbarrier_init(full + stage, 1)
    cute.arch.mbarrier_init_fence()
    cute.arch.sync_threads()
    part = mma.get_slice(thread)
    own_a = mma.make_fragment_A(part.partition_A(held_a))
    own_b = mma.make_fragment_B(part.partition_B(held_b))
    part_c = part.partition_C(cute.local_tile(c, (128, 128), (bx, by)))
    total = cute.make_rmem_tensor(part_c.shape, cutlass.Float32)
    mma.set(warpgroup.Field.ACCUMULATE, False)
    for k in cutlass.range(steps):
        stage, phase = k % stages, k // stages % 2
        if warp_number == 0:
            with cute.arch.elect_one():
                cute.arch.mbarrier_arrive_and_expect_tx(full + stage, copied)
            cute.copy(map_a, from_a[None, k], to_a[None, stage], tma_bar_ptr=full + stage)
            cute.copy(map_b, from_b[None, k], to_b[None, stage], tma_bar_ptr=full + stage)
        cute.arch.mbarrier_wait(full + stage, phase)
        warpgroup.fence()
        for block in cutlass.range_constexpr(cute.size(own_a, mode=[2])):
            cute.gemm(mma, total, own_a[None, None, block, stage], own_b[None, None, block, stage], total)
            mma.set(warpgroup.Field.ACCUMULATE, True)
        warpgroup.commit_group()
        warpgroup.wait_group(0)
        cute.arch.sync_threads()
    rounded = cute.make_fragment_like(total, c.element_type)
    rounded.store(total.load().to(c.element_type))
    cute.autovec_copy(rounded, part_c)


@cute.jit
def hopper(a: cute.Tensor, b: cute.Tensor, c: cute.Tensor, STAGES: cutlass.Constexpr = 4):
    """c = a b' in float16: tensor maps fill swizzled tiles, from which wgmma reads."""
    tiler = (128, 128, 64)
    layout_a = hopper_helpers.make_smem_layout_a(LayoutEnum.ROW_MAJOR, tiler, a.element_type, STAGES)
    layout_b = hopper_helpers.make_smem_layout_b(LayoutEnum.ROW_MAJOR, tiler, b.element_type, STAGES)
    copy = cpasync.CopyBulkTensorTileG2SOp()
    map_a, of_a = cpasync.make_tiled_tma_atom(copy, a, cute.select(layout_a, [0, 1]), (128, 64))
    map_b, of_b = cpasync.make_tiled_tma_atom(copy, b, cute.select(layout_b, [0, 1]), (128, 64))
    k_major = OperandMajorMode.K
    mma = hopper_helpers.make_trivial_tiled_mma(
        a.element_type, b.element_type, k_major, k_major, cutlass.Float32, (1, 1, 1), (64, 128)
    )
    grid = [a.shape[0] // 128, b.shape[0] // 128, 1]
    hopper_kernel(map_a, of_a, map_b, of_b, c, layout_a, layout_b, mma, STAGES).launch(grid=grid, block=[128, 1, 1])
