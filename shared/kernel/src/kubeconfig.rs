//! Kubeconfigs, parsed with an allow-list. Tenants write them: a field that would run a program,
//! open a file or redirect requests is refused by its name, and errors never contain a value.

use crate::ports::{Access, Login, Secret};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use driftless_flux::Invalid;
use driftless_manifest::yaml::{self, Dialect, Limits};
use serde_json::{Map, Value, json};

/// Maximum bytes of a kubeconfig; a Secret has at most 1 MiB.
const SIZE_LIMIT: usize = 1 << 20;
/// The supported fields of a cluster's entry.
const CLUSTER_FIELDS: [&str; 6] = [
    "server",
    "certificate-authority-data",
    "tls-server-name",
    "insecure-skip-tls-verify",
    "disable-compression",
    "extensions",
];
/// The supported fields of a user's entry.
const USER_FIELDS: [&str; 6] = [
    "client-certificate-data",
    "client-key-data",
    "token",
    "username",
    "password",
    "extensions",
];
/// The supported fields of a context's entry.
const CONTEXT_FIELDS: [&str; 4] = ["cluster", "user", "namespace", "extensions"];
/// The fields that name a file, and the field that holds such a file's content instead.
const FILE_FIELDS: [(&str, &str); 4] = [
    ("certificate-authority", "certificate-authority-data"),
    ("client-certificate", "client-certificate-data"),
    ("client-key", "client-key-data"),
    ("tokenFile", "token"),
];

/// The exceptions from the rules for tenants that the operator allows.
#[derive(Clone, Copy, Debug, Default)]
pub struct Options {
    /// True if `insecure-skip-tls-verify: true` is accepted.
    pub allow_insecure: bool,
    /// True if servers at addresses inside this installation are allowed ([`crate::address`]).
    pub allow_local: bool,
}

/// The reason why a kubeconfig is refused. It names a field, never its value.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("kubeconfig: {0}")]
pub struct KubeconfigError(String);

impl KubeconfigError {
    pub(crate) fn new(reason: impl Into<String>) -> Self {
        Self(reason.into())
    }
}

type Result<T> = std::result::Result<T, KubeconfigError>;

fn refuse<T>(reason: impl Into<String>) -> Result<T> {
    Err(KubeconfigError(reason.into()))
}

/// Reads the current context of a kubeconfig.
///
/// # Errors
/// Invalid YAML, a missing part, a server that is not https, or a field that is not on the list:
/// `exec`, `auth-provider`, `tokenFile`, names of files, `proxy-url`, `as` and every other field
/// that is not known to be harmless.
pub fn parse(text: &[u8], options: &Options) -> Result<Access> {
    let config = document(text)?;
    let current = string(&config, "", "current-context")?.unwrap_or_default();
    if current.is_empty() {
        return refuse("current-context is missing");
    }
    let context = named(&config, "contexts", "context", current)?;
    only(context, "context", &CONTEXT_FIELDS)?;
    let cluster = cluster_of(&config, context)?;
    let user = match string(context, "context.", "user")?.filter(|name| !name.is_empty()) {
        Some(name) => named(&config, "users", "user", name)?,
        None => &Map::new(),
    };
    only(user, "user", &USER_FIELDS)?;

    let certificate_authority = data(cluster, "cluster.", "certificate-authority-data")?;
    let insecure = boolean(cluster, "cluster.", "insecure-skip-tls-verify")?;
    if insecure && !options.allow_insecure {
        return refuse(
            "cluster.insecure-skip-tls-verify is not allowed here: give certificate-authority-data",
        );
    }
    if insecure && certificate_authority.is_some() {
        return refuse(
            "cluster has both certificate-authority-data and insecure-skip-tls-verify: keep one",
        );
    }
    let text = |map, at, field| {
        Ok(string(map, at, field)?
            .filter(|text| !text.is_empty())
            .map(str::to_owned))
    };
    Ok(Access {
        server: server(required(cluster, "cluster", "server")?)?,
        certificate_authority,
        tls_server_name: text(cluster, "cluster.", "tls-server-name")?,
        insecure_skip_tls_verify: insecure,
        allow_local: options.allow_local,
        login: login(user)?,
        namespace: text(context, "context.", "namespace")?,
    })
}

/// Returns the server and the certificate authority of the current context. The user's entry is not
/// checked.
///
/// # Errors
/// The same as [`parse`], except those about the user's entry.
pub fn place(text: &[u8]) -> Result<(String, Option<Vec<u8>>)> {
    let config = document(text)?;
    let current = string(&config, "", "current-context")?.unwrap_or_default();
    let context = named(&config, "contexts", "context", current)?;
    let cluster = cluster_of(&config, context)?;
    let authority = data(cluster, "cluster.", "certificate-authority-data")?;
    Ok((server(required(cluster, "cluster", "server")?)?, authority))
}

/// Returns the checked cluster entry of a context.
fn cluster_of<'a>(
    config: &'a Map<String, Value>,
    context: &Map<String, Value>,
) -> Result<&'a Map<String, Value>> {
    let name = required(context, "context", "cluster")?;
    let cluster = named(config, "clusters", "cluster", name)?;
    only(cluster, "cluster", &CLUSTER_FIELDS)?;
    Ok(cluster)
}

/// Replaces the names of files in the current context, which tools on the operator's own machine
/// write, by the content of the files. Only for kubeconfigs that the operator wrote: `read` opens
/// every file that is named.
///
/// # Errors
/// Invalid YAML, or a file that `read` cannot read (its message follows the field's name).
pub fn inline_files(
    text: &[u8],
    read: impl Fn(&str) -> std::result::Result<Vec<u8>, Invalid>,
) -> Result<Vec<u8>> {
    let mut config = document(text)?;
    let current = string(&config, "", "current-context")?
        .unwrap_or_default()
        .to_owned();
    let context = named(&config, "contexts", "context", &current)?;
    let cluster = string(context, "context.", "cluster")?
        .unwrap_or_default()
        .to_owned();
    let user = string(context, "context.", "user")?
        .unwrap_or_default()
        .to_owned();
    for (list, entry, name) in [("clusters", "cluster", cluster), ("users", "user", user)] {
        let Some(Value::Array(items)) = config.get_mut(list) else {
            continue;
        };
        for item in items
            .iter_mut()
            .filter(|item| item["name"] == name.as_str())
        {
            let Some(fields) = item.get_mut(entry).and_then(Value::as_object_mut) else {
                continue;
            };
            for (from, to) in FILE_FIELDS {
                inline(fields, from, to, &read)?;
            }
        }
    }
    Ok(yaml::to_string(&Value::Object(config)).into_bytes())
}

/// Returns the kubeconfig with an extension, which replaces one of the same name.
///
/// # Errors
/// Invalid YAML, or `extensions` is not a list.
pub fn with_extension(text: &[u8], name: &str, extension: Value) -> Result<Vec<u8>> {
    let mut config = document(text)?;
    let known = config.entry("extensions").or_insert(Value::Null);
    if known.is_null() {
        *known = Value::Array(Vec::new());
    }
    let Value::Array(known) = known else {
        return refuse("extensions is not a list");
    };
    known.retain(|one| one["name"] != name);
    known.push(json!({"name": name, "extension": extension}));
    Ok(yaml::to_string(&Value::Object(config)).into_bytes())
}

/// Returns the extension of this name; `None` if the kubeconfig does not have it.
///
/// # Errors
/// Invalid YAML.
pub fn extension(text: &[u8], name: &str) -> Result<Option<Value>> {
    let mut config = document(text)?;
    let Some(Value::Array(known)) = config.get_mut("extensions") else {
        return Ok(None);
    };
    let found = known.iter_mut().find(|one| one["name"] == name);
    Ok(found.and_then(|one| one.get_mut("extension").map(Value::take)))
}

fn inline(
    fields: &mut Map<String, Value>,
    from: &str,
    to: &str,
    read: &impl Fn(&str) -> std::result::Result<Vec<u8>, Invalid>,
) -> Result<()> {
    let Some(file) = fields.remove(from).filter(|file| !is_empty(file)) else {
        return Ok(());
    };
    // As in client-go, inline content overrides a file.
    if fields.get(to).is_some_and(|inline| !is_empty(inline)) {
        return Ok(());
    }
    let Value::String(file) = file else {
        return refuse(format!("{from} is not a string"));
    };
    let content = read(&file).map_err(|error| KubeconfigError(format!("{from}: {error}")))?;
    let value = if to == "token" {
        String::from_utf8(content)
            .map_err(|_| KubeconfigError(format!("{from}: the file is not UTF-8")))?
            .trim()
            .to_owned()
    } else {
        STANDARD.encode(content)
    };
    fields.insert(to.to_owned(), value.into());
    Ok(())
}

fn document(text: &[u8]) -> Result<Map<String, Value>> {
    if text.len() > SIZE_LIMIT {
        return refuse("larger than 1 MiB");
    }
    let limits = Limits {
        bytes: 2 * SIZE_LIMIT,
        depth: 50,
        nodes: 50_000,
        documents: 1,
    };
    // The parser's message is dropped, because it may quote the content.
    let documents = yaml::documents(text, "kubeconfig", Dialect::V2, &limits);
    match documents.map(|mut documents| documents.pop()) {
        Ok(Some(Value::Object(config))) => match string(&config, "", "kind")? {
            None | Some("Config" | "") => Ok(config),
            Some(_) => refuse("kind is not Config"),
        },
        Ok(_) => refuse("the document is not a map"),
        Err(_) => refuse("not a single valid YAML document"),
    }
}

/// Returns the entry of a name; if there are several, the first one, as in client-go.
fn named<'a>(
    config: &'a Map<String, Value>,
    list: &str,
    entry: &str,
    name: &str,
) -> Result<&'a Map<String, Value>> {
    let items = config
        .get(list)
        .and_then(Value::as_array)
        .map(Vec::as_slice)
        .unwrap_or_default();
    let found = items
        .iter()
        .find(|item| item["name"] == name)
        .and_then(|item| item.get(entry));
    match found {
        Some(Value::Object(fields)) => Ok(fields),
        _ => refuse(format!(
            "{list} has no {entry} of the name that the current context needs"
        )),
    }
}

/// Checks that only allowed fields have a value.
fn only(fields: &Map<String, Value>, entry: &str, allowed: &[&str]) -> Result<()> {
    let unknown = fields
        .iter()
        .find(|(field, value)| !allowed.contains(&field.as_str()) && !is_empty(value));
    match unknown {
        Some((field, _)) => refuse(refusal(entry, field)),
        None => Ok(()),
    }
}

/// Returns the reason why a field is refused, and what to do instead.
fn refusal(entry: &str, field: &str) -> String {
    if let Some((_, to)) = FILE_FIELDS.iter().find(|(from, _)| *from == field) {
        return format!(
            "{entry}.{field} is refused, because it names a file: put the content into {to}"
        );
    }
    // The name of a field is also user input: only a plain one is repeated.
    let is_plain = |c: u8| c.is_ascii_alphanumeric() || c == b'-';
    match field {
        "exec" => format!(
            "{entry}.exec is refused: driftless runs no programs. Use a service account's token or a client \
             certificate; for EKS, AKS and GKE, spec.kubeConfig.configMapRef with the cloud's provider"
        ),
        "auth-provider" => {
            format!("{entry}.auth-provider is refused: use a token or a client certificate")
        }
        "proxy-url" => format!("{entry}.proxy-url is refused: clusters are reached directly"),
        field if field.starts_with("as") => {
            format!("{entry}.{field} is refused: set spec.serviceAccountName instead")
        }
        field if field.len() < 64 && field.bytes().all(is_plain) => {
            format!("{entry}.{field} is not supported")
        }
        _ => format!("{entry} has a field that is not supported"),
    }
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(false) => true,
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.is_empty(),
        _ => false,
    }
}

fn string<'a>(fields: &'a Map<String, Value>, at: &str, field: &str) -> Result<Option<&'a str>> {
    match fields.get(field) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) => Ok(Some(text)),
        Some(_) => refuse(format!("{at}{field} is not a string: put it in quotes")),
    }
}

fn required<'a>(fields: &'a Map<String, Value>, entry: &str, field: &str) -> Result<&'a str> {
    match string(fields, &format!("{entry}."), field)? {
        Some(text) if !text.is_empty() => Ok(text),
        _ => refuse(format!("{entry}.{field} is missing")),
    }
}

fn boolean(fields: &Map<String, Value>, at: &str, field: &str) -> Result<bool> {
    match fields.get(field) {
        None | Some(Value::Null) => Ok(false),
        Some(Value::Bool(value)) => Ok(*value),
        Some(_) => refuse(format!("{at}{field} is neither true nor false")),
    }
}

fn data(fields: &Map<String, Value>, at: &str, field: &str) -> Result<Option<Vec<u8>>> {
    let Some(text) = string(fields, at, field)?.filter(|text| !text.is_empty()) else {
        return Ok(None);
    };
    // Go's decoder ignores line breaks.
    let text: String = text.chars().filter(|c| !matches!(c, '\r' | '\n')).collect();
    STANDARD
        .decode(text)
        .map(Some)
        .map_err(|_| KubeconfigError(format!("{at}{field} is not base64")))
}

fn login(user: &Map<String, Value>) -> Result<Login> {
    let certificate = data(user, "user.", "client-certificate-data")?;
    let key = data(user, "user.", "client-key-data")?;
    let some = |field| {
        Ok(string(user, "user.", field)?
            .filter(|text| !text.is_empty())
            .map(str::to_owned))
    };
    let (token, username, password) = (some("token")?, some("username")?, some("password")?);
    let ways = [
        certificate.is_some() || key.is_some(),
        token.is_some(),
        username.is_some() || password.is_some(),
    ];
    if ways.iter().filter(|way| **way).count() > 1 {
        return refuse(
            "user has more than one way to log in: keep one of client certificate, token, username and password",
        );
    }
    match (certificate, key, token, username, password) {
        (Some(certificate), Some(key), ..) => Ok(Login::Certificate {
            certificate,
            key: Secret::new(key),
        }),
        (Some(_), None, ..) => refuse("user.client-certificate-data has no client-key-data"),
        (None, Some(_), ..) => refuse("user.client-key-data has no client-certificate-data"),
        (_, _, Some(token), ..) => Ok(Login::Token(Secret::new(token.trim().to_owned()))),
        (_, _, _, Some(username), password) => Ok(Login::Basic {
            username,
            password: Secret::new(password.unwrap_or_default()),
        }),
        (.., Some(_)) => refuse("user.password has no username"),
        _ => Ok(Login::Anonymous),
    }
}

/// Checks that a URL is `https://host[:port][/path]`: a user would be a login, and a query would
/// change the paths of requests.
fn server(url: &str) -> Result<String> {
    let Some(rest) = url.strip_prefix("https://") else {
        return refuse("cluster.server is not an https:// URL");
    };
    let rest = rest.trim_end_matches('/');
    let (host, path) = rest
        .split_once('/')
        .map_or((rest, ""), |(host, path)| (host, path));
    let plain = |text: &str, more: &[u8]| {
        text.bytes()
            .all(|b| b.is_ascii_alphanumeric() || more.contains(&b))
    };
    let climbs = path.split('/').any(|part| matches!(part, "." | ".."));
    if host.is_empty() || !plain(host, b"-._:[]") || !plain(path, b"-._~/:") || climbs {
        return refuse(
            "cluster.server is not an https:// URL of a host, an optional port and an optional path",
        );
    }
    Ok(format!("https://{rest}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const CANARY: &str = "canary-value";

    fn config(cluster: &str, user: &str) -> String {
        format!(
            "apiVersion: v1\nkind: Config\ncurrent-context: here\npreferences: {{}}\n\
             contexts:\n- name: other\n  context: {{cluster: x, user: x}}\n\
             - name: here\n  context: {{cluster: c, user: u, namespace: apps}}\n\
             clusters:\n- name: c\n  cluster: {{{cluster}}}\n\
             users:\n- name: other\n  user: {{exec: {{command: rm}}}}\n- name: u\n  user: {{{user}}}\n"
        )
    }

    fn read(cluster: &str, user: &str) -> Result<Access> {
        parse(config(cluster, user).as_bytes(), &Options::default())
    }

    #[test]
    fn reads_what_tools_write() {
        let access = read(
            "server: 'https://k8s.example:6443/base/', certificate-authority-data: Y2E=, tls-server-name: inner",
            "client-certificate-data: Y2VydA==, client-key-data: a2V5",
        )
        .unwrap();
        assert_eq!(access.server, "https://k8s.example:6443/base");
        assert_eq!(access.certificate_authority.as_deref(), Some(&b"ca"[..]));
        assert_eq!(access.tls_server_name.as_deref(), Some("inner"));
        assert_eq!(access.namespace.as_deref(), Some("apps"));
        let key = Secret::new("key");
        assert_eq!(
            access.login,
            Login::Certificate {
                certificate: b"cert".to_vec(),
                key
            }
        );
        let login = |user| read("server: 'https://[::1]:6443'", user).unwrap().login;
        assert_eq!(login("token: ' abc '"), Login::Token(Secret::new("abc")));
        let basic = Login::Basic {
            username: "a".into(),
            password: Secret::new("b"),
        };
        assert_eq!(login("username: a, password: b"), basic);
        assert_eq!(
            login("token: '', exec: null, tokenFile: ''"),
            Login::Anonymous
        );
        let json = r#"{"current-context":"a","contexts":[{"name":"a","context":{"cluster":"a"}}],
            "clusters":[{"name":"a","cluster":{"server":"https://a"}}]}"#;
        assert_eq!(
            parse(json.as_bytes(), &Options::default()).unwrap().login,
            Login::Anonymous
        );
    }

    #[test]
    fn refuses_by_the_fields_name_and_keeps_its_value() {
        let good = "server: 'https://a'";
        for (field, value) in [
            ("exec", "{apiVersion: v1, command: canary-value}"),
            ("auth-provider", "{name: canary-value}"),
            ("tokenFile", "/var/canary-value"),
            ("client-certificate", "/canary-value"),
            ("client-key", "canary-value"),
            ("as", "canary-value"),
            ("as-uid", "canary-value"),
            ("as-groups", "[canary-value]"),
            ("as-user-extra", "{a: [canary-value]}"),
            ("impersonate-everything", "canary-value"),
        ] {
            let error = read(good, &format!("{field}: {value}"))
                .unwrap_err()
                .to_string();
            assert!(error.contains(field) && !error.contains(CANARY), "{error}");
        }
        for (field, value) in [
            ("certificate-authority", "/etc/canary-value"),
            ("proxy-url", "http://canary-value"),
            ("insecure-skip-tls-verify", "true"),
            ("insecure-skip-tls-verify", "canary-value"),
            ("certificate-authority-data", "'canary-value!'"),
            ("tls-server-name", "[canary-value]"),
            ("new-thing", "canary-value"),
        ] {
            let error = read(&format!("{good}, {field}: {value}"), "")
                .unwrap_err()
                .to_string();
            assert!(error.contains(field) && !error.contains(CANARY), "{error}");
        }
    }

    #[test]
    fn servers() {
        for server in [
            "http://a",
            "a:6443",
            "HTTPS://a",
            "https://",
            "https:///x",
            "https://user:pw@a",
            "https://a?x=1",
            "https://a#x",
            "https://a/../b",
            "file:///etc",
            "unix:///run",
            "https://a\\b",
            "https://a b",
            "https://a/%2e%2e",
        ] {
            let error = read(&format!("server: '{server}'"), "token: x")
                .unwrap_err()
                .to_string();
            assert!(error.contains("cluster.server"), "{server}: {error}");
        }
    }

    #[test]
    fn insecure_only_when_allowed() {
        let allow = Options {
            allow_insecure: true,
            ..Options::default()
        };
        let text = config(
            "server: 'https://a', insecure-skip-tls-verify: true",
            "token: x",
        );
        assert!(
            parse(text.as_bytes(), &allow)
                .unwrap()
                .insecure_skip_tls_verify
        );
        let both = config(
            "server: 'https://a', insecure-skip-tls-verify: true, certificate-authority-data: Y2E=",
            "",
        );
        assert!(parse(both.as_bytes(), &allow).is_err());
    }

    #[test]
    fn incomplete_and_several_logins_are_refused() {
        for user in [
            "client-certificate-data: Y2U=",
            "client-key-data: Y2U=",
            "password: x",
            "token: x, username: y",
            "token: x, client-certificate-data: Y2U=, client-key-data: Y2U=",
        ] {
            assert!(read("server: 'https://a'", user).is_err(), "{user}");
        }
    }

    #[test]
    fn invalid_documents() {
        let two = format!("{0}---\n{0}", config("server: 'https://a'", "token: x"));
        let huge = format!(
            "{}# {}",
            config("server: 'https://a'", ""),
            "x".repeat(SIZE_LIMIT)
        );
        let bomb = "a: &a [x,x,x,x,x,x,x,x,x]\nb: &b [*a,*a,*a,*a,*a,*a,*a,*a]\nc: &c [*b,*b,*b,*b,*b,*b,*b,*b]\n\
            d: &d [*c,*c,*c,*c,*c,*c,*c]\ne: &e [*d,*d,*d,*d,*d,*d,*d]\nf: [*e,*e,*e,*e,*e,*e,*e]\n";
        let deep = "[".repeat(5000);
        let no_context = "current-context: a\ncontexts: []\n";
        for text in [
            "",
            "canary-value",
            "a: [canary-value",
            "- canary-value",
            "kind: Secret",
            &two,
            &huge,
            bomb,
            &deep,
            no_context,
        ] {
            let error = parse(text.as_bytes(), &Options::default())
                .unwrap_err()
                .to_string();
            assert!(!error.contains(CANARY) && error.len() < 200, "{error}");
        }
    }

    #[test]
    fn files_are_inlined_for_the_operator() {
        let text = config(
            "server: 'https://a', certificate-authority: /ca.crt",
            "client-certificate: /c.crt, client-key: /c.key",
        );
        assert!(parse(text.as_bytes(), &Options::default()).is_err());
        let inlined = inline_files(text.as_bytes(), |path| Ok(path.as_bytes().to_vec())).unwrap();
        let access = parse(&inlined, &Options::default()).unwrap();
        assert_eq!(
            access.certificate_authority.as_deref(),
            Some(&b"/ca.crt"[..])
        );
        assert!(
            matches!(access.login, Login::Certificate { certificate, .. } if certificate == b"/c.crt")
        );
        let token = config("server: 'https://a'", "tokenFile: /token");
        let inlined = inline_files(token.as_bytes(), |_| Ok(b"secret\n".to_vec())).unwrap();
        assert_eq!(
            parse(&inlined, &Options::default()).unwrap().login,
            Login::Token(Secret::new("secret"))
        );
        let missing = inline_files(token.as_bytes(), |_| Err("no such file".into())).unwrap_err();
        assert_eq!(missing.to_string(), "kubeconfig: tokenFile: no such file");
        // A program is refused here as well.
        let exec = config("server: 'https://a'", "exec: {command: x}");
        let inlined = inline_files(exec.as_bytes(), |_| Ok(Vec::new())).unwrap();
        assert!(
            parse(&inlined, &Options::default())
                .unwrap_err()
                .to_string()
                .contains("user.exec")
        );
    }
}
