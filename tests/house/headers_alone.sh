#!/usr/bin/env bash
# Compiles each header of include/ and src/ by itself, as the only line of a program: what it needs, it includes.
#   headers_alone.sh ROOT COMPILER FOLDER,FOLDER,...     without code generation, as many at once as there are processors
# Not those of src/kernels: they are the bodies of src/kernels/isa_table.inl, and take a minute.
set -euo pipefail

root=$1
compiler=$2
flags=(-std=c++20 -w -DHEED_STATIC_DEFINE)
IFS=, read -ra folders <<<"$3"
for folder in "${folders[@]}"; do
  # The system's own folder stands where it has to be already.
  if [ -n "$folder" ] && [ "$folder" != /usr/include ]; then flags+=(-isystem "$folder"); fi
done
cd "$root"

# alone HEADER COMPILER FLAGS...
alone() {
  local header=$1 said
  shift
  if ! said=$(echo "#include \"${header#*/}\"" | "$@" -fsyntax-only -x c++ - 2>&1); then
    printf '%s does not compile by itself:\n%s\n' "$header" "$said" >&2
    return 1
  fi
}
export -f alone

headers=$(find include src -name '*.hpp' -not -path 'src/kernels/*' | sort)
# shellcheck disable=SC2016  # "$@" is that of the inner shell
printf '%s\n' "$headers" | xargs -P "$(nproc)" -I {} bash -c 'alone "$@"' alone {} "$compiler" "${flags[@]}"
echo "$(wc -l <<<"$headers") headers compile by themselves"
