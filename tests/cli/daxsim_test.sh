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
  "$bin/daxsim" --window 64M,1G --policy linux,clock,random,belady --trace kbuild.trace --format json \
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

# Timed runs; daxsim_timed_test.sh has the long ones.
"$bin/daxsim" -w 64M --fio "--rw=randread --size=64m --numjobs=2 --numjob=3" --format csv >"$scratch/timed.csv" 2>"$scratch/err" ||
  fail "--fio options"
grep -q 'warning: --fio: option 4: unknown option "numjob" ignored (did you mean "numjobs"?)' "$scratch/err" || fail "warning"
grep -q '^linux,67108864,2097152,job,randread,psync,2,' "$scratch/timed.csv" || fail "timed csv: $(cat "$scratch/timed.csv")"
"$bin/daxsim" -w 64M --fio "--rw=randrw --size=16m" --format json | grep -q '"timed_runs": \[' || fail "timed json"
"$bin/daxsim" --advise --fio "--rw=randread --size=256m --io_size=16m" >"$scratch/advice" || fail "--advise"
grep -q '^Advice: a window of 320M$' "$scratch/advice" || fail "--advise: $(cat "$scratch/advice")"
refused 2 '--advise: expected --fio, or --jobs N' --advise --trace kbuild.trace
refused 2 '--advise: expected one policy' --advise --fio "--size=1m" --policy lru,linux
refused 2 '--advise: expected one policy' --advise --fio "--size=1m" --devices 2
refused 2 '--advise: expected one policy' --advise --fio "--size=1m" --grow-from 64M
refused 2 '--accept: expected a number of percent' --advise --fio "--size=1m" --accept much
refused 2 '--guest-ram: expected a size above 0' --fio "--size=1m" --guest-ram 0

refused 2 'expected cache none, auto or always: those that virtiofs has' --fio "--size=1m" --no-dax --cache mmap
refused 2 'expected cache none, mmap or loose: those that 9p has' --fio "--size=1m" --filesystem 9p --cache auto
refused 2 'expected virtiofs with cache=auto or always' --trace kbuild.trace --jobs 2 --no-dax --cache none
refused 2 '--cache is of timed runs' --trace kbuild.trace --cache none
refused 2 '--reclaim-idle: expected a time such as 500ms' --fio "--size=1m" --reclaim-idle 0
refused 2 '--reclaim-idle is of timed runs' --trace kbuild.trace --reclaim-idle 1s
refused 2 'a window grows when that would be woken' --fio "--size=1m" --policy lru --grow-from 1M
refused 2 'without it there is no window to grow' --fio "--size=1m" --no-dax --grow-from 64M
refused 2 '--devices: expected a whole number from 1 to 64' --fio "--size=1m" --devices 0
refused 2 'expected one device: recorded jobs share all their files' --trace kbuild.trace --jobs 2 --devices 2
refused 2 'expected a window of 1 to 16777216 ranges' --fio "--size=1m" --window 16M --devices 64
refused 2 '--map-over: expected no --mechanics' --fio "--size=1m" --map-over --mechanics linux
refused 2 '--queues: expected a whole number from 1 to 1024' --fio "--size=1m" --queues 0
refused 2 'expected --trace or --fio, got both' --fio tests/cli/randread.fio --trace kbuild.trace
refused 2 'expected one --trace with --jobs or --as-recorded' --trace kbuild.trace --jobs 4 --as-recorded
refused 2 'expected one --trace with --jobs or --as-recorded' --trace kbuild.trace --trace kbuild.trace --jobs 4
refused 2 'of a trace that is run with --jobs or --as-recorded' --trace kbuild.trace --vcpus 4
refused 2 'of a trace that is run with --jobs or --as-recorded' --fio tests/cli/randread.fio --retouch 2
refused 2 '--no-dax is of timed runs' --trace kbuild.trace --no-dax
refused 2 '--profile: a trace is replayed without a clock' --trace kbuild.trace --profile goyal-2020
refused 2 '--jobs: expected a whole number from 1 to 65536' --trace kbuild.trace --jobs 0
refused 2 '--cpu-factor: expected a number above 0, got "fast"' --trace kbuild.trace --jobs 1 --cpu-factor fast
refused 1 'expected a task named "ninja" that has children, got none' --trace kbuild.trace --jobs 4 --driver ninja
refused 2 'looks ahead in the recorded order' --fio tests/cli/randread.fio --policy belady
refused 2 'expected a profile' --fio tests/cli/randread.fio --profile nobody
refused 2 'rw: expected read, write' --fio "--rw=sideways --size=1m"
refused 1 'nowhere.fio: cannot be read' --fio nowhere.fio

refused 2 'unknown flag --widnow (did you mean "--window"?)' --widnow 4G
refused 2 'did you mean "belady"' --policy beladi --trace kbuild.trace
refused 2 '--window: expected a size such as 4G' --window 4Q --trace kbuild.trace
refused 2 '--window' --window -4G --trace kbuild.trace
refused 2 'at least one range of 2M' --window 1M --trace kbuild.trace
refused 2 'at most 16777216 ranges' --window 1P --trace kbuild.trace
refused 2 'power of two from 4K to 1G' --range-size 3M --trace kbuild.trace
refused 2 '--page-size: expected a page size that is a power of two' --page-size 3000 --trace kbuild.trace
refused 2 '--page-size: expected pages no larger than a range of 4K' --page-size 64K --range-size 4K --trace kbuild.trace
refused 2 '--struct-page-size: expected a structure of 1 to 4096 bytes, got 0' --struct-page-size 0 --trace kbuild.trace
refused 2 '--mapping-size: expected a structure of 1 to 4096 bytes' --mapping-size 8K --trace kbuild.trace
refused 2 '--host-page-size: expected a page size' --host-page-size 1 --trace kbuild.trace
refused 2 '--vma-size: expected a size' --vma-size x --trace kbuild.trace
refused 2 '--table-entry-size: expected a structure' --table-entry-size 0 --trace kbuild.trace
refused 2 'cold: expected hot beside it' --policy per-file:cold=2/10s --trace kbuild.trace
refused 2 'got "b/**" (a comma within a value is written \,)' --policy 'per-file:include=/a,b/**' --trace kbuild.trace
refused 2 '--output: expected a file, got nothing' --output= --trace kbuild.trace
refused 2 'expected standard input (-) once, got it twice' -t - -t -
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
refused 1 'traces/data: expected a trace, got a directory' --trace traces/data
ln -s loop "$scratch/loop"
refused 1 "$scratch/loop: cannot be opened: Too many levels of symbolic links" --trace "$scratch/loop"
refused 1 "README.md/x: cannot be opened: Not a directory" --trace README.md/x
printf 'daxtrace 1\nfile 0 4096 /a\ntask 0 - 0 10 0 0 t\n0 0 R 0 0 1000000000000000\n' >"$scratch/huge.trace"
refused 1 "at most" --trace "$scratch/huge.trace"
refused 2 "--output: expected another file than the trace" --trace "$scratch/other.trace" \
  --output "$scratch/other.trace.zst"

trace_of() { printf 'daxtrace 1\nfile 0 4096 /a,b/c.so\ntask 0 - 0 100 0 0 t\n'; printf '%s\n' "$@"; }
trace_of '1 0 R 0 0 4' '2 0 R 0 0 4' >"$scratch/no-opens.trace"
trace_of '1 0 O 0 0 4096' '2 0 R 0 0 4' >"$scratch/opens.trace"

# What a list names twice runs once, in the order of the first.
"$bin/daxsim" -w 1G,64M..1G,64M -p lru,linux,lru --range-size 2M,2M --format csv --output - \
  -t "$scratch/opens.trace" -t "$scratch/opens.trace" >"$scratch/repeats" || fail "repeats"
[ "$(cut -d, -f2,3 "$scratch/repeats" | tail -n +2 | tr '\n' ' ')" = "lru,1073741824 linux,1073741824 \
lru,67108864 linux,67108864 lru,134217728 linux,134217728 lru,268435456 linux,268435456 \
lru,536870912 linux,536870912 " ] || fail "repeats: $(cut -d, -f2,3 "$scratch/repeats")"

# warned TEXT ARGUMENTS…: a report, and one warning that contains TEXT; with TEXT empty, none.
warned() {
  local text=$1; shift
  "$bin/daxsim" -w 64M --format csv "$@" >"$scratch/out" 2>"$scratch/err" || fail "$* exits with $?"
  [ -s "$scratch/out" ] || fail "$*: no report"
  if [ -z "$text" ]; then
    [ -s "$scratch/err" ] && fail "$*: expected no warning, got: $(cat "$scratch/err")"
    return
  fi
  [ "$(grep -c '^daxsim: warning: ' "$scratch/err")" = 1 ] && grep -qF -- "$text" "$scratch/err" ||
    fail "$*: expected one warning with \"$text\", got: $(cat "$scratch/err")"
}
warned 'hot: a file that has become hot' -p per-file:hot=2/10s -t "$scratch/no-opens.trace"
warned '' -p per-file:hot=2/10s -t "$scratch/opens.trace"
warned 'include: no file of the trace matches /a/**' -p 'per-file:include=/a/**' -t "$scratch/opens.trace"
warned 'exclude: no file of the trace matches *.txt' -p 'lru,per-file:exclude=*.txt' -t "$scratch/opens.trace"
warned 'quota: no file of the trace matches /*.so' -p 'per-file:quota=2@/*.so' -t "$scratch/opens.trace"
warned '' -p 'per-file:include=/a\,b/*,exclude=*.s[op],quota=3@/**/*.so,exclude=*.so' -t "$scratch/opens.trace"

# Mechanics that are not the named ones are told.
"$bin/daxsim" -w 1G -t "$scratch/opens.trace" --inline any --inline-faults own |
  grep -q 'below 20 % free, reads and writes take any range, faults take ranges of their file$' || fail "mechanics"
"$bin/daxsim" -w 1G -t "$scratch/opens.trace" -p lru --threshold 5 --inline never |
  grep -q 'below 5 % free, reads and writes wait, faults take any range$' || fail "mechanics of demand"

# What things cost the host can be said.
"$bin/daxsim" -w 64M -t "$scratch/opens.trace" --vma-size 176 --host-page-size 4K --table-entry-size 16 --format json |
  grep -q '"host_bytes": 208,' || fail "the host's memory: 1 mapping of 176 bytes and 2 entries of 16 of a page"

# Names that are no UTF-8, everywhere.
printf 'daxtrace 1\nfile 0 4096 /caf\xc3\xa9\xff\xe2\x82\ntask 0 - 0 100 0 0 t\n1 0 R 0 0 4\n' \
  >"$scratch/"$'bad\xff.trace'
for format in table csv json; do
  "$bin/daxsim" -w 64M -p 'per-file:exclude=x'$'\xfe' -t "$scratch/"$'bad\xff.trace' --format $format \
    >"$scratch/out" 2>/dev/null || fail "a name that is no UTF-8 as $format"
  iconv -f UTF-8 -t UTF-8 "$scratch/out" >/dev/null || fail "$format is no UTF-8"
done
grep -qF '"/café���"' "$scratch/out" || fail "bad bytes in JSON: $(grep path "$scratch/out")"

"$bin/daxsim" --help | grep -q -- '--map-extending-writes' || fail "--help"
"$bin/daxsim" --version | grep -q '^daxsim [0-9]' || fail "--version"
"$bin/daxsim" --list-policies >"$scratch/policies"
for text in '^belady-bypass' '^ *quota=N' '\\,' '^  \* .*/ not among them'; do
  grep -q -- "$text" "$scratch/policies" || fail "--list-policies without $text"
done
"$bin/daxsim" --list-formats | grep -q '^dxt' || fail "--list-formats"
"$bin/daxsim" --help >/dev/full 2>/dev/null && fail "--help to a full disk exits with 0"

printf '%d failures\n' "$failures"
[ "$failures" = 0 ]
