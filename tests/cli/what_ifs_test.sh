# What-ifs: each is a flag, a row of a golden table, and has the sign that it must have. With DAXCACHE_FULL=1 of the whole
# recorded build, else of the beginning of the small one. Tables are made anew by running this with UPDATE_GOLDEN=1.
set -u
bin=$1 source=$2
cd "$source" || exit 1
golden=$source/tests/cli/golden/what-ifs${DAXCACHE_FULL:+-full}.txt
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
failures=0
fail() { printf 'FAILED: %s\n' "$*"; failures=$((failures + 1)); }

# The beginning of the build, in which a window of 64 MiB is short already.
if [ -n "${DAXCACHE_FULL:-}" ]; then
  build=(-t traces/data/kbuild-defconfig.dxt.zst --jobs 128 --vcpus 16 --profile xu-2021)
else
  "$bin/daxtrace" head -n 150000 traces/data/kbuild.trace.zst >"$scratch/head.trace" || fail "head"
  build=(-t "$scratch/head.trace" --jobs 32 --vcpus 8 --profile xu-2021 --retouch 2)
fi

names=(linux no-remove map-over threads queues lru range-size threshold chunk per-file idle grow devices no-dax)
declare -A flags=(
  [linux]="" [no-remove]="--no-remove" [map-over]="--map-over" [threads]="--daemon-threads 4" [queues]="--queues 4"
  [lru]="--policy lru --mechanics linux" [range-size]="--range-size 1M" [threshold]="--threshold 5" [chunk]="--chunk 40"
  [per-file]="--policy per-file:base=linux,min=32K" [no-dax]="--no-dax"
  [idle]="--mechanics demand --reclaim-idle 200ms" [grow]="--grow-from 32M" [devices]="--devices 2")

# seconds and host mappings, by workload and what-if.
declare -A seconds mappings
run() {
  local what=$1 name=$2
  shift 2
  "$bin/daxsim" "$@" ${flags[$name]} --format json >"$scratch/out" 2>"$scratch/err" ||
    { fail "$what $name: $(cat "$scratch/err")"; return; }
  seconds[$what,$name]=$(sed -nE 's/^      "seconds": ([0-9.e+-]+),$/\1/p' "$scratch/out" | head -n 1)
  mappings[$what,$name]=$(sed -nE 's/^      "host_mappings": ([0-9]+),$/\1/p' "$scratch/out")
  local misses
  misses=$(sed -nE 's/^ *"misses": ([0-9]+),$/\1/p' "$scratch/out")
  printf '%-9s %-11s %10.3f s %9d set-ups %6d host mappings\n' "$what" "$name" "${seconds[$what,$name]}" "$misses" \
    "${mappings[$what,$name]}" >>"$scratch/table"
}
for name in "${names[@]}"; do
  run randread "$name" -w 2G --fio "--rw=randread --bs=4k --size=4g --io_size=128m --ioengine=psync --numjobs=2"
  [ "$name" = devices ] && continue  # of fio's jobs
  for window in 64M 1G; do
    run "build-$window" "$name" -w $window "${build[@]}"
  done
done
sort -s -k 1,1 "$scratch/table" >"$scratch/sorted"
if [ -n "${UPDATE_GOLDEN:-}" ]; then cp "$scratch/sorted" "$golden"; fi
diff -u "$golden" "$scratch/sorted" || fail "the table differs"

# not_slower WORKLOAD NAME [FACTOR]: than Linux, by more than 1 % (what timing does to it).
not_slower() {
  awk -v a="${seconds[$1,$2]}" -v b="${seconds[$1,linux]}" -v c="${3:-1.01}" 'BEGIN { exit !(a <= b * c) }' ||
    fail "$1: $2 takes ${seconds[$1,$2]} s, linux ${seconds[$1,linux]} s"
}
for what in randread build-64M build-1G; do
  for name in no-remove map-over; do
    # The whole build on 1 GiB is a little slower without removals: what-ifs.md.
    if [ "$what-$name-${DAXCACHE_FULL:-}" = build-1G-no-remove-1 ]; then
      not_slower $what $name 1.03
    else
      not_slower $what $name
    fi
    [ "${mappings[$what,$name]}" -ge "${mappings[$what,linux]}" ] ||
      fail "$what: $name leaves ${mappings[$what,$name]} host mappings, linux ${mappings[$what,linux]}"
  done
done
not_slower build-64M per-file
not_slower randread devices
for what in randread build-64M build-1G; do not_slower $what grow 1.1; done

printf '%d failures\n' "$failures"
[ "$failures" = 0 ]
