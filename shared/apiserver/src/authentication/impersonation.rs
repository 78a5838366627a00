//! Impersonation: the effective user of a request, as k8s.io/apiserver 0.36 decides it, including
//! constrained impersonation.
//!
//! The headers of a request name a user, uid, groups and extra values. There are five modes, each
//! with its own verbs: the constrained ones need `impersonate:MODE` on each requested value and
//! `impersonate-on:MODE:VERB` on the request itself; the legacy one needs `impersonate` on each
//! requested value. The mode that last succeeded for a user is tried first; the error of the first
//! mode that fails is returned.

use std::collections::BTreeMap;

use crate::authorization::{Attributes, authorize, forbidden};
use crate::error::ApiError;
use crate::store::state::State;
use crate::user::User;
use driftless_manifest::names;

const GROUP: &str = "authentication.k8s.io";
const ANONYMOUS: &str = "system:anonymous";
const UNAUTHENTICATED: &str = "system:unauthenticated";
const AUTHENTICATED: &str = "system:authenticated";
const MASTERS: &str = "system:masters";
/// The extra value of a service account's token that names the node of its pod.
const NODE_NAME: &str = "authentication.kubernetes.io/node-name";
/// The number of values from which on a right to all values is checked first.
const CHECK_ALL_FROM: usize = 4;
/// The most users whose mode is remembered.
const MAX_REMEMBERED: usize = 10_000;

/// A way to impersonate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    /// A service account impersonates the node that its pod runs on.
    AssociatedNode,
    /// A user that may impersonate any node.
    ArbitraryNode,
    /// A service account, by its name alone.
    ServiceAccount,
    /// Any other user.
    UserInfo,
    /// The mode of Kubernetes before 1.35, without constraints.
    Legacy,
}

const MODES: [Mode; 5] = [
    Mode::AssociatedNode,
    Mode::ArbitraryNode,
    Mode::ServiceAccount,
    Mode::UserInfo,
    Mode::Legacy,
];

/// The mode that last succeeded, by user.
#[derive(Clone, Debug, Default)]
pub(crate) struct ModeCache(BTreeMap<String, Mode>);

impl ModeCache {
    fn add(&mut self, user: &str, mode: Mode) {
        if self.0.len() >= MAX_REMEMBERED && !self.0.contains_key(user) {
            self.0.clear();
        }
        self.0.insert(user.to_owned(), mode);
    }
}

/// Returns the effective user of a request: its own, or the one that it is allowed to impersonate.
///
/// # Errors
/// 400 for headers without a user, 403 for a value that the user may not impersonate.
pub(crate) fn effective_user(
    state: &State,
    remembered: &mut ModeCache,
    real: &User,
    headers: &[(String, String)],
    attributes: &Attributes<'_>,
) -> Result<User, ApiError> {
    let Some(requested) = requested_user(headers)? else {
        return Ok(real.clone());
    };
    let last = remembered.0.get(&real.name).copied();
    let others = MODES.into_iter().filter(|mode| Some(*mode) != last);
    let mut first = None;
    for mode in last.into_iter().chain(others) {
        let attempt = Attempt {
            state,
            real,
            requested: &requested,
            mode,
        };
        match attempt.user(attributes) {
            Some(Ok(user)) => {
                remembered.add(&real.name, mode);
                return Ok(user);
            }
            Some(Err(error)) => first = first.or(Some(error)),
            None => {}
        }
    }
    Err(first.unwrap_or_else(|| ApiError::internal("all impersonation modes failed")))
}

/// Returns the user that the headers request; `None` without impersonation headers.
fn requested_user(headers: &[(String, String)]) -> Result<Option<User>, ApiError> {
    let values = |name: &'static str| {
        let all = headers.iter();
        let all = all.filter(move |(known, _)| known.eq_ignore_ascii_case(name));
        all.map(|(_, value)| value.clone())
    };
    let mut requested = User {
        name: values("impersonate-user").next().unwrap_or_default(),
        uid: values("impersonate-uid").next().unwrap_or_default(),
        groups: values("impersonate-group").collect(),
        extra: Vec::new(),
    };
    let mut extra: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (header, value) in headers {
        let lower = header.to_ascii_lowercase();
        if let Some(key) = lower.strip_prefix("impersonate-extra-") {
            let key = unescape(key).unwrap_or_else(|| key.to_owned());
            extra.entry(key).or_default().push(value.clone());
        }
    }
    requested.extra = extra.into_iter().collect();
    if !requested.name.is_empty() {
        return Ok(Some(requested));
    }
    if requested == User::default() {
        return Ok(None);
    }
    Err(ApiError::bad_request(format!(
        "requested {} without impersonating a user name",
        go_syntax(&requested)
    )))
}

/// Decodes `%XX`; `None` when an escape is not valid.
fn unescape(text: &str) -> Option<String> {
    let mut out = Vec::with_capacity(text.len());
    let mut bytes = text.bytes();
    while let Some(byte) = bytes.next() {
        if byte != b'%' {
            out.push(byte);
            continue;
        }
        let mut digit = || char::from(bytes.next()?).to_digit(16);
        let (high, low) = (digit()?, digit()?);
        out.push(u8::try_from(high * 16 + low).ok()?);
    }
    Some(String::from_utf8_lossy(&out).into_owned())
}

/// Formats a user as Go's `%#v` does.
fn go_syntax(user: &User) -> String {
    let list = |values: &[String]| {
        let values: Vec<String> = values.iter().map(|value| format!("{value:?}")).collect();
        format!("[]string{{{}}}", values.join(", "))
    };
    let groups = match user.groups.as_slice() {
        [] => "[]string(nil)".to_owned(),
        groups => list(groups),
    };
    let extra = match user.extra.as_slice() {
        [] => "(nil)".to_owned(),
        extra => {
            let each = |(key, values): &(String, Vec<String>)| format!("{key:?}:{}", list(values));
            format!(
                "{{{}}}",
                extra.iter().map(each).collect::<Vec<_>>().join(", ")
            )
        }
    };
    format!(
        "&user.DefaultInfo{{Name:{:?}, UID:{:?}, Groups:{groups}, Extra:map[string][]string{extra}}}",
        user.name, user.uid
    )
}

/// Returns the namespace and the name of a service account's user.
fn account(name: &str) -> Option<(&str, &str)> {
    let (namespace, account) = name
        .strip_prefix("system:serviceaccount:")?
        .split_once(':')?;
    let valid = names::label(namespace).is_empty() && names::subdomain(account).is_empty();
    valid.then_some((namespace, account))
}

/// Returns the name of a node's user.
fn node(name: &str) -> Option<&str> {
    let node = name.strip_prefix("system:node:")?;
    names::subdomain(node).is_empty().then_some(node)
}

impl Mode {
    fn name(self) -> &'static str {
        match self {
            Self::AssociatedNode => "associated-node",
            Self::ArbitraryNode => "arbitrary-node",
            Self::ServiceAccount => "serviceaccount",
            Self::UserInfo => "user-info",
            Self::Legacy => "",
        }
    }

    /// Returns whether the mode can impersonate the requested user.
    fn applies(self, real: &User, requested: &User) -> bool {
        let name_alone = || {
            requested.uid.is_empty() && requested.groups.is_empty() && requested.extra.is_empty()
        };
        let node = node(&requested.name);
        match self {
            Self::AssociatedNode => {
                let own = real.extra.iter().find(|(key, _)| key == NODE_NAME);
                let own = match own.map(|(_, values)| values.as_slice()) {
                    Some([own]) => Some(own.as_str()),
                    _ => None,
                };
                name_alone() && node.is_some() && own == node && account(&real.name).is_some()
            }
            Self::ArbitraryNode => name_alone() && node.is_some(),
            Self::ServiceAccount => name_alone() && account(&requested.name).is_some(),
            Self::UserInfo => node.is_none() && account(&requested.name).is_none(),
            Self::Legacy => true,
        }
    }
}

/// An attempt to impersonate by one mode.
struct Attempt<'a> {
    state: &'a State,
    real: &'a User,
    requested: &'a User,
    mode: Mode,
}

impl Attempt<'_> {
    /// Returns the impersonated user; `None` when the mode cannot impersonate it.
    fn user(&self, attributes: &Attributes<'_>) -> Option<Result<User, ApiError>> {
        self.mode
            .applies(self.real, self.requested)
            .then(|| self.allowed(attributes))
    }

    fn allowed(&self, attributes: &Attributes<'_>) -> Result<User, ApiError> {
        if self.is_constrained() {
            let verb = format!("impersonate-on:{}:{}", self.mode.name(), attributes.verb);
            let attributes = Attributes {
                verb: &verb,
                ..*attributes
            };
            authorize(self.state, self.real, &attributes)?;
        }
        let mut user = self.requested.clone();
        self.user_name(&mut user)?;
        self.uid()?;
        self.groups()?;
        self.extra()?;
        let has = |user: &User, group: &str| user.groups.iter().any(|known| known == group);
        if user.name == ANONYMOUS {
            if !has(&user, UNAUTHENTICATED) {
                user.groups.push(UNAUTHENTICATED.to_owned());
            }
        } else if !has(&user, UNAUTHENTICATED) && !has(&user, AUTHENTICATED) {
            user.groups.push(AUTHENTICATED.to_owned());
        }
        Ok(user)
    }

    fn is_constrained(&self) -> bool {
        self.mode != Mode::Legacy
    }

    fn verb(&self) -> String {
        match self.mode {
            Mode::Legacy => "impersonate".to_owned(),
            mode => format!("impersonate:{}", mode.name()),
        }
    }

    /// Users and groups belong to the core group in legacy mode.
    fn group(&self) -> &'static str {
        if self.is_constrained() { GROUP } else { "" }
    }

    fn check(&self, attributes: Attributes<'_>) -> Result<(), ApiError> {
        let verb = self.verb();
        let attributes = Attributes {
            verb: &verb,
            ..attributes
        };
        authorize(self.state, self.real, &attributes)
    }

    /// Returns the error of a refusal that does not depend on RBAC.
    fn refused(&self, attributes: Attributes<'_>, detail: &str) -> ApiError {
        let verb = self.verb();
        let attributes = Attributes {
            verb: &verb,
            ..attributes
        };
        forbidden(self.real, &attributes, detail)
    }

    fn user_name(&self, user: &mut User) -> Result<(), ApiError> {
        let mut attributes = Attributes {
            group: self.group(),
            resource: "users",
            name: &self.requested.name,
            ..Attributes::default()
        };
        if self.is_constrained()
            && let Some(node) = node(&self.requested.name)
        {
            attributes.resource = "nodes";
            attributes.name = match self.mode {
                Mode::AssociatedNode => "*",
                _ => node,
            };
            user.groups = vec!["system:nodes".to_owned()];
        }
        if let Some((namespace, account)) = account(&self.requested.name) {
            attributes.resource = "serviceaccounts";
            attributes.namespace = namespace;
            attributes.name = account;
            if user.groups.is_empty() {
                user.groups = vec![
                    "system:serviceaccounts".to_owned(),
                    format!("system:serviceaccounts:{namespace}"),
                ];
            }
        }
        self.check(attributes)
    }

    fn uid(&self) -> Result<(), ApiError> {
        if self.requested.uid.is_empty() {
            return Ok(());
        }
        self.check(Attributes {
            group: GROUP,
            resource: "uids",
            name: &self.requested.uid,
            ..Attributes::default()
        })
    }

    fn groups(&self) -> Result<(), ApiError> {
        let groups = &self.requested.groups;
        let attributes = |name| Attributes {
            group: self.group(),
            resource: "groups",
            name,
            ..Attributes::default()
        };
        if self.is_constrained() {
            if groups.iter().any(String::is_empty) {
                let detail = "impersonating the empty string group is not allowed";
                return Err(self.refused(attributes(""), detail));
            }
            if groups.iter().any(|group| group == MASTERS) {
                let detail = "impersonating the system:masters group is not allowed";
                return Err(self.refused(attributes(MASTERS), detail));
            }
            if groups.len() >= CHECK_ALL_FROM && self.check(attributes("*")).is_ok() {
                return Ok(());
            }
        }
        groups
            .iter()
            .try_for_each(|group| self.check(attributes(group)))
    }

    fn extra(&self) -> Result<(), ApiError> {
        let extra = &self.requested.extra;
        let attributes = |key, name| Attributes {
            group: GROUP,
            resource: "userextras",
            subresource: key,
            name,
            ..Attributes::default()
        };
        if self.is_constrained() && !extra.is_empty() {
            if let Some(detail) = extra_problem(extra) {
                return Err(self.refused(attributes("", ""), &detail));
            }
            let values: usize = extra.iter().map(|(_, values)| values.len()).sum();
            if values >= CHECK_ALL_FROM && self.check(attributes("*", "*")).is_ok() {
                return Ok(());
            }
        }
        for (key, values) in extra {
            for value in values {
                self.check(attributes(key, value))?;
            }
        }
        Ok(())
    }
}

/// Returns the message with which constrained impersonation refuses extra values before it checks
/// RBAC, if it does.
fn extra_problem(extra: &[(String, Vec<String>)]) -> Option<String> {
    extra.iter().find_map(|(key, values)| {
        if key.is_empty() {
            return Some("impersonating the empty string key in extra is not allowed".to_owned());
        }
        if let Some(detail) = domain_path_problem(key) {
            return Some(format!(
                "impersonating an invalid key in extra is not allowed: {detail}"
            ));
        }
        if *key != key.to_lowercase() {
            return Some(format!(
                "impersonating a non-lowercase key in extra is not allowed: {key:?}"
            ));
        }
        let empty = values.iter().any(String::is_empty);
        empty.then(|| "impersonating the empty string value in extra is not allowed".to_owned())
    })
}

/// Checks that a string is a domain-prefixed path. Returns the message of apimachinery's
/// `IsDomainPrefixedPath` if it is not.
fn domain_path_problem(key: &str) -> Option<String> {
    const PATH: &str = r"[A-Za-z0-9/\-._~%!$&'()*+,;=:]+";
    let invalid =
        |value: &str, detail: &str| format!("extra.key: Invalid value: {value:?}: {detail}");
    let mut parts = key.splitn(2, '/');
    let (domain, path) = (
        parts.next().unwrap_or_default(),
        parts.next().unwrap_or_default(),
    );
    if domain.is_empty() || path.is_empty() {
        let detail = "must be a domain-prefixed path (such as \"acme.io/foo\")";
        return Some(invalid(key, detail));
    }
    let mut problems: Vec<String> = names::subdomain(domain)
        .iter()
        .map(|detail| invalid(domain, detail))
        .collect();
    let fits = |c: char| c.is_ascii_alphanumeric() || "/-._~%!$&'()*+,;=:".contains(c);
    if !path.chars().all(fits) {
        let detail = format!("Invalid path (regex used for validation is '{PATH}')");
        problems.push(invalid(path, &detail));
    }
    match problems.as_slice() {
        [] => None,
        [one] => Some(one.clone()),
        many => Some(format!("[{}]", many.join(", "))),
    }
}
