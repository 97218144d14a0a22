// Products on matrix tiles (AMX), and matrices in the forms that they want: attention.cpp includes this file once.
//
// A tile is 16 rows of 64 bytes. A product takes A as it lies in memory, 16 rows x 32 bf16, and B as "pairs": 32 rows x 16
// columns, rows 2r and 2r + 1 interleaved. Packed matrices are rows of such B tiles of 512 bf16.

typedef uint16_t bf16;
enum { TILE = 512, SPAN = 32, BLOCK = 128 };  // bf16 in a B tile; rows and columns of a 2 x 2 tile product; rows of a block
const float LOG2E = 1.44269504089f;

int64_t up(int64_t n, int64_t to) { return (n + to - 1) / to * to; }

void configure() {
  struct alignas(64) { uint8_t palette = 1, start = 0, zero[14] = {}; uint16_t bytes[16] = {}; uint8_t rows[16] = {}; } all;
  for (int i = 0; i < 8; i++) all.bytes[i] = 64, all.rows[i] = 16;
  _tile_loadconfig(&all);
}

// Tiles 0 to 3 hold 32 x 32 sums, row by row of tiles.
void clear() { _tile_zero(0); _tile_zero(1); _tile_zero(2); _tile_zero(3); }
void load(const float* c, int64_t ld) {
  _tile_loadd(0, c, ld * 4); _tile_loadd(1, c + 16, ld * 4);
  _tile_loadd(2, c + 16 * ld, ld * 4); _tile_loadd(3, c + 16 * ld + 16, ld * 4);
}
void save(float* c, int64_t ld) {
  _tile_stored(0, c, ld * 4); _tile_stored(1, c + 16, ld * 4);
  _tile_stored(2, c + 16 * ld, ld * 4); _tile_stored(3, c + 16 * ld + 16, ld * 4);
}
// sums += A [32, 32 steps] B [32 steps, 32]: A's rows are lda apart, B's tiles of one step stand together, steps ldb apart.
void multiply(const bf16* a, int64_t lda, const bf16* b, int64_t ldb, int64_t steps) {
  for (int64_t s = 0; s < steps; s++, a += 32, b += ldb) {
    _tile_loadd(4, a, lda * 2);
    _tile_loadd(6, b, 64);
    _tile_dpbf16ps(0, 4, 6);
    _tile_loadd(7, b + TILE, 64);
    _tile_dpbf16ps(1, 4, 7);
    _tile_loadd(5, a + 16 * lda, lda * 2);
    _tile_dpbf16ps(2, 5, 6);
    _tile_dpbf16ps(3, 5, 7);
  }
}

// 2^x for x <= 0, to two units in the last place: 2^n 2^f with n whole and |f| <= 1/2, and Taylor's series for 2^f.
__m512 power(__m512 x) {
  x = _mm512_max_ps(_mm512_set1_ps(-150.0f), x);  // in this order what is no number stays so
  const __m512 n = _mm512_roundscale_ps(x, 8), f = _mm512_sub_ps(x, n);
  const float terms[] = {1.33335581e-3f, 9.61812911e-3f, 5.55041087e-2f, 2.40226507e-1f, 6.93147181e-1f, 1.0f};
  __m512 p = _mm512_set1_ps(1.54035304e-4f);
  for (float t : terms) p = _mm512_fmadd_ps(p, f, _mm512_set1_ps(t));
  return _mm512_scalef_ps(p, n);
}

__m256i narrow(__m512 x) { return (__m256i)_mm512_cvtneps_pbh(x); }
__m512 widen(const bf16* p) {
  return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i*)p)), 16));
}
void put(bf16* p, __m256i x) { _mm256_storeu_si256((__m256i*)p, x); }
__mmask16 first(int64_t n) { return n >= 16 ? 0xFFFF : n <= 0 ? 0 : (__mmask16)((1u << n) - 1); }

// Two rows of 16 as one row of a B tile: a0 b0 a1 b1 ...
void pair(__m256i a, __m256i b, bf16* out) {
  const __m512i low = _mm512_cvtepu16_epi32(a), high = _mm512_slli_epi32(_mm512_cvtepu16_epi32(b), 16);
  _mm512_storeu_si512(out, _mm512_or_si512(low, high));
}
__m512i every(int64_t stride) {
  int at[16];
  for (int i = 0; i < 16; i++) at[i] = (int)(i * stride);
  return _mm512_loadu_si512(at);
}

// One head's matrix x [n, size], filled up with zeros to whole blocks and spans, in the forms that products want.
struct Head {
  int64_t n, size, rows, wide;  // as given; filled up
  Head(int64_t n, int64_t size) : n(n), size(size), rows(up(n, BLOCK)), wide(up(size, SPAN)) {}
  int64_t numbers() const { return rows * wide; }

  void copy(const bf16* x, int64_t stride, bf16* out) const {
    std::memset(out, 0, numbers() * 2);
    for (int64_t t = 0; t < n; t++) std::memcpy(out + t * wide, x + t * stride, size * 2);
  }
  // B tiles of the transposed matrix [wide, rows], from a copy.
  void across(const bf16* x, bf16* out) const {
    const __m512i rows_apart = every(wide / 2);
    for (int64_t s = 0; s < wide; s += 32)
      for (int64_t t = 0; t < rows; t += 16)
        for (int r = 0; r < 16; r++, out += 32)
          _mm512_storeu_si512(out, _mm512_i32gather_epi32(rows_apart, (const int*)(x + t * wide + s) + r, 4));
  }
  // B tiles of the matrix itself [rows, wide], from a copy.
  void along(const bf16* x, bf16* out) const {
    for (int64_t t = 0; t < rows; t += 32)
      for (int64_t s = 0; s < wide; s += 16)
        for (int r = 0; r < 32; r += 2, out += 32) {
          const bf16* p = x + (t + r) * wide + s;
          pair(_mm256_loadu_si256((const __m256i*)p), _mm256_loadu_si256((const __m256i*)(p + wide)), out);
        }
  }
};
