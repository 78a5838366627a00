#!/usr/bin/env bash
# Writes want.yaml or want-error for every case of tests/corpus/kustomize with the real tool.
#
#     GOBIN="$PWD/bin" go install sigs.k8s.io/kustomize/kustomize/v5@v5.8.2
#     record.sh bin/kustomize
#
# A case is a directory with in/ (the files). The build starts at in/overlay where there is one, else at in/. A want-error says
# only that the tool refuses the case: its texts hold paths of the machine.
set -euo pipefail
tool=$(realpath "$1")
cd "$(dirname "$0")/../../corpus/kustomize"
for case in */; do
  case=${case%/}
  dir=.
  [ -d "$case/in/overlay" ] && dir=overlay
  rm -f "$case/want.yaml" "$case/want-error"
  if ! (cd "$case/in" && "$tool" build "$dir") >"$case/want.yaml" 2>/dev/null; then
    rm "$case/want.yaml"
    echo "kustomize v5.8.2 refuses it" >"$case/want-error"
  fi
done
