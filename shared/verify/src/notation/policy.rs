//! `trustpolicy.json`: the trusted signers of each repository, and which checks are enforced; as
//! notation-go 1.3 reads it.

use super::name::DistinguishedName;
use driftless_flux::Invalid;
use regex::Regex;
use serde::Deserialize;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

const ANY: &str = "*";
const SUBJECT: &str = "x509.subject";

/// The effect of a failed check.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Action {
    /// Refuses the signature.
    #[default]
    Enforce,
    /// Accepts the signature all the same.
    Log,
    /// The check is not made.
    Skip,
}

/// The effects of the checks of one statement. The integrity of a signature is always enforced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Level {
    pub authenticity: Action,
    pub timestamp: Action,
    pub expiry: Action,
    pub revocation: Action,
}

/// A kind of trust store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Store {
    /// Authorities that issue the certificates of signers.
    Authority,
    /// Authorities of services that sign for others.
    SigningAuthority,
    /// Authorities of time stamping services.
    Timestamps,
}

/// One valid statement.
#[derive(Debug)]
pub(super) struct Statement {
    /// The effects of the checks; `None` if nothing is verified.
    pub level: Option<Level>,
    pub stores: BTreeSet<Store>,
    /// The accepted subjects of signers; `None` for all.
    pub identities: Option<Vec<DistinguishedName>>,
    /// True if a countersignature is only required when a certificate has expired.
    pub only_after_expiry: bool,
    scopes: Vec<String>,
}

/// The whole document.
#[derive(Debug)]
pub(super) struct Policy(Vec<Statement>);

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Document {
    #[serde(default)]
    version: String,
    #[serde(default)]
    trust_policies: Vec<PolicyStatement>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", default)]
#[derive(Default)]
struct PolicyStatement {
    name: String,
    registry_scopes: Vec<String>,
    signature_verification: SignatureVerification,
    trust_stores: Vec<String>,
    trusted_identities: Vec<String>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct SignatureVerification {
    level: String,
    r#override: BTreeMap<String, Action>,
    verify_timestamp: String,
}

impl Policy {
    /// Reads a document.
    ///
    /// # Errors
    /// A message about what is wrong, and in which statement.
    pub fn read(text: &[u8]) -> Result<Self, Invalid> {
        let document: Document = serde_json::from_slice(text)
            .map_err(|error| Invalid::from(format!("cannot be read: {error}")))?;
        if document.version != "1.0" {
            return Err("expected \"version\": \"1.0\"".into());
        }
        if document.trust_policies.is_empty() {
            return Err("trustPolicies is missing or empty".into());
        }
        let (mut names, mut scopes) = (BTreeSet::new(), BTreeSet::new());
        let mut statements = Vec::new();
        for written in document.trust_policies {
            let name = written.name.clone();
            let fail = |problem: Invalid| {
                Err(format!("trust policy statement '{name}': {problem}").into())
            };
            if name.is_empty() || !names.insert(name.clone()) {
                return fail("expected a name that no other statement has".into());
            }
            for scope in &written.registry_scopes {
                if !scopes.insert(scope.clone()) {
                    return fail(
                        format!("the scope '{scope}' is also in another statement").into(),
                    );
                }
            }
            match Statement::read(written) {
                Ok(statement) => statements.push(statement),
                Err(problem) => return fail(problem),
            }
        }
        Ok(Self(statements))
    }

    /// Returns the statement for a repository (`HOST/PATH`): its own, else the one for all.
    pub fn applicable(&self, repository: &str) -> Option<&Statement> {
        let of = |scope: &str| {
            self.0
                .iter()
                .find(|statement| statement.scopes.iter().any(|one| one == scope))
        };
        of(repository).or_else(|| of(ANY))
    }
}

impl Statement {
    fn read(written: PolicyStatement) -> Result<Self, Invalid> {
        let PolicyStatement {
            registry_scopes: scopes,
            signature_verification: verification,
            trust_stores,
            trusted_identities,
            ..
        } = written;
        check_scopes(&scopes)?;
        let level = verification.level()?;
        let only_after_expiry = match verification.verify_timestamp.as_str() {
            "" | "always" => false,
            "afterCertExpiry" => true,
            other => {
                return Err(format!(
                    "verifyTimestamp '{other}' is not valid: expected always or afterCertExpiry"
                )
                .into());
            }
        };
        // As in source-controller, stores and identities of a statement that verifies nothing are
        // ignored.
        let (stores, identities) = match level {
            None => (BTreeSet::new(), None),
            Some(_) => (
                read_stores(&trust_stores)?,
                read_identities(&trusted_identities)?,
            ),
        };
        Ok(Self {
            level,
            stores,
            identities,
            only_after_expiry,
            scopes,
        })
    }
}

impl SignatureVerification {
    fn level(&self) -> Result<Option<Level>, Invalid> {
        use Action::{Enforce, Log};
        let mut level = match self.level.as_str() {
            "strict" => level(Enforce, Enforce),
            "permissive" => level(Enforce, Log),
            "audit" => level(Log, Log),
            "skip" if self.r#override.is_empty() => return Ok(None),
            "skip" => return Err("level 'skip' has nothing to override".into()),
            other => {
                return Err(format!(
                    "level '{other}' is not valid: expected strict, permissive, audit or skip"
                )
                .into());
            }
        };
        for (check, action) in &self.r#override {
            let place = match check.as_str() {
                "authenticity" => &mut level.authenticity,
                "authenticTimestamp" => &mut level.timestamp,
                "expiry" => &mut level.expiry,
                "revocation" => &mut level.revocation,
                other => {
                    return Err(format!(
                        "'{other}' cannot be overridden: expected authenticity, authenticTimestamp, expiry or revocation"
                    ).into());
                }
            };
            if *action == Action::Skip && check != "revocation" {
                return Err(format!("'{check}' cannot be skipped: expected enforce or log").into());
            }
            *place = *action;
        }
        Ok(Some(level))
    }
}

fn level(authenticity: Action, others: Action) -> Level {
    Level {
        authenticity,
        timestamp: others,
        expiry: others,
        revocation: others,
    }
}

fn check_scopes(scopes: &[String]) -> Result<(), Invalid> {
    static FORM: LazyLock<Option<Regex>> = LazyLock::new(|| {
        let domain = r"[a-zA-Z0-9](?:[a-zA-Z0-9.-]*[a-zA-Z0-9])?(?::[0-9]+)?";
        let part = r"[a-z0-9]+(?:(?:[._]|__|-+)[a-z0-9]+)*";
        Regex::new(&format!("^{domain}/{part}(?:/{part})*$")).ok()
    });
    if scopes.is_empty() {
        return Err("registryScopes is missing or empty".into());
    }
    if scopes.len() > 1 && scopes.iter().any(|scope| scope == ANY) {
        return Err("the scope '*' cannot be combined with other scopes".into());
    }
    let fits = |scope: &str| scope == ANY || FORM.as_ref().is_some_and(|form| form.is_match(scope));
    match scopes.iter().find(|scope| !fits(scope)) {
        Some(scope) => Err(format!(
            "the scope '{scope}' is not a repository: expected HOST/PATH without scheme and tag"
        )
        .into()),
        None => Ok(()),
    }
}

fn read_stores(stores: &[String]) -> Result<BTreeSet<Store>, Invalid> {
    if stores.is_empty() {
        return Err("trustStores is missing or empty".into());
    }
    let read = |store: &String| {
        let plain = |name: &str| {
            !name.is_empty()
                && name
                    .bytes()
                    .all(|b| b.is_ascii_alphanumeric() || b"_.-".contains(&b))
        };
        match store.split_once(':') {
            Some(("ca", name)) if plain(name) => Ok(Store::Authority),
            Some(("signingAuthority", name)) if plain(name) => Ok(Store::SigningAuthority),
            Some(("tsa", name)) if plain(name) => Ok(Store::Timestamps),
            _ => Err(format!(
                "the trust store '{store}' is not valid: expected ca:NAME, signingAuthority:NAME or tsa:NAME"
            ).into()),
        }
    };
    stores.iter().map(read).collect()
}

fn read_identities(identities: &[String]) -> Result<Option<Vec<DistinguishedName>>, Invalid> {
    if identities.is_empty() {
        return Err("trustedIdentities is missing or empty".into());
    }
    if identities.iter().any(|identity| identity == ANY) {
        return match identities.len() {
            1 => Ok(None),
            _ => Err("the identity '*' cannot be combined with other identities".into()),
        };
    }
    let mut names = Vec::<DistinguishedName>::new();
    for identity in identities {
        let Some((kind, value)) = identity.split_once(':') else {
            return Err(format!("the identity '{identity}' has no 'x509.subject:'").into());
        };
        // Identities of other kinds are for plugins, which driftless does not run.
        if kind != SUBJECT {
            continue;
        }
        let name = DistinguishedName::parse(value)
            .map_err(|error| Invalid::from(format!("the identity '{identity}': {error}")))?;
        if names
            .iter()
            .any(|other| other.is_part_of(&name) || name.is_part_of(other))
        {
            return Err(format!("the identity '{identity}' overlaps with another one").into());
        }
        names.push(name);
    }
    Ok(Some(names))
}
