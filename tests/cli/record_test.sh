#!/usr/bin/env bash
# `daxtrace record` as a person uses it: exit codes, what it says, that the command keeps its input, output and status,
# and that the trace can be read again. Skipped (77) where strace may not trace.
set -u
bin=$(cd "$1" && pwd)
daxtrace=$bin/daxtrace
[ -x "$daxtrace" ] || { echo "skipped: $daxtrace is not built"; exit 77; }
strace -f --seccomp-bpf -e trace=execve -o /dev/null true 2>/dev/null || {
  echo "skipped: strace is not installed or may not trace"
  exit 77
}
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder" || exit 1
failures=0
fail() {
  echo "FAILED: $*"
  failures=$((failures + 1))
}
# expect STATUS PATTERN COMMAND…: the exit code, and a pattern in standard error.
expect() {
  local want=$1 pattern=$2 got
  shift 2
  "$@" >out 2>err </dev/null
  got=$?
  [ "$got" = "$want" ] || fail "$*: exit $got, expected $want: $(cat err)"
  grep -q -e "$pattern" err || fail "$*: expected \"$pattern\", got: $(cat err)"
}

expect 2 'expected -o FILE' "$daxtrace" record -- true
expect 2 'expected a command' "$daxtrace" record -o t.dxt
expect 2 'unknown flag --frobnicate' "$daxtrace" record --frobnicate -o t.dxt -- true
expect 2 'unknown flag --outptu (did you mean "--output"?)' "$daxtrace" record --outptu t.dxt -- true
expect 2 'unknown flag -output (did you mean "--output"?)' "$daxtrace" record -output t.dxt -- true
expect 2 'expected one of auto, on, off, got "maybe"' "$daxtrace" record --faults=maybe -o t.dxt -- true
expect 2 'o: expected FILE, got nothing' "$daxtrace" record -o
expect 2 'given twice' "$daxtrace" record -o t.dxt -o u.dxt -- true
expect 2 'expected a file name that ends in one of .*\.dxt' "$daxtrace" record -o t.png -- true
expect 1 'no/such/folder' "$daxtrace" record -o no/such/folder/t.dxt -- true
expect 1 'expected nosuchcommand to run' "$daxtrace" record -o t.dxt -- nosuchcommand
[ ! -e t.dxt ] || fail "a trace of nothing"
"$daxtrace" record --help >help || fail "--help: exit $?"
[ "$("$daxtrace" record --version)" = "$("$daxtrace" --version)" ] || fail "--version"
grep -q 'daxtrace record -o build.dxt -- make' help || fail "--help has no example"

# The command's own words and status.
printf 'to be read' >in
"$daxtrace" record -o t.dxt -- sh -c 'cat; echo error >&2; exit 7' <in >out 2>err || fail "exit $?, expected 0"
[ "$(cat out)" = 'to be read' ] || fail "standard output: $(cat out)"
grep -qx 'error' err || fail "standard error: $(cat err)"
grep -q 'exited with status 7' err || fail "the command's status is not said: $(cat err)"
expect 0 'was killed by signal 15' "$daxtrace" record -o t.dxt -- sh -c 'kill $$'
"$daxtrace" record -q -o t.dxt -- true 2>err || fail "-q: exit $?"
[ ! -s err ] || fail "-q says: $(cat err)"
# Flags end at the command, with or without "--"; a letter's value may be attached.
[ "$("$daxtrace" record -q -ot.dxt echo -o --version -- x)" = '-o --version -- x' ] || fail "the command's flags"
[ "$("$daxtrace" record -q -o t.dxt -- printf '%s ' -- -q)" = '-- -q ' ] || fail "the command's --"
expect 0 'calls that failed' "$daxtrace" record --report -o t.dxt -- sh -c 'cat nosuchfile; true'

# What was recorded can be read, from the trace and from the log.
expect 0 'wrote t.trace' "$daxtrace" record --keep-log=t.strace -o t.trace -- sh -c 'cat in >copy; rm in'
grep -q "^file [0-9]* 10 $folder/copy$" t.trace || fail "no $folder/copy in the trace"
grep -q "^[0-9]* [0-9]* D " t.trace || fail "no deletion in the trace"
"$daxtrace" info t.trace >info || fail "info: exit $?"
"$daxtrace" convert t.strace from-log.trace >/dev/null || fail "convert of the log: exit $?"
grep -q "^file [0-9]* 10 $folder/copy$" from-log.trace || fail "no $folder/copy in the log"
"$daxtrace" record -q --faults=off -o whole.trace -- true || fail "--faults=off: exit $?"
grep -q '^# mapped touches: ranges' whole.trace || fail "the trace does not say that mappings count once"

# A name that .trace cannot hold does not cost the run.
expect 1 'wrote odd.trace.dxt instead' "$daxtrace" record -o odd.trace -- sh -c 'echo x >"$(printf "a\nb")"'
"$daxtrace" info odd.trace.dxt >info || fail "info odd.trace.dxt: exit $?"

[ "$failures" = 0 ] && echo "passed"
exit $((failures > 0))
