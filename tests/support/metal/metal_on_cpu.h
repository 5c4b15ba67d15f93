// Enough of Metal's language for a C++ compiler to run MLX's kernels for few rows, and ours.
//
// A threadgroup's lanes are fibers. Each runs until it takes part in something that its SIMD group,
// or its threadgroup, does together; once all lanes are there, the result is made and they go on.
// Which order the hardware adds lanes in is not documented, so there are several: `lane_order`.
#pragma once
#define _XOPEN_SOURCE 700
#include <setjmp.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <ucontext.h>

#define device
#define constant
#define thread
#define threadgroup static
#define METAL_FUNC static __attribute__((noinline))

typedef unsigned int uint;
typedef unsigned short ushort;
struct uint3 { uint x, y, z; };

// 16-bit numbers: sums and products of two of them are rounded to 16 bits, as Metal does.
template <typename Format>
struct Short {
  uint16_t bits;
  Short() = default;
  explicit Short(float value) : bits(Format::packed(value)) {}
  operator float() const { return Format::unpacked(bits); }
  friend Short operator+(Short a, Short b) { return Short(float(a) + float(b)); }
  friend Short operator-(Short a, Short b) { return Short(float(a) - float(b)); }
  friend Short operator*(Short a, Short b) { return Short(float(a) * float(b)); }
};
struct Bfloat {
  static float unpacked(uint16_t bits) {
    uint32_t wide = uint32_t(bits) << 16;
    float value;
    memcpy(&value, &wide, 4);
    return value;
  }
  static uint16_t packed(float value) {
    uint32_t wide;
    memcpy(&wide, &value, 4);
    return uint16_t((wide + 0x7fff + ((wide >> 16) & 1)) >> 16);
  }
};
struct Half {
  static float unpacked(uint16_t bits) {
    const int exponent = (bits >> 10) & 31, mantissa = bits & 1023;
    const float size = exponent ? __builtin_ldexpf(float(mantissa + 1024), exponent - 25)
                                : __builtin_ldexpf(float(mantissa), -24);
    return bits & 0x8000 ? -size : size;
  }
  static uint16_t packed(float value) {
    const uint16_t sign = __builtin_signbit(value) ? 0x8000 : 0;
    const float size = __builtin_fabsf(value);
    if (size == 0) return sign;
    int exponent;
    __builtin_frexpf(size, &exponent);
    exponent = exponent - 1 < -14 ? -14 : exponent - 1;
    const int units = int(__builtin_nearbyintf(__builtin_ldexpf(size, 10 - exponent)));  // ties to even
    if (exponent == -14 && units < 1024) return uint16_t(sign | units);
    if (units == 2048) return uint16_t(sign | (exponent + 16) << 10);
    return uint16_t(sign | (exponent + 15) << 10 | (units - 1024));
  }
};
typedef Short<Bfloat> bfloat16_t;
typedef Short<Half> float16_t;
template <typename T>
struct Limits { static constexpr float finite_min = -3.402823466e38f; };

enum class mem_flags { mem_threadgroup };

// --- Lanes as fibers: started by makecontext, switched by longjmp, which makes no system calls

enum Together { NOTHING, SUM, MAX, DOWN, BARRIER };
struct Lane {
  ucontext_t start;
  jmp_buf place;
  bool begun, done;
  Together asked;
  float value;
  int distance;
};
static const int MOST_LANES = 1024, STACK = 1 << 15;
static Lane lanes[MOST_LANES];
static Lane* running;
static jmp_buf scheduler;
static void (*work)(void*, uint);
static void* work_for;
static int lane_order;

static float together(Together asked, float value, int distance = 0) {
  Lane* me = running;
  me->asked = asked, me->value = value, me->distance = distance;
  if (!_setjmp(me->place)) _longjmp(scheduler, 1);
  return me->value;
}
static float simd_sum(float value) { return together(SUM, value); }
static float simd_max(float value) { return together(MAX, value); }
static float simd_shuffle_down(float value, int distance) { return together(DOWN, value, distance); }
static void threadgroup_barrier(mem_flags) { together(BARRIER, 0); }

static float added(const float* values) {
  float v[32], next[32];
  memcpy(v, values, sizeof v);
  if (lane_order == 3) {  // one after the other
    for (int i = 1; i < 32; ++i) v[0] += v[i];
    return v[0];
  }
  if (lane_order == 4) {  // one after the other, in an arbitrary order
    float sum = v[11];
    for (int i = 1; i < 32; ++i) sum += v[(i * 13 + 11) % 32];
    return sum;
  }
  static const int steps[3][5] = {{16, 8, 4, 2, 1}, {1, 2, 4, 8, 16}, {2, 1, 16, 4, 8}};
  for (int step : steps[lane_order]) {  // butterflies
    for (int i = 0; i < 32; ++i) next[i] = v[i] + v[i ^ step];
    memcpy(v, next, sizeof v);
  }
  return v[0];
}

static void lane_main() {
  for (;;) {
    work(work_for, uint(running - lanes));
    running->done = true;
    together(NOTHING, 0);
  }
}

static void resume(Lane* lane) {
  running = lane;
  if (_setjmp(scheduler)) return;
  if (lane->begun) _longjmp(lane->place, 1);
  lane->begun = true;
  getcontext(&lane->start);
  lane->start.uc_stack.ss_sp = __builtin_malloc(STACK);
  lane->start.uc_stack.ss_size = STACK;
  makecontext(&lane->start, lane_main, 0);
  setcontext(&lane->start);
}

static void meet(Lane* group) {  // what the 32 lanes of a SIMD group do together
  float values[32];
  for (int i = 0; i < 32; ++i) {
    if (group[i].done != group[0].done || group[i].asked != group[0].asked) {
      fprintf(stderr, "lanes of a SIMD group are not at the same place\n");
      __builtin_abort();
    }
    values[i] = group[i].value;
  }
  if (group[0].done || group[0].asked == BARRIER) return;  // all groups are resumed at once
  float all = values[0];
  if (group[0].asked == SUM) all = added(values);
  if (group[0].asked == MAX)
    for (float each : values) all = each > all ? each : all;
  for (int i = 0; i < 32; ++i) {
    const int from = i + group[i].distance;
    group[i].value = group[0].asked != DOWN ? all : values[from < 32 ? from : i];
  }
}

static void run_threadgroup(int count, void (*kernel)(void*, uint), void* arguments) {
  if (count % 32 || count > MOST_LANES) __builtin_abort();
  work = kernel, work_for = arguments;
  for (int i = 0; i < count; ++i) lanes[i].done = false;
  for (bool all_done = false; !all_done;) {
    all_done = true;
    for (int group = 0; group < count; group += 32) {
      // A group goes on by itself up to a barrier, where it waits for the others.
      do {
        for (int i = group; i < group + 32; ++i)
          if (!lanes[i].done) resume(&lanes[i]);
        meet(&lanes[group]);
      } while (!lanes[group].done && lanes[group].asked != BARRIER);
      all_done = all_done && lanes[group].done;
    }
  }
}

namespace metal {
template <typename A, typename B>
constexpr auto min(A a, B b) { return a < b ? a : b; }
template <typename A, typename B>
constexpr auto max(A a, B b) { return a > b ? a : b; }
template <typename V>
constexpr V clamp(V value, V low, V high) { return min(max(value, low), high); }
template <typename V>
constexpr V select(V no, V yes, bool which) { return which ? yes : no; }
namespace fast {
inline float exp(float value) { return __builtin_expf(value); }
}  // namespace fast
}  // namespace metal

// --- A kernel that is called with arrays, their shapes and a grid of threads

struct Call {
  void **in, **shapes, **out;
  uint3 place, groups, group;
  uint3 threadgroup_position_in_grid(uint) const { return place; }
  uint3 threadgroups_per_grid(uint) const { return groups; }
  uint3 threads_per_threadgroup(uint) const { return group; }
  uint3 thread_position_in_threadgroup(uint i) const {
    return {i % group.x, i / group.x % group.y, i / group.x / group.y};
  }
  uint simdgroup_index_in_threadgroup(uint i) const { return i / 32; }
  uint thread_index_in_simdgroup(uint i) const { return i % 32; }
};

static void run_grid(Call call, uint* grid, uint* group, int order, void (*lane)(void*, uint)) {
  lane_order = order;
  call.group = {group[0], group[1], group[2]};
  call.groups = {grid[0] / group[0], grid[1] / group[1], grid[2] / group[2]};
  uint3& at = call.place;
  for (at.z = 0; at.z < call.groups.z; ++at.z)
    for (at.y = 0; at.y < call.groups.y; ++at.y)
      for (at.x = 0; at.x < call.groups.x; ++at.x)
        run_threadgroup(group[0] * group[1] * group[2], lane, &call);
}
