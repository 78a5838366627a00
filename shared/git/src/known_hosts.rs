//! OpenSSH's `known_hosts`, as sshd(8) describes it and `golang.org/x/crypto/ssh/knownhosts` reads
//! it.

use crate::error::{Error, Result};
use hmac::{Hmac, KeyInit, Mac};
use russh::keys::ssh_key::known_hosts::{Entry, HostPatterns, Marker};
use russh::keys::{Algorithm, PublicKey};
use sha1::Sha1;

/// The prefix of Flux's messages about a host key.
const FAILED: &str = "ssh: handshake failed: knownhosts:";

/// The known and the revoked keys of one host.
#[derive(Clone)]
pub(crate) struct HostKeys {
    keys: Vec<PublicKey>,
    revoked: Vec<PublicKey>,
}

impl HostKeys {
    /// Reads the keys of a host and port.
    ///
    /// # Errors
    /// Fails if a line is not valid, or if the host has no key.
    pub fn read(text: &str, host: &str, port: u16) -> Result<Self> {
        let (mut keys, mut revoked) = (Vec::new(), Vec::new());
        for (index, line) in text.lines().enumerate() {
            let words: Vec<&str> = line.split_ascii_whitespace().collect();
            if words.first().is_none_or(|word| word.starts_with('#')) {
                continue;
            }
            let entry: Entry = words.join(" ").parse().map_err(|_| {
                let message = format!("known_hosts: line {} is not valid", index + 1);
                Error::Login(message)
            })?;
            if !is_host(entry.host_patterns(), host, port) {
                continue;
            }
            let key = entry.public_key().clone();
            match entry.marker() {
                None => keys.push(key),
                Some(Marker::Revoked) => revoked.push(key),
                // Host certificates are not supported.
                Some(Marker::CertAuthority) => {}
            }
        }
        match keys.is_empty() {
            false => Ok(Self { keys, revoked }),
            true => Err(Error::HostKey(format!("{FAILED} key is unknown"))),
        }
    }

    /// Returns whether the host has a key of this algorithm: only such algorithms are offered to
    /// the server.
    pub fn has(&self, algorithm: &Algorithm) -> bool {
        let is_same = |key: &PublicKey| match (key.algorithm(), algorithm) {
            // Signatures with SHA-1 are not accepted.
            (Algorithm::Rsa { .. }, Algorithm::Rsa { hash }) => hash.is_some(),
            (known, algorithm) => known == *algorithm,
        };
        self.keys.iter().any(is_same)
    }

    /// Checks that a key is one of the host's keys.
    ///
    /// # Errors
    /// Fails if the key is unknown or revoked.
    pub fn check(&self, key: &PublicKey) -> Result<()> {
        let is_in =
            |keys: &[PublicKey]| keys.iter().any(|known| known.key_data() == key.key_data());
        let reason = match (is_in(&self.revoked), is_in(&self.keys)) {
            (true, _) => "key is revoked",
            (false, false) => "key mismatch",
            (false, true) => return Ok(()),
        };
        Err(Error::HostKey(format!("{FAILED} {reason}")))
    }

    /// Returns the error for a server that has no key of a known algorithm.
    pub fn mismatch() -> Error {
        Error::HostKey(format!("{FAILED} key mismatch"))
    }
}

fn is_host(patterns: &HostPatterns, host: &str, port: u16) -> bool {
    let name = match port {
        22 => host.to_owned(),
        port => format!("[{host}]:{port}"),
    };
    match patterns {
        HostPatterns::HashedName { salt, hash } => {
            let Ok(mut mac) = Hmac::<Sha1>::new_from_slice(salt) else {
                return false;
            };
            mac.update(name.as_bytes());
            mac.verify_slice(hash).is_ok()
        }
        HostPatterns::Patterns(patterns) => {
            let mut found = false;
            for pattern in patterns {
                let (pattern, negated) = match pattern.strip_prefix('!') {
                    Some(pattern) => (pattern, true),
                    None => (pattern.as_str(), false),
                };
                let pattern = pattern.to_lowercase();
                let (pattern, wanted) = match pattern
                    .strip_prefix('[')
                    .and_then(|rest| rest.split_once("]:"))
                {
                    Some((pattern, wanted)) => (pattern, wanted.parse().ok()),
                    None => (pattern.as_str(), Some(22)),
                };
                if wanted == Some(port) && matches(pattern.as_bytes(), host.as_bytes()) {
                    if negated {
                        return false;
                    }
                    found = true;
                }
            }
            found
        }
    }
}

/// Returns whether a string matches a pattern with `*` and `?`. The time is at most the product of
/// their lengths. The patterns of `known_hosts` have no classes and no escapes, so that they are
/// not those of Go's `filepath.Match`.
fn matches(pattern: &[u8], text: &[u8]) -> bool {
    let (mut p, mut t) = (0, 0);
    // The position of the last `*`, and the end of the part of `text` that it matches.
    let mut star: Option<(usize, usize)> = None;
    while t < text.len() {
        match pattern.get(p) {
            Some(b'*') => {
                star = Some((p, t));
                p += 1;
            }
            Some(byte) if *byte == b'?' || *byte == text[t] => {
                p += 1;
                t += 1;
            }
            _ => match star {
                Some((at, end)) => {
                    star = Some((at, end + 1));
                    p = at + 1;
                    t = end + 1;
                }
                None => return false,
            },
        }
    }
    pattern[p..].iter().all(|byte| *byte == b'*')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_with_wildcards() {
        for (pattern, text, fits) in [
            ("git.example", "git.example", true),
            ("*.example", "git.example", true),
            ("*.example", "example", false),
            ("g?t.*", "git.example", true),
            ("*i*e*", "git.example", true),
            ("*i*x", "git.example", false),
            ("*", "", true),
            ("", "a", false),
        ] {
            let found = matches(pattern.as_bytes(), text.as_bytes());
            assert_eq!(found, fits, "{pattern} {text}");
        }
    }

    #[test]
    fn hosts_and_ports() {
        for (patterns, host, port, is) in [
            ("git.example", "git.example", 22, true),
            ("git.example", "git.example", 2222, false),
            ("[git.example]:2222", "git.example", 2222, true),
            ("[git.example]:2222", "git.example", 22, false),
            ("Git.Example,192.0.2.1", "git.example", 22, true),
            ("*.example,!git.example", "git.example", 22, false),
            ("*.example,!git.example", "other.example", 22, true),
        ] {
            let found = is_host(&patterns.parse().unwrap(), host, port);
            assert_eq!(found, is, "{patterns} {host} {port}");
        }
    }
}
