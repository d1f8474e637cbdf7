/* Vectors of 8 values, for any processor that the compiler knows: conversions between
 * dtypes, and stores past the cache if the processor has them. */
#define INLINE static inline __attribute__((always_inline))
#define LANES 8
/* The bytes of a cache line. */
#define LINE 64
#define VECTOR(type) __attribute__((vector_size(LANES * sizeof(type))))

typedef float f32 VECTOR(float);
typedef double f64 VECTOR(double);
typedef uint16_t u16 VECTOR(uint16_t);
typedef uint32_t u32 VECTOR(uint32_t);
typedef int32_t i32 VECTOR(int32_t);
typedef int64_t i64 VECTOR(int64_t);

/* float32 to float64 and back. gcc makes twice as many instructions of the builtin. */

INLINE f64 upcast(f32 values) {
#ifdef __AVX512F__
    return (f64)_mm512_cvtps_pd((__m256)values);
#else
    return __builtin_convertvector(values, f64);
#endif
}

INLINE f32 downcast(f64 values) {
#ifdef __AVX512F__
    return (f32)_mm512_cvtpd_ps((__m512d)values);
#else
    return __builtin_convertvector(values, f32);
#endif
}

/* float16 and bfloat16 to float32 and, rounded to nearest even, back. */

INLINE u32 bn_select(i32 which, u32 yes, u32 no) {
    return (yes & (u32)which) | (no & ~(u32)which);
}

INLINE f32 from_bfloat16(u16 bits) {
    return (f32)(__builtin_convertvector(bits, u32) << 16);
}

INLINE u16 to_bfloat16(f32 values) {
    u32 bits = (u32)values;
    u32 rounded = (bits + 0x7fff + ((bits >> 16) & 1)) >> 16;
    u32 quiet = (bits >> 16) | 0x40;
    return __builtin_convertvector(bn_select(values == values, rounded, quiet), u16);
}

INLINE f32 from_float16(u16 bits) {
    u32 wide = __builtin_convertvector(bits, u32);
    u32 magnitude = (wide & 0x7fff) << 13;
    /* The product moves the exponent and normalises subnormal values. */
    u32 finite = (u32)((f32)magnitude * 0x1p112f);
    u32 special = magnitude | 0x7f800000;
    u32 result = bn_select((i32)(magnitude >= 0x0f800000), special, finite);
    return (f32)(result | (wide & 0x8000) << 16);
}

INLINE u16 to_float16(f32 values) {
    u32 bits = (u32)values, magnitude = bits & 0x7fffffff, zero = {0};
    u32 normal = (magnitude - 0x38000000 + 0xfff + ((magnitude >> 13) & 1)) >> 13;
    /* The last place of 0.5 in float32 is the last place of float16's subnormals. */
    u32 tiny = (u32)((f32)magnitude + 0.5f) - 0x3f000000;
    u32 huge = bn_select((i32)(magnitude > 0x7f800000), zero + 0x7e00, zero + 0x7c00);
    u32 result = bn_select((i32)(magnitude < 0x38800000), tiny, normal);
    result = bn_select((i32)(magnitude >= 0x47800000), huge, result);
    return __builtin_convertvector(result | (bits >> 16 & 0x8000), u16);
}

/* Copy at most a line, without a call. */
INLINE void bn_copy_line(void *to, const void *from, size_t bytes) {
    char *target = to;
    const char *source = from;
#define PART(size) \
    if (bytes & size) { \
        memcpy(target, source, size); \
        target += size, source += size; \
    }
    PART(64) PART(32) PART(16) PART(8) PART(4) PART(2)
#undef PART
}

/* Write a line past the cache, to a line's address. In parts it takes three times as
 * long. */
INLINE void bn_stream_line(void *to, const void *from) {
#if defined(__AVX__)
    __m256i low, high;
    memcpy(&low, from, sizeof low);
    memcpy(&high, (const char *)from + sizeof low, sizeof high);
#ifdef __AVX512F__
    _mm512_stream_si512(to, _mm512_inserti64x4(_mm512_castsi256_si512(low), high, 1));
#else
    _mm256_stream_si256((__m256i *)to, low);
    _mm256_stream_si256((__m256i *)to + 1, high);
#endif
#elif defined(__SSE2__)
    __m128i part[4];
    memcpy(part, from, LINE);
    for (int i = 0; i < 4; i++)
        _mm_stream_si128((__m128i *)to + i, part[i]);
#else
    memcpy(to, from, LINE);
#endif
}

/* Make a thread's streamed values visible to the others. */
INLINE void bn_fence_streams(void) {
#ifdef __SSE2__
    _mm_sfence();
#endif
}

/* The sums of 8 columns. */
typedef struct {
    f64 total, product;
} Sums;

/* LAST(n) is a mask of the last n of 8 values, FIRST(n) one of the first n. */
static const int64_t EDGE[3 * LANES] = {[LANES] = -1, -1, -1, -1, -1, -1, -1, -1};
#define LAST(n) (EDGE + (n))
#define FIRST(n) (EDGE + 2 * LANES - (n))

/* Add the sums of those of 8 columns for which the mask is set. */
INLINE void bn_add_sums(Sums sums, const int64_t *set, double *total, double *product) {
    f64 old;
    i64 mask;
    if (set != LAST(LANES)) {
        memcpy(&mask, set, sizeof mask);
        sums.total = (f64)((i64)sums.total & mask);
        sums.product = (f64)((i64)sums.product & mask);
    }
    memcpy(&old, total, sizeof old);
    sums.total += old;
    memcpy(total, &sums.total, sizeof old);
    memcpy(&old, product, sizeof old);
    sums.product += old;
    memcpy(product, &sums.product, sizeof old);
}

/* Prefetch values into the second cache. */
#define FETCH(p) __builtin_prefetch(p, 0, 2)
#define AHEAD (1 << 14)
