"""The Triton kernels: the work of each program of a launch.

Two layouts share the code. Rows are a matrix whose columns belong to channels: 2-D
input and channels_last. Planes are (N, C, S): a channel has N runs of S values. A
program works on tiles of TILE values, WIDTH across. Its block is WIDTH columns of rows,
or one channel of planes; values per channel have shape (1, WIDTH), or are one number.

Values are float32, minus the mean of their tile; sums and merges of tiles are float64.
So neither a large mean nor a long channel nor an outlier costs digits. (Values above
1e35 overflow in a tile's mean.)
"""

import triton
import triton.language as tl

TILE = tl.constexpr(2048)
#: The parts and channels of one merging step: more would not fit in the registers.
PARTS, GROUP = tl.constexpr(256), tl.constexpr(4)


@triton.jit
def _place(
    tile, block, height, channels, units,
    UNIT: tl.constexpr, WIDTH: tl.constexpr, PLANES: tl.constexpr,
):  # fmt: skip
    """Return a tile's offsets, which of them exist, and each channel's count."""
    HEIGHT: tl.constexpr = TILE // WIDTH
    # The compiler must see a multiple of UNIT, or it loads values one by one.
    width = units * UNIT
    across = tl.cdiv(width, WIDTH) if PLANES else 1
    top = (tile // across) * HEIGHT
    left = (tile % across if PLANES else block) * WIDTH
    row = top + tl.arange(0, HEIGHT)[:, None]
    column = left + tl.arange(0, WIDTH)[None, :]
    count = tl.maximum(tl.minimum(height - top, HEIGHT), 0)
    start = row.to(tl.int64)
    if PLANES:
        start = start * channels + block
        count *= tl.minimum(width - left, WIDTH)
    return start * width + column, (row < height) & (column < width), count


@triton.jit
def _columns(
    block, channels, units,
    UNIT: tl.constexpr, WIDTH: tl.constexpr, PLANES: tl.constexpr,
):  # fmt: skip
    """Return a block's places in a row of columns, which exist, and the row's length.

    Folded rows hold several pixels, so each channel comes several times: column %
    channels.
    """
    if PLANES:
        column, width = block, channels
    else:
        column = block * WIDTH + tl.arange(0, WIDTH)[None, :]
        width = units * UNIT
    return column, column < width, width


@triton.jit
def _zeros(WIDTH: tl.constexpr, PLANES: tl.constexpr):
    """Return a float64 zero for each channel of a block."""
    return tl.full((), 0.0, tl.float64) if PLANES else tl.zeros((1, WIDTH), tl.float64)


@triton.jit
def _total(values, PLANES: tl.constexpr):
    """Sum a tile over the values of each channel."""
    return tl.sum(tl.sum(values, 1), 0) if PLANES else tl.sum(values, 0, keep_dims=True)


@triton.jit
def sum_values(
    x, partial, height, channels, units,
    UNIT: tl.constexpr, WIDTH: tl.constexpr, PLANES: tl.constexpr, TILES: tl.constexpr,
):  # fmt: skip
    """Store count, mean and sum of squared deviations of TILES tiles of a block."""
    block, split = tl.program_id(0), tl.program_id(1)
    column, inside, width = _columns(block, channels, units, UNIT, WIDTH, PLANES)
    mean, squares = _zeros(WIDTH, PLANES), _zeros(WIDTH, PLANES)
    total = 0
    for i in range(TILES):
        tile = split * TILES + i
        place, exists, count = _place(
            tile, block, height, channels, units, UNIT, WIDTH, PLANES
        )
        values = tl.load(x + place, exists, 0.0).to(tl.float32)
        some = tl.maximum(count, 1).to(tl.float32)
        # The pivot is near the mean and a float32: subtracting it is exact nearby.
        pivot = _total(values, PLANES) / some
        deviation = tl.where(exists, values - pivot, 0.0)
        # In a constant channel these are units of the last place, so the sum is exact.
        # Not a second division: it needs a stack on some GPUs.
        rest = _total(deviation, PLANES).to(tl.float64) * (1.0 / some.to(tl.float64))
        # Squares of float32 overflow from 1e19 on.
        wide = deviation.to(tl.float64)
        spread = _total(wide * wide, PLANES)
        # Chan's merge of two samples.
        total += count
        share = count.to(tl.float64) / total
        step = pivot + rest - mean
        mean += share * step
        squares += spread - count * rest * rest + share * (total - count) * step * step
    row = tl.num_programs(1) * width
    at = partial + split * width + column
    tl.store(at, _zeros(WIDTH, PLANES) + total, inside)
    tl.store(at + row, mean, inside)
    tl.store(at + 2 * row, squares, inside)


@triton.jit
def _merge(partial, parts, channels, channel, inside, CHUNKS: tl.constexpr):
    """Return count, mean and variance of a group of channels, from all their parts."""
    row = parts * channels
    count = tl.zeros((GROUP,), tl.float64)
    mean = tl.zeros((GROUP,), tl.float64)
    for i in range(CHUNKS):
        part = i * PARTS + tl.arange(0, PARTS)[:, None]
        exists = (part < parts) & inside[None, :]
        at = partial + part * channels + channel[None, :]
        counts = tl.load(at, exists, 0.0)
        count += tl.sum(counts, 0)
        mean += tl.sum(counts * tl.load(at + row, exists, 0.0), 0)
    count = tl.where(inside, count, 2.0)
    mean /= count
    squares = tl.zeros((GROUP,), tl.float64)
    for i in range(CHUNKS):
        part = i * PARTS + tl.arange(0, PARTS)[:, None]
        exists = (part < parts) & inside[None, :]
        at = partial + part * channels + channel[None, :]
        step = tl.load(at + row, exists, 0.0) - mean[None, :]
        own = tl.load(at + 2 * row, exists, 0.0)
        squares += tl.sum(own + tl.load(at, exists, 0.0) * step * step, 0)
    return count, mean, squares / count


@triton.jit
def _store(pointer, values, inside):
    """Store float64 in the pointer's dtype, half precision by way of float32."""
    if pointer.dtype.element_ty != tl.float64:
        values = values.to(tl.float32)
    tl.store(pointer, values, inside)


@triton.jit
def finish_statistics(
    partial, statistics, running_mean, running_var, parts, channels,
    momentum: tl.float64, eps: tl.float64,
    TRAINING: tl.constexpr, CHUNKS: tl.constexpr,
):  # fmt: skip
    """Store the mean and 1 / sqrt(var + eps) of channels; update running ones."""
    channel = tl.program_id(0) * GROUP + tl.arange(0, GROUP)
    inside = channel < channels
    if running_mean is not None:
        old_mean = tl.load(running_mean + channel, inside, 0.0).to(tl.float64)
        old_var = tl.load(running_var + channel, inside, 1.0).to(tl.float64)
    if TRAINING:
        count, mean, var = _merge(partial, parts, channels, channel, inside, CHUNKS)
        if running_mean is not None:
            unbiased = var * (count / (count - 1))
            new_mean = (1 - momentum) * old_mean + momentum * mean
            new_var = (1 - momentum) * old_var + momentum * unbiased
            _store(running_mean + channel, new_mean, inside)
            _store(running_var + channel, new_var, inside)
    else:
        mean, var = old_mean, old_var
    inv_std = 1.0 / tl.sqrt(tl.where(inside, var, 1.0) + eps)
    tl.store(statistics + channel, mean, inside)
    # The rest of the mean beyond float64 is 0, because values are narrower.
    tl.store(statistics + channels + channel, tl.zeros((GROUP,), tl.float64), inside)
    tl.store(statistics + 2 * channels + channel, inv_std, inside)


@triton.jit
def _coefficients(statistics, weight, bias, channels, channel, inside):
    """Return the mean as a float32, a scale and a shift: y = (x - high) scale + shift.

    The shift contains `low`, the rest of the mean beyond float32; it is returned too.
    """
    mean = tl.load(statistics + channel, inside, 0.0)
    inv_std = tl.load(statistics + 2 * channels + channel, inside, 0.0)
    high = mean.to(tl.float32)
    low = mean - high
    scale = inv_std
    if weight is not None:
        scale *= tl.load(weight + channel, inside, 0.0).to(tl.float64)
    shift = -low * scale
    if bias is not None:
        shift += tl.load(bias + channel, inside, 0.0).to(tl.float64)
    return high, low, inv_std, scale.to(tl.float32), shift.to(tl.float32)


@triton.jit
def normalise(
    x, y, statistics, weight, bias, height, channels, units, blocks,
    UNIT: tl.constexpr, WIDTH: tl.constexpr, PLANES: tl.constexpr, RELU: tl.constexpr,
):  # fmt: skip
    """Write one tile of y."""
    # Write the last tile first: it was read last and may still be in the cache.
    program = tl.num_programs(0) - 1 - tl.program_id(0)
    tile, block = program // blocks, program % blocks
    column, inside, _ = _columns(block, channels, units, UNIT, WIDTH, PLANES)
    high, _, _, scale, shift = _coefficients(
        statistics, weight, bias, channels, column % channels, inside
    )
    place, exists, _ = _place(tile, block, height, channels, units, UNIT, WIDTH, PLANES)
    values = tl.load(x + place, exists, 0.0).to(tl.float32)
    result = (values - high) * scale + shift
    if RELU:
        # Not maximum, which would turn NaN into 0.
        result = tl.where(result < 0, 0.0, result)
    tl.store(y + place, result, exists)


@triton.jit
def sum_gradients(
    dy, x, partial, statistics, weight, bias, height, channels, units,
    UNIT: tl.constexpr, WIDTH: tl.constexpr, PLANES: tl.constexpr,
    RELU: tl.constexpr, TILES: tl.constexpr,
):  # fmt: skip
    """Store the sums of dy and of dy x_hat over TILES tiles of a block."""
    block, split = tl.program_id(0), tl.program_id(1)
    column, inside, width = _columns(block, channels, units, UNIT, WIDTH, PLANES)
    high, low, inv_std, scale, shift = _coefficients(
        statistics, weight, bias, channels, column % channels, inside
    )
    sum_dy, product = _zeros(WIDTH, PLANES), _zeros(WIDTH, PLANES)
    for i in range(TILES):
        tile = split * TILES + i
        place, exists, _ = _place(
            tile, block, height, channels, units, UNIT, WIDTH, PLANES
        )
        upstream = tl.load(dy + place, exists, 0.0).to(tl.float32)
        deviation = tl.load(x + place, exists, 0.0).to(tl.float32) - high
        if RELU:
            upstream = tl.where(deviation * scale + shift <= 0, 0.0, upstream)
        sum_dy += _total(upstream.to(tl.float64), PLANES)
        product += _total((upstream * deviation).to(tl.float64), PLANES)
    at = partial + split * width + column
    tl.store(at, sum_dy, inside)
    product = (product - low * sum_dy) * inv_std
    tl.store(at + tl.num_programs(1) * width, product, inside)


@triton.jit
def finish_gradients(
    partial, sums, grad_weight, grad_bias, parts, channels, CHUNKS: tl.constexpr
):
    """Add up all parts of a group of channels: the gradients of weight and bias."""
    channel = tl.program_id(0) * GROUP + tl.arange(0, GROUP)
    inside = channel < channels
    sum_dy = tl.zeros((GROUP,), tl.float64)
    product = tl.zeros((GROUP,), tl.float64)
    for i in range(CHUNKS):
        part = i * PARTS + tl.arange(0, PARTS)[:, None]
        exists = (part < parts) & inside[None, :]
        at = partial + part * channels + channel[None, :]
        sum_dy += tl.sum(tl.load(at, exists, 0.0), 0)
        product += tl.sum(tl.load(at + parts * channels, exists, 0.0), 0)
    tl.store(sums + channel, sum_dy, inside)
    tl.store(sums + channels + channel, product, inside)
    if grad_weight is not None:
        _store(grad_weight + channel, product, inside)
    if grad_bias is not None:
        _store(grad_bias + channel, sum_dy, inside)


@triton.jit
def differentiate(
    dy, x, dx, sums, statistics, weight, bias, size, height, channels, units, blocks,
    UNIT: tl.constexpr, WIDTH: tl.constexpr, PLANES: tl.constexpr,
    RELU: tl.constexpr, TRAINING: tl.constexpr,
):  # fmt: skip
    """Write one tile of dx = scale (dy - mean of dy - x_hat (mean of dy x_hat))."""
    program = tl.num_programs(0) - 1 - tl.program_id(0)
    tile, block = program // blocks, program % blocks
    column, inside, _ = _columns(block, channels, units, UNIT, WIDTH, PLANES)
    channel = column % channels
    high, low, inv_std, scale, shift = _coefficients(
        statistics, weight, bias, channels, channel, inside
    )
    place, exists, _ = _place(tile, block, height, channels, units, UNIT, WIDTH, PLANES)
    upstream = tl.load(dy + place, exists, 0.0).to(tl.float32)
    if RELU or TRAINING:
        deviation = tl.load(x + place, exists, 0.0).to(tl.float32) - high
    if RELU:
        upstream = tl.where(deviation * scale + shift <= 0, 0.0, upstream)
    if TRAINING:
        mean = tl.load(sums + channel, inside, 0.0) / size
        product = tl.load(sums + channels + channel, inside, 0.0) / size
        slope = product * inv_std
        centre = mean.to(tl.float32)
        rest = (mean - centre - low * slope).to(tl.float32)
        upstream = (upstream - centre) - rest - deviation * slope.to(tl.float32)
    tl.store(dx + place, upstream * scale, exists)
