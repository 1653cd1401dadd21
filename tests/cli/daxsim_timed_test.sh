#!/usr/bin/env bash
# Timed runs of daxsim from outside: reports do not depend on threads, a published cell is what its job gives by itself,
# and a recorded build runs as a pool of jobs, without DAX and as recorded.
set -u
bin=$1 source=$2
cd "$source" || exit 1
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
failures=0

fail() { printf 'FAILED: %s\n' "$*"; failures=$((failures + 1)); }

# Timed runs: any number of threads, the same bytes; a cell of the published table is what the same job gives by itself,
# in the job file or alone.
for threads in 1 3; do
  "$bin/daxsim" -w 64M,128M --policy linux,lru --fio tests/cli/randread.fio --format json --threads $threads \
    >"$scratch/timed-$threads" || fail "--fio"
done
cmp "$scratch/timed-1" "$scratch/timed-3" || fail "timed runs differ with threads"
"$bin/daxsim" validate --windows 64 --format json >"$scratch/cells.json" || fail "validate"
"$bin/daxsim" -w 64G --fio sim/profiles/goyal-2020.fio --format json >"$scratch/jobs.json" || fail "goyal-2020.fio"
diff <(sed -nE 's/.*"predicted_iops": ([0-9.]+).*/\1/p' "$scratch/cells.json" | sort) \
  <(sed -nE 's/^ *"iops": ([0-9.]+),/\1/p' "$scratch/jobs.json" | sort) || fail "cells are not what the jobs give"
alone=$("$bin/daxsim" -w 64G --fio "--rw=randread --bs=4k --size=4g --runtime=20 --ioengine=psync --numjobs=4" \
  --format json | sed -nE 's/^ *"iops": ([0-9.]+),/\1/p')
grep -qF "\"predicted_iops\": $alone" "$scratch/cells.json" || fail "a job alone gives $alone, which no cell says"

# The recorded build as a pool of jobs, with and without DAX, and as it was recorded.
for threads in 1 3; do
  "$bin/daxsim" -w 64M,1G --policy linux,lru -t kbuild.trace --jobs 16 --vcpus 4 --retouch 2 --cpu-factor 0.5 \
    --format json --threads $threads >"$scratch/pool-$threads" || fail "--jobs"
done
cmp "$scratch/pool-1" "$scratch/pool-3" || fail "pools differ with threads"
"$bin/daxsim" -t kbuild.trace -j 16 --vcpus 4 --no-dax --format csv >"$scratch/no-dax.csv" || fail "--no-dax"
[ "$(cut -d, -f14 "$scratch/no-dax.csv" | tail -n 1)" = 0 ] || fail "set-ups without DAX: $(cat "$scratch/no-dax.csv")"
"$bin/daxsim" -w 1G -t kbuild.trace --as-recorded >"$scratch/as-recorded" || fail "--as-recorded"
grep -q 'each task at its recorded times' "$scratch/as-recorded" || fail "--as-recorded: $(cat "$scratch/as-recorded")"

# The published kernel build: predicted time ÷ predicted time without DAX, within 10 % of what was measured, 5 % at 4 GiB.
"$bin/daxsim" validate --tables build --format json >"$scratch/build.json" || fail "validate --tables build"
ratio() { sed -nE "/\"$1\": \{/,/\}/s/^ *\"$2\": ([0-9.]+),?$/\\1/p" "$scratch/build.json"; }
for bound in "64 0.1" "1024 0.1" "4096 0.05"; do
  read -r mib most <<<"$bound"
  awk -v p="$(ratio kernel_build "$mib")" -v q="$(ratio kernel_build_published "$mib")" -v most="$most" \
    'BEGIN { exit !(p > 0 && q > 0 && p / q > 1 - most && p / q < 1 + most) }' ||
    fail "kernel build, $mib MiB: predicted $(ratio kernel_build "$mib"), published $(ratio kernel_build_published "$mib")"
done
awk -v p="$(ratio kernel_build 4096)" 'BEGIN { exit !(p < 1) }' || fail "4 GiB are not faster than none"

printf '%d failures\n' "$failures"
[ "$failures" = 0 ]
