# daxsim from outside: reports against golden ones, the exit status and words of refusals, and that a trace is found
# where the README says. Golden reports are made anew by running this with UPDATE_GOLDEN=1.
set -u
bin=$1 source=$2
cd "$source" || exit 1
golden=$source/tests/cli/golden
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
failures=0

fail() { printf 'FAILED: %s\n' "$*"; failures=$((failures + 1)); }

# report NAME ARGUMENTS…: the output equals golden/NAME.
report() {
  local name=$1; shift
  "$bin/daxsim" "$@" >"$scratch/$name" 2>"$scratch/err" || { fail "$* exits with $?: $(cat "$scratch/err")"; return; }
  if [ -n "${UPDATE_GOLDEN:-}" ]; then cp "$scratch/$name" "$golden/$name"; fi
  diff -u "$golden/$name" "$scratch/$name" || fail "$name differs"
}

# refused STATUS TEXT ARGUMENTS…: exits with STATUS and one line of error that contains TEXT.
refused() {
  local status=$1 text=$2; shift 2
  "$bin/daxsim" "$@" >"$scratch/out" 2>"$scratch/err"
  local got=$?
  [ "$got" = "$status" ] || fail "$*: expected exit status $status, got $got"
  grep -qF -- "$text" "$scratch/err" || fail "$*: expected an error with \"$text\", got: $(cat "$scratch/err")"
  [ -s "$scratch/out" ] && fail "$*: printed a report too"
  [ "$(grep -cv '^Try ' "$scratch/err")" = 1 ] || fail "$*: expected one line of error, got: $(cat "$scratch/err")"
}

report one-window.txt --window 4G --trace kbuild.trace
report sweep.txt --window 64M,1G..4G --policy linux,lru,arc,belady,per-file:base=lru,min=32K --trace kbuild.trace
report range-sizes.txt --window 1G --policy lru --range-size 2M,64K --trace kbuild.trace
report textbook.csv --window 64M,1G,4G --policy linux,fifo,lru --keep-deleted --map-extending-writes \
  --trace kbuild.trace --format csv
report two-runs.json --window 1G --policy linux,random:seed=7 --trace kbuild.trace --format json
report mechanics.txt --window 1G --policy linux,lru --mechanics demand --no-remove --trace kbuild.trace

# Any number of threads, the same bytes.
for threads in 1 2 5; do
  "$bin/daxsim" --window 64M..1G --policy linux,clock,random,belady --trace kbuild.trace --format json \
    --threads $threads >"$scratch/threads-$threads"
  cmp "$scratch/threads-1" "$scratch/threads-$threads" || fail "$threads threads differ"
done

# Where traces are found; and --output.
cp traces/data/kbuild.trace.zst "$scratch/other.trace.zst"
(cd "$scratch" && "$bin/daxsim" --window 64M --trace other.trace --format csv --output report.csv) || fail "beside"
grep -q '^other.trace.zst,linux,67108864,' "$scratch/report.csv" || fail "--output: $(cat "$scratch/report.csv")"
zstd -dcq traces/data/kbuild.trace.zst | "$bin/daxsim" --window 64M --trace - --format csv >"$scratch/stdin.csv" ||
  fail "standard input"
diff <(sed 's/^other.trace.zst/-/' "$scratch/report.csv") "$scratch/stdin.csv" || fail "standard input differs"

refused 2 'unknown flag --widnow (did you mean "window"?)' --widnow 4G
refused 2 'did you mean "belady"' --policy beladi --trace kbuild.trace
refused 2 '--window: expected a size such as 4G' --window 4Q --trace kbuild.trace
refused 2 '--window' --window -4G --trace kbuild.trace
refused 2 'at least one range of 2M' --window 1M --trace kbuild.trace
refused 2 'at most 16777216 ranges' --window 1P --trace kbuild.trace
refused 2 'power of two from 4K to 1G' --range-size 3M --trace kbuild.trace
refused 2 'expected one of table, csv, json' --format xml --trace kbuild.trace
refused 2 'expected one of linux, demand, got "lniux" (did you mean "linux"?)' --mechanics lniux --trace kbuild.trace
refused 2 '--threshold: expected a whole number from 0 to 100' --threshold 101 --trace kbuild.trace
refused 2 'would wait for ever' --threshold 0 --trace kbuild.trace
refused 2 'expected --trace FILE' --window 4G
refused 2 'unexpected argument "kbuild.trace"' kbuild.trace
refused 1 'nothere.trace: no such trace' --trace nothere.trace
refused 1 '/nowhere/report: cannot be written' --window 64M --trace kbuild.trace --output /nowhere/report
printf 'daxtrace 1\nfile 0 4096 /a\ntask 0 - 0 1 0 0 t\n1 0 R 0 0 -4\n' >"$scratch/bad.trace"
refused 1 "$scratch/bad.trace:4: expected" --trace "$scratch/bad.trace"
printf 'GIF89a' >"$scratch/picture"
refused 1 "$scratch/picture" --trace "$scratch/picture"
: >"$scratch/empty"
refused 1 "$scratch/empty" --trace "$scratch/empty"
refused 1 "traces/data" --trace traces/data
printf 'daxtrace 1\nfile 0 4096 /a\ntask 0 - 0 10 0 0 t\n0 0 R 0 0 1000000000000000\n' >"$scratch/huge.trace"
refused 1 "at most" --trace "$scratch/huge.trace"
refused 2 "--output: expected another file than the trace" --trace "$scratch/other.trace" \
  --output "$scratch/other.trace.zst"

"$bin/daxsim" --help | grep -q -- '--map-extending-writes' || fail "--help"
"$bin/daxsim" --version | grep -q '^daxsim [0-9]' || fail "--version"
"$bin/daxsim" --list-policies | grep -q '^belady-bypass' || fail "--list-policies"
"$bin/daxsim" --list-formats | grep -q '^dxt' || fail "--list-formats"
"$bin/daxsim" --help >/dev/full 2>/dev/null && fail "--help to a full disk exits with 0"

printf '%d failures\n' "$failures"
[ "$failures" = 0 ]
