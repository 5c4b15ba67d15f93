/* One kernel for a CPU: as `target.attend_masked`, without a look at the room behind each length.

   cc -O3 -march=native -ffast-math -fopenmp -shared -fPIC kernels.c -o kernels.so -lm */

#include <immintrin.h>
#include <math.h>
#include <stdlib.h>

#define WIDTH 64
#define GROUP 3
#define LANES 8

typedef float Lanes __attribute__((vector_size(4 * LANES)));
static inline Lanes loaded(const _Float16 *at) {
    return (Lanes)_mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)at));
}

/* q, seen (slots, pairs * GROUP, WIDTH); keys, values (slots, pairs, longest, WIDTH). */
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
        for (int half = 0; half < 2; half++) /* as many sums as there are registers */
            for (long i = 0; i < n; i++)
                for (int d = half * 4; d < half * 4 + 4; d++) {
                    Lanes row = loaded(value + i * WIDTH + d * LANES);
                    for (int g = 0; g < GROUP; g++) sum[g][d] += row * weights[g * n + i];
                }
        for (int g = 0; g < GROUP; g++)
            for (int d = 0; d < WIDTH; d++) seen[(one * GROUP + g) * WIDTH + d] = sum[g][d / LANES][d % LANES];
        free(weights);
    }
}
