#!/usr/bin/env bash
# Includes go one way, and each of ours is spelt `daxcache/…`:
#   libdaxcache/include ← policies, traces ← libdaxcache/src ← sim ← python, bench
# Argument: the source folder.
set -euo pipefail
cd "$1"
status=0
bad() {
  echo "$1"
  status=1
}

# Sets `allowed` to the rooms whose headers a file may include, by folder.
may_include() {
  case $1 in
    libdaxcache/include/*) allowed=' libdaxcache ' ;;
    policies/*) allowed=' libdaxcache policies ' ;;
    traces/*) allowed=' libdaxcache traces ' ;;
    libdaxcache/src/*) allowed=' libdaxcache policies traces ' ;;
    *) allowed=' libdaxcache policies traces sim ' ;;
  esac
}

# Which room a header is of.
declare -A room_of
for room in libdaxcache policies traces sim; do
  while read -r header; do
    if [[ -n ${room_of[$header]:-} ]]; then bad "$header stands in ${room_of[$header]} and in $room"; fi
    room_of[$header]=$room
  done < <(find "$room/include" -name '*.h' -printf '%P\n' 2>/dev/null)
done

while IFS=: read -r file line text; do
  [[ $text =~ [\"\<]([^\"\>]*)[\"\>] ]] || continue
  header=${BASH_REMATCH[1]}
  if [[ -n ${room_of[$header]:-} ]]; then
    may_include "$file"
    [[ $allowed == *" ${room_of[$header]} "* ]] || bad "$file:$line: may not include ${room_of[$header]}: $header"
    [[ $text == *'"'* ]] || bad "$file:$line: expected quotes, got <$header>"
  elif [[ $header == daxcache/* ]]; then
    bad "$file:$line: no such header: $header"
  elif [[ $text == *'"'* && $header != absl/* && $header != g[tm]* && $header != benchmark/* &&
    $header != nlohmann/* && $header != Eigen/* && $header != pybind11/* ]]; then
    # A private header beside the source that includes it.
    [[ $file == */src/* || $file == python/* ]] && [[ -e $(dirname "$file")/$header ]] ||
      bad "$file:$line: expected an include spelt daxcache/…, got \"$header\""
  fi
done < <(find libdaxcache policies traces sim python bench -name '*.h' -o -name '*.cc' 2>/dev/null | sort |
  xargs grep -nE '^[[:space:]]*#[[:space:]]*include' /dev/null)
exit $status
