//! `create secret git` for SSH: the servers' keys, private keys from files, and new ones.

use super::both;
use driftless_harness::tools;
use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// The password of the files `*.locked`.
const PASSWORD: &str = "--password=open sesame";

/// Running SSH servers; dropping it ends them.
struct Servers {
    child: Child,
    /// The names and addresses of the servers.
    all: Vec<(String, String)>,
}

impl Servers {
    fn start(keys: &Path) -> Self {
        let mut child = Command::new(tools::SSH.path())
            .arg(keys)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("start the servers");
        let lines = BufReader::new(child.stdout.take().expect("stdout")).lines();
        let lines = lines.map(|line| line.expect("a line"));
        let all = lines
            .take_while(|line| !line.is_empty())
            .map(|line| {
                let (name, address) = line.split_once(' ').expect("a name and an address");
                (name.to_owned(), address.to_owned())
            })
            .collect();
        Self { child, all }
    }

    fn url(&self, name: &str) -> String {
        let found = self.all.iter().find(|(one, _)| one == name);
        let (_, address) = found.unwrap_or_else(|| panic!("no server {name}"));
        format!("--url=ssh://git@{address}/fleet")
    }
}

impl Drop for Servers {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Checks that both write the same, and returns it.
fn same(directory: &Path, flags: &[&str]) -> String {
    let (theirs, ours) = both(directory, &args(flags));
    assert_eq!(
        (ours.code, &ours.out),
        (0, &theirs.out),
        "{flags:?}: {}{}",
        theirs.err,
        ours.err
    );
    ours.out
}

fn args(flags: &[&str]) -> Vec<String> {
    let args = [&["secret", "git", "login"], flags].concat();
    args.into_iter().map(str::to_owned).collect()
}

/// Returns the private key in an exported Secret.
fn identity(written: &str) -> String {
    let lines = written
        .lines()
        .skip_while(|line| !line.contains("  identity: |"));
    let lines = lines.skip(1).take_while(|line| line.starts_with("    "));
    lines.map(|line| format!("{}\n", line.trim())).collect()
}

#[test]
fn keys_of_servers_as_flux_scans_them() {
    let directory = tempfile::tempdir().expect("a directory");
    let servers = Servers::start(directory.path());
    let key = "--private-key-file=ed25519.pkcs8";
    for (name, _) in &servers.all {
        let flags = [servers.url(name), key.to_owned()];
        let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
        match name.as_str() {
            // Its first message is computed from a key of ML-KEM. A server that offers this
            // exchange also offers others.
            "exchange-mlkem768x25519-sha256" => {
                let (_, ours) = both(directory.path(), &args(&flags));
                ours.refused(1, &["offers other key exchanges", "--known-hosts-file"]);
            }
            // Flux does not support this exchange.
            "exchange-diffie-hellman-group16-sha512" => {
                let (theirs, ours) = both(directory.path(), &args(&flags));
                assert_ne!(theirs.code, 0, "{}", theirs.out);
                assert!(ours.ok().contains("known_hosts: '[127.0.0.1]:"));
            }
            _ => {
                same(directory.path(), &flags);
            }
        }
    }
    // The same key from a file, and then a file without the host's key.
    let written = same(directory.path(), &[&servers.url("all"), key]);
    let hosts = written
        .lines()
        .find_map(|line| line.trim().strip_prefix("known_hosts: "))
        .expect("known hosts")
        .trim_matches('\'');
    std::fs::write(directory.path().join("hosts"), format!("{hosts}\n")).expect("write the hosts");
    let known = "--known-hosts-file=hosts";
    let (_, ours) = both(directory.path(), &args(&[&servers.url("all"), key, known]));
    assert_eq!(ours.ok(), written);
    let (_, ours) = both(
        directory.path(),
        &args(&["--url=ssh://git@git.test/x", key, known]),
    );
    ours.refused(1, &["hosts: the file has no key for git.test"]);
}

#[test]
fn private_keys_as_flux_reads_them() {
    let directory = tempfile::tempdir().expect("a directory");
    let servers = Servers::start(directory.path());
    let url = servers.url("key-p256");
    let mut count = 0;
    for entry in std::fs::read_dir(directory.path()).expect("list the keys") {
        let name = entry.expect("a key").file_name();
        let name = name.to_str().expect("a name");
        let file = format!("--private-key-file={name}");
        match name.ends_with(".locked") {
            true => same(directory.path(), &[&url, &file, PASSWORD]),
            false => same(directory.path(), &[&url, &file]),
        };
        count += 1;
        if name.ends_with(".locked") {
            let (theirs, ours) = both(directory.path(), &args(&[&url, &file]));
            assert_ne!(theirs.code, 0, "{}", theirs.out);
            ours.refused(1, &["the key has a password"]);
        }
    }
    println!("{count} files are read as Flux reads them");
    assert!(count >= 19, "{count} files");
}

#[test]
fn new_keys_are_what_flux_takes() {
    let directory = tempfile::tempdir().expect("a directory");
    let servers = Servers::start(directory.path());
    let url = servers.url("all");
    for (flags, of) in [
        (&[][..], "ecdsa-sha2-nistp384 "),
        (&["--ssh-key-algorithm=rsa"], "ssh-rsa "),
        (
            &["--ssh-key-algorithm=rsa", "--ssh-rsa-bits=3072"],
            "ssh-rsa ",
        ),
        (&["--ssh-ecdsa-curve=p256"], "ecdsa-sha2-nistp256 "),
        (
            &["--ssh-key-algorithm=ecdsa", "--ssh-ecdsa-curve=p521"],
            "ecdsa-sha2-nistp521 ",
        ),
        (&["--ssh-key-algorithm=ed25519"], "ssh-ed25519 "),
    ] {
        let flags = [&[url.as_str()], flags].concat();
        let (theirs, ours) = both(directory.path(), &args(&flags));
        let public = format!("  identity.pub: |\n    {of}");
        let (theirs, ours) = (theirs.ok(), ours.ok());
        let lengths = [&theirs, &ours].map(|written| {
            assert!(written.contains(&public), "{flags:?}:\n{written}");
            // Given as a file, the key has the same public key for both.
            let private = identity(written);
            std::fs::write(directory.path().join("new"), &private).expect("write the key");
            let again = same(directory.path(), &[&url, "--private-key-file=new"]);
            assert_eq!(&again, written, "{flags:?}");
            private.lines().count()
        });
        assert_eq!(lengths[0], lengths[1], "{flags:?}:\n{theirs}{ours}");
    }
}
