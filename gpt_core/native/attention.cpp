// Causal softmax attention and its gradients in bf16 with fp32 sums, on the matrix tiles (AMX) of recent Xeons; for training.
//
// Made as FlashAttention is (Dao et al. 2022): no matrix of all weights is kept; the backward pass makes them again, a block at
// a time, from the log of each row's sum. One head of one row is one task. Elsewhere attention_ready() says no and nothing more.
#include <cstdint>

#if defined(_WIN32)
#define EXPORT extern "C" __declspec(dllexport)
#else
#define EXPORT extern "C" __attribute__((visibility("default")))
#endif

// One [batch, head, position, size] tensor: strides in elements, those of `size` are 1.
struct View { void* data; int64_t batch, head, row; };

#if defined(__linux__) && defined(__x86_64__) && (defined(__clang__) || __GNUC__ >= 11)
#include <cpuid.h>
#include <immintrin.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <system_error>
#include <thread>
#include <vector>

#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("amx-tile,amx-bf16,avx512f,avx512bw,avx512vl,avx512dq,avx512bf16,avx2,fma"))), apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target("amx-tile,amx-bf16,avx512f,avx512bw,avx512vl,avx512dq,avx512bf16,avx2,fma")
#endif

namespace {
#include "tiles.h"

// Memory of one thread, handed out in order.
struct Room {
  std::unique_ptr<char, void (*)(void*)> block{nullptr, std::free};
  int64_t used = 0;
  explicit Room(int64_t size) : block((char*)std::aligned_alloc(4096, up(size, 4096)), std::free) {}
  template <class T> T* take(int64_t n) {
    T* p = (T*)(block.get() + used);
    used += up(n * sizeof(T), 64);
    return p;
  }
};

const bf16* at(const View& x, int64_t b, int64_t h) { return (const bf16*)x.data + b * x.batch + h * x.head; }

struct Problem {
  View q, k, v, out, grad, dq, dk, dv;
  float* log_sums;  // [batch, heads, n], to base 2
  int64_t batch, heads, n, size;
};

int64_t forward_room(const Head& m) { return 5 * m.numbers() * 2 + SPAN * m.rows * 6 + SPAN * SPAN * 4 + 16 * 64; }

// Query by query: all scores of a row, their softmax, the weighted sum of values.
void forward(const Problem& a, int64_t b, int64_t h, Room& room) {
  const Head m(a.n, a.size);
  bf16 *q = room.take<bf16>(m.numbers()), *x = room.take<bf16>(m.numbers());
  bf16 *keys = room.take<bf16>(m.numbers()), *values = room.take<bf16>(m.numbers()), *weights = room.take<bf16>(SPAN * m.rows);
  float *scores = room.take<float>(SPAN * m.rows), *sums = room.take<float>(SPAN * SPAN), inverse[SPAN];
  m.copy(at(a.q, b, h), a.q.row, q);
  m.copy(at(a.k, b, h), a.k.row, x), m.across(x, keys);
  m.copy(at(a.v, b, h), a.v.row, x), m.along(x, values);
  const __m512 unit = _mm512_set1_ps(LOG2E / std::sqrt((float)a.size)), least = _mm512_set1_ps(-INFINITY);
  bf16* out = (bf16*)at(a.out, b, h);
  float* log_sums = a.log_sums + (b * a.heads + h) * a.n;
  for (int64_t i = 0; i < a.n; i += SPAN) {
    const int64_t seen = i + SPAN;
    for (int64_t j = 0; j < seen; j += SPAN) {
      clear();
      multiply(q + i * m.wide, m.wide, keys + j / 16 * TILE, m.rows / 16 * TILE, m.wide / 32);
      save(scores + j, m.rows);
    }
    for (int64_t r = 0; r < SPAN; r++) {
      float* s = scores + r * m.rows;
      __m512 top = least, total = _mm512_setzero_ps();
      for (int64_t j = 0; j < seen; j += 16) top = _mm512_mask_max_ps(top, first(i + r + 1 - j), top, _mm512_load_ps(s + j));
      const float most = _mm512_reduce_max_ps(top) * _mm512_cvtss_f32(unit);
      for (int64_t j = 0; j < seen; j += 16) {
        const __m512 p = power(_mm512_fmsub_ps(_mm512_load_ps(s + j), unit, _mm512_set1_ps(most)));
        const __m512 seen_only = _mm512_maskz_mov_ps(first(i + r + 1 - j), p);
        total = _mm512_add_ps(total, seen_only);
        put(weights + r * m.rows + j, narrow(seen_only));
      }
      const float sum = _mm512_reduce_add_ps(total);
      inverse[r] = 1 / sum;
      if (i + r < a.n) log_sums[i + r] = most + std::log2(sum);
    }
    for (int64_t d = 0; d < a.size; d += SPAN) {
      clear();
      multiply(weights, m.rows, values + d / 16 * TILE, m.wide / 16 * TILE, seen / 32);
      save(sums, SPAN);
      for (int64_t r = 0; r < SPAN && i + r < a.n; r++)
        for (int64_t e = 0; e < SPAN && d + e < a.size; e += 16)
          put(out + (i + r) * a.out.row + d + e,
              narrow(_mm512_mul_ps(_mm512_load_ps(sums + r * SPAN + e), _mm512_set1_ps(inverse[r]))));
    }
  }
}

int64_t backward_room(const Head& m) {
  return 9 * m.numbers() * 2 + m.numbers() * 4 + 2 * BLOCK * m.wide * 4 + 2 * m.rows * 4 + 3 * BLOCK * BLOCK * 2 + 20 * 64;
}

// A block's weights and the gradients of its scores: [key, query], and the latter as B tiles, too.
struct Weights { bf16 *p, *ds, *pairs; };

// One block of 32 keys x 32 queries of them, from scores and the gradients of weights [key, query].
void weigh(const float* scores, const float* dweights, const float* logs, const float* dots, int64_t query, int64_t key, float unit,
           bf16* p_out, bf16* ds_out, bf16* pairs) {
  for (int half = 0; half < 2; half++, query += 16, scores += 16, dweights += 16, p_out += 16, ds_out += 16, pairs += TILE) {
    const __m512 log = _mm512_load_ps(logs + query), dot = _mm512_load_ps(dots + query);
    for (int r = 0; r < SPAN; r += 2) {
      __m256i ds[2];
      for (int e = 0; e < 2; e++) {
        const int at = r + e;
        __m512 p = power(_mm512_fmsub_ps(_mm512_load_ps(scores + at * SPAN), _mm512_set1_ps(unit), log));
        p = _mm512_maskz_mov_ps((__mmask16)~first(key + at - query), p);  // a query sees the keys up to itself
        ds[e] = narrow(_mm512_mul_ps(p, _mm512_sub_ps(_mm512_load_ps(dweights + at * SPAN), dot)));
        put(p_out + at * BLOCK, narrow(p));
        put(ds_out + at * BLOCK, ds[e]);
      }
      pair(ds[0], ds[1], pairs + r * 16);
    }
  }
}

// x [n rows, wide] times `factor` as bf16.
void write(const float* x, int64_t wide, int64_t n, int64_t size, float factor, bf16* out, int64_t stride) {
  for (int64_t r = 0; r < n; r++)
    for (int64_t d = 0; d < size; d += 16)
      put(out + r * stride + d, narrow(_mm512_mul_ps(_mm512_loadu_ps(x + r * wide + d), _mm512_set1_ps(factor))));
}

void backward(const Problem& a, int64_t b, int64_t h, Room& room) {
  const Head m(a.n, a.size);
  const int64_t all = m.numbers(), tiles = m.rows / 16 * TILE, span = m.wide / 16 * TILE;
  auto matrix = [&] { return room.take<bf16>(all); };
  bf16 *q = matrix(), *k = matrix(), *v = matrix(), *g = matrix(), *k_t = matrix();
  bf16 *q_across = matrix(), *g_across = matrix(), *q_along = matrix(), *g_along = matrix();
  float *dq_t = room.take<float>(all), *dk = room.take<float>(BLOCK * m.wide), *dv = room.take<float>(BLOCK * m.wide);
  float *logs = room.take<float>(m.rows), *dots = room.take<float>(m.rows);
  const Weights w{room.take<bf16>(BLOCK * BLOCK), room.take<bf16>(BLOCK * BLOCK), room.take<bf16>(BLOCK * BLOCK)};
  alignas(64) float scores[SPAN * SPAN], dweights[SPAN * SPAN];
  m.copy(at(a.q, b, h), a.q.row, q), m.copy(at(a.k, b, h), a.k.row, k);
  m.copy(at(a.v, b, h), a.v.row, v), m.copy(at(a.grad, b, h), a.grad.row, g);
  m.across(q, q_across), m.across(g, g_across), m.along(q, q_along), m.along(g, g_along);
  for (int64_t t = 0; t < m.rows; t++)
    for (int64_t d = 0; d < m.wide; d++) k_t[d * m.rows + t] = k[t * m.wide + d];
  const bf16* out = at(a.out, b, h);
  for (int64_t t = 0; t < m.rows; t++) {
    __m512 dot = _mm512_setzero_ps();
    if (t < a.n)
      for (int64_t d = 0; d < a.size; d += 16) dot = _mm512_fmadd_ps(widen(out + t * a.out.row + d), widen(g + t * m.wide + d), dot);
    dots[t] = _mm512_reduce_add_ps(dot);
    logs[t] = t < a.n ? a.log_sums[(b * a.heads + h) * a.n + t] : 1e30f;  // no weight beyond the end
  }
  std::memset(dq_t, 0, all * 4);
  const float scale = 1 / std::sqrt((float)a.size), unit = scale * LOG2E;
  for (int64_t j = 0; j < m.rows; j += BLOCK) {  // keys
    std::memset(dk, 0, BLOCK * m.wide * 4), std::memset(dv, 0, BLOCK * m.wide * 4);
    for (int64_t i = j; i < m.rows; i += BLOCK) {  // queries
      for (int64_t x = 0; x < BLOCK; x += SPAN)
        for (int64_t y = 0; y < BLOCK; y += SPAN) {
          const int64_t key = j + x, query = i + y;
          clear(), multiply(k + key * m.wide, m.wide, q_across + query / 16 * TILE, tiles, m.wide / 32), save(scores, SPAN);
          clear(), multiply(v + key * m.wide, m.wide, g_across + query / 16 * TILE, tiles, m.wide / 32), save(dweights, SPAN);
          weigh(scores, dweights, logs, dots, query, key, unit, w.p + x * BLOCK + y, w.ds + x * BLOCK + y,
                w.pairs + (x / 32 * (BLOCK / 16) + y / 16) * TILE);
        }
      for (int64_t x = 0; x < BLOCK; x += SPAN)
        for (int64_t d = 0; d < m.wide; d += SPAN) {
          float *to_v = dv + x * m.wide + d, *to_k = dk + x * m.wide + d;
          const int64_t from = i / 32 * span + d / 16 * TILE;
          load(to_v, m.wide), multiply(w.p + x * BLOCK, BLOCK, g_along + from, span, BLOCK / 32), save(to_v, m.wide);
          load(to_k, m.wide), multiply(w.ds + x * BLOCK, BLOCK, q_along + from, span, BLOCK / 32), save(to_k, m.wide);
        }
      for (int64_t d = 0; d < m.wide; d += SPAN)
        for (int64_t y = 0; y < BLOCK; y += SPAN) {
          float* to = dq_t + d * m.rows + i + y;
          load(to, m.rows);
          multiply(k_t + d * m.rows + j, m.rows, w.pairs + y / 16 * TILE, BLOCK / 16 * TILE, BLOCK / 32);
          save(to, m.rows);
        }
    }
    const int64_t n = std::min<int64_t>(BLOCK, a.n - j);
    write(dk, m.wide, n, a.size, scale, (bf16*)at(a.dk, b, h) + j * a.dk.row, a.dk.row);
    write(dv, m.wide, n, a.size, 1, (bf16*)at(a.dv, b, h) + j * a.dv.row, a.dv.row);
  }
  const __m512i rows_apart = every(m.rows);
  bf16* dq = (bf16*)at(a.dq, b, h);
  for (int64_t t = 0; t < a.n; t++)
    for (int64_t d = 0; d < a.size; d += 16)
      put(dq + t * a.dq.row + d,
          narrow(_mm512_mul_ps(_mm512_i32gather_ps(rows_apart, dq_t + d * m.rows + t, 4), _mm512_set1_ps(scale))));
}

typedef void Task(const Problem&, int64_t, int64_t, Room&);

// Takes heads of rows until none is left. The configuration of the thread's tiles is left as it was.
void take(const Problem& a, Task* task, std::atomic<int64_t>& next, Room& room) {
  alignas(64) char before[64];
  _tile_storeconfig(before);
  configure();
  for (int64_t i; (i = next++) < a.batch * a.heads; room.used = 0) task(a, i / a.heads, i % a.heads, room);
  if (before[0]) _tile_loadconfig(before);
  else _tile_release();
}

#if defined(__clang__)
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif

// Shares the heads of the rows among threads.
int run(const Problem& a, Task* task, int64_t size, int threads) {
  std::atomic<int64_t> next{0};
  std::atomic<int> short_of_memory{0};
  auto work = [&] {
    Room room(size);
    if (room.block) take(a, task, next, room);
    else short_of_memory = 1;
  };
  std::vector<std::thread> team;
  try {
    for (int i = 1; i < threads && i < a.batch * a.heads; i++) team.emplace_back(work);
  } catch (const std::system_error&) {  // no more threads to be had: those that are there do it
  }
  work();
  for (auto& t : team) t.join();
  return short_of_memory;
}
}  // namespace

// 1 where the processor has what this needs and the system lets this process use it.
EXPORT int attention_ready() {
  unsigned a, b, c, d, e;
  if (!__get_cpuid_count(7, 0, &a, &b, &c, &d) || !__get_cpuid_count(7, 1, &e, &c, &c, &c)) return 0;
  const unsigned vectors = 1u << 16 | 1u << 17 | 1u << 30 | 1u << 31, tiles = 1u << 22 | 1u << 24;  // F DQ BW VL; BF16 TILE
  if ((b & vectors) != vectors || (d & tiles) != tiles || !(e & 1u << 5)) return 0;
  return syscall(SYS_arch_prctl, 0x1023 /* ARCH_REQ_XCOMP_PERM */, 18 /* tile data */) == 0;
}

// views: q, k, v, out. Returns 0, or 1 where there is not memory enough.
EXPORT int attention_forward(const View* views, float* log_sums, const int64_t* shape, int threads) {
  const Problem a{views[0], views[1], views[2], views[3], {}, {}, {}, {}, log_sums, shape[0], shape[1], shape[2], shape[3]};
  return run(a, forward, forward_room(Head(a.n, a.size)), threads);
}

// views: q, k, v, out, the gradient of out, then those of q, k and v. Returns 0, or 1 where there is not memory enough.
EXPORT int attention_backward(const View* views, float* log_sums, const int64_t* shape, int threads) {
  const View* x = views;
  const Problem a{x[0], x[1], x[2], x[3], x[4], x[5], x[6], x[7], log_sums, shape[0], shape[1], shape[2], shape[3]};
  return run(a, backward, backward_room(Head(a.n, a.size)), threads);
}
#else
EXPORT int attention_ready() { return 0; }
EXPORT int attention_forward(const View*, float*, const int64_t*, int) { return 2; }
EXPORT int attention_backward(const View*, float*, const int64_t*, int) { return 2; }
#endif
