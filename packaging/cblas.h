/* What cblas.c and few_rows.c know of each other. */
enum { BY_ROWS = 101, AS_IT_IS = 111, TURNED = 112 };

#define SMALL __attribute__((minsize, noinline)) /* whose time does not count */

typedef void sgemm(int order, int turn_a, int turn_b, int m, int n, int k, float alpha,
                   const float *a, int lda, const float *b, int ldb, float beta, float *c, int ldc);

/* C (m, n) = A (m, k) times B (n, k) turned, plus C where `beta` is 1, all by rows of lda, ldb and
 * ldc numbers; on at most so many threads. Returns 0, with nothing written, where that is not for
 * it: another processor, no memory, and unless B is kept narrowly too many rows, or a `k` that
 * OpenBLAS itself sums in two ways. */
int few_rows(int m, int n, int k, const float *a, int lda, const float *b, int ldb, float beta,
             float *c, int ldc, int threads);

/* Keep B (n, k), by rows of k numbers that stay what they are, as bfloat16 too: its products are
 * rounded in another order from now on. Returns 0, and keeps nothing, where that would change one
 * of its numbers, or is not for this processor. For one thread at a time, as is the next. */
int keep_narrow(const float *b, int n, int k);

/* Keep it no longer: before its memory is used for something else. */
void forget_narrow(const float *b);
