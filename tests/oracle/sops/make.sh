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
make ini settings.ini "age: $one"
make ini-flat flat.ini "age: $one"
make ini-encrypted-regex settings.ini "age: $one" "encrypted_regex: ^(password|host)$" "mac_only_encrypted: true"
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

# Files with keys of services, each with the same address in it.
SERVICES=http://127.0.0.1:18200
python3 "$(dirname "$script")/services.py" 18200 &
trap 'kill $!; rm -rf "$work"' EXIT
sleep 1
export VAULT_TOKEN=corpus
export AWS_ENDPOINT_URL=$SERVICES AWS_ACCESS_KEY_ID=corpus AWS_SECRET_ACCESS_KEY=corpus
export SOPS_GCP_KMS_CLIENT_TYPE=rest SOPS_GCP_KMS_ENDPOINT=$SERVICES GOOGLE_OAUTH_ACCESS_TOKEN=corpus
mkdir -p services
cases=services
make vault secret.yaml "hc_vault_transit_uri: $SERVICES/v1/sops/transit/keys/first"
make vault-json data.json "hc_vault_transit_uri: $SERVICES/v1/sops/transit/keys/first"
make vault-and-age secret.yaml "shamir_threshold: 2" "key_groups:" "  - age: [$one]" "  - hc_vault: ['$SERVICES/v1/sops/transit/keys/second']"
AWS=arn:aws:kms:eu-west-1:012345678901
GOOGLE=projects/acme-1/locations/global/keyRings/sops/cryptoKeys
make aws secret.yaml "kms: $AWS:key/1234abcd-12ab-34cd-56ef-1234567890ab"
make aws-role secret.yaml "kms: $AWS:alias/sops+arn:aws:iam::012345678901:role/sops"
make google secret.yaml "gcp_kms: $GOOGLE/first"
make aws-and-google secret.yaml "shamir_threshold: 2" "key_groups:" "  - kms: [{arn: '$AWS:key/1', context: {team: apps}}]" "  - gcp_kms: [{resource_id: $GOOGLE/second}]"

# sops reads the key of Azure Key Vault by HTTPS alone: the entry of another service is replaced by one of Azure, which the MAC does not
# cover.
python3 - services/vault.enc.yaml services/azure.enc.yaml <<'END'
import base64, re, sys
text = open(sys.argv[1]).read()
entry = re.search(r"    hc_vault:\n(.*?)    lastmodified:", text, re.S)
sealed = re.search(r"enc: vault:v1:(\S+)", entry[1])[1]
sealed = base64.urlsafe_b64encode(sealed.encode()).decode().rstrip("=")
azure = f"""    azure_kv:
        - vault_url: https://acme.vault.azure.net
          name: sops
          version: 0a1b2c
          created_at: "2026-01-01T00:00:00Z"
          enc: {sealed}
    lastmodified:"""
open(sys.argv[2], "w").write(text.replace(entry[0], azure))
END
cp services/vault.plain.yaml services/azure.plain.yaml
