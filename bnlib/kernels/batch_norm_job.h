/* What one call works through: how the array is cut into pieces, and the memory for
 * their sums. */
enum { DONE, NO_MEMORY, OUT_OF_RANGE };
enum { X, MEAN, VAR, WEIGHT, BIAS };
enum { PIECE = 1 << 19, MOST_PIECES = 32, SERIAL = 1 << 17, STREAM = 1 << 22 };
enum { SAMPLE = 8, MANY = 512 };

/* What the caller gives: N, C and the product of the rest; flags; the most threads;
 * dtypes of x, running mean, running variance, weight and bias. */
typedef struct {
    int64_t shape[3], flags, threads, dtypes[5];
} Call;

/* How an array is cut. Planes: a group is a channel, `runs` runs of `run` values at
 * distance `stride`. Columns: one group, one run. A piece is `length` runs of planes
 * or `length` values of columns; its sums are taken over `width` columns. */
typedef struct {
    const Loops *loops;
    const char *x, *dy;
    char *out;
    ptrdiff_t channels, count, groups, runs, run, stride, width, pieces, length;
    int planes, threads;
    Cells cells;
    double eps, *statistics, *weight, *bias, *var; /* a value a channel */
    double *sums;                                  /* of each piece of each group: */
    ptrdiff_t stored;                              /* so many sums, then as many squares */
} Job;

static ptrdiff_t at_most(ptrdiff_t value, ptrdiff_t most) {
    return value < most ? value : most;
}

static Job cut(const Call *call) {
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
    pieces = at_most(at_most(bytes / job.groups / PIECE, MOST_PIECES), units);
    pieces = pieces < 1 ? 1 : pieces;
    job.length = (units + pieces - 1) / pieces;
    job.pieces = (units + job.length - 1) / job.length;
    job.length *= job.planes ? 1 : job.width;
    job.threads = bytes < SERIAL ? 1 : call->threads;
    job.cells.streaming = bytes >= STREAM && (!job.planes || job.run >= 128);
    job.cells.training = call->flags & TRAINING;
    job.cells.relu = call->flags & RELU;
    return job;
}

/* Give a job its memory, to be freed, and the parameters; NULL if there is none. */
static void *reserve(Job *job, const Call *call, const void *weight, const void *bias) {
    Cells *c = &job->cells;
    void **narrow[] = {&c->pivot, &c->high, &c->low, &c->scale, &c->shift};
    double **wide[] = {&c->mean,   &c->rest,   &c->level,   &c->factor, &c->tilt,
                       &c->offset, &job->weight, &job->bias, &job->var};
    enum { SOME = sizeof narrow / sizeof *narrow, ALL = SOME + sizeof wide / sizeof *wide };
    ptrdiff_t cells = job->planes ? job->channels : job->width;
    cells = cells / LANES * LANES + 2 * LANES;
    job->stored = job->planes ? 1 : cells;
    ptrdiff_t sums = job->groups * job->pieces * 2 * job->stored;
    double *memory = malloc(sizeof *memory * ((ALL + 3) * cells + sums) + LINE), *next;
    if (!memory)
        return NULL;
    /* A vector that lies in two lines of the cache is loaded in twice the time. */
    next = (double *)(((uintptr_t)memory + LINE - 1) / LINE * LINE);
    for (int i = 0; i < ALL; i++, next += cells)
        if (i < SOME)
            *narrow[i] = next;
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
        DTYPES[call->dtypes[WEIGHT]]->widen(weight, job->weight, job->channels);
    if (bias)
        DTYPES[call->dtypes[BIAS]]->widen(bias, job->bias, job->channels);
    return memory;
}

static void sum_block(const Job *job, Block block, ptrdiff_t at, double *s, double *q) {
    ptrdiff_t offset = at * job->loops->size;
    if (block.rows > 0 && block.cols > 0)
        job->loops->sums(block, job->x + offset, job->dy ? job->dy + offset : NULL,
                         &job->cells, s, q);
}

/* Take the sums of values that follow each other, `width` columns wide. */
static void sum_run(const Job *job, Block block, ptrdiff_t at, ptrdiff_t length, double *s,
                    double *q) {
    block.stride = block.cols = job->width;
    block.rows = length / job->width;
    sum_block(job, block, at, s, q);
    block.cols = length % job->width;
    block.rows = 1;
    sum_block(job, block, at + length - block.cols, s, q);
}

/* The first run, or value, of a piece. */
static ptrdiff_t start_of(const Job *job, ptrdiff_t piece) {
    ptrdiff_t end = job->planes ? job->runs : job->run;
    return piece < job->pieces ? piece * job->length : end;
}

static void sum_piece(const Job *job, ptrdiff_t group, ptrdiff_t piece, int pass) {
    double *sums = job->sums + (group * job->pieces + piece) * 2 * job->stored;
    ptrdiff_t first = start_of(job, piece), end = start_of(job, piece + 1);
    double own[2][MOST_COLUMNS + LANES], *s = sums, *q = sums + job->stored;
    if (job->planes)
        s = own[0], q = own[1];
    memset(s, 0, sizeof *s * (job->width + LANES));
    memset(q, 0, sizeof *q * (job->width + LANES));
    Block block = {end - first, job->stride, job->run, group, job->planes, 0, 0};
    block.quick = pass == 0 && job->count >= MANY;
    if (!job->planes) {
        block.cell = 0;
        sum_run(job, block, first, end - first, s, q);
        return;
    }
    ptrdiff_t at = first * job->stride + group * job->run;
    if (job->width == job->run)
        sum_block(job, block, at, s, q);
    else
        for (ptrdiff_t n = first; n < end; n++, at += job->stride)
            sum_run(job, block, at, job->run, s, q);
    sums[0] = sums[1] = 0;
    for (ptrdiff_t j = 0; j < job->width; j++) {
        sums[0] += s[j];
        sums[1] += q[j];
    }
}

static void write_block(const Job *job, Block block, ptrdiff_t at) {
    ptrdiff_t offset = at * job->loops->size;
    if (block.rows > 0 && block.cols > 0)
        job->loops->write(block, job->x + offset, job->dy ? job->dy + offset : NULL,
                          job->out + offset, &job->cells);
}

static void write_piece(const Job *job, ptrdiff_t group, ptrdiff_t piece) {
    ptrdiff_t first = start_of(job, piece), end = start_of(job, piece + 1);
    ptrdiff_t width = job->width, rest = (end - first) % width;
    if (job->planes) {
        Block block = {end - first, job->stride, job->run, group, 1, 0, 0};
        write_block(job, block, first * job->stride + group * job->run);
    } else {
        write_block(job, (Block){(end - first) / width, width, width, 0, 0, 0, 0}, first);
        write_block(job, (Block){1, width, rest, 0, 0, 0, 0}, end - rest);
    }
    if (job->cells.streaming)
        end_of_stream();
}

/* Join the pieces of a group, and the columns of a channel, into the first of them. */
static double *collect(const Job *job, ptrdiff_t group) {
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

/* A loop's turn on a piece, or all turns on a group, which may be done side by side. */
typedef int Settle(const Job *, ptrdiff_t group, int pass);
typedef void Turn(const Job *, ptrdiff_t, int pass, Settle *);

static void take_turns(const Job *job, Turn *turn, ptrdiff_t n, int pass, Settle *settle) {
    ptrdiff_t t;
    /* OpenMP takes its time to find out that there is one thread. */
    if (job->threads <= 1 || n <= 1) {
        for (t = 0; t < n; t++)
            turn(job, t, pass, settle);
        return;
    }
#pragma omp parallel for num_threads(job->threads)
    for (t = 0; t < n; t++)
        turn(job, t, pass, settle);
}

static void do_group(const Job *job, ptrdiff_t group, int pass, Settle *settle) {
    for (; settle(job, group, pass); pass++)
        sum_piece(job, group, 0, pass);
    write_piece(job, group, 0);
}

static void do_sum(const Job *job, ptrdiff_t t, int pass, Settle *settle) {
    (void)settle;
    sum_piece(job, t / job->pieces, t % job->pieces, pass);
}

/* What was read last may still be in the cache: it is written first. */
static void do_write(const Job *job, ptrdiff_t t, int pass, Settle *settle) {
    (void)pass, (void)settle;
    t = job->groups * job->pieces - 1 - t;
    write_piece(job, t / job->pieces, t % job->pieces);
}

static void do_example(const Job *job, ptrdiff_t n, int pass, Settle *settle) {
    (void)pass, (void)settle;
    Block block = {job->channels, job->run, job->run, 0, 1, 0, 1};
    write_block(job, block, n * job->stride);
    if (job->cells.streaming)
        end_of_stream();
}

/* Let `settle` set the cells of every group before each loop, and say after how many
 * loops of sums, `pass` so far, the writing comes. */
static void run(const Job *job, Settle *settle) {
    ptrdiff_t tasks = job->groups * job->pieces;
    if (job->pieces == 1) {
        take_turns(job, do_group, job->groups, 0, settle);
        return;
    }
    for (int pass = 0, more = 1; more; pass++) {
        more = 0;
        for (ptrdiff_t g = 0; g < job->groups; g++)
            more |= settle(job, g, pass);
        take_turns(job, more ? do_sum : do_write, tasks, pass, settle);
    }
}

/* Write where there is nothing to sum: planes in the order of memory. */
static void write_all(const Job *job) {
    if (job->planes)
        take_turns(job, do_example, job->runs, 0, NULL);
    else
        take_turns(job, do_write, job->pieces, 0, NULL);
}
