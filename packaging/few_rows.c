/* Products of a matrix with a few rows, on x86-64 with AVX: equal, bit for bit, to what OpenBLAS's
 * Sandybridge kernels give for any number of rows, in half of the time or less.
 *
 * OpenBLAS first copies the matrix into another order, which pays when many rows are multiplied by
 * it. With a few rows reading the matrix from memory once is all that must take time. So here the
 * rows of A lie side by side in the lanes of a register, up to eight in one or sixteen in two, and
 * every number of B is read where it is, and multiplied by all of them at once: to eight rows a
 * product takes the time of one.
 *
 * Each result is summed as OpenBLAS does it: along k, a product rounded and then the sum, in panels
 * whose sums are added to C one by one.
 *
 * A drafter's matrices need not be summed so. They may be kept narrowly, as bfloat16, of which
 * memory gives twice as many numbers a second, and summed in any order: a product with one row
 * takes less than half the time. It, too, is the same for any number of rows.
 */
#define _POSIX_C_SOURCE 200809L

#include "cblas.h"

#if defined(__x86_64__)

#include <immintrin.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum {
    LANES = 8,            /* of a register */
    MOST_ROWS = 2 * LANES,
    LEAST_COLUMNS = LANES,
    PANEL = 384,          /* OpenBLAS's SGEMM_DEFAULT_Q for Sandybridge */
    LINE = 16,            /* floats that memory gives at once */
    PART = 32768,         /* numbers of B that a thread takes at a time */
    MOST_THREADS = 8,     /* more do not read memory faster */
    STEP = 2 * LANES,     /* numbers of a narrow row that are read together */
    MOST_NARROWED = 128,  /* matrices */
    PAUSES = 2000,        /* that a helper waits for the next product before it sleeps */
};

#define AVX __attribute__((target("avx")))
#define WITHIN static inline __attribute__((always_inline, target("avx")))
#define UNROLLED _Pragma("GCC unroll 8")

typedef __m256 register8;

/* A product that is under way. `lanes` (k, 8 or 16): A, its rows side by side. Of a matrix that is
 * kept narrowly `narrow` takes the place of B, and A's rows are as they came: `a`, `lda`. */
struct product {
    int m, n, k, ldb, ldc;
    const float *lanes, *b;
    float beta, *c;
    const uint16_t *narrow;
    const float *a;
    int lda;
};

/* Eight rows of eight numbers become columns. */
WITHIN void turn(register8 r[LANES]) {
    register8 pairs[LANES], fours[LANES];
    UNROLLED for (int i = 0; i < LANES; i += 2) {
        pairs[i] = _mm256_unpacklo_ps(r[i], r[i + 1]);
        pairs[i + 1] = _mm256_unpackhi_ps(r[i], r[i + 1]);
    }
    UNROLLED for (int i = 0; i < LANES; i += 4) {
        fours[i] = _mm256_shuffle_ps(pairs[i], pairs[i + 2], 0x44);
        fours[i + 1] = _mm256_shuffle_ps(pairs[i], pairs[i + 2], 0xee);
        fours[i + 2] = _mm256_shuffle_ps(pairs[i + 1], pairs[i + 3], 0x44);
        fours[i + 3] = _mm256_shuffle_ps(pairs[i + 1], pairs[i + 3], 0xee);
    }
    UNROLLED for (int i = 0; i < 4; i++) {
        r[i] = _mm256_permute2f128_ps(fours[i], fours[i + 4], 0x20);
        r[i + 4] = _mm256_permute2f128_ps(fours[i], fours[i + 4], 0x31);
    }
}

/* How many of the numbers that are left along k OpenBLAS sums before it adds to C. */
static int panel(int left) {
    if (left >= 2 * PANEL) return PANEL;
    return left > PANEL ? left / 2 : left;
}

/* Whether it does so on one thread and on several: the former rounds a half to a multiple of 16. */
static int panels_agree(int k) {
    while (k >= 2 * PANEL) k -= PANEL;
    return k <= PANEL || k % 32 == 0;
}

/* One panel of `length` numbers of up to eight columns, for as many rows as `registers` have. Where
 * there are fewer columns the last one is computed again in place of each that is missing. */
WITHIN void some_columns(const int registers, const int columns, int length, const float *lanes,
                         const float *b, int ldb, int there, float *c, int ldc, int m, int add) {
    register8 sums[LANES][2];
    const float *column[LANES];
    UNROLLED for (int i = 0; i < columns; i++) {
        column[i] = b + (size_t)(i < there ? i : there - 1) * (size_t)ldb;
        UNROLLED for (int h = 0; h < registers; h++) sums[i][h] = _mm256_setzero_ps();
    }
    for (int start = 0; start < length; start += LINE) {
        int end = start + LINE < length ? start + LINE : length;
        /* The columns that come next. Beyond the matrix this reads nothing. */
        UNROLLED for (int i = 0; i < columns; i++)
            __builtin_prefetch(column[i] + (size_t)LANES * (size_t)ldb + start, 0, 2);
        for (int j = start; j < end; j++) {
            register8 rows[2];
            UNROLLED for (int h = 0; h < registers; h++)
                rows[h] = _mm256_loadu_ps(lanes + (j * registers + h) * LANES);
            UNROLLED for (int i = 0; i < columns; i++) {
                register8 number = _mm256_broadcast_ss(column[i] + j);
                UNROLLED for (int h = 0; h < registers; h++)
                    sums[i][h] = _mm256_add_ps(sums[i][h], _mm256_mul_ps(rows[h], number));
            }
        }
    }
    for (int h = 0; h < registers; h++) {
        register8 row[LANES];
        float numbers[LANES];
        UNROLLED for (int i = 0; i < LANES; i++)
            row[i] = i < columns ? sums[i][h] : _mm256_setzero_ps();
        turn(row);
        for (int i = 0; i < LANES && h * LANES + i < m; i++) {
            float *place = c + (size_t)(h * LANES + i) * (size_t)ldc;
            _mm256_storeu_ps(numbers, row[i]);
            for (int j = 0; j < there; j++) place[j] = (add ? place[j] : 0) + numbers[j];
        }
    }
}

AVX static void to_eight_rows(int length, const float *lanes, const float *b, int ldb, int there,
                              float *c, int ldc, int m, int add) {
    some_columns(1, 8, length, lanes, b, ldb, there, c, ldc, m, add);
}

AVX static void to_sixteen_rows(int length, const float *lanes, const float *b, int ldb, int there,
                                float *c, int ldc, int m, int add) {
    some_columns(2, 4, length, lanes, b, ldb, there, c, ldc, m, add);
}

/* Eight numbers, kept as their upper halves. */
WITHIN register8 widened(const uint16_t *narrow) {
    __m128i upper = _mm_loadu_si128((const __m128i *)narrow), lower = _mm_setzero_si128();
    __m256i low = _mm256_castsi128_si256(_mm_unpacklo_epi16(lower, upper));
    return _mm256_castsi256_ps(_mm256_insertf128_si256(low, _mm_unpackhi_epi16(lower, upper), 1));
}

AVX static void narrow_columns(const struct product *p, int first, int end) {
    for (int n = first; n < end; n++) {
        const uint16_t *column = p->narrow + (size_t)n * (size_t)p->k;
        for (int i = 0; i < p->m; i++) {
            const float *row = p->a + (size_t)i * (size_t)p->lda;
            float *place = p->c + (size_t)i * (size_t)p->ldc + n, numbers[LANES];
            register8 sums[2] = {_mm256_setzero_ps(), _mm256_setzero_ps()};
            for (int j = 0; j < p->k; j += STEP)
                UNROLLED for (int h = 0; h < 2; h++) {
                    register8 left = _mm256_loadu_ps(row + j + h * LANES);
                    register8 right = widened(column + j + h * LANES);
                    sums[h] = _mm256_add_ps(sums[h], _mm256_mul_ps(left, right));
                }
            _mm256_storeu_ps(numbers, _mm256_add_ps(sums[0], sums[1]));
            float sum = p->beta != 0 ? *place : 0;
            for (int j = 0; j < LANES; j++) sum += numbers[j];
            *place = sum;
        }
    }
}

static void columns(const struct product *p, int first, int end) {
    if (p->narrow != NULL) {
        narrow_columns(p, first, end);
        return;
    }
    int wide = p->m > LANES, step = wide ? 4 : 8;
    for (int n = first; n < end; n += step) {
        int there = n + step < end ? step : end - n;
        for (int start = 0, length; start < p->k; start += length) {
            length = panel(p->k - start);
            (wide ? to_sixteen_rows : to_eight_rows)(
                length, p->lanes + (size_t)start * LANES * (wide ? 2 : 1),
                p->b + (size_t)n * (size_t)p->ldb + start, p->ldb, there, p->c + n, p->ldc, p->m,
                start > 0 || p->beta != 0);
        }
    }
}

/* The matrices that are kept narrowly, each known by its place. */
static struct {
    _Atomic(const float *) b;
    int n, k;
    uint16_t *narrow;
} narrowed[MOST_NARROWED];
static atomic_int under_way; /* products, which may read one */

/* The helpers: threads that take parts of a product, as many as they come to. Who asked for it
 * takes parts as well, and waits only for helpers that are at work. */
static struct product shared;
static int part, helpers;
static atomic_int next_part, is_open, at_work, asleep;
static atomic_uint products;
static pthread_mutex_t one_product = PTHREAD_MUTEX_INITIALIZER, door = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t bell = PTHREAD_COND_INITIALIZER;

static void take_parts(void) {
    for (;;) {
        int first = atomic_fetch_add(&next_part, 1) * part;
        if (first >= shared.n) return;
        columns(&shared, first, first + part < shared.n ? first + part : shared.n);
    }
}

SMALL static void *help(void *nothing) {
    for (unsigned seen = 0;;) {
        for (int i = 0; i < PAUSES && atomic_load(&products) == seen; i++) _mm_pause();
        if (atomic_load(&products) == seen) {
            pthread_mutex_lock(&door);
            atomic_fetch_add(&asleep, 1);
            while (atomic_load(&products) == seen) pthread_cond_wait(&bell, &door);
            atomic_fetch_sub(&asleep, 1);
            pthread_mutex_unlock(&door);
        }
        seen = atomic_load(&products);
        atomic_fetch_add(&at_work, 1);
        if (atomic_load(&is_open)) take_parts();
        atomic_fetch_sub(&at_work, 1);
    }
    return nothing;
}

/* A process that was forked has no helpers, and no product, whatever those were doing. */
static void without_helpers(void) {
    helpers = -1;
    atomic_store(&under_way, 0);
}

SMALL static void start_helpers(int threads) {
    sigset_t all, before;
    pthread_attr_t detached;
    int wanted = (threads < MOST_THREADS ? threads : MOST_THREADS) - 1;
    pthread_atfork(NULL, NULL, without_helpers);
    pthread_attr_init(&detached);
    pthread_attr_setdetachstate(&detached, PTHREAD_CREATE_DETACHED);
    sigfillset(&all); /* signals are for the threads of the program */
    pthread_sigmask(SIG_SETMASK, &all, &before);
    for (pthread_t thread; helpers < wanted; helpers++)
        if (pthread_create(&thread, &detached, help, NULL) != 0) break;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&detached);
    if (helpers == 0) helpers = -1;
}

SMALL static void with_helpers(const struct product *p, int threads) {
    if (helpers == 0) start_helpers(threads);
    if (helpers < 0) {
        columns(p, 0, p->n);
        return;
    }
    int of_columns = PART / p->k / LANES * LANES;
    shared = *p;
    part = of_columns > LANES ? of_columns : LANES;
    atomic_store(&next_part, 0);
    atomic_store(&is_open, 1);
    atomic_fetch_add(&products, 1);
    if (atomic_load(&asleep)) {
        pthread_mutex_lock(&door);
        pthread_cond_broadcast(&bell);
        pthread_mutex_unlock(&door);
    }
    take_parts();
    atomic_store(&is_open, 0);
    while (atomic_load(&at_work)) _mm_pause();
}

static const uint16_t *narrow_of(const float *b, int n, int k, int ldb) {
    int i = 0;
    while (i < MOST_NARROWED && atomic_load(&narrowed[i].b) != b) i++;
    int whole = i < MOST_NARROWED && ldb == k && k == narrowed[i].k && n <= narrowed[i].n;
    return whole ? narrowed[i].narrow : NULL;
}

static int compute(struct product p, int threads) {
    size_t width = p.m > LANES ? 2 * LANES : LANES;
    float *lanes = NULL;
    if (p.narrow == NULL) {
        if (p.m > MOST_ROWS || p.n < LEAST_COLUMNS || !panels_agree(p.k)) return 0;
        p.lanes = lanes = malloc((size_t)p.k * width * sizeof *lanes);
        if (lanes == NULL) return 0;
        for (size_t j = 0; j < (size_t)p.k; j++)
            for (size_t i = 0; i < width; i++)
                lanes[j * width + i] = i < (size_t)p.m ? p.a[i * (size_t)p.lda + j] : 0;
    }
    int alone = threads < 2 || (size_t)p.n * (size_t)p.k <= 2 * PART;
    if (alone || pthread_mutex_trylock(&one_product) != 0) {
        columns(&p, 0, p.n);
    } else {
        with_helpers(&p, threads);
        pthread_mutex_unlock(&one_product);
    }
    free(lanes);
    return 1;
}

int few_rows(int m, int n, int k, const float *a, int lda, const float *b, int ldb, float beta,
             float *c, int ldc, int threads) {
    if (m < 1 || n < 1 || k < 1) return 0;
    atomic_fetch_add(&under_way, 1);
    const uint16_t *narrow = narrow_of(b, n, k, ldb);
    struct product p = {m, n, k, ldb, ldc, NULL, b, beta, c, narrow, a, lda};
    int done = compute(p, threads);
    atomic_fetch_sub(&under_way, 1);
    return done;
}

SMALL int keep_narrow(const float *b, int n, int k) {
    if (k < 1 || k % STEP) return 0;
    size_t count = (size_t)n * (size_t)k;
    int i = 0;
    while (i < MOST_NARROWED && narrowed[i].narrow != NULL) i++;
    uint16_t *narrow = i < MOST_NARROWED ? malloc(count * sizeof *narrow) : NULL;
    if (narrow == NULL) return 0;
    for (size_t j = 0; j < count; j++) {
        uint32_t bits;
        memcpy(&bits, b + j, sizeof bits);
        narrow[j] = (uint16_t)(bits >> 16);
        if ((uint16_t)bits != 0) {
            free(narrow);
            return 0;
        }
    }
    narrowed[i].n = n, narrowed[i].k = k, narrowed[i].narrow = narrow;
    atomic_store(&narrowed[i].b, b);
    return 1;
}

SMALL void forget_narrow(const float *b) {
    for (int i = 0; i < MOST_NARROWED; i++) {
        if (atomic_load(&narrowed[i].b) != b) continue;
        atomic_store(&narrowed[i].b, NULL);
        while (atomic_load(&under_way)) _mm_pause();
        free(narrowed[i].narrow);
        narrowed[i].narrow = NULL;
    }
}

#else

int few_rows(int m, int n, int k, const float *a, int lda, const float *b, int ldb, float beta,
             float *c, int ldc, int threads) {
    (void)m, (void)n, (void)k, (void)a, (void)lda, (void)b, (void)ldb, (void)beta, (void)c;
    (void)ldc, (void)threads;
    return 0;
}

int keep_narrow(const float *b, int n, int k) {
    (void)b, (void)n, (void)k;
    return 0;
}

void forget_narrow(const float *b) { (void)b; }

#endif
