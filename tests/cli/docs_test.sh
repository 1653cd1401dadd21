# Every command in README.md and docs/ that starts one of our programs works as written: run from a folder that looks
# like the repository, one after another, as a reader would.
set -u
bin=$1 source=$2
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
mkdir -p "$scratch/build/release"
ln -s "$bin" "$scratch/build/release/bin"
ln -s "$source/traces" "$source/docs" "$source/tests" "$source/sim" "$scratch/"
printf '#include <stdio.h>\nint main(void) { puts("hello"); return 0; }\n' >"$scratch/hello.c"
cd "$scratch" || exit 1
failures=0 ran=0 skipped=0
while IFS= read -r line; do
  command=${line#"${line%%[![:space:]]*}"}
  case $command in
    *bench_*) continue ;;  # minutes long
    *" record "*)
      if ! strace -qo /dev/null true 2>/dev/null; then
        skipped=$((skipped + 1))
        continue
      fi ;;
  esac
  ran=$((ran + 1))
  if ! bash -c "$command" >out 2>err </dev/null; then
    printf 'FAILED: %s\n' "$command"
    cat err
    failures=$((failures + 1))
  fi
done < <(sed -nE '/^( {4})?build\/release\/bin\/[a-z]/p' "$source/README.md" "$source"/docs/*.md)
printf '%d commands ran, %d failed, %d skipped\n' "$ran" "$failures" "$skipped"
[ "$ran" -ge 10 ] && [ "$failures" = 0 ]
