//! The metadata under `sops`.

use crate::error::Problem;
use driftless_fuel::Fuel;
use driftless_go::re2;
use regex::{Regex, RegexBuilder};
use std::collections::BTreeMap;

use crate::SopsError;
use crate::tree::Tree;

/// A regular expression, with the steps that matching a key costs.
pub(crate) struct Expression {
    regex: Regex,
    steps: usize,
}

/// The rule that decides which values of a file are encrypted.
pub(crate) enum Rule {
    /// All values except those with a key of this suffix on their path.
    UnencryptedSuffix(String),
    /// The values with a key of this suffix on their path.
    EncryptedSuffix(String),
    UnencryptedRegex(Expression),
    EncryptedRegex(Expression),
    /// The values that comments select. Encrypted values are recognized by their form: a value that
    /// the data key opens at its path was encrypted by a holder of the key, and the MAC covers the
    /// rest.
    Comments,
}

impl Rule {
    /// Returns the rule that encrypts the values below keys that match an expression.
    pub(crate) fn encrypted_regex(text: &str) -> Result<Self, &'static str> {
        let fuel = Fuel::new(crate::LIMITS);
        let compiled = compile("encrypted_regex", text, &fuel);
        let compiled = compiled.map_err(|_| "expected a regular expression in encrypted_regex")?;
        Ok(Self::EncryptedRegex(compiled))
    }

    /// Returns the steps that a key, or a few bytes of one, costs.
    pub(crate) fn steps(&self) -> usize {
        match self {
            Rule::UnencryptedSuffix(_) | Rule::EncryptedSuffix(_) => 1,
            Rule::UnencryptedRegex(one) | Rule::EncryptedRegex(one) => one.steps,
            Rule::Comments => 0,
        }
    }

    /// Returns whether the values under these keys are encrypted; `None` if their form decides it.
    pub(crate) fn encrypts(&self, path: &[String]) -> Option<bool> {
        match self {
            Rule::UnencryptedSuffix(suffix) => {
                Some(!path.iter().any(|key| key.ends_with(suffix.as_str())))
            }
            Rule::EncryptedSuffix(suffix) => {
                Some(path.iter().any(|key| key.ends_with(suffix.as_str())))
            }
            Rule::UnencryptedRegex(one) => Some(!path.iter().any(|key| one.regex.is_match(key))),
            Rule::EncryptedRegex(one) => Some(path.iter().any(|key| one.regex.is_match(key))),
            Rule::Comments => None,
        }
    }
}

/// The service that a data key was encrypted with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum KeyService {
    /// age, which this crate opens.
    Age,
    /// OpenPGP, which this crate opens.
    Pgp,
    /// AWS Key Management Service.
    AwsKms,
    /// Google Cloud KMS.
    GcpKms,
    /// Huawei Cloud KMS.
    HuaweiKms,
    /// Azure Key Vault.
    AzureKeyVault,
    /// HashiCorp Vault's transit engine.
    Vault,
}

impl std::fmt::Display for KeyService {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Age => "age",
            Self::Pgp => "OpenPGP",
            Self::AwsKms => "AWS KMS",
            Self::GcpKms => "Google Cloud KMS",
            Self::HuaweiKms => "Huawei Cloud KMS",
            Self::AzureKeyVault => "Azure Key Vault",
            Self::Vault => "HashiCorp Vault",
        })
    }
}

/// One entry that can open a file: the data key, or a part of it, encrypted for one recipient.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MasterKey {
    /// The service that can open it.
    pub service: KeyService,
    /// The recipient: an age recipient, a fingerprint, an ARN or another name of a key. It is not
    /// authenticated.
    pub name: String,
    /// The values of the fields that the name is composed of, such as the address, the engine and
    /// the name of a key of HashiCorp Vault.
    pub fields: Vec<String>,
    /// Its other fields with a value, such as `role` of AWS KMS or `version` of Azure Key Vault.
    pub options: BTreeMap<String, String>,
    /// The encryption context of AWS KMS, by its names.
    pub context: BTreeMap<String, String>,
    /// The encrypted data key, in the form in which the file has it.
    pub encrypted: String,
}

pub(crate) struct Metadata {
    pub rule: Rule,
    pub mac: String,
    /// The time in sops's format; the MAC is bound to it.
    pub last_modified: String,
    /// True if the MAC covers only encrypted values.
    pub mac_only_encrypted: bool,
    pub groups: Vec<Vec<MasterKey>>,
    pub threshold: usize,
}

/// The most entries, more than real files have; each costs a curve operation.
const MASTER_KEYS: usize = 512;
/// The most bytes of an encrypted data key; an age file for one recipient has 360 bytes.
const ENCRYPTED: usize = 64 << 10;

const SERVICES: [(&str, KeyService, &[&str]); 7] = [
    ("age", KeyService::Age, &["recipient"]),
    ("pgp", KeyService::Pgp, &["fp"]),
    ("kms", KeyService::AwsKms, &["arn"]),
    ("gcp_kms", KeyService::GcpKms, &["resource_id"]),
    ("hckms", KeyService::HuaweiKms, &["key_id"]),
    (
        "azure_kv",
        KeyService::AzureKeyVault,
        &["vault_url", "name"],
    ),
    (
        "hc_vault",
        KeyService::Vault,
        &["vault_address", "engine_path", "key_name"],
    ),
];

/// The optional fields of an entry that a service needs.
const OPTIONS: [&str; 3] = ["role", "aws_profile", "version"];

impl Metadata {
    pub(crate) fn from_tree(tree: &Tree, file: &str, fuel: &Fuel) -> Result<Metadata, SopsError> {
        let fault = |problem: Problem| SopsError::Metadata {
            file: file.to_owned(),
            problem: problem.0,
        };
        if !matches!(tree, Tree::Map(_)) {
            return Err(fault("expected a mapping".into()));
        }
        let version = tree.get("version").and_then(Tree::text).unwrap_or_default();
        if version.is_empty() {
            return Err(fault("version is missing".into()));
        }
        if version.split('.').next() != Some("3") {
            // A version is short; anything longer is other content, which the error must not
            // repeat.
            let version = version
                .chars()
                .take(16)
                .filter(|c| c.is_ascii_alphanumeric() || *c == '.')
                .collect();
            return Err(SopsError::Version {
                file: file.to_owned(),
                version,
            });
        }
        let mac = tree.get("mac").and_then(Tree::text).unwrap_or_default();
        if mac.is_empty() {
            return Err(fault("mac is missing".into()));
        }
        let modified = tree
            .get("lastmodified")
            .and_then(Tree::text)
            .and_then(canonical_time);
        Ok(Metadata {
            rule: rule(tree, fuel).map_err(fault)?,
            mac: mac.to_owned(),
            last_modified: modified
                .ok_or_else(|| fault("lastmodified is not a valid time".into()))?,
            mac_only_encrypted: flag(tree, "mac_only_encrypted").map_err(fault)?,
            groups: groups(tree).map_err(fault)?,
            threshold: number(tree, "shamir_threshold").map_err(fault)?,
        })
    }
}

/// Converts a time to RFC 3339 in Go's format: no fraction, `Z` for UTC.
fn canonical_time(text: &str) -> Option<String> {
    let shape = |i: usize, b: u8| match i {
        4 | 7 => b == b'-',
        10 => b == b'T',
        13 | 16 => b == b':',
        _ => b.is_ascii_digit(),
    };
    let (date, rest) = text.split_at_checked(19)?;
    if !date.bytes().enumerate().all(|(i, b)| shape(i, b)) {
        return None;
    }
    let zone = match rest.strip_prefix('.') {
        Some(fraction) => fraction.trim_start_matches(|c: char| c.is_ascii_digit()),
        None => rest,
    };
    match zone {
        "Z" | "+00:00" | "-00:00" => Some(format!("{date}Z")),
        _ if zone.len() == 6 && zone.starts_with(['+', '-']) => Some(format!("{date}{zone}")),
        _ => None,
    }
}

fn rule(tree: &Tree, fuel: &Fuel) -> Result<Rule, Problem> {
    const NAMES: [&str; 6] = [
        "unencrypted_suffix",
        "encrypted_suffix",
        "unencrypted_regex",
        "encrypted_regex",
        "unencrypted_comment_regex",
        "encrypted_comment_regex",
    ];
    let mut rules = NAMES.iter().filter_map(|name| {
        let text = tree.get(name)?.text()?;
        (!text.is_empty()).then_some((*name, text))
    });
    let Some((name, text)) = rules.next() else {
        return Ok(Rule::UnencryptedSuffix("_unencrypted".to_owned()));
    };
    if let Some((other, _)) = rules.next() {
        return Err(format!("{name} and {other} exclude each other").into());
    }
    Ok(match name {
        "unencrypted_suffix" => Rule::UnencryptedSuffix(text.to_owned()),
        "encrypted_suffix" => Rule::EncryptedSuffix(text.to_owned()),
        "unencrypted_regex" => Rule::UnencryptedRegex(compile(name, text, fuel)?),
        "encrypted_regex" => Rule::EncryptedRegex(compile(name, text, fuel)?),
        _ => Rule::Comments,
    })
}

/// The most bytes of an expression.
const EXPRESSION: usize = 4 << 10;
/// The most Unicode classes of an expression: each has hundreds of ranges before anything is
/// compiled.
const CLASSES: usize = 100;
/// The most steps of compiling: compiling an expression that is too large is aborted.
const COMPILING: u64 = 1_000_000;
/// Places of an expression for each further step that a key costs.
const PLACES_PER_STEP: u64 = 32;

fn compile(name: &str, text: &str, fuel: &Fuel) -> Result<Expression, Problem> {
    if text.len() > EXPRESSION || re2::classes(text) > CLASSES {
        return Err(format!("{name} is too long").into());
    }
    let small = |steps: u64| usize::try_from(steps).unwrap_or(usize::MAX);
    let compiling = small(re2::expansion(text).min(COMPILING));
    fuel.steps(compiling)
        .map_err(|out| format!("{name}: {out}"))?;
    let regex = RegexBuilder::new(text)
        .size_limit(1 << 20)
        .dfa_size_limit(1 << 20)
        .build();
    let regex = regex.map_err(|_| format!("{name} is not a supported regular expression"))?;
    Ok(Expression {
        regex,
        steps: 2 + small(re2::places(text) / PLACES_PER_STEP),
    })
}

/// Reads a boolean, which dotenv files have as a string.
fn flag(tree: &Tree, name: &str) -> Result<bool, Problem> {
    match tree.get(name) {
        None | Some(Tree::Null) => Ok(false),
        Some(Tree::Bool(b)) => Ok(*b),
        Some(Tree::Text(text)) if text == "true" || text == "1" => Ok(true),
        Some(Tree::Text(text)) if text == "false" || text == "0" || text.is_empty() => Ok(false),
        Some(_) => Err(format!("{name} is not a boolean").into()),
    }
}

fn number(tree: &Tree, name: &str) -> Result<usize, Problem> {
    let number = match tree.get(name) {
        None | Some(Tree::Null) => Some(0),
        Some(Tree::Number(n)) => n.as_u64(),
        Some(Tree::Text(text)) => text.parse().ok(),
        Some(_) => None,
    };
    number
        .filter(|n| *n <= 255)
        .map(|n| n as usize)
        .ok_or_else(|| format!("{name} is not a number from 0 to 255").into())
}

/// Reads the key groups: the entries at the top are one group, and `key_groups` counts only without
/// them.
fn groups(tree: &Tree) -> Result<Vec<Vec<MasterKey>>, Problem> {
    let mut count = 0;
    let top = group(tree, &mut count)?;
    if !top.is_empty() {
        return Ok(vec![top]);
    }
    let groups: Vec<_> = tree
        .get("key_groups")
        .map(Tree::items)
        .unwrap_or_default()
        .iter()
        .map(|one| group(one, &mut count))
        .collect::<Result<_, _>>()?;
    if groups.is_empty() {
        Err("no keys".into())
    } else {
        Ok(groups)
    }
}

/// Returns the texts of these fields of a mapping that are not empty.
fn texts(entry: &Tree, names: &[&str]) -> BTreeMap<String, String> {
    let text = |name: &&str| Some(((*name).to_owned(), entry.get(name)?.text()?.to_owned()));
    let texts = names.iter().filter_map(text);
    texts.filter(|(_, text)| !text.is_empty()).collect()
}

/// Reads the encryption context of an entry.
fn context(entry: &Tree) -> Result<BTreeMap<String, String>, Problem> {
    let pairs = match entry.get("context") {
        None | Some(Tree::Null) => return Ok(BTreeMap::new()),
        Some(Tree::Map(pairs)) => pairs,
        Some(_) => return Err("context of a key is not a mapping".into()),
    };
    let pair = |(name, value): &(String, Tree)| {
        let text = value.text();
        let text = text.ok_or_else(|| "a value of the context of a key is not a string".to_owned());
        Ok((name.clone(), text?.to_owned()))
    };
    pairs.iter().map(pair).collect()
}

fn group(tree: &Tree, count: &mut usize) -> Result<Vec<MasterKey>, Problem> {
    let mut keys = Vec::new();
    for (name, service, fields) in SERVICES {
        let entries = match tree.get(name) {
            None | Some(Tree::Null) => continue,
            Some(Tree::List(entries)) => entries,
            Some(_) => return Err(format!("{name} is not a list").into()),
        };
        for entry in entries {
            *count += 1;
            if *count > MASTER_KEYS {
                return Err(format!("more than {MASTER_KEYS} keys").into());
            }
            let parts = fields.iter().filter_map(|field| entry.get(field)?.text());
            let fields: Vec<_> = parts.map(str::to_owned).collect();
            let encrypted = entry.get("enc").and_then(Tree::text).unwrap_or_default();
            if encrypted.is_empty() || encrypted.len() > ENCRYPTED {
                return Err(format!(
                    "an entry of {name} without a data key (enc), or with one that is too long"
                )
                .into());
            }
            keys.push(MasterKey {
                service,
                name: fields.join("/"),
                fields,
                options: texts(entry, &OPTIONS),
                context: context(entry)?,
                encrypted: encrypted.to_owned(),
            });
        }
    }
    Ok(keys)
}
