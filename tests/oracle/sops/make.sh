#!/bin/sh
# Encrypts the plain files of a SOPS corpus with the real sops, and lets it decrypt them again.
#
#   make.sh CORPUS
#
# Needs sops (go install github.com/getsops/sops/v3/cmd/sops@v3.13.3), gpg and python3 in the PATH. The keys of the corpus were made for it
# and protect nothing. Those of OpenPGP were made by gpg 2.2.40 (--quick-generate-key, --quick-add-key, --export-secret-keys --armor);
# the passphrase of pgp-locked.asc is "secret".
set -eu
script=$(realpath "$0")
cd "$1"
one=$(sed -n 's/^# public key: //p' one.agekey)
two=$(sed -n 's/^# public key: //p' two.agekey)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p cases
cases=cases
cat one.agekey two.agekey > "$work/keys"
export SOPS_AGE_KEY_FILE="$work/keys"

export GNUPGHOME="$work/gnupg"
mkdir -m 700 "$GNUPGHOME"
fingerprint() {
    gpg --batch --quiet --import "pgp-$1.asc"
    gpg --batch --with-colons --list-keys "$1@example.com" | awk -F: '/^fpr/ { print $10; exit }'
}
rsa=$(fingerprint rsa)
ed25519=$(fingerprint ed25519)

three=$(sed -n 's/^# public key: //p' stranger.agekey)

# name, plain file, recipients, further lines of a creation rule
make() {
    name=$1 plain=$2 extension=${2##*.}
    {
        printf 'creation_rules:\n  - %s\n' "$3"
        shift 3
        for line in "$@"; do printf '    %s\n' "$line"; done
    } > "$work/sops.yaml"
    sops --config "$work/sops.yaml" encrypt "plain/$plain" > "$cases/$name.enc.$extension"
    (cd "$cases" && sops decrypt "$name.enc.$extension" > "$name.plain.$extension")
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
make pgp-rsa secret.yaml "pgp: $rsa"
make pgp-ed25519 types.yaml "pgp: $ed25519"
make pgp-json data.json "pgp: $ed25519"
make pgp-dotenv values.env "pgp: $rsa"
make pgp-binary blob.bin "pgp: $ed25519"
make pgp-and-age secret.yaml "pgp: $rsa" "age: $two"
make pgp-groups secret.yaml "shamir_threshold: 2" "key_groups:" "  - age: [$three]" "  - pgp: [$rsa]" "  - pgp: [$ed25519]"

# Files with keys of HashiCorp Vault, each with the same address in it.
VAULT=http://127.0.0.1:18200
python3 "$(dirname "$script")/vault.py" 18200 &
trap 'kill $!; rm -rf "$work"' EXIT
sleep 1
export VAULT_TOKEN=corpus
mkdir -p services
cases=services
make vault secret.yaml "hc_vault_transit_uri: $VAULT/v1/sops/transit/keys/first"
make vault-json data.json "hc_vault_transit_uri: $VAULT/v1/sops/transit/keys/first"
make vault-and-age secret.yaml "shamir_threshold: 2" "key_groups:" "  - age: [$one]" "  - hc_vault: ['$VAULT/v1/sops/transit/keys/second']"
