#!/bin/sh
# Records what notification-controller's notifiers send, into the directory $1: tests/corpus/notifications.
# The notifiers are an internal package, so the recorder is built in a copy of the controller's module. It plays all
# hosts on the ports 80, 443 and 4222 of 127.0.0.1, in a network namespace.
set -e
out=$(realpath "$1")
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
mkdir -p cmd/record
cp "$here"/*.go cmd/record/
go build -mod=mod -buildvcs=false -o record ./cmd/record
unshare --map-root-user --net sh -c 'ip link set lo up && ./record "$1"' sh "$out"
