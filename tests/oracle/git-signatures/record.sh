#!/bin/sh
# Records commits and tags that git signed with gpg and ssh-keygen, with the public keys, into the directory $1.
# The private keys are thrown away: the next run makes other ones, and so other answers.
set -e
out=$(realpath "$1")
work=$(mktemp -d)
trap 'gpgconf --homedir "$work/gpg" --kill gpg-agent; rm -rf "$work"' EXIT
cd "$work"
export GNUPGHOME="$work/gpg"
mkdir -m700 gpg
echo 'faked-system-time 20231114T000000' > gpg/gpg.conf
new() { gpg --batch --quiet --pinentry-mode loopback --passphrase '' "$@"; }
id() { gpg --batch --with-colons --list-keys "$1" | awk -F: '/^fpr/{print $10; exit}'; }
new --quick-gen-key 'Ann <ann@example.com>' ed25519 sign never
new --quick-gen-key 'Bob <bob@example.com>' rsa2048 sign never
new --quick-gen-key 'Sub <sub@example.com>' rsa2048 cert never
new --quick-add-key "$(id sub@example.com)" ed25519 sign never
new --quick-gen-key 'Eve <eve@example.com>' ed25519 sign never
new --faked-system-time 20200101T000000 --quick-gen-key 'Old <old@example.com>' ed25519 sign 1y
new --quick-gen-key 'Rev <rev@example.com>' ed25519 sign never
for kind in ed25519 ecdsa rsa other; do
  case $kind in ecdsa) bits='-b 384' ;; rsa) bits='-b 2048' ;; *) bits= ;; esac
  # shellcheck disable=SC2086
  ssh-keygen -q -t "$(echo $kind | sed s/other/ed25519/)" $bits -N '' -C $kind -f ssh-$kind
  cp ssh-$kind.pub "$out/ssh-$kind.sshpub"
done
git init -q -b main repo
cd repo
git config user.name Ann
git config user.email ann@example.com
export GIT_AUTHOR_DATE='1700000000 +0100' GIT_COMMITTER_DATE='1700000000 +0100'
echo 'a: 1' > a.yaml
git add -A
git commit -q -m Unsigned
git cat-file commit HEAD > "$out/unsigned.commit"
commit() { # NAME KEY ARGUMENTS...
  name=$1 key=$2
  shift 2
  git "$@" -c user.signingkey="$key" commit -q --allow-empty -S -m "Signed by $name

A second paragraph, with ü."
  git cat-file commit HEAD > "$out/$name.commit"
}
tag() {
  name=$1 key=$2
  shift 2
  git "$@" -c user.signingkey="$key" tag -s -m "Release by $name" "$name-v1.0.0"
  git cat-file tag "$name-v1.0.0" > "$out/$name.tag"
}
for name in ann bob sub eve rev; do
  commit $name "$(id $name@example.com)"
  tag $name "$(id $name@example.com)"
done
printf '#!/bin/sh\nexec gpg --faked-system-time 20200601T000000 "$@"\n' > ../old
chmod +x ../old
commit old "$(id old@example.com)" -c gpg.program="$work/old"
for kind in ed25519 ecdsa rsa; do
  commit ssh-$kind "$work/ssh-$kind" -c gpg.format=ssh
  tag ssh-$kind "$work/ssh-$kind" -c gpg.format=ssh
done
git tag -a -m 'Unsigned release' v1.0.0
git cat-file tag v1.0.0 > "$out/unsigned.tag"
for name in ann bob sub eve old; do gpg --batch --armor --export $name@example.com > "$out/$name.asc"; done
gpg --batch --armor --export ann@example.com bob@example.com > "$out/both.asc"
revoked=$(id rev@example.com)
sed 's/^:-----/-----/' "$GNUPGHOME/openpgp-revocs.d/$revoked.rev" | gpg --batch --import
gpg --batch --armor --export "$revoked" > "$out/rev.asc"
