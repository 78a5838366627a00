//! `driftless create secret oci`.

use super::Secret;
use crate::create::basic_login::BasicLogin;
use crate::create::flags::NonEmpty as _;
use crate::create::{Common, Named, names};
use crate::error::{EXIT_CODES, Error};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use driftless_flux::Invalid;
use driftless_go::json;
use driftless_helm::scheme_and_host;
use serde::Serialize;
use std::collections::BTreeMap;

const EXAMPLES: &str = "Examples:
  driftless create secret oci registry-login --url ghcr.io --username me --password TOKEN \\
    --export > login.yaml
  driftless create secret oci registry-login -n team-a --url ghcr.io/acme/charts --username me \\
    --password TOKEN";

/// Create or update an image pull Secret
#[derive(clap::Args)]
#[command(after_help = format!("{EXAMPLES}\n\n{EXIT_CODES}"))]
pub struct Args {
    #[command(flatten)]
    named: Named,
    /// The registry, or a repository in it: ghcr.io/acme/charts
    #[arg(long)]
    url: Option<String>,
    #[command(flatten)]
    login: BasicLogin,
}

/// The configuration file of Docker.
#[derive(Serialize)]
struct Config<'a> {
    auths: BTreeMap<&'a str, Login<'a>>,
}

#[derive(Serialize)]
struct Login<'a> {
    username: &'a str,
    password: &'a str,
    auth: String,
}

impl Args {
    /// Returns the Secret.
    ///
    /// # Errors
    /// Fails for flags that are not valid or missing.
    pub fn secret(&self, common: &Common) -> Result<Secret, Error> {
        let required = |flag: &str| Error::usage(format!("{flag} is required"));
        let url = self.url.non_empty().ok_or_else(|| required("--url"))?;
        let (username, password) = self.login.parts();
        let username = username.ok_or_else(|| required("--username"))?;
        let password = password.ok_or_else(|| required("--password"))?;
        reference(url).map_err(|error| Error::usage(format!("error parsing url: '{error}'")))?;
        let auth = STANDARD.encode(format!("{username}:{password}"));
        let login = Login {
            username,
            password,
            auth,
        };
        let config = Config {
            auths: BTreeMap::from([(url, login)]),
        };
        let text = json::to_string(&config).map_err(Error::caused_by)?;
        let text = indented(&text);
        let labels = names::labels(&self.named.labels)?;
        let mut secret = Secret::new(&self.named.name, common, labels)
            .with_type("kubernetes.io/dockerconfigjson");
        secret.set(".dockerconfigjson", text);
        Ok(secret)
    }
}

/// Indents JSON by two spaces for each level; strings stay unchanged.
fn indented(json: &str) -> String {
    let mut out = String::with_capacity(json.len() * 2);
    let (mut depth, mut quoted, mut escaped) = (0usize, false, false);
    for one in json.chars() {
        if quoted {
            out.push(one);
            quoted = escaped || one != '"';
            escaped = !escaped && one == '\\';
            continue;
        }
        match one {
            '{' => {
                depth += 1;
                out.push('{');
                line(&mut out, depth);
            }
            '}' => {
                depth = depth.saturating_sub(1);
                line(&mut out, depth);
                out.push('}');
            }
            ',' => {
                out.push(',');
                line(&mut out, depth);
            }
            ':' => out.push_str(": "),
            _ => {
                quoted = one == '"';
                out.push(one);
            }
        }
    }
    out
}

fn line(out: &mut String, depth: usize) {
    out.push('\n');
    out.extend(std::iter::repeat_n("  ", depth));
}

/// Checks that a string is a repository or an artifact, as `go-containerregistry` v0.21 parses it.
///
/// # Errors
/// Fails with the part that is not valid.
fn reference(text: &str) -> Result<(), Invalid> {
    let (base, digest) = match text.split_once('@') {
        Some((base, digest)) => (base, Some(digest)),
        None => (text, None),
    };
    if let Some(digest) = digest {
        let hex = digest.strip_prefix("sha256:").unwrap_or_default();
        let valid = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
        if hex.len() != 64 || !hex.bytes().all(valid) {
            return Err(format!("'{digest}' is not a valid digest").into());
        }
    }
    let (name, tag) = match base.rsplit_once(':') {
        Some((name, tag)) if !tag.contains('/') => (name, Some(tag)),
        _ => (base, None),
    };
    if let Some(tag) = tag {
        let valid = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
        if !(1..=128).contains(&tag.len()) || !tag.bytes().all(valid) {
            return Err(format!("'{tag}' is not a valid tag").into());
        }
    }
    let (registry, repository) = match name.split_once('/') {
        Some((registry, repository)) if registry.contains(['.', ':']) => (registry, repository),
        _ => ("", name),
    };
    let valid = |byte: u8| matches!(byte, b'a'..=b'z' | b'0'..=b'9') || b"_-./".contains(&byte);
    if !(2..=255).contains(&repository.len()) || !repository.bytes().all(valid) {
        return Err(format!("'{repository}' is not a valid repository").into());
    }
    match scheme_and_host(&format!("//{registry}")) {
        Ok((_, host)) if host == registry => Ok(()),
        _ => Err(format!("'{registry}' is not a valid registry").into()),
    }
}
