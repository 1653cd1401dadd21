#!/usr/bin/env bash
# Every relative link in the documents leads to a file that is there, and to a heading in it. Argument: the source
# folder.
set -euo pipefail
cd "$1"
status=0 links=0

# A heading as a link spells it: "## Binary (.dxt)" is "binary-dxt".
anchors() {
  awk '/^```/ { code = !code } !code && /^#+ /' "$1" | sed -E 's/^#+ +//' | tr '[:upper:]' '[:lower:]' |
    sed -E 's/[^[:alnum:] _-]//g; s/ /-/g'
}

while IFS=: read -r document line link; do
  [[ $link =~ ^[a-z]+: ]] && continue # of another site
  links=$((links + 1))
  file=${link%%#*}
  target=$document
  [[ -n $file ]] && target=$(dirname "$document")/$file
  if [[ ! -e $target ]]; then
    echo "$document:$line: no such file: $file"
    status=1
  elif [[ $link == *'#'* ]] && ! anchors "$target" | grep -qxF -- "${link#*#}"; then
    echo "$document:$line: no such heading in $target: ${link#*#}"
    status=1
  fi
done < <(find . -name '*.md' -not -path './build/*' -not -path './.git/*' | sort |
  xargs awk '/^```/ { code = !code } FNR == 1 && !/^```/ { code = 0 } !code {
    rest = $0
    while (match(rest, /\]\([^) ]+/)) {
      print FILENAME ":" FNR ":" substr(rest, RSTART + 2, RLENGTH - 2)
      rest = substr(rest, RSTART + RLENGTH)
    }
    if (sub(/^\[[^]]+\]: +/, "")) print FILENAME ":" FNR ":" $1
  }')
[[ $links -ge 10 ]] || { echo "expected links in the documents, found $links"; status=1; }
exit $status
