/* Batch normalization on a CPU, forward and backward, for float32, float64, float16
 * and bfloat16; compiled on first use and called through ctypes.
 *
 * Memory is what it costs. So every value is read twice and written once, and:
 *
 * - all work is two loops over blocks of rows and columns, 8 columns at a time: one
 *   takes sums, one writes. (N, C) and channels_last are one block with a channel a
 *   column; few channels are folded: a row holds several examples then. Of (N, C, S)
 *   every channel is a block, and its second reading finds it in the cache; with
 *   running statistics there is one reading, in the order of memory;
 * - writing begins where summing ended, with what the cache still holds;
 * - a large output is written past the cache, which else would first read it, and a line
 *   of the cache at a time;
 * - the statistics are sums about a pivot near the mean: eight values, pair by pair,
 *   in the dtype of the arithmetic, and those sums in float64. The mean is a rounded
 *   number and the rest, high and low: (x - high) - low must not become
 *   x - (high + low), so never compile this with -ffast-math;
 * - the backward pass computes in float64, since its terms cancel.
 *
 * Work is cut by size alone: any number of threads gives the same bits.
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

/* Rows and columns that a loop runs over. The parameters of column j are in cell
 * `cell` + j or, if all columns have the same, in `cell`, which is another one for
 * each row if they are planes of `channels` that follow each other. `quick`: sums may
 * start in the dtype of the arithmetic. */
typedef struct {
    ptrdiff_t rows, stride, cols, cell;
    int same, quick, channels;
} Block;

typedef struct {
    int training, relu, streaming;
    /* Of REAL: the pivot, and y = (x - high - low) scale + shift. */
    void *pivot, *high, *low, *scale, *shift;
    /* dx = (dy - level) factor - (x - mean - rest) tilt = dy factor - x tilt + offset. */
    double *mean, *rest, *level, *factor, *tilt, *offset;
} Cells;

typedef struct {
    ptrdiff_t size, real;
    void (*widen)(const void *, double *, ptrdiff_t);
    void (*narrow)(const double *, void *, ptrdiff_t);
    void (*fill)(const double *, void *, ptrdiff_t, ptrdiff_t);
    void (*sums)(Block, const void *, const void *, const Cells *, double *, double *);
    void (*write)(Block, const void *, const void *, void *, const Cells *);
} Loops;

/* Flags of a call, and of what a loop writes. */
enum { TRAINING = 1, RELU = 2, CHANNELS_LAST = 4, GRADIENT = 8 };

enum { MOST_COLUMNS = 512 };

#define JOIN(name, suffix) name##_##suffix
#define EXPAND(name, suffix) JOIN(name, suffix)
#define NAME(name) EXPAND(name, SUFFIX)
#define SAME(values) (values)

#define REAL float
#define VEC f32
#define MASK i32
#define WIDE widen
#define NARROW narrow

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
#undef WIDE
#undef NARROW

#define REAL double
#define VEC f64
#define MASK i64
#define WIDE SAME
#define NARROW SAME

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

static Range channels_of(const Job *job, ptrdiff_t group) {
    return job->planes ? (Range){group, group + 1} : (Range){0, job->channels};
}

/* Give the channels' values to their cells. */
static void set(const Job *job, Range range, const double *values, void *cells, int wide) {
    ptrdiff_t size = wide ? (ptrdiff_t)sizeof *values : job->loops->real;
    ptrdiff_t row = job->channels * size, first = range.first, n = range.end - first;
    if (wide && cells != values)
        memcpy((double *)cells + first, values + first, n * size);
    else if (!wide)
        job->loops->fill(values + first, cells, first, n);
    for (ptrdiff_t j = 1; !job->planes && j < job->width / job->channels; j++)
        memcpy((char *)cells + j * row, cells, row);
}

/* Set the pivots in `cells.mean`, rounded to the dtype of the arithmetic. */
static void set_pivots(const Job *job, Range range) {
    for (ptrdiff_t c = range.first; c < range.end; c++)
        if (job->loops->real == sizeof(float))
            job->cells.mean[c] = (float)job->cells.mean[c];
    set(job, range, job->cells.mean, job->cells.pivot, 0);
}

/* Take for pivots the means of a few values from all over the batch. Their numbers
 * are powers of two, so that a constant channel's is exact. */
static void choose_pivots(const Job *job, ptrdiff_t group) {
    double own[2 * LANES] = {0}, *s = own, *q = own + LANES;
    Range range = channels_of(job, group);
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
        s = job->sums, q = s + job->stored;
        memset(s, 0, sizeof *s * 2 * job->stored);
    }
    sum_block(job, block, group * job->run, s, q);
    each = block.rows * (job->planes ? block.cols : 1);
    for (ptrdiff_t half = block.cols / 2; job->planes && half > 0; half /= 2)
        for (ptrdiff_t j = 0; j < half; j++)
            s[j] += s[j + half];
    for (ptrdiff_t c = range.first; c < range.end; c++) {
        double sum = s[c - range.first];
        job->cells.mean[c] = isfinite(sum) ? sum / each : 0;
    }
    set_pivots(job, range);
}

/* Find a channel's mean and variance from its sums about the pivot. Say whether these
 * have no digits to spare: the pivot was far off, or they overflowed. */
static inline int find_moments(const Job *job, ptrdiff_t c, double s, double q) {
    double *mean = job->statistics, *rest = mean + job->channels;
    double *inv_std = rest + job->channels, pivot = job->cells.mean[c];
    double shift = s / job->count, var = q / job->count - shift * shift;
    double sum = pivot + shift, taken = sum - pivot;
    mean[c] = sum;
    rest[c] = (pivot - (sum - taken)) + (shift - taken);
    job->var[c] = var < 0 ? 0 : var;
    inv_std[c] = 1 / sqrt(job->var[c] + job->eps);
    return !(shift * shift <= 4 * var);
}

/* Find all. Of a channel with no digits to spare sums are taken once again, in float64
 * and about a better pivot; the others keep what they have. Say whether there is any. */
static int find_all_moments(const Job *job, Range range, const double *s, const double *q,
                            int pass) {
    double *again = job->cells.factor, any = 0;
    if (pass > 1) {
        for (ptrdiff_t c = range.first; c < range.end; c++)
            if (again[c])
                find_moments(job, c, s[c - range.first], q[c - range.first]);
        return 0;
    }
    for (ptrdiff_t c = range.first; c < range.end; c++) {
        again[c] = find_moments(job, c, s[c - range.first], q[c - range.first]);
        any += again[c];
    }
    for (ptrdiff_t c = range.first; any && c < range.end; c++)
        if (again[c] && isfinite(job->statistics[c]))
            job->cells.mean[c] = job->statistics[c];
    if (any)
        set_pivots(job, range);
    return any != 0;
}

/* Set what y is made with. */
static void set_affine(const Job *job, Range range) {
    const double *mean = job->statistics, *rest = mean + job->channels;
    const double *inv_std = rest + job->channels;
    double *high = job->cells.level, *low = job->cells.tilt, *scale = job->cells.offset;
    for (ptrdiff_t c = range.first; c < range.end; c++) {
        high[c] = job->loops->real == sizeof(float) ? (float)mean[c] : mean[c];
        low[c] = mean[c] - high[c] + rest[c];
        scale[c] = inv_std[c] * job->weight[c];
    }
    set(job, range, high, job->cells.high, 0);
    set(job, range, low, job->cells.low, 0);
    set(job, range, scale, job->cells.scale, 0);
    set(job, range, job->bias, job->cells.shift, 0);
}

/* Set the cells of a group for the loop that comes next; say whether it is one of
 * sums. `pass` counts those so far. */
static int settle_forward(const Job *job, ptrdiff_t group, int pass) {
    Range range = channels_of(job, group);
    if (pass == 0) {
        choose_pivots(job, group);
        return 1;
    }
    double *sums = collect(job, group);
    if (find_all_moments(job, range, sums, sums + job->stored, pass))
        return 1;
    set_affine(job, range);
    return 0;
}

/* Say whether float32 can hold what a channel is multiplied with. */
static inline int in_range(double value) {
    return (value != value) | ((fabs(value) > 1e-30) & (fabs(value) < 1e30));
}

static int settle_backward(const Job *job, ptrdiff_t group, int pass) {
    Range range = channels_of(job, group);
    const Cells *cells = &job->cells;
    const double *mean = job->statistics, *rest = mean + job->channels;
    const double *inv_std = rest + job->channels;
    if (pass == 0) {
        if (cells->relu)
            set_affine(job, range);
        set(job, range, mean, cells->mean, 1);
        set(job, range, rest, cells->rest, 1);
        return 1;
    }
    double *s = collect(job, group) - range.first, *q = s + job->stored;
    for (ptrdiff_t c = range.first; c < range.end; c++) {
        double factor = inv_std[c] * job->weight[c];
        /* With 24 digits its product with a dy has no error: equal dy cancel to 0. */
        if (job->loops->real == sizeof(float) && in_range(factor))
            factor = (float)factor;
        cells->factor[c] = factor;
        cells->level[c] = s[c] / job->count;
        cells->tilt[c] = factor * inv_std[c] * inv_std[c] * q[c] / job->count;
        cells->offset[c] = mean[c] * cells->tilt[c] - cells->level[c] * factor;
        job->weight[c] = q[c] * inv_std[c];
        job->bias[c] = s[c];
    }
    double *wide[] = {cells->factor, cells->level, cells->tilt, cells->offset};
    for (int i = 0; i < 4; i++)
        set(job, range, wide[i], wide[i], 1);
    return 0;
}

static int usable(const Job *job) {
    const double *inv_std = job->statistics + 2 * job->channels;
    int bad = 0;
    for (ptrdiff_t c = 0; c < job->channels && job->loops->real == sizeof(float); c++)
        bad |= !in_range(inv_std[c]) | (inv_std[c] > 1e15) |
               ((job->weight[c] != 0) & !in_range(inv_std[c] * job->weight[c]));
    return !bad;
}

/* Move running statistics by `momentum` towards a batch's. */
static void update(const Job *job, const Loops *dtype, void *running, double momentum,
                   const double *batch, double factor) {
    double *values = job->cells.offset;
    dtype->widen(running, values, job->channels);
    for (ptrdiff_t c = 0; c < job->channels; c++)
        values[c] = (1 - momentum) * values[c] + momentum * (batch[c] * factor);
    dtype->narrow(values, running, job->channels);
}

/* Normalise x into y. In training, bring the running statistics up to date; else use
 * them. `statistics` is NULL or takes mean, its rest and 1 / sqrt(var + eps), a row
 * each. If the result is not DONE, no running statistics have changed. */
int batch_norm_forward(const Call *call, const void *x, void *y, void *mean, void *var,
                       const void *weight, const void *bias, double *statistics,
                       double momentum, double eps) {
    Job job = cut(call);
    job.x = x;
    job.out = y;
    job.eps = eps;
    job.statistics = statistics;
    void *memory = reserve(&job, call, weight, bias);
    if (!memory)
        return NO_MEMORY;
    const Loops *means = DTYPES[call->dtypes[MEAN]], *vars = DTYPES[call->dtypes[VAR]];
    double *inv_std = job.statistics + 2 * job.channels;
    if (!job.cells.training) {
        means->widen(mean, job.statistics, job.channels);
        vars->widen(var, inv_std, job.channels);
        for (ptrdiff_t c = 0; c < job.channels; c++) {
            job.statistics[job.channels + c] = 0;
            inv_std[c] = 1 / sqrt(inv_std[c] + eps);
        }
        set_affine(&job, (Range){0, job.channels});
        /* The ends of rows share lines, which then are not written as a whole. */
        if (job.planes && job.run * job.loops->size % LINE != 0)
            job.cells.streaming = 0;
        write_all(&job);
    } else
        run(&job, settle_forward);
    int status = usable(&job) ? DONE : OUT_OF_RANGE;
    if (status == DONE && mean && job.cells.training) {
        update(&job, means, mean, momentum, job.statistics, 1);
        update(&job, vars, var, momentum, job.var, job.count / (job.count - 1.0));
    }
    free(memory);
    return status;
}

/* Write the gradients with respect to x and, where these are, weight and bias. */
int batch_norm_backward(const Call *call, const void *x, const void *dy, void *dx,
                        const void *weight, const void *bias, double *statistics,
                        void *dweight, void *dbias) {
    Job job = cut(call);
    job.x = x;
    job.dy = dy;
    job.out = dx;
    job.statistics = statistics;
    void *memory = reserve(&job, call, weight, bias);
    if (!memory)
        return NO_MEMORY;
    run(&job, settle_backward);
    if (dweight)
        DTYPES[call->dtypes[WEIGHT]]->narrow(job.weight, dweight, job.channels);
    if (dbias)
        DTYPES[call->dtypes[BIAS]]->narrow(job.bias, dbias, job.channels);
    free(memory);
    return DONE;
}
