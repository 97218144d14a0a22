#!/usr/bin/env bash
# Trains a music model for a few minutes of one large GPU, and leaves what it reached in files of at most 15 MiB.
#
#   benchmarks/train_gpu.sh pack SHARDS shards.tar.xz     # once, at home: what has to travel
#   benchmarks/train_gpu.sh SHARDS [FOLDER]               # on the machine with the GPU; SHARDS: a folder or that archive
#   benchmarks/train_gpu.sh join FOLDER CHECKPOINT        # at home: the parts in FOLDER -> a checkpoint folder
#
# It writes to $OUT, else to FOLDER. Run again with FROM=FOLDER (the parts of the run before), it goes on from there.
# A short probe measures the speed; the number of steps then fits the time, so that the rate has fallen when it is up.
# Settings, by environment: MINUTES=12 PRESET=music BATCH=64 COMPILE=1 PRECISION=bf16 TRANSPOSE=3 DROPOUT=0.1 STEPS=(measured)
# PROBE=60 EVAL_WINDOWS=128 SCRATCH=(a temporary folder) PYTHON=python3 MORE="further flags of music-transformer train".
# It needs PyTorch, NumPy, safetensors and tqdm, and the package's folder; nothing is installed.
set -euo pipefail
cd "$(dirname "$0")/.."
PYTHON=${PYTHON:-python3} MINUTES=${MINUTES:-12} PRESET=${PRESET:-music} BATCH=${BATCH:-64} COMPILE=${COMPILE:-1}
PRECISION=${PRECISION:-bf16} TRANSPOSE=${TRANSPOSE:-3} DROPOUT=${DROPOUT:-0.1} PROBE=${PROBE:-60} STEPS=${STEPS:-}
EVAL_WINDOWS=${EVAL_WINDOWS:-128} MORE=${MORE:-}
PART=$((15 * 1024 * 1024))
began=$SECONDS

fail() { echo "train_gpu.sh: $*" >&2; exit 1; }
usage() { sed -n '2,13s/^# \{0,1\}//p' "$0"; exit 2; }

pack() { # SHARDS ARCHIVE
  [[ -f $1/train.bin ]] || fail "$1 holds no train.bin; make shards with music-transformer corpus"
  tar -C "$1" -cf - meta.json train.bin train.idx.npy validation.bin validation.idx.npy | xz -T0 -6 >"$2"
  ls -l "$2"
}

join() { # FOLDER CHECKPOINT
  [[ -f $1/run.tar.00 ]] || fail "$1 holds no run.tar.00; give the folder that a run wrote"
  (cd "$1" && sha256sum --quiet -c SHA256SUMS) || fail "the parts in $1 are damaged; copy them again"
  mkdir -p "$2"
  cat "$1"/run.tar.?? | tar -C "$2" -xf -
}

train() { # CHECKPOINT STEPS EVAL_EVERY [more flags]: the package's own command
  local out=$1 steps=$2 every=$3
  shift 3
  local flags=(--preset "$PRESET" --batch-size "$BATCH" --precision "$PRECISION" --transpose "$TRANSPOSE" --dropout "$DROPOUT")
  [[ $COMPILE -eq 0 ]] || flags+=(--compile)
  # shellcheck disable=SC2086
  "$PYTHON" -m music_transformer train "$shards" -o "$out" "${flags[@]}" --max-steps "$steps" --eval-every "$every" \
    --eval-windows "$EVAL_WINDOWS" --log-every 10 --save-minutes 2 $MORE "$@"
}

speed() { # seconds a step took, from the last lines of a log: the first ones hold the compiling
  "$PYTHON" - "$1" <<'PY'
import json, sys
rows = [r for r in map(json.loads, open(sys.argv[1], encoding="utf-8")) if r["event"] == "step"]
a, b = rows[len(rows) // 2 - (len(rows) == 2)], rows[-1]
print((b["time"] - a["time"]) / max(1, b["step"] - a["step"]) or 0.01)
PY
}

steps_done() { "$PYTHON" -c 'import json, sys; print(json.load(open(sys.argv[1]))["step"])' "$1/run.json"; }

plan() { # DONE: steps in all that fit into what is left, with a tenth kept for evaluations, saving and packing
  local each
  rm -rf "$scratch/probe" "$scratch/probe.log.jsonl"
  train "$scratch/probe" "$PROBE" "$PROBE" --log-every $((PROBE > 20 ? 10 : 1)) >&2
  each=$(speed "$scratch/probe.log.jsonl")
  "$PYTHON" -c "print($1 + max(1, int(0.9 * (60 * $MINUTES - $((SECONDS - began))) / $each)))"
}

keep() { # CHECKPOINT FOLDER: fp16 weights to use, all state to go on, in parts
  local ready=$scratch/ready
  rm -rf "$ready" "$2"/run.tar.?? "$2/SHA256SUMS"
  PYTHONPATH=. "$PYTHON" tools/ship_model.py "$1" "$ready"
  cp "$1/trainer.pt" "$ready/"
  tar -C "$ready" -cf - . | split -b "$PART" -d -a 2 - "$2/run.tar."
  cp "$1.log.jsonl" "$2/log.jsonl"
  (cd "$2" && sha256sum run.tar.?? >SHA256SUMS && ls -l)
}

case ${1:-} in
  pack) [[ $# -eq 3 ]] || usage; pack "$2" "$3"; exit ;;
  join) [[ $# -eq 3 ]] || usage; join "$2" "$3"; exit ;;
  "" | -h | --help) usage ;;
esac
folder=${OUT:-${2:-}}
[[ -n $folder ]] || fail "name a folder to write to, or set OUT"
mkdir -p "$folder"
scratch=${SCRATCH:-}
if [[ -z $scratch ]]; then
  scratch=$(mktemp -d)
  trap 'rm -rf "$scratch"' EXIT
fi
export TORCHINDUCTOR_CACHE_DIR=$scratch/inductor PYTHONUNBUFFERED=1
shards=$1
if [[ -f $1 ]]; then
  shards=$scratch/shards
  mkdir -p "$shards" && tar -C "$shards" -xJf "$1"
fi
run=$scratch/run resume=() done=0
if [[ -n ${FROM:-} ]]; then
  join "$FROM" "$run"
  cp "$FROM/log.jsonl" "$run.log.jsonl"
  resume=(--resume)
  done=$(steps_done "$run")
fi
total=${STEPS:-$(plan "$done")}
left=$((60 * MINUTES - (SECONDS - began) - 30)) # half a minute to save and to pack
echo "steps $done to $total, $((left > 0 ? left : 30)) s at most"
status=0
export -f train
export PYTHON PRESET BATCH COMPILE PRECISION TRANSPOSE DROPOUT MORE shards EVAL_WINDOWS
# Interrupted at the end of its time, the loop finishes its step and saves.
timeout --signal=INT --kill-after=120 "$((left > 30 ? left : 30))" \
  bash -c 'train "$@"' _ "$run" "$total" "$((total > 8 ? total / 8 : 1))" "${resume[@]}" || status=$?
[[ -f $run/trainer.pt ]] || fail "no checkpoint was written (status $status)"
keep "$run" "$folder"
echo "took $((SECONDS - began)) s"
