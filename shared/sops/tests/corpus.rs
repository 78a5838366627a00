//! Tests decryption with files that the real sops encrypted (`tests/corpus/sops`, written by
//! `tests/oracle/sops`), and with damaged ones.

#![expect(
    clippy::disallowed_methods,
    clippy::expect_used,
    clippy::panic,
    reason = "a test that reads its corpus"
)]

use std::path::{Path, PathBuf};

use driftless_manifest::yaml::{Dialect, Limits, documents};
use driftless_sops::{Format, KeyService, Keyring, SopsError, decrypt, is_encrypted, master_keys};

fn corpus() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/corpus/sops")
}

fn read(name: &str) -> Vec<u8> {
    let path = corpus().join(name);
    std::fs::read(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

fn keyring(names: &[&str]) -> Keyring {
    let mut keys = Keyring::new();
    for name in names {
        let text = String::from_utf8(read(name)).expect("text");
        let added = match name.ends_with(".asc") {
            true => keys.add_pgp(&text, name),
            false => keys.add_age(&text, name),
        };
        assert_eq!(added, Ok(1));
    }
    keys
}

/// Returns the names of all encrypted files.
fn cases() -> Vec<String> {
    let entries = std::fs::read_dir(corpus().join("cases")).expect("cases");
    let names = entries.map(|e| e.expect("entry").file_name().to_string_lossy().into_owned());
    let mut names: Vec<_> = names.filter(|name| name.contains(".enc.")).collect();
    names.sort();
    assert!(names.len() > 20, "{names:?}");
    names
}

fn case(name: &str) -> (Vec<u8>, Format) {
    (read(&format!("cases/{name}")), Format::from_path(name))
}

#[test]
fn decrypts_as_sops_does() {
    let keys = keyring(&["one.agekey", "two.agekey", "pgp-rsa.asc", "pgp-ed25519.asc"]);
    for name in cases() {
        let (bytes, format) = case(&name);
        let want = read(&format!("cases/{}", name.replace(".enc.", ".plain.")));
        assert!(is_encrypted(&bytes, format), "{name}");
        assert!(!is_encrypted(&want, format), "{name}");
        let got = decrypt(&bytes, format, &keys, &name).unwrap_or_else(|e| panic!("{e}"));
        if format != Format::Yaml {
            assert_eq!(
                String::from_utf8_lossy(&got),
                String::from_utf8_lossy(&want),
                "{name}"
            );
            continue;
        }
        for dialect in [Dialect::V2, Dialect::V3] {
            let values = |text| documents(text, &name, dialect, &Limits::default()).expect("yaml");
            assert_eq!(values(&got), values(&want), "{name}");
        }
    }
}

#[test]
fn yaml_keeps_the_order_of_the_file() {
    let (bytes, format) = case("secret.enc.yaml");
    let plain = decrypt(&bytes, format, &keyring(&["one.agekey"]), "secret.yaml").expect("plain");
    let plain = String::from_utf8(plain).expect("text");
    let keys: Vec<_> = plain
        .lines()
        .filter(|l| !l.is_empty() && !l.starts_with(' '))
        .map(|l| l.split(':').next())
        .collect();
    assert_eq!(
        keys,
        [
            Some("apiVersion"),
            Some("kind"),
            Some("metadata"),
            Some("stringData"),
            Some("type")
        ]
    );
    assert!(plain.contains("p@ss: word #1") && !plain.contains("sops"));
}

#[test]
fn only_the_right_keys_open_a_file() {
    let (bytes, format) = case("secret.enc.yaml");
    let one = keyring(&["one.agekey"]).recipients();
    for keys in [
        Keyring::new(),
        keyring(&["two.agekey"]),
        keyring(&["stranger.agekey"]),
    ] {
        match decrypt(&bytes, format, &keys, "secret.yaml") {
            Err(SopsError::NoKey {
                recipients,
                groups: None,
                ..
            }) => assert_eq!(recipients, one),
            other => panic!("{other:?}"),
        }
    }
    let (groups, format) = case("groups.enc.yaml");
    assert_eq!(
        master_keys(&groups, format, "f").map(|groups| groups.len()),
        Ok(3)
    );
    for pair in [
        ["one.agekey", "two.agekey"],
        ["stranger.agekey", "two.agekey"],
        ["one.agekey", "stranger.agekey"],
    ] {
        assert!(
            decrypt(&groups, format, &keyring(&pair), "f").is_ok(),
            "{pair:?}"
        );
    }
    assert!(
        decrypt(
            &groups,
            format,
            &keyring(&["one.agekey", "two.agekey", "stranger.agekey"]),
            "f"
        )
        .is_ok()
    );
    match decrypt(&groups, format, &keyring(&["two.agekey"]), "f") {
        Err(SopsError::NoKey {
            groups: Some((1, 2)),
            ..
        }) => {}
        other => panic!("{other:?}"),
    }
}

#[test]
fn openpgp_keys_open_files() {
    for (name, key) in [
        ("pgp-rsa.enc.yaml", "pgp-rsa.asc"),
        ("pgp-and-age.enc.yaml", "pgp-rsa.asc"),
        ("pgp-and-age.enc.yaml", "two.agekey"),
        ("pgp-ed25519.enc.yaml", "pgp-ed25519.asc"),
        ("pgp-json.enc.json", "pgp-ed25519.asc"),
    ] {
        let (bytes, format) = case(name);
        decrypt(&bytes, format, &keyring(&[key]), name).unwrap_or_else(|e| panic!("{key}: {e}"));
        for other in ["pgp-stranger.asc", "stranger.agekey"] {
            let error = decrypt(&bytes, format, &keyring(&[other]), name).expect_err("no key");
            assert!(matches!(error, SopsError::NoKey { .. }), "{error}");
        }
    }
    let (bytes, format) = case("pgp-rsa.enc.yaml");
    let error = decrypt(&bytes, format, &Keyring::new(), "f").expect_err("no key");
    let recipient = &keyring(&["pgp-rsa.asc"]).recipients()[0];
    assert_eq!(
        error.to_string(),
        format!("f: no key opens the file; encrypted for PGP {recipient}")
    );
    // Two groups with different kinds of keys, each with a part of the data key.
    let (groups, format) = case("pgp-groups.enc.yaml");
    for pair in [
        ["pgp-rsa.asc", "pgp-ed25519.asc"],
        ["pgp-rsa.asc", "stranger.agekey"],
    ] {
        decrypt(&groups, format, &keyring(&pair), "f").unwrap_or_else(|e| panic!("{pair:?}: {e}"));
    }
    let one = decrypt(&groups, format, &keyring(&["pgp-rsa.asc"]), "f");
    assert!(
        matches!(
            one,
            Err(SopsError::NoKey {
                groups: Some((1, 2)),
                ..
            })
        ),
        "{one:?}"
    );
}

#[test]
fn a_damaged_message_of_openpgp_opens_nothing() {
    let (bytes, format) = case("pgp-ed25519.enc.yaml");
    let text = String::from_utf8(bytes).expect("text");
    let keys = keyring(&["pgp-ed25519.asc"]);
    let start = text.find("-----BEGIN PGP MESSAGE-----").expect("a message");
    let end = text.find("-----END PGP MESSAGE-----").expect("its end");
    let body = start + "-----BEGIN PGP MESSAGE-----".len();
    for at in (body..end).filter(|at| text.as_bytes()[*at].is_ascii_alphanumeric()) {
        let other = if text.as_bytes()[at] == b'A' {
            "B"
        } else {
            "A"
        };
        let damaged = format!("{}{other}{}", &text[..at], &text[at + 1..]);
        if let Ok(plain) = decrypt(damaged.as_bytes(), format, &keys, "f") {
            // The armor's checksum does not protect the content: a changed file may decrypt, but
            // only to the same content.
            assert!(!plain.is_empty());
        }
    }
}

#[test]
fn texts_that_are_not_secret_keys_of_openpgp() {
    let locked = String::from_utf8(read("pgp-locked.asc")).expect("text");
    let rsa = String::from_utf8(read("pgp-rsa.asc")).expect("text");
    let mut keys = Keyring::new();
    for (text, words) in [
        ("", "expected a block"),
        ("AGE-SECRET-KEY-1", "expected a block"),
        (&rsa[..rsa.len() / 2], "cannot be read"),
        (&locked, "has a passphrase"),
    ] {
        let error = keys
            .add_pgp(text, "sops.asc")
            .expect_err("refused")
            .to_string();
        assert!(
            error.starts_with("sops.asc: not OpenPGP secret keys: "),
            "{error}"
        );
        assert!(error.contains(words), "{error}");
    }
    assert!(keys.is_empty());
    let two = rsa + &String::from_utf8(read("pgp-ed25519.asc")).expect("text");
    assert_eq!(keys.add_pgp(&two, "sops.asc"), Ok(2));
    assert!(!format!("{keys:?}").contains("Plain"), "{keys:?}");
}

#[test]
fn a_data_key_from_another_service_opens_the_file() {
    let (bytes, format) = case("secret.enc.yaml");
    let entries = master_keys(&bytes, format, "f").expect("keys");
    assert_eq!(entries[0][0].service, KeyService::Age);
    let mut keys = Keyring::new();
    keys.add_opened(&entries[0][0], &[7; 32]);
    assert!(matches!(
        decrypt(&bytes, format, &keys, "f"),
        Err(SopsError::Value { .. })
    ));
    let mut keys = Keyring::new();
    keys.add_opened(&entries[0][0], &[7; 31]);
    assert!(matches!(
        decrypt(&bytes, format, &keys, "f"),
        Err(SopsError::Metadata { .. })
    ));
}

#[test]
fn entries_of_other_services_are_named_when_nothing_opens_the_file() {
    let text = "a: ENC[AES256_GCM,data:AA==,iv:AA==,tag:AA==,type:str]\nsops:\n  pgp: [{fp: ABCD, enc: x}]\n  kms: [{arn: 'arn:aws:kms:eu', enc: x}]\n  \
                lastmodified: '2024-01-01T00:00:00Z'\n  mac: x\n  version: 3.9.0\n";
    let error =
        decrypt(text.as_bytes(), Format::Yaml, &Keyring::new(), "f.yaml").expect_err("no key");
    assert_eq!(
        error.to_string(),
        "f.yaml: no key opens the file; encrypted for PGP ABCD; these key services were not asked, or did not open it: AWS KMS arn:aws:kms:eu"
    );
}

#[test]
fn key_files_are_read_as_flux_reads_them() {
    let mut keys = Keyring::new();
    let both = [
        read("one.agekey"),
        b"\n# a comment\r\n\n".to_vec(),
        read("two.agekey"),
    ]
    .concat();
    assert_eq!(
        keys.add_age(&String::from_utf8(both).expect("text"), "keys"),
        Ok(2)
    );
    let secret = String::from_utf8(read("one.agekey")).expect("text");
    let secret = secret.lines().last().expect("a key");
    let message = format!("{keys:?}");
    assert!(
        message.contains("age1") && !message.contains(secret) && !message.contains("SECRET"),
        "{message}"
    );
    for bad in [
        "x",
        "AGE-PLUGIN-YUBIKEY-1QQ",
        "-----BEGIN OPENSSH PRIVATE KEY-----",
        &secret[..70],
        &secret.replace('J', "b"),
    ] {
        let error = keys
            .add_age(&format!("# c\n{bad}\n"), "a.agekey")
            .expect_err(bad);
        assert_eq!(
            error.to_string(),
            "a.agekey:2: not an age identity, expected a line AGE-SECRET-KEY-1..."
        );
    }
    assert_eq!(keys.recipients().len(), 2);
}

type Change<'c> = &'c dyn Fn(&str) -> String;

/// Replaces a string in a file, and returns the result of decryption.
fn spoiled(name: &str, change: impl Fn(&str) -> String) -> Result<Vec<u8>, SopsError> {
    let (bytes, format) = case(name);
    let text = String::from_utf8(bytes).expect("text");
    let changed = change(&text);
    assert_ne!(text, changed, "{name}: nothing was changed");
    decrypt(changed.as_bytes(), format, &keyring(&["one.agekey"]), "f")
}

fn without_line(text: &str, start: &str) -> String {
    text.split_inclusive('\n')
        .filter(|line| !line.trim_start().starts_with(start))
        .collect()
}

#[test]
fn a_changed_file_is_refused() {
    let mac = |result| {
        assert_eq!(
            result,
            Err(SopsError::Mac {
                file: "f".to_owned()
            })
        )
    };
    mac(spoiled("secret.enc.yaml", |t| {
        t.replace("plain_unencrypted: visible", "plain_unencrypted: changed")
    }));
    mac(spoiled("secret.enc.yaml", |t| without_line(t, "user:")));
    mac(spoiled("secret.enc.yaml", |t| {
        t.replace("stringData:\n", "stringData:\n    more_unencrypted: x\n")
    }));
    mac(spoiled("secret.enc.yaml", |t| {
        t.replace("empty: \"\"", "empty_unencrypted: x")
    }));
    mac(spoiled("encrypted-regex.enc.yaml", |t| {
        t.replace("kind: Secret", "kind: secret")
    }));
    mac(spoiled("dotenv.enc.env", |t| {
        t.replace("OPEN_unencrypted=visible", "OPEN_unencrypted=other")
    }));
    mac(spoiled("mac-only-encrypted.enc.yaml", |t| {
        without_line(t, "mac_only_encrypted:")
    }));
    mac(spoiled("mac-only-encrypted.enc.yaml", |t| {
        without_line(t, "user:")
    }));
    mac(spoiled("encrypted-comment-regex.enc.yaml", |t| {
        t.replace("open: visible", "open: other")
    }));
    // A different time from the one that the MAC is bound to, and a different MAC.
    mac(spoiled("secret.enc.yaml", |t| {
        t.replace("lastmodified: \"20", "lastmodified: \"19")
    }));
    let (other, _) = case("encrypted-regex.enc.yaml");
    let other = String::from_utf8(other).expect("text");
    let other_mac = other
        .lines()
        .find(|line| line.contains("mac:"))
        .expect("mac")
        .to_owned();
    mac(spoiled("secret.enc.yaml", |t| {
        t.lines()
            .map(|line| {
                if line.contains("    mac: ") {
                    other_mac.as_str()
                } else {
                    line
                }
            })
            .collect::<Vec<_>>()
            .join("\n")
    }));

    // The MAC does not cover these on purpose.
    assert!(
        spoiled("mac-only-encrypted.enc.yaml", |t| t
            .replace("kind: Secret", "kind: Other"))
        .is_ok()
    );
    // The MAC does not cover comments, also in sops.
    assert!(spoiled("secret.enc.yaml", |t| format!("# more\n{t}")).is_ok());
}

#[test]
fn a_value_is_bound_to_its_place() {
    let swap = |t: &str| t.replace("    user: ENC", "    name: ENC");
    match spoiled("secret.enc.yaml", swap) {
        Err(error @ SopsError::Value { .. }) => assert_eq!(
            error.to_string(),
            "f: the value at stringData.name: cannot be decrypted: the value was changed, moved to another key, or encrypted with another data key"
        ),
        other => panic!("{other:?}"),
    }
    match spoiled("secret.enc.yaml", |t| {
        t.replace("stringData:\n", "stringData:\n    clear: s3cret\n")
    }) {
        Err(error @ SopsError::Value { .. }) => {
            assert_eq!(
                error.to_string(),
                "f: the value at stringData.clear: expected an encrypted value (ENC[AES256_GCM,...])"
            );
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn metadata_is_checked() {
    let message = |change: &dyn Fn(&str) -> String| match spoiled("secret.enc.yaml", change) {
        Err(error) => error.to_string(),
        Ok(_) => panic!("accepted"),
    };
    let cases: [(Change, &str); 8] = [
        (
            &|t| without_line(t, "mac:"),
            "f: malformed sops metadata: mac is missing",
        ),
        (
            &|t| without_line(t, "version:"),
            "f: malformed sops metadata: version is missing",
        ),
        (
            &|t| without_line(t, "lastmodified:"),
            "f: malformed sops metadata: lastmodified is not a valid time",
        ),
        (
            &|t| t.replace("version: 3", "version: 4"),
            "f: sops version 4.13.3 is not supported, expected 3.x (re-encrypt the file with a current sops)",
        ),
        (
            &|t| {
                format!(
                    "{t}    encrypted_regex: a\n    encrypted_suffix: b\n    unencrypted_suffix: ''\n"
                )
            },
            "f: malformed sops metadata: encrypted_suffix and encrypted_regex exclude each other",
        ),
        (
            &|t| without_line(t, "unencrypted_suffix") + "    encrypted_regex: '('\n",
            "f: malformed sops metadata: encrypted_regex is not a supported regular expression",
        ),
        (
            &|t| t.replace("    age:\n", "    nobody:\n"),
            "f: malformed sops metadata: no keys",
        ),
        (
            &|t| t.replace("\nsops:", "\nother:"),
            "f: no sops metadata, so the file is not encrypted with SOPS",
        ),
    ];
    for (change, want) in cases {
        let change: &dyn Fn(&str) -> String = &|t: &str| {
            change(&without_line(t, "unencrypted_suffix: _unencrypted").replace("\n\n\n", "\n\n"))
        };
        assert_eq!(message(&|t| format!("{}\n", change(t))), want);
    }
    for text in ["[sops", "key", "[]", "= a", "a = `b", "[a]\n\"b = 1\n"] {
        let error = decrypt(text.as_bytes(), Format::Ini, &Keyring::new(), "f");
        assert!(
            matches!(error, Err(SopsError::Syntax { .. })),
            "{text}: {error:?}"
        );
    }
    assert!(matches!(
        decrypt(b"[a]\nb = 1\n", Format::Ini, &Keyring::new(), "f"),
        Err(SopsError::NotEncrypted { .. })
    ));
}

/// A small generator, so that every run changes the same bytes.
fn next(state: &mut u64) -> usize {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    (*state >> 16) as usize
}

#[test]
fn truncated_and_flipped_files_end_in_errors() {
    let keys = keyring(&["one.agekey", "two.agekey", "pgp-rsa.asc", "pgp-ed25519.asc"]);
    let mut state = 0x9e37_79b9_7f4a_7c15;
    for name in cases() {
        let (bytes, format) = case(&name);
        let want = decrypt(&bytes, format, &keys, "f").expect("plain");
        for _ in 0..25 {
            let cut = next(&mut state) % bytes.len();
            // The missing end may be only a line break.
            if let Ok(got) = decrypt(&bytes[..cut], format, &keys, "f") {
                assert_eq!(got, want, "{name} cut at {cut}");
            }
            let mut flipped = bytes.clone();
            let at = next(&mut state) % bytes.len();
            flipped[at] ^= 1 << (next(&mut state) % 8);
            if let Err(error) = decrypt(&flipped, format, &keys, "f") {
                let message = error.to_string();
                assert!(
                    !message.contains("s3cret") && !message.contains("p@ss"),
                    "{name}: {message}"
                );
            }
        }
    }
}

/// Files with valid metadata, so that all of their values are visited: every key on the path of a
/// value is matched against the file's own rule.
#[test]
fn hostile_files_end_within_their_limits() {
    let (bytes, format) = case("secret.enc.yaml");
    let text = String::from_utf8(bytes).expect("text");
    let (_, metadata) = text.split_once("\nsops:").expect("metadata");
    let rule = "    unencrypted_suffix: _unencrypted\n";
    let file = |body: &str, own: &str| {
        assert!(metadata.contains(rule), "the rule of the corpus");
        format!("{body}\nsops:{}", metadata.replace(rule, own))
    };
    let levels = 900;
    let below = |key: &str, inner: &str| {
        format!(
            "x_unencrypted: {}{inner}{}",
            format!("{{{key}: ").repeat(levels),
            "}".repeat(levels)
        )
    };
    let list = |count: usize| format!("[{}]", "a,".repeat(count));
    let states = "    encrypted_regex: '[ab]*a[ab]{400}c'\n";
    let classes = format!("    encrypted_regex: '{}'\n", "\\pL".repeat(1_000));
    let long = format!("    encrypted_regex: '{}'\n", "x".repeat(1 << 20));
    let steps = "f: more than 20000000 steps, which is the limit for one SOPS file";
    let bytes = "f: more than 16777216 bytes, which is the limit for one SOPS file";
    let nodes = "more than 500000 nodes";
    let mismatch = "f: MAC mismatch";
    let keys = keyring(&["one.agekey"]);
    for (name, file, want) in [
        (
            "many values below",
            file(&below("a", &list(400_000)), rule),
            steps,
        ),
        (
            "a rule of many states",
            file(&below("ab", &list(10_000)), states),
            steps,
        ),
        (
            "long keys",
            file(
                &format!("x_unencrypted: {{{}: {}}}", "a".repeat(900), list(400_000)),
                rule,
            ),
            steps,
        ),
        (
            "a long rule",
            file("a: b", &long),
            "f: malformed sops metadata: encrypted_regex is too long",
        ),
        (
            "classes",
            file("a: b", &classes),
            "f: malformed sops metadata: encrypted_regex is too long",
        ),
        (
            "many values",
            file(&format!("a: {}", list(600_000)), rule),
            nodes,
        ),
        (
            "bytes",
            file(&format!("a: {}", "x".repeat(17 << 20)), rule),
            bytes,
        ),
        ("levels", file(&below("a", "b"), rule), mismatch),
    ] {
        let keys = keyring(&["one.agekey"]);
        // The stack of a worker of an asynchronous runtime.
        let work = move || decrypt(file.as_bytes(), format, &keys, "f").map(|plain| plain.len());
        let thread = std::thread::Builder::new().stack_size(2 << 20).spawn(work);
        let done = thread.expect("a thread").join().expect("no panic");
        let message = done.expect_err(name).to_string();
        assert!(message.contains(want), "{name}: {message}");
    }
    for (text, format, want) in [
        (
            "a=b\n".repeat(600_000),
            Format::Dotenv,
            "f: more than 500000 values",
        ),
        (
            format!("[{}1]", "1,".repeat(600_000)),
            Format::Json,
            "f: more than 500000 values",
        ),
        ("#".repeat(17 << 20), Format::Dotenv, bytes),
    ] {
        let message = decrypt(text.as_bytes(), format, &keys, "f")
            .expect_err("too large")
            .to_string();
        assert!(message.contains(want), "{message}");
    }
}
