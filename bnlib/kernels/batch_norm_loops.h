/* The loops of batch_norm.c: included once for each dtype, which defines
 *
 * SUFFIX  ends the names
 * ITEM    a value in memory, and STORED, a vector of them
 * REAL    a number of the forward pass's arithmetic; VEC, a vector; MASK, of integers
 * FROM, TO  turn STORED into VEC and back
 */
INLINE VEC NAME(load)(const ITEM *p) {
    STORED v;
    memcpy(&v, p, sizeof v);
    return FROM(v);
}

/* Load the first n values, followed by zeros. */
INLINE VEC NAME(load_first)(const ITEM *p, ptrdiff_t n) {
    if (n == LANES)
        return NAME(load)(p);
    ITEM own[LANES] = {0};
    memcpy(own, p, (size_t)n * sizeof *own);
    return NAME(load)(own);
}

INLINE void NAME(store_first)(ITEM *p, VEC values, ptrdiff_t n) {
    STORED v = TO(values);
    memcpy(p, &v, (size_t)n * sizeof *p);
}

static void NAME(upcast)(const void *from, double *to, ptrdiff_t n) {
    for (ptrdiff_t i = 0; i < n; i += LANES) {
        ptrdiff_t some = n - i < LANES ? n - i : LANES;
        f64 values = UPCAST(NAME(load_first)((const ITEM *)from + i, some));
        memcpy(to + i, &values, (size_t)some * sizeof *to);
    }
}

static void NAME(downcast)(const double *from, void *to, ptrdiff_t n) {
    for (ptrdiff_t i = 0; i < n; i++)
        NAME(store_first)((ITEM *)to + i, (VEC){(REAL)from[i]}, 1);
}

static void NAME(fill)(const double *from, void *cells, ptrdiff_t first, ptrdiff_t n) {
    for (ptrdiff_t i = 0; i < n; i++)
        ((REAL *)cells)[first + i] = (REAL)from[i];
}

/* Load the parameters of the 8 columns from i on. */
INLINE VEC NAME(cell)(const void *cells, ptrdiff_t i, int same) {
    const REAL *p = (const REAL *)cells + i;
    VEC v = {0};
    if (same)
        return v + *p;
    memcpy(&v, p, sizeof v);
    return v;
}

INLINE f64 NAME(upcast_cell)(const double *cells, ptrdiff_t i, int same) {
    f64 v = {0};
    if (same)
        return v + cells[i];
    memcpy(&v, cells + i, sizeof v);
    return v;
}

/* The parameters of 8 columns; the compiler loads only those that are used. */
typedef struct {
    VEC pivot, high, low, scale, shift;
    f64 mean, rest, level, factor, tilt, offset;
} NAME(Columns);

INLINE NAME(Columns) NAME(columns)(const Cells *c, ptrdiff_t i, int same) {
    return (NAME(Columns)){
        NAME(cell)(c->pivot, i, same),         NAME(cell)(c->high, i, same),
        NAME(cell)(c->low, i, same),           NAME(cell)(c->scale, i, same),
        NAME(cell)(c->shift, i, same),         NAME(upcast_cell)(c->mean, i, same),
        NAME(upcast_cell)(c->rest, i, same),   NAME(upcast_cell)(c->level, i, same),
        NAME(upcast_cell)(c->factor, i, same), NAME(upcast_cell)(c->tilt, i, same),
        NAME(upcast_cell)(c->offset, i, same),
    };
}

INLINE VEC NAME(affine)(VEC x, const NAME(Columns) *p) {
    return ((x - p->high) - p->low) * p->scale + p->shift;
}

/* Return `values` where y is above 0 or NaN, and 0 elsewhere. */
INLINE VEC NAME(where_positive)(VEC values, VEC y) {
    return (VEC)((MASK)values & ~(y <= 0));
}

/* Return x minus its mean; only float64 needs the rest of the mean. */
INLINE f64 NAME(centred)(VEC x, const NAME(Columns) *p) {
    f64 d = UPCAST(x) - p->mean;
    return sizeof(REAL) == sizeof(double) ? d - p->rest : d;
}

/* Sum x - pivot and its square in each of 8 columns. Rounding errors of REAL average out
 * only if there are many values. */
INLINE Sums NAME(moments)(const VEC *x, int rows, int quick, const NAME(Columns) *p) {
    Sums sums = {{0}, {0}};
    if (quick) {
        VEC d[8];
        for (int k = 0; k < 8; k++)
            d[k] = x[k] - p->pivot;
        sums.total =
            UPCAST(((d[0] + d[1]) + (d[2] + d[3])) + ((d[4] + d[5]) + (d[6] + d[7])));
        for (int k = 0; k < 8; k++)
            d[k] *= d[k];
        sums.product =
            UPCAST(((d[0] + d[1]) + (d[2] + d[3])) + ((d[4] + d[5]) + (d[6] + d[7])));
        return sums;
    }
    for (int k = 0; k < rows; k++) {
        f64 d = UPCAST(x[k]) - UPCAST(p->pivot);
        sums.total += d;
        sums.product += d * d;
    }
    return sums;
}

/* Sum dy and dy (x - mean) in each of 8 columns. */
INLINE Sums NAME(slopes)(const VEC *x, const VEC *dy, int rows, int relu,
                         const NAME(Columns) *p) {
    Sums sums = {{0}, {0}};
    for (int k = 0; k < rows; k++) {
        VEC slope = dy[k];
        if (relu)
            slope = NAME(where_positive)(slope, NAME(affine)(x[k], p));
        sums.total += UPCAST(slope);
        sums.product += UPCAST(slope) * NAME(centred)(x[k], p);
    }
    return sums;
}

/* Add the sums of `rows` rows in 8 columns, of which the last n count. */
INLINE void NAME(sum_columns)(Block b, int rows, ptrdiff_t n, const ITEM *x, const ITEM *dy,
                              const NAME(Columns) *p, int relu, double *total,
                              double *product) {
    VEC own[8], slope[8];
    for (int k = 0; k < rows; k++) {
        own[k] = NAME(load)(x + k * b.stride);
        if (dy)
            slope[k] = NAME(load)(dy + k * b.stride);
    }
    bn_add_sums(dy ? NAME(slopes)(own, slope, rows, relu, p)
                   : NAME(moments)(own, rows, rows == 8 && b.quick, p),
                LAST(n), total, product);
}

/* Sum the remaining rows, or rows of less than 8 columns. */
static void NAME(sum_rest)(Block b, const ITEM *x, const ITEM *dy, const Cells *c,
                           double *total, double *product) {
    for (ptrdiff_t r = 0; r < b.rows; r++)
        for (ptrdiff_t j = 0; j < b.cols; j += LANES) {
            ptrdiff_t n = b.cols - j < LANES ? b.cols - j : LANES, at = r * b.stride + j;
            NAME(Columns) p = NAME(columns)(c, b.same ? b.cell : b.cell + j, b.same);
            VEC own = NAME(load_first)(x + at, n), slope = own;
            if (dy)
                slope = NAME(load_first)(dy + at, n);
            bn_add_sums(dy ? NAME(slopes)(&own, &slope, 1, c->relu, &p)
                           : NAME(moments)(&own, 1, 0, &p),
                        FIRST(n), total + j, product + j);
        }
}

INLINE void NAME(sum_rows)(Block b, int same, int rows, const ITEM *x, const ITEM *dy,
                           const Cells *c, int relu, double *total, double *product) {
    const int line = LINE / sizeof(ITEM);
    int whole = b.stride == b.cols;
    ptrdiff_t j = 0, ahead = rows * b.stride * (1 + whole), each = whole ? rows : 1;
    ptrdiff_t step = whole ? line : b.stride;
    NAME(Columns) p = NAME(columns)(c, b.cell, same);
#define SUM(at, n) \
    do { \
        if (!same) \
            p = NAME(columns)(c, b.cell + (at), 0); \
        NAME(sum_columns)(b, rows, n, x + (at), dy ? dy + (at) : NULL, &p, relu, \
                          total + (at), product + (at)); \
    } while (0)
    /* The processor prefetches a single stream, but not several rows at once: prefetch
     * rows further down, into the second cache. */
    for (; j + line <= b.cols; j += line) {
        for (int k = 0; k < rows; k++) {
            FETCH(x + ahead + each * j + k * step);
            if (dy)
                FETCH(dy + ahead + each * j + k * step);
        }
        for (int i = 0; i < line; i += LANES)
            SUM(j + i, LANES);
    }
    /* If the rest does not fill a vector, load it with the columns before it. */
    for (; j < b.cols; j += LANES) {
        ptrdiff_t at = j + LANES <= b.cols ? j : b.cols - LANES;
        SUM(at, at + LANES - j);
    }
}

/* Sum 8 rows of x, or 4 rows of x and dy, at a time. */
INLINE void NAME(sum_block)(Block b, int same, const ITEM *x, const ITEM *dy,
                            const Cells *c, int relu, double *total, double *product) {
    const int most = dy ? 4 : 8;
    for (; b.rows >= most && b.cols >= LANES; b.rows -= most, x += most * b.stride) {
        NAME(sum_rows)(b, same, most, x, dy, c, relu, total, product);
        dy += dy ? most * b.stride : 0;
    }
    NAME(sum_rest)(b, x, dy, c, total, product);
}

static void NAME(sums)(Block b, const void *x, const void *dy, const Cells *cells,
                       double *total, double *product) {
    Cells c = *cells;
    if (!dy && b.same)
        NAME(sum_block)(b, 1, x, NULL, &c, 0, total, product);
    else if (!dy)
        NAME(sum_block)(b, 0, x, NULL, &c, 0, total, product);
    else if (c.relu && b.same)
        NAME(sum_block)(b, 1, x, dy, &c, 1, total, product);
    else if (c.relu)
        NAME(sum_block)(b, 0, x, dy, &c, 1, total, product);
    else if (b.same)
        NAME(sum_block)(b, 1, x, dy, &c, 0, total, product);
    else
        NAME(sum_block)(b, 0, x, dy, &c, 0, total, product);
}

/* Return y or dx, with the statistics of the batch or the running ones. Multiplying out
 * would lose digits only in float64. */
INLINE VEC NAME(result)(VEC x, VEC dy, int kind, const NAME(Columns) *p) {
    VEC y = NAME(affine)(x, p);
    if (!(kind & GRADIENT))
        return kind & RELU ? NAME(where_positive)(y, y) : y;
    f64 slope = UPCAST(kind & RELU ? NAME(where_positive)(dy, y) : dy);
    if (!(kind & TRAINING))
        return DOWNCAST(slope * p->factor);
    if (sizeof(REAL) == sizeof(double))
        return DOWNCAST((slope - p->level) * p->factor - NAME(centred)(x, p) * p->tilt);
    return DOWNCAST(slope * p->factor + (p->offset - UPCAST(x) * p->tilt));
}

INLINE VEC NAME(result_at)(ptrdiff_t j, ptrdiff_t cell, int same, int kind, const ITEM *x,
                           const ITEM *dy, const Cells *c, NAME(Columns) p) {
    VEC own = NAME(load)(x + j), slope = own;
    if (kind & GRADIENT)
        slope = NAME(load)(dy + j);
    if (!same)
        p = NAME(columns)(c, cell + j, 0);
    return NAME(result)(own, slope, kind, &p);
}

INLINE void NAME(write_row)(Block b, int same, int kind, const ITEM *x, const ITEM *dy,
                            ITEM *out, const Cells *c, NAME(Columns) p) {
    const ptrdiff_t line = LINE / sizeof(ITEM), far = AHEAD / sizeof(ITEM);
    ptrdiff_t head = (-(uintptr_t)out & (LINE - 1)) / sizeof(ITEM), j = 0;
    ptrdiff_t cols = b.cols, stop = c->streaming ? cols - line : -1;
    /* The memory after a short row of one plane is not needed next. */
    int ahead = !same || (!b.channels && cols >= MOST_COLUMNS);
#define AT(j) NAME(result_at)(j, b.cell, same, kind, x, dy, c, p)
    while (j < cols) {
        for (; j >= head && j <= stop; j += line) {
            STORED parts[LINE / sizeof(STORED)];
            if (ahead)
                FETCH(x + j + far);
            if (ahead && kind & GRADIENT)
                FETCH(dy + j + far);
            for (int i = 0; i * LANES < line; i++)
                parts[i] = TO(AT(j + i * LANES));
            bn_stream_line(out + j, parts);
        }
        for (; !c->streaming && j + LANES <= cols; j += LANES)
            NAME(store_first)(out + j, AT(j), LANES);
        if (j >= cols)
            break;
        /* Only part of this vector counts. Do not touch a streamed line: it would be read
         * again. */
        ptrdiff_t at = j + LANES <= cols ? j : cols - LANES, end = at + LANES;
        end = j < head && head < end ? head : end;
        STORED v = TO(AT(at));
        bn_copy_line(out + j, (const ITEM *)&v + (j - at),
                     (size_t)(end - j) * sizeof(ITEM));
        j = end;
    }
}

INLINE void NAME(write_block)(Block b, int same, int kind, const ITEM *x, const ITEM *dy,
                              ITEM *out, const Cells *cells) {
    Cells c = *cells;
    NAME(Columns) p = NAME(columns)(&c, b.cell, same);
    for (ptrdiff_t r = 0; r < b.rows; r++, x += b.stride, out += b.stride) {
        if (b.channels)
            p = NAME(columns)(&c, b.cell + r, 1);
        NAME(write_row)(b, same, kind, x, dy, out, &c, p);
        if (kind & GRADIENT)
            dy += b.stride;
    }
}

/* Write rows of less than 8 columns. */
static void NAME(write_narrow)(Block b, int kind, const ITEM *x, const ITEM *dy, ITEM *out,
                               const Cells *c) {
    NAME(Columns) p = NAME(columns)(c, b.cell, b.same);
    for (ptrdiff_t r = 0, at = 0; r < b.rows; r++, at += b.stride) {
        if (b.channels)
            p = NAME(columns)(c, b.cell + r, 1);
        VEC own = NAME(load_first)(x + at, b.cols), slope = own;
        if (kind & GRADIENT)
            slope = NAME(load_first)(dy + at, b.cols);
        NAME(store_first)(out + at, NAME(result)(own, slope, kind, &p), b.cols);
    }
}

/* Write y, or dx if dy is given. */
static void NAME(write)(Block b, const void *x, const void *dy, void *out, const Cells *c) {
    int kind = (dy ? GRADIENT : 0) | (c->relu ? RELU : 0);
    if (dy && c->training)
        kind |= TRAINING;
#define CASE(kind) \
    case kind: \
        if (b.same) \
            NAME(write_block)(b, 1, kind, x, dy, out, c); \
        else \
            NAME(write_block)(b, 0, kind, x, dy, out, c); \
        break
    if (b.cols < LANES) {
        NAME(write_narrow)(b, kind, x, dy, out, c);
        return;
    }
    switch (kind) {
        CASE(0);
        CASE(RELU);
        CASE(GRADIENT);
        CASE(GRADIENT | RELU);
        CASE(GRADIENT | TRAINING);
        CASE(GRADIENT | TRAINING | RELU);
    }
}

static const Loops NAME(loops) = {sizeof(ITEM), sizeof(REAL), NAME(upcast), NAME(downcast),
                                  NAME(fill),   NAME(sums),   NAME(write)};

#undef SUM
#undef AT
#undef CASE
#undef SUFFIX
#undef ITEM
#undef STORED
#undef FROM
#undef TO
