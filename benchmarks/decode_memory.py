"""How fast this machine reads memory with all threads: the ceiling of a decoding step, which reads every weight once."""

from __future__ import annotations

import ctypes
import functools
import shutil
import subprocess
import tempfile
import time
from pathlib import Path

import torch

from gpt_core.native import Arena

BYTES = 512 << 20
_SOURCE = """
#include <cstddef>
#include <cstring>
#include <thread>
#include <vector>
typedef float vf __attribute__((vector_size(32)));
static float part(const float* p, size_t n) {  // four streams, two sums each: what read fastest of what was tried
  vf sum[8] = {};
  for (size_t i = 0, q = n / 4; i + 32 <= q; i += 32)
    for (int s = 0; s < 4; s++)
      for (int k = 0; k < 4; k++) {
        vf v;
        std::memcpy(&v, p + s * q + i + k * 8, sizeof v);
        sum[s % 2 * 4 + k] += v;
      }
  vf all = {};
  for (int k = 0; k < 8; k++) all += sum[k];
  return all[0] + all[1] + all[2] + all[3] + all[4] + all[5] + all[6] + all[7];
}
extern "C" float read_all(const float* p, size_t n, int threads) {
  std::vector<float> sums(threads);
  std::vector<std::thread> team;
  size_t each = n / threads;
  for (int t = 1; t < threads; t++) team.emplace_back([&, t] { sums[t] = part(p + t * each, each); });
  float sum = part(p, each);
  for (std::thread& t : team) t.join();
  for (float s : sums) sum += s;
  return sum;
}
"""


@functools.cache
def _reader() -> ctypes.CDLL | None:
    """The loop above, built for this processor; None where it can't be."""
    compiler = next((path for name in ("c++", "g++", "clang++") if (path := shutil.which(name))), None)
    if compiler is None:
        return None
    with tempfile.TemporaryDirectory() as folder:
        source, library = Path(folder) / "read.cpp", Path(folder) / "read.so"
        source.write_text(_SOURCE, encoding="ascii")
        flags = ["-O2", "-march=native", "-std=c++17", "-shared", "-fPIC", "-pthread", "-w"]
        if subprocess.run([compiler, *flags, str(source), "-o", str(library)], check=False).returncode:
            return None
        lib = ctypes.CDLL(str(library))
    lib.read_all.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
    lib.read_all.restype = ctypes.c_float
    return lib


@functools.cache
def _block() -> torch.Tensor:
    return Arena(BYTES).copy(torch.ones(BYTES // 4))


def bandwidth(tries: int = 6) -> float:
    """Bytes per second, the best of some reads of 512 MB: by a loop in C++ or by PyTorch's sum, whichever is faster."""
    block, lib, best = _block(), _reader(), float("inf")
    for _ in range(tries):
        start = time.perf_counter()
        block.sum()
        best = min(best, time.perf_counter() - start)
        if lib is not None:
            start = time.perf_counter()
            lib.read_all(block.data_ptr(), block.numel(), torch.get_num_threads())
            best = min(best, time.perf_counter() - start)
    return block.nbytes / best
