/* Kernels for a CPU, where PyTorch would read and write several times as much.

   cc -O3 -march=native -ffast-math -fopenmp -shared -fPIC kernels.c -o kernels.so -lm */

#include <immintrin.h>
#include <math.h>
#include <stdlib.h>

#define WIDTH 64
#define GROUP 3
#ifdef __AVX512F__
#define LANES 16
#else
#define LANES 8
#endif

typedef float Lanes __attribute__((vector_size(4 * LANES)));
static inline Lanes loaded(const _Float16 *at) {
#ifdef __AVX512F__
    return (Lanes)_mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)at));
#else
    return (Lanes)_mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)at));
#endif
}

/* As `target.attend_masked`, without a look at the room behind each length.
   q, seen (slots, pairs * GROUP, WIDTH); keys, values (slots, pairs, longest, WIDTH). */
void attend_slots(
    const float *q, const _Float16 *keys, const _Float16 *values, const long *lengths, float *seen,
    long slots, long pairs, long longest)
{
#pragma omp parallel for schedule(dynamic, 4)
    for (long one = 0; one < slots * pairs; one++) {
        long n = lengths[one / pairs];
        const _Float16 *key = keys + one * longest * WIDTH, *value = values + one * longest * WIDTH;
        float *weights = malloc(GROUP * n * sizeof(float));
        Lanes query[GROUP][WIDTH / LANES], sum[GROUP][WIDTH / LANES] = {0};
        for (int g = 0; g < GROUP; g++)
            for (int d = 0; d < WIDTH; d++) query[g][d / LANES][d % LANES] = q[(one * GROUP + g) * WIDTH + d] * 0.125f;
        for (long i = 0; i < n; i++) {
            Lanes dots[GROUP] = {0};
            for (int d = 0; d < WIDTH / LANES; d++) {
                Lanes row = loaded(key + i * WIDTH + d * LANES);
                for (int g = 0; g < GROUP; g++) dots[g] += row * query[g][d];
            }
            for (int g = 0; g < GROUP; g++) {
                float dot = 0;
                for (int j = 0; j < LANES; j++) dot += dots[g][j];
                weights[g * n + i] = dot;
            }
        }
        for (int g = 0; g < GROUP; g++) {
            float *own = weights + g * n, highest = own[0], total = 0;
            for (long i = 1; i < n; i++) highest = fmaxf(highest, own[i]);
            for (long i = 0; i < n; i++) total += own[i] = expf(own[i] - highest);
            for (long i = 0; i < n; i++) own[i] /= total;
        }
        for (int first = 0; first < WIDTH / LANES; first += 4) /* as many sums as there are registers */
            for (long i = 0; i < n; i++)
                for (int d = first; d < first + 4; d++) {
                    Lanes row = loaded(value + i * WIDTH + d * LANES);
                    for (int g = 0; g < GROUP; g++) sum[g][d] += row * weights[g * n + i];
                }
        for (int g = 0; g < GROUP; g++)
            for (int d = 0; d < WIDTH; d++) seen[(one * GROUP + g) * WIDTH + d] = sum[g][d / LANES][d % LANES];
        free(weights);
    }
}

/* Numbers in bfloat16, or `wide`: in float32. */
static inline float number(const void *all, long wide, long i) {
    if (wide) return ((const float *)all)[i];
    union { unsigned whole; float value; } it = {(unsigned)((const unsigned short *)all)[i] << 16};
    return it.value;
}
static inline void put(void *all, long wide, long i, float value) {
    union { float value; unsigned whole; } it = {value};
    if (wide) ((float *)all)[i] = value;
    else ((unsigned short *)all)[i] = (it.whole + 0x7fff + (it.whole >> 16 & 1)) >> 16; /* to the nearest, ties to even */
}

/* As `head.compared`: logits, gradient (count, columns); thoughts (places, columns) with
   `stride` between rows; total (places,); which, found (count,). */
void compare(
    const void *logits, const float *thoughts, const float *total, const long *which,
    float *found, void *gradient, long wide, long count, long columns, long stride, float greed)
{
#pragma omp parallel
    {
        float *p = malloc(columns * sizeof(float)), *z = malloc(columns * sizeof(float));
        float *q = malloc(columns * sizeof(float));
#pragma omp for schedule(dynamic, 16)
        for (long one = 0; one < count; one++) {
            const float *thought = thoughts + which[one] * stride, whole = total[which[one]];
            float highest = -INFINITY, sum = 0, mass = 0, below = 0, entropy = 0, stands = 0;
            for (long i = 0; i < columns; i++) z[i] = number(logits, wide, one * columns + i);
            for (long i = 0; i < columns; i++) highest = z[i] > highest ? z[i] : highest;
            for (long i = 0; i < columns; i++) sum += q[i] = expf(z[i] - highest);
            float share = 1 / sum, log_sum = logf(sum) + highest;
            for (long i = 0; i < columns; i++) {
                p[i] = expf(thought[i] - whole);
                q[i] *= share;
                mass += p[i];
                entropy -= p[i] * (z[i] - log_sum);
                stands += q[i] < p[i] ? q[i] : p[i];
                below += q[i] < p[i] ? q[i] : 0;
            }
            found[one] = (1 - greed) * entropy - greed * stands;
            for (long i = 0; i < columns; i++) {
                float missed = q[i] * (q[i] < p[i] ? below - 1 : below);
                put(gradient, wide, one * columns + i, (1 - greed) * (q[i] * mass - p[i]) + greed * missed);
            }
        }
        free(p), free(z), free(q);
    }
}

/* As `answer.drawn`: logits (slots, tokens); recent (slots, window); the others (slots,), `luck`
   from 0 to 1. `total` is of the logits before the penalty. */
void draw(
    const void *logits, const long *recent, const float *penalties, const float *temperatures,
    const float *luck, long *chosen, float *total, long wide, long slots, long tokens, long window)
{
#pragma omp parallel
    {
        float *z = malloc(tokens * sizeof(float));
#pragma omp for schedule(dynamic, 4)
        for (long one = 0; one < slots; one++) {
            float highest = -INFINITY, sum = 0, by = penalties[one], warmth = temperatures[one];
            for (long i = 0; i < tokens; i++) z[i] = number(logits, wide, one * tokens + i);
            for (long i = 0; i < tokens; i++) highest = z[i] > highest ? z[i] : highest;
            for (long i = 0; i < tokens; i++) sum += expf(z[i] - highest);
            total[one] = logf(sum) + highest;
            for (long i = 0; i < window; i++) {
                long token = recent[one * window + i];
                float before = number(logits, wide, one * tokens + token);
                z[token] = before > 0 ? before / by : before * by;
            }
            long best = 0;
            for (long i = 1; i < tokens; i++) best = z[i] > z[best] ? i : best;
            chosen[one] = best;
            if (warmth > 0) {
                highest = z[best], sum = 0;
                for (long i = 0; i < tokens; i++) sum += z[i] = expf((z[i] - highest) / warmth);
                double left = (double)luck[one] * sum;
                for (long i = 0; i < tokens; i++)
                    if ((left -= z[i]) < 0) {
                        chosen[one] = i;
                        break;
                    }
            }
        }
        free(z);
    }
}
