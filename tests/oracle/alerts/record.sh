#!/bin/sh
# Records what notification-controller's event server does with the cases of $1, into the same file:
# tests/corpus/alerts/cases.json. The server is an internal package, so the recorder is put into a copy of the module.
set -e
file=$(realpath "$1")
here=$(realpath "$(dirname "$0")")
version=v1.9.3
module=github.com/fluxcd/notification-controller
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cp -r "$(go mod download -json $module@$version | sed -n 's/.*"Dir": "\(.*\)".*/\1/p')/." "$work"
chmod -R u+w "$work"
cd "$work"
# The module's go.mod replaces its API by a directory that is not in the copy.
go mod edit -dropreplace=$module/api
cp "$here/record.go" internal/server/
mkdir -p cmd/record
printf 'package main\n\nimport (\n\t"os"\n\n\t"%s/internal/server"\n)\n\nfunc main() { server.Record(os.Args[1], os.Args[2]) }\n' \
    $module > cmd/record/main.go
go build -mod=mod -buildvcs=false -o record ./cmd/record
./record "$file" "$file"
