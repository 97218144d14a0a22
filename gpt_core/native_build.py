"""Build the native code (a decoding step; attention for training) with the system's compiler, once per machine.

It goes into the user's cache folder at the first use; ``python -m gpt_core.native_build`` does it ahead of time.
"""

from __future__ import annotations

import ctypes
import hashlib
import os
import platform
import shlex
import shutil
import subprocess
import sys
import tempfile
import threading
from importlib.resources import files
from pathlib import Path

SOURCES = {
    "step": ("step.cpp", "decoder.h", "draw.h", "kernels.h"),
    "attention": ("attention.cpp", "tiles.h"),
}
_FLAGS = ["-O2", "-ftree-vectorize", "-std=c++17", "-shared", "-fPIC", "-pthread", "-fno-math-errno", "-w"]
_MSVC = ["/nologo", "/O2", "/std:c++17", "/EHsc", "/LD", "/w"]
_TIMEOUT = 300.0  # seconds; a quiet machine needs five
_lock = threading.Lock()
_loaded: dict[str, ctypes.CDLL | str] = {}


def library(name: str = "step") -> ctypes.CDLL | str:
    """Return the loaded library, built first where this machine has none yet; or, as a sentence, why there is none."""
    with _lock:
        if name not in _loaded:
            try:
                _loaded[name] = _load(name)
            except (OSError, subprocess.SubprocessError, AttributeError) as e:
                _loaded[name] = f"the native {name} can't be built ({_first_line(e)})"
        return _loaded[name]


def _load(name: str) -> ctypes.CDLL | str:
    if os.environ.get("GPT_CORE_NATIVE") == "0":
        return f"the native {name} is switched off by GPT_CORE_NATIVE=0"
    compiler = _compiler()
    if compiler is None:
        return "no C++ compiler was found (tried $CXX, c++, g++, clang++, cl)"
    target = _folder() / f"{name}-{_key(compiler, name)}{'.dll' if sys.platform == 'win32' else '.so'}"
    if target.is_file():
        try:
            return _DECLARE[name](ctypes.CDLL(str(target)))
        except (OSError, AttributeError):
            target.unlink(missing_ok=True)  # damaged: build it again
    _build(compiler, name, target)
    return _DECLARE[name](ctypes.CDLL(str(target)))


def _compiler() -> list[str] | None:
    asked = shlex.split(os.environ.get("CXX", ""))
    for words in [asked, ["c++"], ["g++"], ["clang++"], ["cl"]]:
        path = shutil.which(words[0]) if words else None
        if path:
            return [path, *words[1:]]
    return None


def _key(compiler: list[str], library: str) -> str:
    """Name what the library depends on: sources, compiler (path, date, size), flags, machine and instruction sets."""
    h = hashlib.sha256()
    for name in SOURCES[library]:
        h.update(files("gpt_core").joinpath("native", name).read_bytes())
    stat = os.stat(compiler[0])
    h.update(repr((compiler, stat.st_mtime_ns, stat.st_size, _FLAGS, platform.machine(), sys.platform)).encode())
    h.update(_cpu_flags().encode())
    return h.hexdigest()[:20]


def _cpu_flags() -> str:
    try:
        with open("/proc/cpuinfo", encoding="ascii", errors="replace") as f:
            return next((line for line in f if line.startswith(("flags", "Features"))), "")
    except OSError:
        return platform.processor()


def _folder() -> Path:
    """The user's cache folder, or a private one that lasts as long as the process where that can't be written."""
    from platformdirs import user_cache_path

    folder = user_cache_path("gpt-core") / "native"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if os.access(folder, os.W_OK):
            return folder
    except OSError:
        pass
    return Path(tempfile.mkdtemp(prefix="gpt-core-native-"))


def _build(compiler: list[str], library: str, target: Path) -> None:
    """Compile beside the target and rename: whoever looks finds all of it or nothing, however many build at once."""
    work = Path(tempfile.mkdtemp(prefix=".build-", dir=target.parent))
    try:
        for name in SOURCES[library]:
            (work / name).write_bytes(files("gpt_core").joinpath("native", name).read_bytes())
        out = work / target.name
        msvc = Path(compiler[0]).stem.lower() == "cl"
        flags = [*_MSVC, f"/Fe{out}"] if msvc else [*_FLAGS, *_static(), "-o", str(out)]
        command = [*compiler, SOURCES[library][0], *flags]
        done = subprocess.run(command, cwd=work, capture_output=True, text=True, errors="replace", timeout=_TIMEOUT)
        if done.returncode:
            raise OSError(f"{Path(compiler[0]).name} failed: {(done.stderr or done.stdout).strip()[:200]}")
        try:
            os.replace(out, target)
        except OSError:
            if not target.is_file():  # Windows: another process has loaded its own build by that name
                raise
    finally:
        shutil.rmtree(work, ignore_errors=True)


def _static() -> list[str]:
    return ["-static"] if sys.platform == "win32" else []


def _declare_step(lib: ctypes.CDLL) -> ctypes.CDLL:
    pointer, number = ctypes.c_void_p, ctypes.c_int
    lib.mt_path.argtypes, lib.mt_path.restype = [ctypes.c_char_p], number
    lib.mt_path_name.argtypes, lib.mt_path_name.restype = [number], ctypes.c_char_p
    lib.mt_scratch.argtypes, lib.mt_scratch.restype = [pointer, number, number], ctypes.c_int64
    lib.mt_step.argtypes = [number, pointer, pointer, pointer, number, pointer, number]
    lib.mt_step.restype = None
    lib.mt_draw.argtypes, lib.mt_draw.restype = [pointer, number, number, pointer, pointer, pointer], number
    return lib


def _declare_attention(lib: ctypes.CDLL) -> ctypes.CDLL:
    pointer, number = ctypes.c_void_p, ctypes.c_int
    lib.attention_ready.argtypes, lib.attention_ready.restype = [], number
    for pass_ in (lib.attention_forward, lib.attention_backward):
        pass_.argtypes, pass_.restype = [pointer, pointer, pointer, number], number
    return lib


_DECLARE = {"step": _declare_step, "attention": _declare_attention}


def _first_line(error: BaseException) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0][:200]


if __name__ == "__main__":
    for each in SOURCES:
        found = library(each)
        print(found if isinstance(found, str) else f"the native {each} is ready")
