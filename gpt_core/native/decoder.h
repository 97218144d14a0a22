// The decoder's step in terms of kernels.h: norms, linears, attention, blocks. Included once per instruction set.
//
// Rows of takes stand at a stride of whole panels; what lies between the true width and the stride is zero.

static inline size_t padded(int n) { return (size_t)(n + PANEL - 1) / PANEL * PANEL; }

// Sum of (x - centre)^2, or of x where `squared` is 0.
static float sum(const float* x, int n, float centre, int squared) {
  vf s = {};
  int i = 0;
  for (; i + W <= n; i += W) {
    vf v = load(x + i) - centre;
    s += squared ? v * v : v;
  }
  float rest = 0;
  for (; i < n; i++) rest += squared ? (x[i] - centre) * (x[i] - centre) : x[i] - centre;
  return total(s) + rest;
}

static void rms_norm(const float* x, float* y, int n, float eps) {
  float scale = 1.0f / std::sqrt(sum(x, n, 0, 1) / n + eps);
  for (int i = 0; i < n; i++) y[i] = x[i] * scale;
}

static void norm(const Model& m, const float* x, float* y, const float* gain, const float* shift) {
  int n = m.width;
  if (m.norm == RMS) return rms_norm(x, y, n, m.eps);
  float mean = sum(x, n, 0, 0) / n;
  float scale = 1.0f / std::sqrt(sum(x, n, mean, 1) / n + m.eps);
  for (int i = 0; i < n; i++) y[i] = (x[i] - mean) * scale * gain[i] + (shift ? shift[i] : 0.0f);
}

static void activate(int kind, float* x) {  // one panel
  if (kind == GELU) {
    for (int i = 0; i < PANEL; i++) x[i] = 0.5f * x[i] * (1.0f + std::erf(x[i] * 0.70710678f));
    return;
  }
  for (int i = 0; i < PANEL; i += W) {
    vf v = load(x + i), positive = larger(v, splat(0.0f));
    if (kind == RELU) v = positive;
    if (kind == RELU2) v = positive * positive;
    if (kind == GELU_TANH) {  // x (1 + tanh z) / 2 = x / (1 + e^-2z)
      vf z = (v + v * v * v * 0.044715f) * 0.79788456f;
      v = v / (exponential(z * -2.0f) + 1.0f);
    }
    store(x + i, v);
  }
}

// y = x W^T + bias, then an activation, or added to what y holds.
struct LinearJob {
  const Model* model;
  const Linear* linear;
  int in, out, takes, share;  // share: panels per chunk
  const float* x;
  size_t ldx;
  float* y;
  size_t ldy;
  int activation, add;
};

// What follows the sums `a` of panel p and take t.
static void finish(const LinearJob& j, int p, int t, float* a) {
  const Linear& l = *j.linear;
  float* y = j.y + t * j.ldy + (size_t)p * PANEL;
  for (int i = 0; l.scale && i < PANEL; i++) a[i] *= l.scale[(size_t)p * PANEL + i];
  for (int i = 0; l.bias && i < PANEL; i++) a[i] += l.bias[(size_t)p * PANEL + i];
  if (j.activation != NO_ACTIVATION) activate(j.activation, a);
  if (j.add)
    for (int i = 0; i < PANEL; i++) y[i] += a[i];
  else
    std::memcpy(y, a, PANEL * sizeof(float));
}

static void linear_chunk(void* job, int chunk) {
  const LinearJob& j = *(const LinearJob*)job;
  int kind = j.model->kind, panels = (int)(padded(j.out) / PANEL);
  int end = (chunk + 1) * j.share < panels ? (chunk + 1) * j.share : panels;
  size_t stride = (size_t)PANEL * j.in * (kind == FP32 ? 4 : kind == BF16 ? 2 : 1);
  const char* w = (const char*)j.linear->weight;
  int by = j.takes == 1 ? TILE : 1;
  for (int p = chunk * j.share; p < end; p += by)
    for (int t = 0; t < j.takes; t += TILE) {
      alignas(64) float acc[TILE * PANEL] = {};
      int count = end - p < by ? end - p : by, takes = j.takes - t < TILE ? j.takes - t : TILE;
      if (j.takes == 1)
        one_take(kind, j.x, j.in, w + p * stride, stride, count, acc);
      else
        takes_of(kind, j.x + t * j.ldx, (int)j.ldx, takes, j.in, w + p * stride, acc);
      for (int i = 0; i < takes * count; i++) finish(j, p + (j.takes == 1 ? i : 0), t + (j.takes == 1 ? 0 : i), acc + i * PANEL);
    }
}

static void run_linear(Team& team, LinearJob j) {
  int panels = (int)(padded(j.out) / PANEL);
  // Enough chunks that no thread waits long for the last one, each long enough to be worth fetching.
  int most = team.threads() * 6, least = 16384 / (j.in * PANEL * (j.takes < 8 ? j.takes : 8)) + 1;
  j.share = (panels + most - 1) / most;
  if (j.share < least) j.share = least;
  if (j.takes == 1) {  // three panels are read at a time
    int even = (panels + team.threads() - 1) / team.threads();
    j.share = panels < 6 * team.threads() ? (j.share > even ? j.share : even) : (j.share + 2) / 3 * 3;
  }
  team.run(linear_chunk, &j, (panels + j.share - 1) / j.share);
}

struct AttentionJob {
  const Model* model;
  const Layer* layer;
  const Request* request;
  int index, position;  // index: of the layer
  float* scores;
  float* qkv;
  size_t ld_qkv;
  float* out;
  size_t ld_out;
};

static void rotate(float* x, const float* cos, const float* sin, int half) {
  for (int i = 0; i < half; i++) {
    float a = x[i], b = x[i + half];
    x[i] = a * cos[i] - b * sin[i];
    x[i + half] = b * cos[i] + a * sin[i];
  }
}

static void product(const float* x, int n, const float* panels, size_t count, float* y) {
  std::memset(y, 0, count * PANEL * sizeof(float));
  one_take(FP32, x, n, (const char*)panels, (size_t)n * PANEL * sizeof(float), (int)count, y);
}

static void add_relative(const AttentionJob& j, int head, const float* q, float* score, float* by_distance) {
  const Model& m = *j.model;
  int known = j.position + 1 < m.distances ? j.position + 1 : m.distances;
  product(q, m.head, j.layer->relative + head * padded(m.distances) * m.head, padded(known) / PANEL, by_distance);
  for (int p = 0; p <= j.position; p++) {
    int distance = j.position - p;
    score[p] += by_distance[distance < known ? distance : known - 1];
  }
}

// Turns scores [n, padded] into exp(score - max) and returns their sum.
static float soften(float* score, int n) {
  int end = (int)padded(n);
  for (int p = n; p < end; p++) score[p] = -1e30f;
  vf top = load(score), s = {};
  for (int p = W; p < end; p += W) top = larger(load(score + p), top);
  vf most = splat(largest(top));
  for (int p = 0; p < end; p += W) {
    vf e = exponential(load(score + p) - most);
    store(score + p, e);
    s += e;
  }
  return total(s);
}

// Normalises, rotates and scales q and k in place.
static void turn(const Model& m, float* q, float* k, int position) {
  int size = m.head;
  if (m.qk_norm) rms_norm(q, q, size, m.eps), rms_norm(k, k, size, m.eps);
  if (m.position == ROTARY) {
    const float *cos = m.cos + (size_t)position * (size / 2), *sin = m.sin + (size_t)position * (size / 2);
    rotate(q, cos, sin, size / 2);
    rotate(k, cos, sin, size / 2);
  }
  float scale = 1.0f / std::sqrt((float)size);
  for (int i = 0; i < size; i++) q[i] *= scale;
}

// One head of one take. The takes of a head follow each other, so that what they share stays in the cache.
static void attention_chunk(void* job, int chunk) {
  const AttentionJob& j = *(const AttentionJob*)job;
  const Model& m = *j.model;
  const Request& r = *j.request;
  int head = chunk / r.takes, take = chunk % r.takes, size = m.head, n = j.position + 1, own = j.position - r.shared;
  float* q = j.qkv + take * j.ld_qkv + head * size;
  float *k = q + m.width, *v = k + m.width;
  turn(m, q, k, j.position);

  size_t lanes = padded(size), all = (size_t)j.index * m.heads + head;
  size_t mine = ((size_t)j.index * r.takes + take) * m.heads + head, row = (size_t)take * m.heads + head;
  const float *shared_keys = r.shared_keys + all * r.shared * size, *shared_values = r.shared_values + all * r.shared * lanes;
  float *keys = r.keys + mine * r.capacity * size, *values = r.values + mine * r.capacity * lanes;
  float* column = keys + (size_t)(own / PANEL) * PANEL * size + own % PANEL;
  for (int i = 0; i < size; i++) column[(size_t)i * PANEL] = k[i];
  for (int i = 0; i < size; i++) values[((size_t)(i / PANEL) * r.capacity + own) * PANEL + i % PANEL] = v[i];

  size_t room = (size_t)r.shared + r.capacity;
  float* score = j.scores + row * 2 * room;
  product(q, size, shared_keys, r.shared / PANEL, score);
  product(q, size, keys, padded(own + 1) / PANEL, score + r.shared);
  if (m.position == RELATIVE) add_relative(j, head, q, score, score + room);
  float inverse = 1.0f / soften(score, n);
  float* out = j.out + take * j.ld_out + head * size;
  for (size_t p = 0; p < lanes; p += 2 * PANEL) {
    alignas(64) float acc[2 * PANEL] = {};
    int count = lanes - p > PANEL ? 2 : 1;
    size_t step = PANEL * sizeof(float);
    one_take(FP32, score, r.shared, (const char*)(shared_values + p * r.shared), r.shared * step, count, acc);
    one_take(FP32, score + r.shared, own + 1, (const char*)(values + p * r.capacity), r.capacity * step, count, acc);
    for (size_t i = p; i < p + 2 * PANEL && i < (size_t)size; i++) out[i] = acc[i - p] * inverse;
  }
}

static void embed(const Model& m, int64_t id, int position, float* x) {
  for (int i = 0; i < m.width; i++) x[i] = m.wte[id * m.width + i];
  if (m.position == LEARNED)
    for (int i = 0; i < m.width; i++) x[i] += m.wpe[(size_t)position * m.width + i];
  if (m.embed_norm) rms_norm(x, x, m.width, m.eps);
}

static void step(const Model& m, const Request& r, const int64_t* ids, int position, float* logits, Team& team) {
  int takes = r.takes, width = m.width;
  size_t w = padded(width), w3 = padded(3 * width), w4 = padded(4 * width), wv = padded(m.vocab);
  float *x = r.scratch, *n = x + takes * w, *qkv = n + takes * w, *att = qkv + takes * w3, *hidden = att + takes * w;
  float *out = hidden + takes * w4, *scores = out + takes * wv;
  for (int t = 0; t < takes; t++) embed(m, ids[t], position, x + t * w);
  for (int l = 0; l < m.layers; l++) {
    const Layer& y = m.layer[l];
    for (int t = 0; t < takes; t++) norm(m, x + t * w, n + t * w, y.gain_1, y.shift_1);
    run_linear(team, {&m, &y.c_attn, width, 3 * width, takes, 1, n, w, qkv, w3, NO_ACTIVATION, 0});
    AttentionJob a = {&m, &y, &r, l, position, scores, qkv, w3, att, w};
    team.run(attention_chunk, &a, takes * m.heads);
    run_linear(team, {&m, &y.c_proj, width, width, takes, 1, att, w, x, w, NO_ACTIVATION, 1});
    for (int t = 0; t < takes; t++) norm(m, x + t * w, n + t * w, y.gain_2, y.shift_2);
    run_linear(team, {&m, &y.c_fc, width, 4 * width, takes, 1, n, w, hidden, w4, m.activation, 0});
    run_linear(team, {&m, &y.c_out, 4 * width, width, takes, 1, hidden, w4, x, w, NO_ACTIVATION, 1});
  }
  for (int t = 0; t < takes; t++) norm(m, x + t * w, n + t * w, m.gain_f, m.shift_f);
  run_linear(team, {&m, &m.head_out, width, m.vocab, takes, 1, n, w, out, wv, NO_ACTIVATION, 0});
  for (int t = 0; t < takes; t++) std::memcpy(logits + (size_t)t * m.vocab, out + t * wv, m.vocab * sizeof(float));
}
