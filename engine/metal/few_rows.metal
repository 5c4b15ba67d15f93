// A product with a quantized matrix for a few rows at once, which reads the matrix once.
//
// Each row gets, bit for bit, what MLX's kernel for a single row gives it: the same lane adds the
// same products in the same order, by MLX's own `load_vector` and `qdot`, which stand before this.
// Template: T, ROWS (of a tile), GROUP, BITS, FAST (MLX's kernel for whole steps computes one row).
// Inputs: w (N, K) packed, scales and biases (N, K / GROUP), x (rows, K). Output: y (rows, N).
// Grid: (32 * tiles of rows, 2 * ceil(N / 8), 1), in threadgroups of (32, 2, 1).
constexpr int OUTPUTS = 4;  // of a SIMD group
constexpr int VALUES = get_pack_factor<BITS, 32>() * (FAST && BITS > 2 ? 2 : 1);  // of a lane
constexpr int STEP = VALUES * 32;
const int N = w_shape[0], K = x_shape[1], groups = K / GROUP;
const int in_steps = FAST ? K : (K - 1) / STEP * STEP;

const int lane = thread_index_in_simdgroup, from = lane * VALUES;
const int output = (threadgroup_position_in_grid.y * 2 + simdgroup_index_in_threadgroup) * OUTPUTS;
const int row = threadgroup_position_in_grid.x * ROWS, last_row = x_shape[0] - 1;
if (output >= N) return;
const int last = min(OUTPUTS, N - output) - 1;  // outputs past it repeat it, and are not stored

const device uint8_t* packed = (const device uint8_t*)w + size_t(output) * (K * BITS / 8);
const device T* scale = scales + size_t(output) * groups;
const device T* bias = biases + size_t(output) * groups;
float sums[ROWS][OUTPUTS] = {};
for (int k = from; k - from < in_steps; k += STEP) {
#pragma unroll  // or sums would not be in registers
  for (int r = 0; r < ROWS; ++r) {
    float values[VALUES];
    const device T* read = x + size_t(min(row + r, last_row)) * K + k;
    const float sum = load_vector<T, float, VALUES, BITS>(read, values);
    for (int o = 0; o < OUTPUTS; ++o) {
      const int at = min(o, last);
      const float s = scale[at * groups + k / GROUP], b = bias[at * groups + k / GROUP];
      const device uint8_t* words = packed + at * (K * BITS / 8) + k * BITS / 8;
      sums[r][o] += qdot<float, VALUES, BITS>(words, values, s, b, sum);
    }
  }
}
const int k = in_steps + from, left = clamp(K - k, 0, VALUES);
if (!FAST && left > 0) {
#pragma unroll
  for (int r = 0; r < ROWS; ++r) {
    float values[VALUES];
    const device T* read = x + size_t(min(row + r, last_row)) * K + k;
    const float sum = load_vector_safe<T, float, VALUES, BITS>(read, values, left);
    for (int o = 0; o < OUTPUTS; ++o) {
      const int at = min(o, last);
      const float s = scale[at * groups + k / GROUP], b = bias[at * groups + k / GROUP];
      const device uint8_t* words = packed + at * (K * BITS / 8) + k * BITS / 8;
      sums[r][o] += qdot_safe<float, VALUES, BITS>(words, values, s, b, sum, left);
    }
  }
}
#pragma unroll
for (int r = 0; r < ROWS; ++r) {
  for (int o = 0; o < OUTPUTS; ++o) {
    const float sum = simd_sum(sums[r][o]);
    if (lane == 0 && o <= last && row + r <= last_row) y[size_t(row + r) * N + output + o] = T(sum);
  }
}
