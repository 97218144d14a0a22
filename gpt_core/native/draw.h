// One id from a row of logits: temperature, top_k, top_p and the draw as sampling.py has them, without a copy per step.
//
// Among equal logits the lowest id counts as the likelier one. Sums run in double, in the order sampling.py adds.
#include <algorithm>
#include <vector>

struct Wanted {
  int32_t top_k;  // 0 is off
  float temperature;
  double top_p;  // 1 is off
};

struct Entry {
  float logit;
  int32_t id;
};

static bool likelier(const Entry& a, const Entry& b) { return a.logit > b.logit || (a.logit == b.logit && a.id < b.id); }

// Brings the `n` likeliest entries to the front, in order.
static void sort_best(std::vector<Entry>& all, size_t from, size_t n) {
  if (n < all.size()) std::nth_element(all.begin() + from, all.begin() + n, all.end(), likelier);
  std::sort(all.begin() + from, all.begin() + n, likelier);
}

// How many of the likeliest entries together reach `share` of `total`, at least one; sorts as many as it looks at.
static size_t reach(std::vector<Entry>& all, size_t most, float peak, double share, double total) {
  double sum = 0;
  for (size_t n = 0, sorted = 0; n < most; n++) {
    if (n == sorted) {
      size_t next = std::min(most, sorted ? sorted * 8 : (size_t)32);
      sort_best(all, sorted, next);
      sorted = next;
    }
    sum += std::exp((double)all[n].logit - peak);
    if (!(sum < share * total)) return n + 1;
  }
  return most;
}

// The id, or -1 where the logits are no numbers or none may follow; `number` lies in [0, 1).
static int64_t draw(const float* logits, int vocab, const Wanted& w, double number, std::vector<Entry>& all) {
  float peak = -INFINITY;
  for (int i = 0; i < vocab; i++) {
    if (!(logits[i] < INFINITY)) return -1;
    peak = logits[i] > peak ? logits[i] : peak;
  }
  if (peak == -INFINITY) return -1;
  all.clear();
  for (int i = 0; i < vocab; i++)
    if (logits[i] > -INFINITY) all.push_back({w.temperature == 1.0f ? logits[i] : (logits[i] - peak) / w.temperature, i});
  if (w.temperature != 1.0f) peak = 0;
  size_t kept = all.size();
  if (w.top_k > 0 && (size_t)w.top_k < kept) {
    kept = w.top_k;
    sort_best(all, 0, kept);
    all.resize(kept);
  }
  auto weight = [peak](const Entry& e) { return std::exp((double)e.logit - peak); };
  if (w.top_p < 1.0) {
    double total = 0;
    for (const Entry& e : all) total += weight(e);
    all.resize(reach(all, kept, peak, w.top_p, total));
  }
  std::sort(all.begin(), all.end(), [](const Entry& a, const Entry& b) { return a.id < b.id; });
  double total = 0, sum = 0;
  for (const Entry& e : all) total += weight(e);
  for (const Entry& e : all)
    if ((sum += weight(e)) > number * total) return e.id;
  return -1;
}
