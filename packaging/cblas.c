/* What MLX's Linux wheel calls of CBLAS, handed on to an OpenBLAS whose functions have other names.
 *
 * Loaded before MLX, for all to see, so that MLX's calls come here and not to the reference BLAS;
 * engine/cpu/blas.py says where they go on to. Products with a few rows, which is what a target reads
 * in a round and what drafters read, are computed here (few_rows.c). Made by cblas.py.
 */
#include <stdlib.h>
#include <string.h>

#include "cblas.h"

#if defined(__x86_64__)
#include <cpuid.h>
#include <immintrin.h>
#endif

#define SEEN __attribute__((visibility("default")))

typedef void dgemm(int order, int turn_a, int turn_b, int m, int n, int k, double alpha,
                   const double *a, int lda, const double *b, int ldb, double beta, double *c,
                   int ldc);
typedef void cgemm(int order, int turn_a, int turn_b, int m, int n, int k, const void *alpha,
                   const void *a, int lda, const void *b, int ldb, const void *beta, void *c,
                   int ldc);

/* Where to go on to. */
SEEN sgemm *slipstream_sgemm;
SEEN dgemm *slipstream_dgemm;
SEEN cgemm *slipstream_cgemm;

/* Whether OpenBLAS has another function for a single row, which rounds otherwise than two rows. */
SEEN int slipstream_row_differs;

/* How many threads may compute products with a few rows here; 0 leaves them to OpenBLAS. */
SEEN int slipstream_few_rows_threads;

#if defined(__x86_64__)

/* OpenBLAS's AVX kernels return with the upper halves of the thread's registers in use. On Intel's
 * processors each SSE instruction then waits for the one before, and MLX's exponentials are SSE:
 * 600 ns a number in place of 11. So the halves are cleared after each call. */
SMALL static int has_avx(void) {
    unsigned a, b, c, d, enabled, high, needed = bit_OSXSAVE | bit_AVX;
    if (!__get_cpuid(1, &a, &b, &c, &d) || (c & needed) != needed) return 0;
    __asm__("xgetbv" : "=a"(enabled), "=d"(high) : "c"(0));
    return (enabled & 6) == 6; /* the system keeps SSE's and AVX's registers */
}

__attribute__((target("avx"))) static void clear(void) { _mm256_zeroupper(); }

static void clear_upper_halves(void) {
    static int avx = -1;
    if (avx < 0) avx = has_avx();
    if (avx) clear();
}

/* Whether upper halves were in use when this was last called, by whatever thread; -1 where the
 * processor does not say, and before the first call. Tests put it in OpenBLAS's place. */
SEEN int slipstream_upper_halves = -1;

SEEN SMALL void slipstream_note_upper_halves(void) {
    unsigned a, b, c, d, in_use, high;
    if (!has_avx() || !__get_cpuid_count(13, 1, &a, &b, &c, &d) || !(a & 4)) return;
    __asm__ volatile("xgetbv" : "=a"(in_use), "=d"(high) : "c"(1));
    slipstream_upper_halves = (in_use & 4) != 0;
}

#else
static void clear_upper_halves(void) {}
#endif

/* A row by the function for several: twice, in memory of our own, and one result is kept. */
SMALL static void one_row(int turn_a, int turn_b, int n, int k, float alpha, const float *a,
                          int lda, const float *b, int ldb, float beta, float *c) {
    int turned = turn_a != AS_IT_IS;
    float *twice = malloc(2 * ((size_t)n + (size_t)k) * sizeof *twice);
    if (twice == NULL) abort();
    float *results = twice + 2 * (size_t)k;
    for (size_t i = 0; i < (size_t)k; i++) {
        float value = a[turned ? i * (size_t)lda : i];
        twice[turned ? 2 * i : i] = twice[turned ? 2 * i + 1 : (size_t)k + i] = value;
    }
    if (beta != 0) {
        memcpy(results, c, (size_t)n * sizeof *c);
        memcpy(results + n, c, (size_t)n * sizeof *c);
    }
    slipstream_sgemm(BY_ROWS, turn_a, turn_b, 2, n, k, alpha, twice, turned ? 2 : k, b, ldb, beta,
                     results, n);
    memcpy(c, results, (size_t)n * sizeof *c);
    free(twice);
}

/* Whether few_rows gives, bit for bit, what OpenBLAS gives here: with kernels that round otherwise
 * it does not. Not to be asked where the processor has no AVX. */
SEEN SMALL int slipstream_few_rows_agree(void) {
    enum { MOST = 13, N = 150, K = 1120 };
    static const int rows[] = {1, 4, MOST};
    static const int inner[] = {64, 576, K};
    float *a = malloc((MOST * K + N * K + 2 * MOST * N) * sizeof *a);
    if (a == NULL) return 0;
    float *b = a + MOST * K, *theirs = b + N * K, *ours = theirs + MOST * N;
    unsigned random = 1;
    for (int i = 0; i < MOST * K + N * K; i++) {
        random = random * 1664525 + 1013904223;
        a[i] = (float)(random >> 8) / (1 << 23) - 1;
    }
    int agree = 1;
    for (int i = 0; agree && i < 9; i++) {
        int m = rows[i / 3], k = inner[i % 3];
        slipstream_sgemm(BY_ROWS, AS_IT_IS, TURNED, m, N, k, 1, a, K, b, K, 0, theirs, N);
        agree = few_rows(m, N, k, a, K, b, K, 0, ours, N, 1) &&
                memcmp(theirs, ours, (size_t)m * N * sizeof *ours) == 0;
    }
    free(a);
    return agree;
}

/* See `keep_narrow`. */
SEEN int slipstream_keep_narrow(const float *b, int n, int k) {
    return slipstream_few_rows_threads && keep_narrow(b, n, k);
}

SEEN void slipstream_forget_narrow(const float *b) { forget_narrow(b); }

SEEN void cblas_sgemm(int order, int turn_a, int turn_b, int m, int n, int k, float alpha,
                      const float *a, int lda, const float *b, int ldb, float beta, float *c,
                      int ldc) {
    int threads = slipstream_few_rows_threads;
    if (threads && order == BY_ROWS && turn_a == AS_IT_IS && turn_b == TURNED && alpha == 1 &&
        (beta == 0 || beta == 1) && few_rows(m, n, k, a, lda, b, ldb, beta, c, ldc, threads))
        return;
    if (slipstream_row_differs && order == BY_ROWS && m == 1 && n > 0 && k > 0)
        one_row(turn_a, turn_b, n, k, alpha, a, lda, b, ldb, beta, c);
    else
        slipstream_sgemm(order, turn_a, turn_b, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc);
    clear_upper_halves();
}

SEEN void cblas_dgemm(int order, int turn_a, int turn_b, int m, int n, int k, double alpha,
                      const double *a, int lda, const double *b, int ldb, double beta, double *c,
                      int ldc) {
    slipstream_dgemm(order, turn_a, turn_b, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc);
    clear_upper_halves();
}

SEEN void cblas_cgemm(int order, int turn_a, int turn_b, int m, int n, int k, const void *alpha,
                      const void *a, int lda, const void *b, int ldb, const void *beta, void *c,
                      int ldc) {
    slipstream_cgemm(order, turn_a, turn_b, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc);
    clear_upper_halves();
}
