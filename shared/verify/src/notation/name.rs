//! Distinguished names of identities in a policy and of subjects in certificates.

use driftless_flux::Invalid;
use std::collections::BTreeMap;
use x509_cert::der::asn1::{Ia5StringRef, PrintableStringRef, TeletexStringRef, Utf8StringRef};
use x509_cert::der::{Tag, Tagged as _};
use x509_cert::name::Name;

/// The attributes that every name must have.
const MANDATORY: [&str; 3] = ["C", "ST", "O"];

/// The attributes that have a short name; others are not supported, as in notation.
const TYPES: [(&str, &str); 9] = [
    ("2.5.4.3", "CN"),
    ("2.5.4.5", "SERIALNUMBER"),
    ("2.5.4.6", "C"),
    ("2.5.4.7", "L"),
    ("2.5.4.8", "ST"),
    ("2.5.4.9", "STREET"),
    ("2.5.4.10", "O"),
    ("2.5.4.11", "OU"),
    ("2.5.4.17", "POSTALCODE"),
];

/// Attributes by their short names, each at most once.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct DistinguishedName(BTreeMap<String, String>);

impl DistinguishedName {
    /// Reads `C=US, ST=WA, O=Acme`, with the escapes of RFC 4514.
    ///
    /// # Errors
    /// A message about what is wrong with the name.
    pub fn parse(text: &str) -> Result<Self, Invalid> {
        let mut pairs = Vec::new();
        let mut rest = text;
        while !rest.trim().is_empty() {
            let (kind, behind) = rest.split_once('=').ok_or("expected KEY=VALUE pairs")?;
            let (value, behind) = value(behind)?;
            pairs.push((kind.trim().to_owned(), value));
            rest = behind;
        }
        Self::of(pairs)
    }

    /// Reads the subject of a certificate.
    ///
    /// # Errors
    /// The subject has unsupported attributes, or lacks mandatory ones.
    pub fn of_subject(subject: &Name) -> Result<Self, Invalid> {
        let mut pairs = Vec::new();
        for part in &subject.0 {
            let [attribute] = part.0.as_slice() else {
                return Err(
                    "the subject of the certificate has several values in one place".into(),
                );
            };
            let oid = attribute.oid.to_string();
            let kind = TYPES.iter().find(|(known, _)| *known == oid);
            let (_, kind) = kind.ok_or_else(|| {
                format!("the attribute {oid} in the subject of the certificate is not supported")
            })?;
            let value = &attribute.value;
            let text = match value.tag() {
                Tag::Utf8String => value
                    .decode_as::<Utf8StringRef<'_>>()
                    .ok()
                    .map(|s| s.as_str().to_owned()),
                Tag::PrintableString => value
                    .decode_as::<PrintableStringRef<'_>>()
                    .ok()
                    .map(|s| s.as_str().to_owned()),
                Tag::Ia5String => value
                    .decode_as::<Ia5StringRef<'_>>()
                    .ok()
                    .map(|s| s.as_str().to_owned()),
                Tag::TeletexString => value
                    .decode_as::<TeletexStringRef<'_>>()
                    .ok()
                    .map(|s| s.as_str().to_owned()),
                _ => None,
            };
            let text = text.ok_or_else(|| {
                format!("{kind} in the subject of the certificate is not a string")
            })?;
            pairs.push(((*kind).to_owned(), text));
        }
        Self::of(pairs)
    }

    fn of(pairs: Vec<(String, String)>) -> Result<Self, Invalid> {
        let mut all = BTreeMap::new();
        for (kind, value) in pairs {
            // The province has two short names.
            let kind = if kind == "S" { "ST".to_owned() } else { kind };
            if kind.is_empty() || value.starts_with('#') {
                return Err("expected KEY=VALUE pairs".into());
            }
            if all.insert(kind.clone(), value).is_some() {
                return Err(format!("{kind} is repeated").into());
            }
        }
        let there = |kind: &&str| all.get(*kind).is_some_and(|value| !value.is_empty());
        match MANDATORY.iter().all(there) {
            true => Ok(Self(all)),
            false => Err("expected C, ST and O among the attributes of the name".into()),
        }
    }

    /// Returns whether the other name has all attributes of this one.
    pub fn is_part_of(&self, other: &Self) -> bool {
        let there = |(kind, value): (&String, &String)| other.0.get(kind) == Some(value);
        self.0.iter().all(there)
    }
}

/// Returns the value at the start of `text`, and the rest after its comma.
fn value(text: &str) -> Result<(String, &str), Invalid> {
    let mut value = Vec::new();
    // The length up to the last escaped character: an escaped space at the end is not trimmed.
    let mut kept = 0;
    let mut characters = text.trim_start().char_indices();
    let start = text.trim_start();
    let mut behind = "";
    while let Some((at, character)) = characters.next() {
        match character {
            ',' | ';' => {
                behind = &start[at + 1..];
                break;
            }
            '+' => return Err("several values in one place are not supported".into()),
            '"' => {
                return Err(
                    "quotes are not supported: escape special characters with a backslash".into(),
                );
            }
            '\\' => {
                value.push(escaped(&mut characters)?);
                kept = value.len();
            }
            plain => value.push(plain),
        }
    }
    while value.len() > kept && value.last() == Some(&' ') {
        value.pop();
    }
    Ok((value.into_iter().collect(), behind))
}

fn escaped(characters: &mut std::str::CharIndices<'_>) -> Result<char, Invalid> {
    let wrong = || Invalid::from("a backslash is not followed by an escapable character");
    let (_, first) = characters.next().ok_or_else(wrong)?;
    if " \"#+,;<=>\\".contains(first) {
        return Ok(first);
    }
    let (_, second) = characters.next().ok_or_else(wrong)?;
    let byte = first.to_digit(16).zip(second.to_digit(16));
    let byte = byte.and_then(|(high, low)| char::from_u32(high * 16 + low));
    byte.filter(char::is_ascii).ok_or_else(wrong)
}
