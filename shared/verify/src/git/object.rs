//! The signed parts of commits and tags: <https://git-scm.com/docs/gitformat-signature>.

use super::{openpgp, ssh};
use driftless_manifest::git_object_id;

/// The headers that hold signatures. They are not part of what is signed.
const SIGNATURE_HEADERS: [&[u8]; 2] = [b"gpgsig", b"gpgsig-sha256"];
/// The first lines of signatures at the end of tags.
const ARMOR: [&str; 4] = [
    openpgp::BEGIN,
    "-----BEGIN PGP MESSAGE-----",
    ssh::BEGIN,
    X509,
];
/// The first line of a signature of X.509.
pub(super) const X509: &str = "-----BEGIN SIGNED MESSAGE-----";

/// A signature of a commit or tag, and the bytes over which it was made.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Signed {
    pub payload: Vec<u8>,
    /// The armored signature; empty if the object is not signed.
    pub signature: Vec<u8>,
}

/// Returns the id of an object in hexadecimal digits.
pub(super) fn id(kind: &str, bytes: &[u8]) -> String {
    hex::encode(git_object_id(kind, bytes))
}

/// Returns the value of the first header with this name.
pub(super) fn header<'a>(object: &'a [u8], name: &str) -> Option<&'a str> {
    let mut lines = object.split(|byte| *byte == b'\n');
    let found = lines.by_ref().take_while(|line| !line.is_empty());
    let mut values =
        found.filter_map(|line| line.strip_prefix(name.as_bytes())?.strip_prefix(b" "));
    std::str::from_utf8(values.next()?).ok()
}

/// Splits a commit into its signature and the rest.
///
/// # Errors
/// The commit has several signatures: it would be unclear which one counts.
pub(super) fn commit(object: &[u8]) -> Result<Signed, &'static str> {
    let (payload, mut signatures) = without_headers(object);
    if signatures.len() > 1 {
        return Err("the commit has more than one signature");
    }
    Ok(Signed {
        payload,
        signature: signatures.pop().unwrap_or_default(),
    })
}

/// Splits a tag into its signature, which begins at the last line that is the start of one, and the
/// rest.
pub(super) fn tag(object: &[u8]) -> Signed {
    let (mut at, mut start) = (object.len(), 0);
    for line in object.split_inclusive(|byte| *byte == b'\n') {
        if ARMOR.iter().any(|armor| line.starts_with(armor.as_bytes())) {
            at = start;
        }
        start += line.len();
    }
    let (payload, signature) = object.split_at(at);
    Signed {
        payload: without_headers(payload).0,
        signature: signature.to_vec(),
    }
}

/// Returns an object without its headers with signatures, and the values of `gpgsig`.
fn without_headers(object: &[u8]) -> (Vec<u8>, Vec<Vec<u8>>) {
    let (mut kept, mut signatures) = (Vec::with_capacity(object.len()), Vec::new());
    let (mut is_message, mut in_signature) = (false, None);
    for line in object.split_inclusive(|byte| *byte == b'\n') {
        if is_message {
            kept.extend_from_slice(line);
            continue;
        }
        if let (Some(is_ours), Some(more)) = (in_signature, line.strip_prefix(b" ")) {
            if let (true, Some(last)) = (is_ours, signatures.last_mut()) {
                Vec::extend_from_slice(last, more);
            }
            continue;
        }
        let mut parts = line.splitn(2, |byte| *byte == b' ');
        let (name, value) = (parts.next().unwrap_or_default(), parts.next());
        in_signature = None;
        if let (true, Some(value)) = (SIGNATURE_HEADERS.contains(&name), value) {
            let is_ours = name == SIGNATURE_HEADERS[0];
            if is_ours {
                signatures.push(value.to_vec());
            }
            in_signature = Some(is_ours);
            continue;
        }
        is_message = line == b"\n";
        kept.extend_from_slice(line);
    }
    (kept, signatures)
}

#[cfg(test)]
mod tests {
    use super::*;

    const COMMIT: &str = "tree 1\nauthor a\ncommitter b\ngpgsig -----BEGIN X\n \n abc\n -----END X\n\
                          encoding latin1\n\ngpgsig not a header\n";

    #[test]
    fn signatures_of_commits() {
        let signed = commit(COMMIT.as_bytes()).unwrap();
        assert_eq!(signed.signature, b"-----BEGIN X\n\nabc\n-----END X\n");
        let payload = "tree 1\nauthor a\ncommitter b\nencoding latin1\n\ngpgsig not a header\n";
        assert_eq!(signed.payload, payload.as_bytes());
        assert_eq!(header(COMMIT.as_bytes(), "tree"), Some("1"));
        assert_eq!(header(COMMIT.as_bytes(), "gpgsig not"), None);

        let other = COMMIT.replace("gpgsig -", "gpgsig-sha256 -");
        let signed = commit(other.as_bytes()).unwrap();
        assert_eq!(
            (signed.payload, signed.signature.len()),
            (payload.into(), 0)
        );

        let second = COMMIT.replace("encoding latin1", "gpgsig second");
        assert!(commit(second.as_bytes()).is_err());
    }

    #[test]
    fn signatures_of_tags() {
        let text = "object 1\ntype commit\ntag v1\n\n-----BEGIN SSH SIGNATURE-----\nquoted\n";
        let whole = format!("{text}-----BEGIN PGP SIGNATURE-----\nx\n");
        let signed = tag(whole.as_bytes());
        assert_eq!(signed.payload, text.as_bytes());
        assert_eq!(signed.signature, b"-----BEGIN PGP SIGNATURE-----\nx\n");
        let plain = tag(b"object 1\n\nno -----BEGIN PGP SIGNATURE-----\n");
        assert!(plain.signature.is_empty());
    }
}
