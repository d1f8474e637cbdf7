/* The loops of batch_norm.c: included once for each dtype, which defines
 *
 * SUFFIX  ends the names
 * ITEM    a value in memory, and STORED, a vector of them
 * REAL    a number of the forward pass's arithmetic; VEC, a vector; MASK, of integers
 * FROM, TO  turn STORED into VEC and back
 */
/* Take n values; n is LANES, and known to be, but in the last columns of a row. */
INLINE VEC NAME(load)(const ITEM *p, ptrdiff_t n) {
    STORED v = {0};
    if (n == LANES)
        memcpy(&v, p, sizeof v);
    else
        for (ptrdiff_t i = 0; i < n; i++)
            v[i] = p[i];
    return FROM(v);
}

INLINE void NAME(store)(ITEM *p, VEC values, ptrdiff_t n, int streaming) {
    STORED v = TO(values);
    if (n < LANES)
        for (ptrdiff_t i = 0; i < n; i++)
            p[i] = v[i];
    else if (streaming)
        stream(p, &v, sizeof v);
    else
        memcpy(p, &v, sizeof v);
}

/* How many values lie before the first address that can be streamed to. */
INLINE ptrdiff_t NAME(head)(const ITEM *p, ptrdiff_t cols, int streaming) {
    uintptr_t align = sizeof(STORED) < 64 ? sizeof(STORED) : 64;
    ptrdiff_t n = streaming ? (-(uintptr_t)p & (align - 1)) / sizeof(ITEM) : 0;
    return n < cols ? n : cols;
}

static void NAME(widen)(const void *from, double *to, ptrdiff_t n) {
    for (ptrdiff_t i = 0; i < n; i++)
        to[i] = NAME(load)((const ITEM *)from + i, 1)[0];
}

static void NAME(narrow)(const double *from, void *to, ptrdiff_t n) {
    for (ptrdiff_t i = 0; i < n; i++)
        NAME(store)((ITEM *)to + i, (VEC){from[i]}, 1, 0);
}

static void NAME(fill)(const double *from, void *cells, ptrdiff_t first, ptrdiff_t n) {
    for (ptrdiff_t i = 0; i < n; i++)
        ((REAL *)cells)[first + i] = from[i];
}

/* The parameters of the columns from i on. */
INLINE VEC NAME(cell)(const void *cells, ptrdiff_t i, int same) {
    const REAL *p = (const REAL *)cells + i;
    VEC v = {0};
    if (same)
        return v + *p;
    memcpy(&v, p, sizeof v);
    return v;
}

INLINE f64 NAME(wide_cell)(const double *cells, ptrdiff_t i, int same) {
    f64 v = {0};
    if (same)
        return v + cells[i];
    memcpy(&v, cells + i, sizeof v);
    return v;
}

INLINE VEC NAME(affine)(VEC x, const Cells *c, ptrdiff_t i, int same) {
    VEC centred = (x - NAME(cell)(c->high, i, same)) - NAME(cell)(c->low, i, same);
    return centred * NAME(cell)(c->scale, i, same) + NAME(cell)(c->shift, i, same);
}

/* `values` where y is above 0, or NaN; else 0. */
INLINE VEC NAME(where_positive)(VEC values, VEC y) {
    return (VEC)((MASK)values & ~(y <= 0));
}

/* Of up to 16 columns, add up x - pivot and its square. Only where there are many do
 * the roundings of REAL even out. */
INLINE void NAME(add_moments)(Block b, const ITEM *x, const Cells *c, int rows, ptrdiff_t n,
                              double *sum, double *square) {
    VEC pivot = NAME(cell)(c->pivot, b.cell, b.same);
    f64 s = {0}, q = {0};
    if (rows == 8 && b.quick) {
        VEC d[8];
        for (int k = 0; k < 8; k++)
            d[k] = NAME(load)(x + k * b.stride, n) - pivot;
        s = WIDE(((d[0] + d[1]) + (d[2] + d[3])) + ((d[4] + d[5]) + (d[6] + d[7])));
        for (int k = 0; k < 8; k++)
            d[k] *= d[k];
        q = WIDE(((d[0] + d[1]) + (d[2] + d[3])) + ((d[4] + d[5]) + (d[6] + d[7])));
    } else
        for (int k = 0; k < rows; k++) {
            f64 d = WIDE(NAME(load)(x + k * b.stride, n)) - WIDE(pivot);
            s += d;
            q += d * d;
        }
    add(sum, s, n);
    add(square, q, n);
}

/* x less its mean, whose rest is a part only of float64. */
INLINE f64 NAME(centred)(VEC x, const Cells *c, ptrdiff_t i, int same) {
    f64 d = WIDE(x) - NAME(wide_cell)(c->mean, i, same);
    return sizeof(REAL) == sizeof(double) ? d - NAME(wide_cell)(c->rest, i, same) : d;
}

/* Of up to 16 columns, add up dy and dy (x - mean). */
INLINE void NAME(add_slopes)(Block b, const ITEM *x, const ITEM *dy, const Cells *c,
                             int rows, ptrdiff_t n, double *sum, double *product) {
    f64 s = {0}, q = {0};
    for (int k = 0; k < rows; k++) {
        VEC values = NAME(load)(x + k * b.stride, n);
        VEC slope = NAME(load)(dy + k * b.stride, n);
        if (c->relu)
            slope = NAME(where_positive)(slope, NAME(affine)(values, c, b.cell, b.same));
        s += WIDE(slope);
        q += WIDE(slope) * NAME(centred)(values, c, b.cell, b.same);
    }
    add(sum, s, n);
    add(product, q, n);
}

/* 8 rows of x, or 4 of x and dy, at a time. The processor foresees one stream, but not
 * rows side by side: those of the next but one are asked for, into the second cache. */
INLINE void NAME(sum_block)(Block b, int same, const ITEM *x, const ITEM *dy,
                            const Cells *c, double *s, double *q) {
    const int most = dy ? 4 : 8;
    int whole = b.stride == b.cols;
    ptrdiff_t first = b.cell;
    b.same = same;
    while (b.rows > 0) {
        int rows = b.rows >= most ? most : 1;
        for (ptrdiff_t j = 0; j < b.cols; j += LANES) {
            ptrdiff_t n = b.cols - j < LANES ? b.cols - j : LANES;
            for (int k = 0; k < most; k++) {
                ptrdiff_t ahead = whole ? most * (b.stride + j) + k * LANES : k * b.stride + j;
                FETCH(x + most * b.stride + ahead);
                if (dy)
                    FETCH(dy + most * b.stride + ahead);
            }
            b.cell = same ? first : first + j;
#define STEP(rows, n) \
    (dy ? NAME(add_slopes)(b, x + j, dy + j, c, rows, n, s + j, q + j) \
        : NAME(add_moments)(b, x + j, c, rows, n, s + j, q + j))
            if (rows == most && n == LANES)
                STEP(most, LANES);
            else if (rows == most)
                STEP(most, n);
            else
                STEP(1, n);
        }
        b.rows -= rows;
        x += rows * b.stride;
        dy += dy ? rows * b.stride : 0;
    }
}

static void NAME(sums)(Block b, const void *x, const void *dy, const Cells *cells,
                       double *s, double *q) {
    Cells c = *cells;
    if (!dy && b.same)
        NAME(sum_block)(b, 1, x, NULL, &c, s, q);
    else if (!dy)
        NAME(sum_block)(b, 0, x, NULL, &c, s, q);
    else if (b.same)
        NAME(sum_block)(b, 1, x, dy, &c, s, q);
    else
        NAME(sum_block)(b, 0, x, dy, &c, s, q);
}

INLINE VEC NAME(output)(VEC x, const Cells *c, ptrdiff_t i, int same) {
    VEC y = NAME(affine)(x, c, i, same);
    return c->relu ? NAME(where_positive)(y, y) : y;
}

/* Only float64 has digits that multiplying out would lose. */
INLINE VEC NAME(gradient)(VEC x, VEC dy, const Cells *c, ptrdiff_t i, int same) {
    if (c->relu)
        dy = NAME(where_positive)(dy, NAME(affine)(x, c, i, same));
    f64 factor = NAME(wide_cell)(c->factor, i, same), dx = WIDE(dy) * factor;
    if (c->training && sizeof(REAL) == sizeof(double))
        dx = (WIDE(dy) - NAME(wide_cell)(c->level, i, same)) * factor -
             NAME(centred)(x, c, i, same) * NAME(wide_cell)(c->tilt, i, same);
    else if (c->training)
        dx += NAME(wide_cell)(c->offset, i, same) -
              WIDE(x) * NAME(wide_cell)(c->tilt, i, same);
    return __builtin_convertvector(dx, VEC);
}

INLINE void NAME(write_row)(ptrdiff_t cols, ptrdiff_t cell, int same, const ITEM *x,
                            const ITEM *dy, ITEM *out, const Cells *c) {
    ptrdiff_t n = NAME(head)(out, cols, c->streaming), j = 0;
#define WRITE(n) \
    NAME(store)(out + j, \
                dy ? NAME(gradient)(NAME(load)(x + j, n), NAME(load)(dy + j, n), c, \
                                    same ? cell : cell + j, same) \
                   : NAME(output)(NAME(load)(x + j, n), c, same ? cell : cell + j, same), \
                n, c->streaming)
    if (n > 0)
        WRITE(n);
    for (j = n; j + LANES <= cols; j += LANES) {
        if (!same)
            FETCH(x + j + AHEAD);
        if (!same && dy)
            FETCH(dy + j + AHEAD);
        WRITE(LANES);
    }
    if (j < cols)
        WRITE(cols - j);
}

INLINE void NAME(write_block)(Block b, int same, const ITEM *x, const ITEM *dy, ITEM *out,
                              const Cells *c) {
    for (ptrdiff_t r = 0; r < b.rows; r++) {
        ptrdiff_t at = r * b.stride;
        NAME(write_row)(b.cols, b.cell, same, x + at, dy ? dy + at : NULL, out + at, c);
    }
}

/* Write y or, given dy, dx. */
static void NAME(write)(Block b, const void *x, const void *dy, void *out,
                        const Cells *cells) {
    Cells c = *cells;
    if (!dy && b.same)
        NAME(write_block)(b, 1, x, NULL, out, &c);
    else if (!dy)
        NAME(write_block)(b, 0, x, NULL, out, &c);
    else if (b.same)
        NAME(write_block)(b, 1, x, dy, out, &c);
    else
        NAME(write_block)(b, 0, x, dy, out, &c);
}

static const Loops NAME(loops) = {sizeof(ITEM), sizeof(REAL), NAME(widen), NAME(narrow),
                                  NAME(fill),   NAME(sums),   NAME(write)};

#undef STEP
#undef WRITE
#undef SUFFIX
#undef ITEM
#undef STORED
#undef FROM
#undef TO
