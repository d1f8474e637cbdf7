/* Batch normalization on a CPU, forward and backward, for float32, float64, float16
 * and bfloat16; compiled on first use and called through ctypes.
 *
 * Reading and writing memory takes most of the time. So every value is read twice and
 * written once, and:
 *
 * - Two loops do all the work, over blocks of rows and columns, 8 columns at a time: one
 *   sums, one writes. (N, C) and channels_last are one block, with a channel in each
 *   column. If there are few channels, several examples are folded into one row. In
 *   (N, C, S) each channel is a block, and the second reading finds it in the cache.
 *   With running statistics there is one reading, in the order of memory.
 * - Writing begins where summing ended, with what the cache still holds.
 * - A large output is written past the cache, one line of the cache at a time. Otherwise
 *   the cache would read each line before it is overwritten.
 * - The statistics are sums about a pivot near the mean. Eight values are added, pair by
 *   pair, in the dtype of the arithmetic; these sums are added in float64. The mean is
 *   kept as a rounded number and its rest, high and low: (x - high) - low must not become
 *   x - (high + low), so this must never be compiled with -ffast-math.
 * - The backward pass computes in float64, since its terms cancel.
 *
 * How the work is split depends on its size alone: any number of threads gives the same
 * bits.
 *
 * Pairs of sums are called `total` and `product`: in the forward pass the sums of
 * x - pivot and of its square, in the backward pass those of dy and of dy (x - mean).
 */
#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#ifdef __SSE2__
#include <immintrin.h>
#endif

#include "batch_norm_vectors.h"

/* The rows and columns that a loop runs over. Cell `cell` + j holds the parameters of
 * column j. If `same`, all columns share cell `cell`; if `channels` too, row r has cell
 * `cell` + r. `quick`: sums may start in the dtype of the arithmetic. */
typedef struct {
    ptrdiff_t rows, stride, cols, cell;
    int same, quick, channels;
} Block;

/* The parameters of the loops, a cell for each column or channel. */
typedef struct {
    int training, relu, streaming;
    /* Of REAL: the pivot, and y = (x - high - low) scale + shift. */
    void *pivot, *high, *low, *scale, *shift;
    /* dx = (dy - level) factor - (x - mean - rest) tilt = dy factor - x tilt + offset. */
    double *mean, *rest, *level, *factor, *tilt, *offset;
} Cells;

typedef struct {
    ptrdiff_t size, real;
    void (*upcast)(const void *, double *, ptrdiff_t);
    void (*downcast)(const double *, void *, ptrdiff_t);
    void (*fill)(const double *, void *, ptrdiff_t, ptrdiff_t);
    void (*sums)(Block, const void *, const void *, const Cells *, double *, double *);
    void (*write)(Block, const void *, const void *, void *, const Cells *);
} Loops;

/* Flags of a call, and of the kind of result that a loop writes. */
enum { TRAINING = 1, RELU = 2, CHANNELS_LAST = 4, GRADIENT = 8 };

enum { MOST_COLUMNS = 512 };

#define JOIN(name, suffix) name##_##suffix
#define EXPAND(name, suffix) JOIN(name, suffix)
#define NAME(name) EXPAND(name, SUFFIX)
#define SAME(values) (values)

#define REAL float
#define VEC f32
#define MASK i32
#define UPCAST upcast
#define DOWNCAST downcast

#define SUFFIX float32
#define ITEM float
#define STORED f32
#define FROM SAME
#define TO SAME
#include "batch_norm_loops.h"

#define SUFFIX float16
#define ITEM uint16_t
#define STORED u16
#define FROM from_float16
#define TO to_float16
#include "batch_norm_loops.h"

#define SUFFIX bfloat16
#define ITEM uint16_t
#define STORED u16
#define FROM from_bfloat16
#define TO to_bfloat16
#include "batch_norm_loops.h"

#undef REAL
#undef VEC
#undef MASK
#undef UPCAST
#undef DOWNCAST

#define REAL double
#define VEC f64
#define MASK i64
#define UPCAST SAME
#define DOWNCAST SAME

#define SUFFIX float64
#define ITEM double
#define STORED f64
#define FROM SAME
#define TO SAME
#include "batch_norm_loops.h"

/* In the order of the numbers that the caller gives. */
static const Loops *const DTYPES[] = {&loops_float32, &loops_float64, &loops_float16,
                                      &loops_bfloat16};

#include "batch_norm_job.h"

typedef struct {
    ptrdiff_t first, end;
} Range;

static Range bn_channels_of_group(const Job *job, ptrdiff_t group) {
    return job->planes ? (Range){group, group + 1} : (Range){0, job->channels};
}

/* Copy the channels' values to their cells, for every example that is folded into a row;
 * as doubles if `wide`, otherwise in the dtype of the arithmetic. */
static void bn_set_cells(const Job *job, Range range, const double *values, void *cells,
                         int wide) {
    ptrdiff_t size = wide ? (ptrdiff_t)sizeof *values : job->loops->real;
    ptrdiff_t row = job->channels * size, first = range.first, n = range.end - first;
    if (wide && cells != values)
        memcpy((double *)cells + first, values + first, (size_t)(n * size));
    else if (!wide)
        job->loops->fill(values + first, cells, first, n);
    for (ptrdiff_t j = 1; !job->planes && j < job->width / job->channels; j++)
        memcpy((char *)cells + j * row, cells, (size_t)row);
}

/* Round the pivots to the dtype of the arithmetic and copy them to their cells. */
static void bn_set_pivots(const Job *job, Range range) {
    for (ptrdiff_t c = range.first; c < range.end; c++)
        if (job->loops->real == sizeof(float))
            job->pivots[c] = (float)job->pivots[c];
    bn_set_cells(job, range, job->pivots, job->cells.pivot, 0);
}

/* Choose as pivots the means of a few values from all over the batch. There are a power
 * of two of them, so that the pivot of a constant channel is exact. */
static void bn_choose_pivots(const Job *job, ptrdiff_t group) {
    double own[2 * LANES] = {0}, *total = own, *product = own + LANES;
    Range range = bn_channels_of_group(job, group);
    Block block = {1, job->stride, job->run < LANES ? 1 : LANES, group, 1, 0, 0};
    ptrdiff_t each;
    job->loops->fill(own, job->cells.pivot, range.first, 1);
    if (job->planes && job->runs >= SAMPLE) {
        block.rows = SAMPLE;
        block.stride *= job->runs / SAMPLE;
    } else if (job->planes && job->run >= SAMPLE * LANES) {
        block.rows = SAMPLE;
        block.stride = job->run / SAMPLE;
    } else if (!job->planes) {
        block.rows = job->count < SAMPLE ? 1 : SAMPLE;
        block.stride = job->count / block.rows * job->channels;
        block.cols = job->channels;
        total = job->sums, product = total + job->stored;
        memset(total, 0, sizeof *total * 2 * (size_t)job->stored);
    }
    bn_sum_block(job, block, group * job->run, total, product);
    each = block.rows * (job->planes ? block.cols : 1);
    for (ptrdiff_t half = block.cols / 2; job->planes && half > 0; half /= 2)
        for (ptrdiff_t j = 0; j < half; j++)
            total[j] += total[j + half];
    for (ptrdiff_t c = range.first; c < range.end; c++) {
        double sum = total[c - range.first];
        job->pivots[c] = isfinite(sum) ? sum / (double)each : 0;
    }
    bn_set_pivots(job, range);
}

/* Find a channel's mean and variance from its sums about the pivot. Return whether the
 * sums lost digits: the pivot was far off, or they overflowed. */
static inline int bn_find_moments(const Job *job, ptrdiff_t c, double total,
                                  double product) {
    double *mean = job->statistics, *rest = mean + job->channels;
    double *inv_std = rest + job->channels, pivot = job->pivots[c];
    double count = (double)job->count, shift = total / count;
    double var = product / count - shift * shift;
    double sum = pivot + shift, taken = sum - pivot;
    mean[c] = sum;
    rest[c] = (pivot - (sum - taken)) + (shift - taken);
    job->var[c] = var < 0 ? 0 : var;
    inv_std[c] = 1 / sqrt(job->var[c] + job->eps);
    return !(shift * shift <= 4 * var);
}

/* Find the moments of a group's channels. If a channel's sums lost digits, choose its mean
 * as a better pivot: the next pass sums again, in float64. All other channels keep what
 * they have. Return whether there is such a channel. */
static int bn_find_group_moments(const Job *job, Range range, const double *total,
                                 const double *product, int pass) {
    double *again = job->again, any = 0;
    if (pass > 1) {
        for (ptrdiff_t c = range.first; c < range.end; c++)
            if (again[c])
                bn_find_moments(job, c, total[c - range.first], product[c - range.first]);
        return 0;
    }
    for (ptrdiff_t c = range.first; c < range.end; c++) {
        again[c] =
            bn_find_moments(job, c, total[c - range.first], product[c - range.first]);
        any += again[c];
    }
    for (ptrdiff_t c = range.first; any && c < range.end; c++)
        if (again[c] && isfinite(job->statistics[c]))
            job->pivots[c] = job->statistics[c];
    if (any)
        bn_set_pivots(job, range);
    return any != 0;
}

/* Set the cells from which y is computed. */
static void bn_set_affine(const Job *job, Range range) {
    const double *mean = job->statistics, *rest = mean + job->channels;
    const double *inv_std = rest + job->channels;
    double *high = job->high, *low = job->low, *scale = job->scale;
    for (ptrdiff_t c = range.first; c < range.end; c++) {
        high[c] = job->loops->real == sizeof(float) ? (float)mean[c] : mean[c];
        low[c] = mean[c] - high[c] + rest[c];
        scale[c] = inv_std[c] * job->weight[c];
    }
    bn_set_cells(job, range, high, job->cells.high, 0);
    bn_set_cells(job, range, low, job->cells.low, 0);
    bn_set_cells(job, range, scale, job->cells.scale, 0);
    bn_set_cells(job, range, job->bias, job->cells.shift, 0);
}

/* Set the cells of a group for its next loop. Return whether that loop sums; otherwise it
 * writes. `pass` counts the loops that have summed so far. */
static int bn_prepare_forward(const Job *job, ptrdiff_t group, int pass) {
    Range range = bn_channels_of_group(job, group);
    if (pass == 0) {
        bn_choose_pivots(job, group);
        return 1;
    }
    double *sums = bn_merge_pieces(job, group);
    if (bn_find_group_moments(job, range, sums, sums + job->stored, pass))
        return 1;
    bn_set_affine(job, range);
    return 0;
}

/* Return whether float32 can hold a channel's factor; NaN counts as held. */
static inline int bn_fits_float32(double value) {
    return (value != value) | ((fabs(value) > 1e-30) & (fabs(value) < 1e30));
}

static int bn_prepare_backward(const Job *job, ptrdiff_t group, int pass) {
    Range range = bn_channels_of_group(job, group);
    const Cells *cells = &job->cells;
    const double *mean = job->statistics, *rest = mean + job->channels;
    const double *inv_std = rest + job->channels;
    if (pass == 0) {
        if (cells->relu)
            bn_set_affine(job, range);
        bn_set_cells(job, range, mean, cells->mean, 1);
        bn_set_cells(job, range, rest, cells->rest, 1);
        return 1;
    }
    double *total = bn_merge_pieces(job, group) - range.first;
    double *product = total + job->stored, count = (double)job->count;
    for (ptrdiff_t c = range.first; c < range.end; c++) {
        double factor = inv_std[c] * job->weight[c];
        /* With 24 bits its product with a dy is exact in float64: equal dy cancel to 0. */
        if (job->loops->real == sizeof(float) && bn_fits_float32(factor))
            factor = (float)factor;
        cells->factor[c] = factor;
        cells->level[c] = total[c] / count;
        cells->tilt[c] = factor * inv_std[c] * inv_std[c] * product[c] / count;
        cells->offset[c] = mean[c] * cells->tilt[c] - cells->level[c] * factor;
        job->dweight[c] = product[c] * inv_std[c];
        job->dbias[c] = total[c];
    }
    double *wide[] = {cells->factor, cells->level, cells->tilt, cells->offset};
    for (int i = 0; i < 4; i++)
        bn_set_cells(job, range, wide[i], wide[i], 1);
    return 0;
}

/* Return whether the arithmetic's dtype can hold every channel's factors. */
static int bn_float32_suffices(const Job *job) {
    const double *inv_std = job->statistics + 2 * job->channels;
    int bad = 0;
    for (ptrdiff_t c = 0; c < job->channels && job->loops->real == sizeof(float); c++)
        bad |= !bn_fits_float32(inv_std[c]) | (inv_std[c] > 1e15) |
               ((job->weight[c] != 0) & !bn_fits_float32(inv_std[c] * job->weight[c]));
    return !bad;
}

/* Update running statistics: move them by `momentum` towards the batch's. */
static void bn_update_running(const Job *job, const Loops *dtype, void *running,
                              double momentum, const double *batch, double factor) {
    double *values = job->running;
    dtype->upcast(running, values, job->channels);
    for (ptrdiff_t c = 0; c < job->channels; c++)
        values[c] = (1 - momentum) * values[c] + momentum * (batch[c] * factor);
    dtype->downcast(values, running, job->channels);
}

/* Normalise x into y. In training use the batch's statistics and update the running ones;
 * otherwise use the running ones. `statistics`, if not NULL, receives the mean, its rest
 * and 1 / sqrt(var + eps), one row each. Unless the result is DONE, no running statistics
 * have changed. */
int batch_norm_forward(const Call *call, const void *x, void *y, void *mean, void *var,
                       const void *weight, const void *bias, double *statistics,
                       double momentum, double eps) {
    Job job = bn_plan(call);
    job.x = x;
    job.out = y;
    job.eps = eps;
    job.statistics = statistics;
    void *memory = bn_allocate(&job, call, weight, bias);
    if (!memory)
        return NO_MEMORY;
    const Loops *means = DTYPES[call->dtypes[MEAN]], *vars = DTYPES[call->dtypes[VAR]];
    double *inv_std = job.statistics + 2 * job.channels, count = (double)job.count;
    if (!job.cells.training) {
        means->upcast(mean, job.statistics, job.channels);
        vars->upcast(var, inv_std, job.channels);
        for (ptrdiff_t c = 0; c < job.channels; c++) {
            job.statistics[job.channels + c] = 0;
            inv_std[c] = 1 / sqrt(inv_std[c] + eps);
        }
        bn_set_affine(&job, (Range){0, job.channels});
        /* The end of one row and the start of the next share a line of the cache, which
         * is then never written as a whole. */
        if (job.planes && job.run * job.loops->size % LINE != 0)
            job.cells.streaming = 0;
        bn_write_without_sums(&job);
    } else
        bn_run_passes(&job, bn_prepare_forward);
    int status = bn_float32_suffices(&job) ? DONE : OUT_OF_RANGE;
    if (status == DONE && mean && job.cells.training) {
        bn_update_running(&job, means, mean, momentum, job.statistics, 1);
        bn_update_running(&job, vars, var, momentum, job.var, count / (count - 1));
    }
    free(memory);
    return status;
}

/* Write the gradients with respect to x and, unless they are NULL, weight and bias. */
int batch_norm_backward(const Call *call, const void *x, const void *dy, void *dx,
                        const void *weight, const void *bias, double *statistics,
                        void *dweight, void *dbias) {
    Job job = bn_plan(call);
    job.x = x;
    job.dy = dy;
    job.out = dx;
    job.statistics = statistics;
    void *memory = bn_allocate(&job, call, weight, bias);
    if (!memory)
        return NO_MEMORY;
    bn_run_passes(&job, bn_prepare_backward);
    if (dweight)
        DTYPES[call->dtypes[WEIGHT]]->downcast(job.dweight, dweight, job.channels);
    if (dbias)
        DTYPES[call->dtypes[BIAS]]->downcast(job.dbias, dbias, job.channels);
    free(memory);
    return DONE;
}
