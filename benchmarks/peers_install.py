"""python -m benchmarks.peers_install [NAME ...]: set up llama.cpp and OpenVINO in an environment of their own.

It lies in the user's cache folder. llama.cpp is built for this machine's processor, which takes a C++ compiler and some
minutes on two cores; what can't be installed is said, and the benchmarks skip it by name.
"""

from __future__ import annotations

import os
import subprocess
import sys
import venv
from pathlib import Path

from platformdirs import user_cache_path

PEERS = {"llama.cpp": ("llama_cpp", ("llama-cpp-python", "gguf")), "OpenVINO": ("openvino", ("openvino",))}
_OFF = ("LLAVA_BUILD", "LLAMA_BUILD_TESTS", "LLAMA_BUILD_EXAMPLES", "LLAMA_BUILD_TOOLS", "LLAMA_BUILD_SERVER")
_FROM_SOURCE = ("llama-cpp-python",)  # its wheels, where there are any, are built for any processor


def folder() -> Path:
    """Where the environment is, or would be."""
    return user_cache_path("gpt-core") / "peers"


def peer_python() -> Path:
    """The peers' Python."""
    return folder() / ("Scripts/python.exe" if sys.platform == "win32" else "bin/python")


def present(peer: str) -> bool:
    """Whether the peer is there and can be imported."""
    if not peer_python().is_file():
        return False
    command = [str(peer_python()), "-c", f"import {PEERS[peer][0]}"]
    return subprocess.run(command, capture_output=True, check=False).returncode == 0


def install(peer: str) -> bool:
    """Install one peer and what its worker needs; returns whether it is there afterwards."""
    if not peer_python().is_file():
        venv.create(folder(), with_pip=True)
    environment = dict(os.environ)
    environment["CMAKE_ARGS"] = " ".join(["-DGGML_NATIVE=ON", *(f"-D{name}=OFF" for name in _OFF)])
    environment.setdefault("CMAKE_BUILD_PARALLEL_LEVEL", str(os.cpu_count() or 1))
    command = [
        str(peer_python()),
        "-m",
        "pip",
        "install",
        "--disable-pip-version-check",
        "-q",
        "numpy",
        *PEERS[peer][1],
    ]
    for name in _FROM_SOURCE:
        command += ["--no-binary", name]
    subprocess.run(command, env=environment, check=False)
    return present(peer)


def main(asked: list[str]) -> int:
    """Install the peers asked for, or all that are missing; returns 1 where one is missing afterwards."""
    strange = [name for name in asked if name not in PEERS]
    if strange:
        print(f"no peer is called {', '.join(strange)}; there are {', '.join(PEERS)}", file=sys.stderr)
        return 1
    missing = 0
    for peer in asked or PEERS:
        there = present(peer) or install(peer)
        print(f"{peer}: {'ready' if there else 'could not be installed; the benchmarks skip it'}", flush=True)
        missing += not there
    return int(missing > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
