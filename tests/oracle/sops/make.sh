#!/bin/sh
# Encrypts the plain files of a SOPS corpus with the real sops, and lets it decrypt them again.
#
#   make.sh CORPUS
#
# Needs sops (go install github.com/getsops/sops/v3/cmd/sops@v3.13.3) in the PATH. The keys of the corpus were made for it
# and protect nothing.
set -eu
cd "$1"
one=$(sed -n 's/^# public key: //p' one.agekey)
two=$(sed -n 's/^# public key: //p' two.agekey)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p cases
cat one.agekey two.agekey > "$work/keys"
export SOPS_AGE_KEY_FILE="$work/keys"

three=$(sed -n 's/^# public key: //p' stranger.agekey)

# name, plain file, recipients, further lines of a creation rule
make() {
    name=$1 plain=$2 extension=${2##*.}
    {
        printf 'creation_rules:\n  - %s\n' "$3"
        shift 3
        for line in "$@"; do printf '    %s\n' "$line"; done
    } > "$work/sops.yaml"
    sops --config "$work/sops.yaml" encrypt "plain/$plain" > "cases/$name.enc.$extension"
    (cd cases && sops decrypt "$name.enc.$extension" > "$name.plain.$extension")
}

make secret secret.yaml "age: $one"
make types types.yaml "age: $one"
make anchors anchors.yaml "age: $one"
make several several.yaml "age: $one"
make json data.json "age: $one"
make dotenv values.env "age: $one"
make binary blob.bin "age: $one"
make text note.txt "age: $one"
make docker dockerconfig.json "age: $one"
make encrypted-regex secret.yaml "age: $one" "encrypted_regex: ^(data|stringData)$"
make unencrypted-regex secret.yaml "age: $one" "unencrypted_regex: ^(apiVersion|kind|metadata|type)$"
make encrypted-suffix secret.yaml "age: $one" "encrypted_suffix: word"
make unencrypted-suffix secret.yaml "age: $one" "unencrypted_suffix: Data"
make mac-only-encrypted secret.yaml "age: $one" "encrypted_regex: ^stringData$" "mac_only_encrypted: true"
make mac-only-encrypted-json data.json "age: $one" "encrypted_regex: ^a$" "mac_only_encrypted: true"
make mac-only-encrypted-env values.env "age: $one" "unencrypted_regex: ^USER$" "mac_only_encrypted: true"
make encrypted-comment-regex comments.yaml "age: $one" "encrypted_comment_regex: sops:enc"
make unencrypted-comment-regex uncomments.yaml "age: $one" "unencrypted_comment_regex: sops:plain"
make second-recipient secret.yaml "age: $two"
make both-recipients secret.yaml "age: $two,$one"
make groups secret.yaml "shamir_threshold: 2" "key_groups:" "  - age: [$one]" "  - age: [$two]" "  - age: [$three]"
make groups-env values.env "shamir_threshold: 2" "key_groups:" "  - age: [$one]" "  - age: [$three]" "  - age: [$two]"
