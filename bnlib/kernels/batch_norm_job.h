/* The work of one call: how the array is split into pieces, the memory for their sums, and
 * the order in which the loops run over the pieces. */
enum { DONE, NO_MEMORY, OUT_OF_RANGE };
enum { X, MEAN, VAR, WEIGHT, BIAS };
enum { PIECE = 1 << 19, MOST_PIECES = 32, SERIAL = 1 << 17, STREAM = 1 << 22 };
enum { SAMPLE = 8, MANY = 512 };

/* The arguments of a call: N, C and the product of the other lengths; flags; the largest
 * number of threads; the dtypes of x, running mean, running variance, weight and bias. */
typedef struct {
    int64_t shape[3], flags, threads, dtypes[5];
} Call;

/* How an array is split. With planes each channel is a group: `runs` runs of `run` values,
 * `stride` values apart. With columns there is one group, of one run. A piece is `length`
 * runs of a plane or `length` values of the columns; it is summed in `width` columns. */
typedef struct {
    const Loops *loops;
    const char *x, *dy;
    char *out;
    ptrdiff_t channels, count, groups, runs, run, stride, width, pieces, length;
    int planes, threads;
    Cells cells;
    double eps;
    /* A value for each channel; three rows of them in `statistics`. */
    double *statistics, *weight, *bias, *var, *pivots, *dweight, *dbias;
    double *high, *low, *scale; /* of y, before they go to their cells */
    double *again;              /* not 0: the channel is summed again */
    double *running;            /* running statistics while they are updated */
    /* For each piece of each group `stored` totals, then as many products. */
    double *sums;
    ptrdiff_t stored;
} Job;

static ptrdiff_t bn_min(ptrdiff_t value, ptrdiff_t most) {
    return value < most ? value : most;
}

static Job bn_plan(const Call *call) {
    Job job = {.loops = DTYPES[call->dtypes[X]], .channels = call->shape[1]};
    ptrdiff_t fold = 1, units, pieces, bytes;
    job.count = call->shape[0] * call->shape[2];
    bytes = job.count * job.channels * job.loops->size;
    job.planes = !(call->flags & CHANNELS_LAST) && job.channels > 1 && call->shape[2] > 1;
    if (job.planes) {
        job.groups = job.channels;
        job.runs = units = call->shape[0];
        job.run = call->shape[2];
        job.stride = job.channels * job.run;
        job.width = job.run < MOST_COLUMNS ? job.run : 64;
    } else {
        while (job.channels * fold <= MOST_COLUMNS / 2 && job.count / fold >= 32)
            fold *= 2;
        while (job.channels * fold * job.loops->size % LINE && fold < LINE &&
               job.count / fold >= 32)
            fold *= 2;
        job.groups = job.runs = 1;
        job.run = job.count * job.channels;
        job.width = job.channels * fold;
        units = job.run / job.width;
    }
    pieces = bn_min(bn_min(bytes / job.groups / PIECE, MOST_PIECES), units);
    pieces = pieces < 1 ? 1 : pieces;
    job.length = (units + pieces - 1) / pieces;
    job.pieces = (units + job.length - 1) / job.length;
    job.length *= job.planes ? 1 : job.width;
    job.threads = bytes < SERIAL ? 1 : (int)call->threads;
    job.cells.streaming = bytes >= STREAM && (!job.planes || job.run >= 128);
    job.cells.training = call->flags & TRAINING;
    job.cells.relu = call->flags & RELU;
    return job;
}

/* Allocate a job's memory and read the parameters. Return the memory to free, or NULL if
 * there is none. */
static void *bn_allocate(Job *job, const Call *call, const void *weight, const void *bias) {
    Cells *c = &job->cells;
    void **downcast[] = {&c->pivot, &c->high, &c->low, &c->scale, &c->shift};
    double **wide[] = {&c->mean,      &c->rest,     &c->level,  &c->factor, &c->tilt,
                       &c->offset,    &job->weight, &job->bias, &job->var,  &job->pivots,
                       &job->dweight, &job->dbias,  &job->high, &job->low,  &job->scale,
                       &job->again,   &job->running};
    enum {
        SOME = sizeof downcast / sizeof *downcast,
        ALL = SOME + sizeof wide / sizeof *wide
    };
    ptrdiff_t cells = job->planes ? job->channels : job->width;
    cells = cells / LANES * LANES + 2 * LANES;
    job->stored = job->planes ? 1 : cells;
    ptrdiff_t sums = job->groups * job->pieces * 2 * job->stored;
    double *memory = malloc(sizeof *memory * (size_t)((ALL + 3) * cells + sums) + LINE),
           *next;
    if (!memory)
        return NULL;
    /* Loading a vector from two lines of the cache takes twice the time. */
    next = (double *)(((uintptr_t)memory + LINE - 1) / LINE * LINE);
    for (int i = 0; i < ALL; i++, next += cells)
        if (i < SOME)
            *downcast[i] = next;
        else
            *wide[i - SOME] = next;
    if (!job->statistics)
        job->statistics = next;
    job->sums = next + 3 * cells;
    for (ptrdiff_t i = 0; i < job->channels; i++) {
        job->weight[i] = 1;
        job->bias[i] = 0;
    }
    if (weight)
        DTYPES[call->dtypes[WEIGHT]]->upcast(weight, job->weight, job->channels);
    if (bias)
        DTYPES[call->dtypes[BIAS]]->upcast(bias, job->bias, job->channels);
    return memory;
}

static void bn_sum_block(const Job *job, Block block, ptrdiff_t at, double *total,
                         double *product) {
    ptrdiff_t offset = at * job->loops->size;
    if (block.rows > 0 && block.cols > 0)
        job->loops->sums(block, job->x + offset, job->dy ? job->dy + offset : NULL,
                         &job->cells, total, product);
}

/* Sum consecutive values of memory, in `width` columns. */
static void bn_sum_run(const Job *job, Block block, ptrdiff_t at, ptrdiff_t length,
                       double *total, double *product) {
    block.stride = block.cols = job->width;
    block.rows = length / job->width;
    bn_sum_block(job, block, at, total, product);
    block.cols = length % job->width;
    block.rows = 1;
    bn_sum_block(job, block, at + length - block.cols, total, product);
}

/* Return the first run of planes, or value of columns, of a piece. */
static ptrdiff_t bn_piece_start(const Job *job, ptrdiff_t piece) {
    ptrdiff_t end = job->planes ? job->runs : job->run;
    return piece < job->pieces ? piece * job->length : end;
}

static void bn_sum_piece(const Job *job, ptrdiff_t group, ptrdiff_t piece, int pass) {
    double *sums = job->sums + (group * job->pieces + piece) * 2 * job->stored;
    ptrdiff_t first = bn_piece_start(job, piece), end = bn_piece_start(job, piece + 1);
    double own[2][MOST_COLUMNS + LANES], *total = sums, *product = sums + job->stored;
    if (job->planes)
        total = own[0], product = own[1];
    memset(total, 0, sizeof *total * (size_t)(job->width + LANES));
    memset(product, 0, sizeof *product * (size_t)(job->width + LANES));
    Block block = {end - first, job->stride, job->run, group, job->planes, 0, 0};
    block.quick = pass == 0 && job->count >= MANY;
    if (!job->planes) {
        block.cell = 0;
        bn_sum_run(job, block, first, end - first, total, product);
        return;
    }
    ptrdiff_t at = first * job->stride + group * job->run;
    if (job->width == job->run)
        bn_sum_block(job, block, at, total, product);
    else
        for (ptrdiff_t n = first; n < end; n++, at += job->stride)
            bn_sum_run(job, block, at, job->run, total, product);
    sums[0] = sums[1] = 0;
    for (ptrdiff_t j = 0; j < job->width; j++) {
        sums[0] += total[j];
        sums[1] += product[j];
    }
}

static void bn_write_block(const Job *job, Block block, ptrdiff_t at) {
    ptrdiff_t offset = at * job->loops->size;
    if (block.rows > 0 && block.cols > 0)
        job->loops->write(block, job->x + offset, job->dy ? job->dy + offset : NULL,
                          job->out + offset, &job->cells);
}

static void bn_write_piece(const Job *job, ptrdiff_t group, ptrdiff_t piece) {
    ptrdiff_t first = bn_piece_start(job, piece), end = bn_piece_start(job, piece + 1);
    ptrdiff_t width = job->width, rest = (end - first) % width;
    if (job->planes) {
        Block block = {end - first, job->stride, job->run, group, 1, 0, 0};
        bn_write_block(job, block, first * job->stride + group * job->run);
    } else {
        bn_write_block(job, (Block){(end - first) / width, width, width, 0, 0, 0, 0},
                       first);
        bn_write_block(job, (Block){1, width, rest, 0, 0, 0, 0}, end - rest);
    }
    if (job->cells.streaming)
        bn_fence_streams();
}

/* Add up the sums of a group's pieces, and of a channel's columns, in the first of them. */
static double *bn_merge_pieces(const Job *job, ptrdiff_t group) {
    ptrdiff_t all = 2 * job->stored, channels = job->channels;
    double *sums = job->sums + group * job->pieces * all;
    for (ptrdiff_t piece = 1; piece < job->pieces; piece++)
        for (ptrdiff_t i = 0; i < all; i++)
            sums[i] += sums[piece * all + i];
    for (ptrdiff_t j = channels; !job->planes && j < job->width; j += channels)
        for (ptrdiff_t c = 0; c < channels; c++) {
            sums[c] += sums[j + c];
            sums[job->stored + c] += sums[job->stored + j + c];
        }
    return sums;
}

/* A task is one loop over a piece, or all loops over a group. Tasks run in parallel. */
typedef int Prepare(const Job *, ptrdiff_t group, int pass);
typedef void Task(const Job *, ptrdiff_t, int pass, Prepare *);

static void bn_parallel_for(const Job *job, Task *task, ptrdiff_t n, int pass,
                            Prepare *prepare) {
    ptrdiff_t t;
    /* Even with one thread OpenMP takes time to start. */
    if (job->threads <= 1 || n <= 1) {
        for (t = 0; t < n; t++)
            task(job, t, pass, prepare);
        return;
    }
#pragma omp parallel for num_threads(job->threads)
    for (t = 0; t < n; t++)
        task(job, t, pass, prepare);
}

static void bn_process_group(const Job *job, ptrdiff_t group, int pass, Prepare *prepare) {
    for (; prepare(job, group, pass); pass++)
        bn_sum_piece(job, group, 0, pass);
    bn_write_piece(job, group, 0);
}

static void bn_sum_task(const Job *job, ptrdiff_t t, int pass, Prepare *prepare) {
    (void)prepare;
    bn_sum_piece(job, t / job->pieces, t % job->pieces, pass);
}

/* Write the pieces in reverse order: the last ones read may still be in the cache. */
static void bn_write_task(const Job *job, ptrdiff_t t, int pass, Prepare *prepare) {
    (void)pass, (void)prepare;
    t = job->groups * job->pieces - 1 - t;
    bn_write_piece(job, t / job->pieces, t % job->pieces);
}

static void bn_write_example(const Job *job, ptrdiff_t n, int pass, Prepare *prepare) {
    (void)pass, (void)prepare;
    Block block = {job->channels, job->run, job->run, 0, 1, 0, 1};
    bn_write_block(job, block, n * job->stride);
    if (job->cells.streaming)
        bn_fence_streams();
}

/* Run the loops over all groups. Before each loop `prepare` sets the cells and decides
 * whether the loop sums again or writes. */
static void bn_run_passes(const Job *job, Prepare *prepare) {
    ptrdiff_t tasks = job->groups * job->pieces;
    if (job->pieces == 1) {
        bn_parallel_for(job, bn_process_group, job->groups, 0, prepare);
        return;
    }
    for (int pass = 0, more = 1; more; pass++) {
        more = 0;
        for (ptrdiff_t g = 0; g < job->groups; g++)
            more |= prepare(job, g, pass);
        bn_parallel_for(job, more ? bn_sum_task : bn_write_task, tasks, pass, prepare);
    }
}

/* Write without summing first; write planes in the order of memory. */
static void bn_write_without_sums(const Job *job) {
    if (job->planes)
        bn_parallel_for(job, bn_write_example, job->runs, 0, NULL);
    else
        bn_parallel_for(job, bn_write_task, job->pieces, 0, NULL);
}
