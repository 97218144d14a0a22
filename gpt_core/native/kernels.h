// One decode step for one vector width: step.cpp includes this file once per instruction set, inside a namespace.
//
// Expects W (floats per vector; 1 = plain C++) and, where W > 1, GCC's or clang's vector types.
// Every matrix is stored in panels of 32 outputs: element (input i, output 32p + j) stands at [p][i][j]. So a product needs no
// sums across a vector, and the weights of a panel are one unbroken run of memory. bf16 panels hold words of two outputs
// (j low, j + 16 high); int8 panels hold bytes and one scale per output.

#undef UNROLL
#if W == 1 || !defined(__GNUC__)
#define UNROLL
#elif defined(__clang__)
#define UNROLL _Pragma("clang loop unroll(full)")
#else
#define UNROLL _Pragma("GCC unroll 32")
#endif

#if W == 1
typedef float vf;
typedef int32_t vi;
static inline vf as_float(vi v) { vf f; std::memcpy(&f, &v, sizeof f); return f; }
static inline vf to_float(vi v) { return (float)v; }
static inline vi to_int(vf v) { return (int32_t)v; }
static inline vf bytes(const int8_t* p) { return (float)*p; }
#else
typedef float vf __attribute__((vector_size(4 * W)));
typedef int32_t vi __attribute__((vector_size(4 * W)));
typedef int8_t vb __attribute__((vector_size(W)));
static inline vf as_float(vi v) { return (vf)v; }
static inline vf to_float(vi v) { return __builtin_convertvector(v, vf); }
static inline vi to_int(vf v) { return __builtin_convertvector(v, vi); }
#if W == 16  // GCC widens bytes one by one unless told how
static inline vf bytes(const int8_t* p) { return to_float((vi)_mm512_cvtepi8_epi32(_mm_loadu_si128((const __m128i*)p))); }
#elif W == 8
static inline vf bytes(const int8_t* p) { return to_float((vi)_mm256_cvtepi8_epi32(_mm_loadl_epi64((const __m128i*)p))); }
#else
static inline vf bytes(const int8_t* p) { vb b; std::memcpy(&b, p, W); return to_float(__builtin_convertvector(b, vi)); }
#endif
#endif
enum { NV = PANEL / W, TAKES = W == 16 ? 4 : W == 1 ? 1 : 3, TILE = 12, BLOCK = 128 };

static inline vf load(const float* p) { vf v; std::memcpy(&v, p, sizeof v); return v; }
static inline vi load(const int32_t* p) { vi v; std::memcpy(&v, p, sizeof v); return v; }
static inline void store(float* p, vf v) { std::memcpy(p, &v, sizeof v); }
static inline vf splat(float x) { return x - vf{}; }
static inline vf larger(vf a, vf b) { return a > b ? a : b; }

static inline float total(vf v) {
  float lanes[W], sum = 0;
  std::memcpy(lanes, &v, sizeof v);
  for (int i = 0; i < W; i++) sum += lanes[i];
  return sum;
}

static inline float largest(vf v) {
  float lanes[W];
  std::memcpy(lanes, &v, sizeof v);
  for (int i = 1; i < W; i++) lanes[0] = lanes[i] > lanes[0] ? lanes[i] : lanes[0];
  return lanes[0];
}

// e^x to about one unit in the last place: e^x = 2^r e^f, r whole, |f| <= ln 2 / 2, and f's share by a polynomial of
// degree 7 (Taylor's coefficients suffice at that radius). Clamped where float ends.
static inline vf exponential(vf x) {
  x = larger(x, splat(-87.0f));
  x = x > splat(88.0f) ? splat(88.0f) : x;
  vf t = x * 1.44269504089f;
  vf r = to_float(to_int(t + (t > splat(0.0f) ? splat(0.5f) : splat(-0.5f))));
  vf f = (x - r * 0.693359375f) + r * 2.12194440e-4f;
  vf p = splat(1.0f / 5040);
  p = p * f + 1.0f / 720;
  p = p * f + 1.0f / 120;
  p = p * f + 1.0f / 24;
  p = p * f + 1.0f / 6;
  p = p * f + 0.5f;
  p = p * f + 1.0f;
  p = p * f + 1.0f;
  return p * as_float((to_int(r) + 127) << 23);
}

// Weights of input i for all 32 outputs of a panel, as floats.
ALWAYS void weights(int kind, const char* w, int i, vf out[NV]) {
  UNROLL
  for (int j = 0; j < NV; j++) {
    if (kind == FP32) out[j] = load((const float*)w + (size_t)i * PANEL + j * W);
    if (kind == INT8) out[j] = bytes((const int8_t*)w + (size_t)i * PANEL + j * W);
    if (kind == BF16 && j < NV / 2) {
      vi word = load((const int32_t*)w + (size_t)i * (PANEL / 2) + j * W);
      out[j] = as_float(word << 16);
      out[j + NV / 2] = as_float(word & (int32_t)0xffff0000);
    }
  }
}
// acc[p][t][32] += x[t][n] * panel p, for nt takes and np panels that are `stride` bytes apart; the accumulators stay in
// registers. Each sum has one order, whatever nt and np are: a take gets the same bits alone and in company.
ALWAYS void multiply(int nt, int np, int kind, const float* x, int ldx, int n, const char* w, size_t stride, float* acc) {
  vf a[TAKES > 3 ? TAKES : 3][NV];
  for (int r = 0; r < nt * np; r++)
    for (int j = 0; j < NV; j++) a[r][j] = load(acc + r * PANEL + j * W);
  for (int i = 0; i < n; i++) {
    UNROLL
    for (int p = 0; p < np; p++) {
      vf u[NV];
      weights(kind, w + p * stride, i, u);
      UNROLL
      for (int t = 0; t < nt; t++) {
        vf s = splat(x[(size_t)t * ldx + i]);
        UNROLL
        for (int j = 0; j < NV; j++) a[p * nt + t][j] += u[j] * s;
      }
    }
  }
  for (int r = 0; r < nt * np; r++)
    for (int j = 0; j < NV; j++) store(acc + r * PANEL + j * W, a[r][j]);
}

// `kind` as a constant, so that the loops above hold no questions.
ALWAYS void multiply_kind(int nt, int np, int kind, const float* x, int ldx, int n, const char* w, size_t stride, float* acc) {
  if (kind == FP32) multiply(nt, np, FP32, x, ldx, n, w, stride, acc);
  if (kind == BF16) multiply(nt, np, BF16, x, ldx, n, w, stride, acc);
  if (kind == INT8) multiply(nt, np, INT8, x, ldx, n, w, stride, acc);
}

// One take, `count` panels: by threes where vectors are wide. One panel's few sums would wait for each other, and memory
// is read faster in three streams than in two.
static void one_take(int kind, const float* x, int n, const char* w, size_t stride, int count, float* acc) {
  while (count > 0) {
    int np = W <= 4 || count == 1 ? 1 : count == 2 || count == 4 ? 2 : 3;
    if (np == 3) multiply_kind(1, 3, kind, x, 0, n, w, stride, acc);
    if (np == 2) multiply_kind(1, 2, kind, x, 0, n, w, stride, acc);
    if (np == 1) multiply_kind(1, 1, kind, x, 0, n, w, stride, acc);
    count -= np, w += np * stride, acc += np * PANEL;
  }
}

// Several takes, one panel, walked in blocks that stay in the first-level cache.
static void takes_of(int kind, const float* x, int ldx, int takes, int n, const char* w, float* acc) {
  static const int size[] = {4, 2, 1};
  int block = takes > TAKES ? BLOCK : n;
  for (int i = 0; i < n; i += block) {
    int m = n - i < block ? n - i : block;
    const char* at = w + (size_t)i * PANEL * size[kind];
    for (int t = 0; t < takes; t += TAKES) {
      const float* xt = x + (size_t)t * ldx + i;
      float* to = acc + t * PANEL;
      switch (W == 1 ? 1 : takes - t) {
        case 1: multiply_kind(1, 1, kind, xt, ldx, m, at, 0, to); break;
#if W > 1
        case 2: multiply_kind(2, 1, kind, xt, ldx, m, at, 0, to); break;
#if W == 16
        case 3: multiply_kind(3, 1, kind, xt, ldx, m, at, 0, to); break;
#endif
        default: multiply_kind(TAKES, 1, kind, xt, ldx, m, at, 0, to);
#endif
      }
    }
  }
}
