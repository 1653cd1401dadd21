# daxtrace from outside: what info, head and convert make of a trace, round trips, and the exit status and words of
# refusals. record_test.sh has `daxtrace record`.
set -u
bin=$1 source=$2
daxtrace=$(cd "$bin" && pwd)/daxtrace
kbuild=$source/traces/data/kbuild.trace.zst
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
cd "$scratch" || exit 1
failures=0

fail() { printf 'FAILED: %s\n' "$*"; failures=$((failures + 1)); }

# run ARGUMENTS…: exits with 0; what it prints is in `out`.
run() { "$daxtrace" "$@" >out 2>err || fail "$* exits with $?: $(cat err)"; }

# refused STATUS TEXT ARGUMENTS…: exits with STATUS and one line of error that contains TEXT.
refused() {
  local status=$1 text=$2; shift 2
  "$daxtrace" "$@" >out 2>err </dev/null
  local got=$?
  [ "$got" = "$status" ] || fail "$*: expected exit status $status, got $got"
  grep -qF -- "$text" err || fail "$*: expected an error with \"$text\", got: $(cat err)"
  [ -s out ] && fail "$*: printed something too"
  [ "$(grep -cv '^Try ' err)" = 1 ] || fail "$*: expected one line of error, got: $(cat err)"
}

# The recorded trace does not say how mappings were watched; a written one does, in its second line.
zstd -dcq "$kbuild" | sed '1a # mapped touches: pages' >kbuild.trace

run info "$kbuild"
for text in ' records          1,256,564' 'mappings         ' 'ranges of 2M' ' mapped_read ' ' up to 4K '; do
  grep -qF "$text" out || fail "info: expected \"$text\", got: $(cat out)"
done
run info --format=json kbuild.trace
grep -qx '  "records": 1256564,' out || fail "info --format=json: $(head -3 out)"
grep -qx '  "source": "kbuild.trace",' out || fail "info --format=json: $(head -3 out)"
"$daxtrace" info - <"$kbuild" >out || fail "info of standard input"

# As many records as asked for, in a trace of its own; all of them are the whole trace.
for count in 0 1 1000; do
  "$daxtrace" head -n$count "$kbuild" >head.trace || fail "head -n$count"
  run info --format json head.trace
  grep -qx "  \"records\": $count," out || fail "head -n $count: $(grep '"records"' out)"
done
run head kbuild.trace
[ "$(grep -c '^[0-9]' out)" = 10 ] || fail "head prints $(grep -c '^[0-9]' out) records"
run head --records 99999999 "$kbuild"
cmp out kbuild.trace || fail "head of everything differs"

# There and back: the same bytes.
run convert --verify "$kbuild" one.dxt
run convert --verify one.dxt back.trace.zst
run convert one.dxt back.trace
cmp back.trace kbuild.trace || fail ".trace, .dxt, .trace differ"
zstd -dcq back.trace.zst | cmp - kbuild.trace || fail ".trace, .dxt, .trace.zst differ"
run convert back.trace.zst two.dxt
run convert one.dxt one.dxt.zst
run convert one.dxt.zst three.dxt
cmp three.dxt two.dxt || fail "two .dxt of one trace differ"
# One job after another: the same records, once more the same.
run convert --jobs-of make --verify one.dxt jobs.dxt
run convert --jobs-of make jobs.dxt again.dxt
cmp jobs.dxt again.dxt || fail "--jobs-of of what is in that form changes it"
run info --verify one.dxt
grep -q '^  verified: ' out || fail "info --verify: $(tail -1 out)"

refused 2 'expected a command'
refused 2 'unknown command "inof" (did you mean "info"?)' inof kbuild.trace
refused 2 'unknown command "recrod" (did you mean "record"?)' recrod
refused 2 'unknown flag --verson (did you mean "--version"?)' --verson
refused 2 'unknown flag --verfiy (did you mean "--verify"?)' info --verfiy kbuild.trace
refused 2 'unknown flag --recrods (did you mean "--records"?)' head --recrods 3 kbuild.trace
refused 1 'one.dxt: expected a task named "ninja" that has children, got none' convert --jobs-of ninja one.dxt x.dxt
refused 2 'unknown flag -verify (did you mean "--verify"?)' convert -verify kbuild.trace x.dxt
refused 2 '--format: expected one of text, json, got "jsno" (did you mean "json"?)' info --format jsno kbuild.trace
refused 2 '--format: given twice' info --format json --format text kbuild.trace
refused 2 '-n: expected a whole number' head -n-1 kbuild.trace
refused 2 '-n: expected N, got nothing' head -n
refused 2 'expected one FILE, got nothing' info
refused 2 'expected one FILE, got 2' info kbuild.trace kbuild.trace
refused 2 'expected IN and OUT, got 1' convert kbuild.trace
refused 2 'expected a file name that ends in one of' convert kbuild.trace x.png
refused 1 'nothere.trace' info nothere.trace
refused 1 '/nowhere/' convert kbuild.trace /nowhere/x.dxt
printf 'daxtrace 1\nfile 0 4096 /a\ntask 0 - 0 1 0 0 t\n1 0 R 0 0 -4\n' >bad.trace
refused 1 'bad.trace:4: expected' head bad.trace
head -c 100000 one.dxt >cut.dxt
refused 1 'cut.dxt' info cut.dxt
refused 1 'cut.dxt' convert cut.dxt x.trace
[ ! -e x.trace ] || fail "a trace made of bad data"

for command in '' info head convert record; do
  # shellcheck disable=SC2086
  run $command --help
  grep -q "^Usage: daxtrace $command" out || fail "$command --help: $(cat out)"
  run $command --version
  grep -q '^daxtrace [0-9]' out || fail "$command --version: $(cat out)"
  "$daxtrace" $command --help >/dev/full 2>err
  [ $? = 1 ] && grep -q 'standard output: ' err || fail "$command --help to a full disk"
done
for command in info 'info --format=json' 'head -n 0' 'head -n 100' 'head -n 100000'; do
  "$daxtrace" $command kbuild.trace >/dev/full 2>err
  [ $? = 1 ] && grep -q 'standard output: ' err || fail "$command to a full disk: $(cat err)"
done

printf '%d failures\n' "$failures"
[ "$failures" = 0 ]
