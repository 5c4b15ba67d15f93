/* What MLX's Linux wheel calls of CBLAS, handed on to an OpenBLAS whose functions have other names.
 *
 * Loaded before MLX, for all to see, so that MLX's calls come here and not to the reference BLAS;
 * engine/blas.py says where they go on to. Made by cblas.py.
 */
#include <stdlib.h>
#include <string.h>

#define SEEN __attribute__((visibility("default")))

enum { BY_ROWS = 101, AS_IT_IS = 111 };

/* Below so many results nothing is gained by `one_column`. */
enum { LEAST_RESULTS = 64 };

typedef void sgemm(int order, int turn_a, int turn_b, int m, int n, int k, float alpha,
                   const float *a, int lda, const float *b, int ldb, float beta, float *c, int ldc);
typedef void sgemv(int order, int turn_a, int m, int n, float alpha, const float *a, int lda,
                   const float *x, int step_x, float beta, float *y, int step_y);
typedef void dgemm(int order, int turn_a, int turn_b, int m, int n, int k, double alpha,
                   const double *a, int lda, const double *b, int ldb, double beta, double *c,
                   int ldc);
typedef void cgemm(int order, int turn_a, int turn_b, int m, int n, int k, const void *alpha,
                   const void *a, int lda, const void *b, int ldb, const void *beta, void *c,
                   int ldc);

/* Where to go on to. */
SEEN sgemm *slipstream_sgemm;
SEEN sgemv *slipstream_sgemv;
SEEN dgemm *slipstream_dgemm;
SEEN cgemm *slipstream_cgemm;

/* Whether OpenBLAS has another function for a single row, which rounds otherwise than two rows. */
SEEN int slipstream_row_differs;

/* A row by the function for several: twice, in memory of our own, and one of the results is kept. */
static void one_row(int turn_a, int turn_b, int n, int k, float alpha, const float *a, int lda,
                    const float *b, int ldb, float beta, float *c) {
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

/* A matrix times one column, by the function for vectors: it reads the matrix once, and does not
 * copy it first as the other does, but rounds otherwise. */
static void one_column(int turn_a, int turn_b, int m, int k, float alpha, const float *a, int lda,
                       const float *b, int ldb, float beta, float *c, int ldc) {
    int turned = turn_a != AS_IT_IS;
    slipstream_sgemv(BY_ROWS, turn_a, turned ? k : m, turned ? m : k, alpha, a, lda, b,
                     turn_b == AS_IT_IS ? ldb : 1, beta, c, ldc);
}

/* Whether it is a product that drafters ask for (engine/drafters/weights.py) and no target does, as
 * it would be a layer of a single feature with a bias: a column that is added to another. */
static int of_a_drafter(int order, int m, int n, int k, float beta) {
    return order == BY_ROWS && n == 1 && m >= LEAST_RESULTS && k > 0 && beta == 1;
}

SEEN void cblas_sgemm(int order, int turn_a, int turn_b, int m, int n, int k, float alpha,
                      const float *a, int lda, const float *b, int ldb, float beta, float *c,
                      int ldc) {
    if (slipstream_row_differs && order == BY_ROWS && m == 1 && n > 0 && k > 0)
        one_row(turn_a, turn_b, n, k, alpha, a, lda, b, ldb, beta, c);
    else if (of_a_drafter(order, m, n, k, beta))
        one_column(turn_a, turn_b, m, k, alpha, a, lda, b, ldb, beta, c, ldc);
    else
        slipstream_sgemm(order, turn_a, turn_b, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc);
}

SEEN void cblas_dgemm(int order, int turn_a, int turn_b, int m, int n, int k, double alpha,
                      const double *a, int lda, const double *b, int ldb, double beta, double *c,
                      int ldc) {
    slipstream_dgemm(order, turn_a, turn_b, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc);
}

SEEN void cblas_cgemm(int order, int turn_a, int turn_b, int m, int n, int k, const void *alpha,
                      const void *a, int lda, const void *b, int ldb, const void *beta, void *c,
                      int ldc) {
    slipstream_cgemm(order, turn_a, turn_b, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc);
}
