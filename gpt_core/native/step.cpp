// A whole decoding step in one call: C interface, choice of instruction set, and the threads.
//
// Plain C++17 with the standard library only. native.py builds it, fills the structs and calls mt_step.
#include <atomic>
#include <chrono>
#include <cmath>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <mutex>
#include <thread>

#if defined(_WIN32)
#define EXPORT extern "C" __declspec(dllexport)
#else
#define EXPORT extern "C" __attribute__((visibility("default")))
#endif
#if defined(__GNUC__)
#define ALWAYS static inline __attribute__((always_inline))
#else
#define ALWAYS static __forceinline
#endif
#if defined(__x86_64__) || defined(_M_X64) || defined(__i386__)
#include <immintrin.h>
static inline void relax() { _mm_pause(); }
#elif defined(__aarch64__) && defined(__GNUC__)
static inline void relax() { __asm__ __volatile__("yield"); }
#else
static inline void relax() {}
#endif

enum { PANEL = 32 };
enum Kind { FP32, BF16, INT8 };
enum Position { NONE, LEARNED, ROTARY, RELATIVE };
enum Norm { LAYER, RMS };
enum Activation { GELU_TANH, GELU, RELU, RELU2, NO_ACTIVATION };

// The structs below are mirrored in native.py, field by field.
struct Linear {
  const void* weight;  // panels [out/32][in][32]
  const float *scale, *bias;  // [out, padded]; scale for int8 only, bias may be absent
};

struct Layer {
  Linear c_attn, c_proj, c_fc, c_out;
  const float *gain_1, *shift_1, *gain_2, *shift_2;
  const float* relative;  // panels [heads][distances/32][head][32]
};

struct Model {
  int32_t kind, layers, heads, width, head, vocab, position, norm, activation, qk_norm, embed_norm, distances;
  float eps;
  const float *wte, *wpe, *cos, *sin, *gain_f, *shift_f;
  Linear head_out;
  const Layer* layer;
};

// What all takes have read alike is stored once; each take's own positions follow it.
struct Request {
  int32_t takes, shared, capacity;  // positions, whole panels: shared by all takes, and more of each take's own
  float *shared_keys, *keys;        // [layers][takes or 1][heads][positions/32][head][32]
  float *shared_values, *values;    // [layers][takes or 1][heads][head/32][positions][32]
  float* scratch;                   // zeros
};

typedef void (*Chunk)(void* job, int chunk);

// Threads that help the one request that holds `owner`. Helpers take chunks where they find some and are never waited for
// before they took one: a helper that sleeps, was pushed aside, or was lost in a fork costs nothing but its help.
struct Pool {
  std::mutex owner;
  std::atomic<uint64_t> ticket{0};  // sequence (32 bits), chunks (16), next chunk (16)
  std::atomic<int> done{0};
  Chunk run = nullptr;
  void* job = nullptr;
  std::mutex sleep;
  std::condition_variable wake;
  std::atomic<int> sleeping{0};
  std::atomic<uint32_t> steps{0};
  int helpers = 0;  // guarded by owner

  bool take(int& chunk) {
    uint64_t t = ticket.load(std::memory_order_acquire);
    while ((t & 0xffff) < (t >> 16 & 0xffff))
      if (ticket.compare_exchange_weak(t, t + 1, std::memory_order_acq_rel, std::memory_order_acquire)) {
        chunk = (int)(t & 0xffff);
        return true;
      }
    return false;
  }

  void help() {
    using clock = std::chrono::steady_clock;
    const auto patience = std::chrono::microseconds(400), spin = std::chrono::microseconds(50);
    auto since = clock::now();
    for (unsigned n = 1;; n++) {
      int chunk;
      uint32_t seen = steps.load();
      if (take(chunk)) {
        do run(job, chunk), done.fetch_add(1, std::memory_order_acq_rel);
        while (take(chunk));
        since = clock::now();
        continue;
      }
      relax();
      if (n % 32) continue;
      auto idle = clock::now() - since;
      if (idle > patience) {
        std::unique_lock<std::mutex> lock(sleep);
        sleeping++;
        wake.wait(lock, [&] { return steps.load() != seen; });
        sleeping--;
        since = clock::now();
      } else if (idle > spin) {
        std::this_thread::yield();
      }
    }
  }

  // To be called by the owner at the start of a step.
  void begin(int wanted) {
    for (; helpers < wanted; helpers++) std::thread([this] { help(); }).detach();
    steps++;
    if (sleeping.load() > 0) {
      { std::lock_guard<std::mutex> lock(sleep); }
      wake.notify_all();
    }
  }
};

static Pool& pool() {
  static Pool* one = new Pool;  // never freed: its threads end with the process
  return *one;
}

// The pool for the length of one step, or the calling thread alone where another request has it.
class Team {
 public:
  explicit Team(int wanted) : held_(wanted > 1 && pool().owner.try_lock()), threads_(held_ ? wanted : 1) {
    if (!held_) return;
    try {
      pool().begin(wanted - 1);
    } catch (...) {  // no more threads to be had: the ones there are suffice
    }
  }
  ~Team() {
    if (held_) pool().owner.unlock();
  }
  int threads() const { return threads_; }

  // Calls run(job, 0 .. chunks-1), each once, and returns when all are done.
  void run(Chunk run, void* job, int chunks) {
    if (!held_ || chunks < 2 || chunks > 0xffff) {
      for (int i = 0; i < chunks; i++) run(job, i);
      return;
    }
    Pool& p = pool();
    p.run = run;
    p.job = job;
    p.done.store(0, std::memory_order_relaxed);
    p.ticket.store(((p.ticket.load(std::memory_order_relaxed) >> 32) + 1) << 32 | (uint64_t)chunks << 16);
    int chunk, mine = 0;
    for (; p.take(chunk); mine++) run(job, chunk);
    for (unsigned n = 1; p.done.load(std::memory_order_acquire) + mine < chunks; n++)
      if (n % 4096) relax();
      else std::this_thread::yield();
  }

 private:
  bool held_;
  int threads_;
};

// The same code for every instruction set. NEON belongs to every 64-bit ARM, so its 4 floats need no choosing at run time.
#define W 1
namespace scalar {
#include "kernels.h"
#include "decoder.h"
}
#undef W
#if defined(__GNUC__) && defined(__aarch64__)
#define W 4
namespace neon {
#include "kernels.h"
#include "decoder.h"
}
#undef W
#endif
#if defined(__GNUC__) && defined(__x86_64__)
#define W 8
#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx2,fma"))), apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target("avx2,fma")
#endif
namespace avx2 {
#include "kernels.h"
#include "decoder.h"
}
#if defined(__clang__)
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif
#undef W
#define W 16
#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx512f,avx512bw,avx512vl,avx512dq,avx2,fma"))), apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target("avx512f,avx512bw,avx512vl,avx512dq,avx2,fma")
#endif
namespace avx512 {
#include "kernels.h"
#include "decoder.h"
}
#if defined(__clang__)
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif
#undef W
#endif

#include "draw.h"

typedef void (*Step)(const Model&, const Request&, const int64_t*, int, float*, Team&);
struct Path {
  const char* name;
  Step step;
  bool here;
};

// Best first.
static const Path* paths() {
#if defined(__GNUC__) && defined(__x86_64__)
  __builtin_cpu_init();
  static const bool two = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  static const bool five = two && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                           __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq");
#endif
  static const Path all[] = {
#if defined(__GNUC__) && defined(__x86_64__)
      {"avx512", avx512::step, five},
      {"avx2", avx2::step, two},
#elif defined(__GNUC__) && defined(__aarch64__)
      {"neon", neon::step, true},
#endif
      {"scalar", scalar::step, true},
      {nullptr, nullptr, false}};
  return all;
}

// The path of that name, or the best one for an empty name; -1 if this machine can't run it.
EXPORT int mt_path(const char* wish) {
  const Path* all = paths();
  for (int i = 0; all[i].name; i++)
    if (all[i].here && (!wish[0] || !std::strcmp(wish, all[i].name))) return i;
  return -1;
}

EXPORT const char* mt_path_name(int path) { return paths()[path].name; }

// Floats that Request.scratch must hold.
EXPORT int64_t mt_scratch(const Model* m, int takes, int positions) {
  auto padded = [](int64_t n) { return (n + PANEL - 1) / PANEL * PANEL; };
  int64_t row = 3 * padded(m->width) + padded(3 * m->width) + padded(4 * m->width) + padded(m->vocab);
  return takes * (row + (int64_t)m->heads * 2 * positions);
}

// Reads one id per take at `position` (0-based, after position rows of keys and values) and writes logits [takes, vocab].
EXPORT void mt_step(int path, const Model* m, const Request* r, const int64_t* ids, int position, float* logits, int threads) {
  Team team(threads);
  paths()[path].step(*m, *r, ids, position, logits, team);
}

// Draws one id per take of logits [takes, vocab] by one number each. Returns 0, or the 1-based row in which none can be drawn.
EXPORT int mt_draw(const float* logits, int takes, int vocab, const Wanted* wanted, const double* numbers, int64_t* ids) {
  static thread_local std::vector<Entry> room;
  for (int t = 0; t < takes; t++)
    if ((ids[t] = draw(logits + (size_t)t * vocab, vocab, *wanted, numbers[t], room)) < 0) return t + 1;
  return 0;
}
