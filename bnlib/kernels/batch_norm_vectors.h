/* Vectors of 16 values, for any processor that the compiler knows: conversions between
 * dtypes, and stores past the cache where there are such. */
#define INLINE static inline __attribute__((always_inline))
#define LANES 16
#define VECTOR(type) __attribute__((vector_size(LANES * sizeof(type))))

typedef float f32 VECTOR(float);
typedef double f64 VECTOR(double);
typedef uint16_t u16 VECTOR(uint16_t);
typedef uint32_t u32 VECTOR(uint32_t);
typedef int32_t i32 VECTOR(int32_t);
typedef int64_t i64 VECTOR(int64_t);

/* float16 and bfloat16 to float32 and, rounded to nearest even, back. */

INLINE u32 choose(i32 which, u32 yes, u32 no) {
    return (yes & (u32)which) | (no & ~(u32)which);
}

INLINE f32 from_bfloat16(u16 bits) {
    return (f32)(__builtin_convertvector(bits, u32) << 16);
}

INLINE u16 to_bfloat16(f32 values) {
    u32 bits = (u32)values;
    u32 rounded = (bits + 0x7fff + ((bits >> 16) & 1)) >> 16;
    u32 quiet = (bits >> 16) | 0x40;
    return __builtin_convertvector(choose(values == values, rounded, quiet), u16);
}

INLINE f32 from_float16(u16 bits) {
    u32 wide = __builtin_convertvector(bits, u32);
    u32 magnitude = (wide & 0x7fff) << 13;
    /* The product moves the exponent, and normalises what is subnormal. */
    u32 finite = (u32)((f32)magnitude * 0x1p112f);
    u32 special = magnitude | 0x7f800000;
    u32 result = choose((i32)(magnitude >= 0x0f800000), special, finite);
    return (f32)(result | (wide & 0x8000) << 16);
}

INLINE u16 to_float16(f32 values) {
    u32 bits = (u32)values, magnitude = bits & 0x7fffffff, zero = {0};
    u32 normal = (magnitude - 0x38000000 + 0xfff + ((magnitude >> 13) & 1)) >> 13;
    /* The last place of 0.5 in float32 is that of float16's subnormals. */
    u32 tiny = (u32)((f32)magnitude + 0.5f) - 0x3f000000;
    u32 huge = choose((i32)(magnitude > 0x7f800000), zero + 0x7e00, zero + 0x7c00);
    u32 result = choose((i32)(magnitude < 0x38800000), tiny, normal);
    result = choose((i32)(magnitude >= 0x47800000), huge, result);
    return __builtin_convertvector(result | (bits >> 16 & 0x8000), u16);
}

/* Write past the cache, to an address aligned to 64 bytes or to the vector. */
INLINE void stream(void *to, const void *from, size_t bytes) {
    char *target = to;
    const char *source = from;
#if defined(__AVX512F__)
    for (; bytes >= 64; bytes -= 64, target += 64, source += 64)
        _mm512_stream_si512((void *)target, _mm512_loadu_si512(source));
#endif
#if defined(__AVX__)
    for (; bytes >= 32; bytes -= 32, target += 32, source += 32)
        _mm256_stream_si256((void *)target, _mm256_loadu_si256((void *)source));
#elif defined(__SSE2__)
    for (; bytes >= 16; bytes -= 16, target += 16, source += 16)
        _mm_stream_si128((void *)target, _mm_loadu_si128((void *)source));
#endif
    memcpy(target, source, bytes);
}

/* Let a thread's streamed values be seen by the others. */
INLINE void end_of_stream(void) {
#ifdef __SSE2__
    _mm_sfence();
#endif
}

/* Add the first n of 16 values. */
INLINE void add(double *to, f64 values, ptrdiff_t n) {
    f64 sum;
    memcpy(&sum, to, sizeof sum);
    for (ptrdiff_t i = n; i < LANES; i++)
        values[i] = 0;
    sum += values;
    memcpy(to, &sum, sizeof sum);
}

/* Ask for values to be brought as far as the second cache; AHEAD is 16 KB. */
#define FETCH(p) __builtin_prefetch(p, 0, 2)
#define AHEAD ((1 << 14) / (ptrdiff_t)sizeof(ITEM))
