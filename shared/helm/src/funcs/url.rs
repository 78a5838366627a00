//! URLs as Go's `net/url` reads and writes them.

use super::arg::{bytes, map, text};
use super::{Entry, M, Out, S};
use driftless_go::Error as GoError;
use driftless_go::quote::quote;
use driftless_gotmpl::{Exec, Map, Value};

pub(super) const TABLE: &[Entry] = &[
    ("urlParse", S, parse_url),
    ("urlJoin", M, join),
    // Renders never use the network: like Helm without --enable-dns.
    ("getHostByName", S, |_, _| Ok(Value::str(""))),
];

#[derive(Default)]
struct Url {
    scheme: String,
    opaque: String,
    user: Option<(String, Option<String>)>,
    host: String,
    path: String,
    query: String,
    fragment: String,
}

/// The part of a URL that contains a string: it decides which characters need no escape.
#[derive(Clone, Copy, PartialEq)]
enum Part {
    Path,
    User,
    Host,
    Zone,
    Fragment,
}

fn parse_url(exec: &mut Exec<'_>, a: &[Value]) -> Out {
    let s = text(a, 0);
    exec.charge_bytes(s.len().saturating_mul(4))?;
    let url = parse(&s).map_err(|reason| {
        format!(
            "unable to parse url: parse {}: {reason}",
            quote(bytes(a, 0))
        )
    })?;
    let dict = Map::new();
    let entries = [
        ("scheme", url.scheme.clone()),
        ("host", url.host.clone()),
        ("hostname", hostname(&url.host)),
        ("path", url.path.clone()),
        ("query", url.query.clone()),
        ("opaque", url.opaque.clone()),
        ("fragment", url.fragment.clone()),
        ("userinfo", userinfo(&url)),
    ];
    for (key, value) in entries {
        dict.insert(key, Value::str(value));
    }
    Ok(Value::Map(dict))
}

fn join(exec: &mut Exec<'_>, a: &[Value]) -> Out {
    let dict = map(a, 0);
    let get = |key: &str| match dict.get(key) {
        None => Ok(String::new()),
        Some(Value::Str(s)) => Ok(s.lossy().into_owned()),
        Some(Value::Nil | Value::NoValue) => Err(super::arg::NIL_POINTER.to_owned()),
        Some(other) => Err(format!(
            "unable to parse {key} key, must be of type string, but {} found",
            other.kind().name()
        )),
    };
    let mut url = Url {
        scheme: get("scheme")?,
        host: get("host")?,
        path: get("path")?,
        query: get("query")?,
        opaque: get("opaque")?,
        fragment: get("fragment")?,
        user: None,
    };
    let user = get("userinfo")?;
    if !user.is_empty() {
        let whole = format!("proto://{user}@host");
        let parsed = parse(&whole).map_err(|reason| {
            let quoted = quote(whole.as_bytes());
            format!("unable to parse userinfo in dict: parse {quoted}: {reason}")
        })?;
        url.user = parsed.user;
    }
    let text = write(&url);
    exec.charge_bytes(text.len())?;
    Ok(Value::str(text))
}

/// Returns the scheme, in lower case, and the host with its port of a URL, as Go's `net/url` parses
/// it.
///
/// # Errors
/// Go's message for an invalid URL.
pub fn scheme_and_host(url: &str) -> Result<(String, String), GoError> {
    let parsed =
        parse(url).map_err(|reason| format!("parse {}: {reason}", quote(url.as_bytes())))?;
    Ok((parsed.scheme, parsed.host))
}

fn parse(s: &str) -> Result<Url, GoError> {
    let (body, fragment) = s.split_once('#').unwrap_or((s, ""));
    if s.bytes().any(|b| b < b' ' || b == 0x7f) {
        return Err("net/url: invalid control character in URL".into());
    }
    let mut url = Url::default();
    if body == "*" {
        url.path = "*".to_owned();
    } else {
        parse_body(&mut url, body)?;
    }
    url.fragment = unescape(fragment, Part::Fragment)?;
    Ok(url)
}

fn parse_body(url: &mut Url, body: &str) -> Result<(), GoError> {
    let (scheme, mut rest) = scheme(body)?;
    url.scheme = scheme.to_ascii_lowercase();
    if let Some((before, query)) = rest.split_once('?') {
        url.query = query.to_owned();
        rest = before;
    }
    if !rest.starts_with('/') {
        if !url.scheme.is_empty() {
            url.opaque = rest.to_owned();
            return Ok(());
        }
        let segment = rest.split('/').next().unwrap_or_default();
        if segment.contains(':') {
            return Err("first path segment in URL cannot contain colon".into());
        }
    }
    let has_authority =
        rest.starts_with("//") && (!url.scheme.is_empty() || !rest.starts_with("///"));
    if has_authority {
        let end = rest[2..].find('/').map_or(rest.len(), |i| i + 2);
        authority(url, &rest[2..end])?;
        rest = &rest[end..];
    }
    url.path = unescape(rest, Part::Path)?;
    Ok(())
}

fn scheme(s: &str) -> Result<(&str, &str), GoError> {
    for (i, c) in s.char_indices() {
        match c {
            'a'..='z' | 'A'..='Z' => {}
            '0'..='9' | '+' | '-' | '.' if i > 0 => {}
            '0'..='9' | '+' | '-' | '.' => return Ok(("", s)),
            ':' if i == 0 => return Err("missing protocol scheme".into()),
            ':' => return Ok((&s[..i], &s[i + 1..])),
            _ => return Ok(("", s)),
        }
    }
    Ok(("", s))
}

fn authority(url: &mut Url, s: &str) -> Result<(), GoError> {
    let Some((user, host)) = s.rsplit_once('@') else {
        url.host = parse_host(s)?;
        return Ok(());
    };
    url.host = parse_host(host)?;
    let plain = |c: char| c.is_ascii_alphanumeric() || "-._:~!$&'()*+,;=%@".contains(c);
    if !user.chars().all(plain) {
        return Err("net/url: invalid userinfo".into());
    }
    url.user = Some(match user.split_once(':') {
        None => (unescape(user, Part::User)?, None),
        Some((name, password)) => (
            unescape(name, Part::User)?,
            Some(unescape(password, Part::User)?),
        ),
    });
    Ok(())
}

fn valid_port(s: &str) -> bool {
    s.is_empty()
        || s.strip_prefix(':')
            .is_some_and(|p| p.bytes().all(|b| b.is_ascii_digit()))
}

fn parse_host(host: &str) -> Result<String, GoError> {
    let bad_port = |port: &str| format!("invalid port {} after host", quote(port.as_bytes()));
    if host.starts_with('[') {
        let Some(end) = host.rfind(']') else {
            return Err("missing ']' in host".into());
        };
        let port = &host[end + 1..];
        if !valid_port(port) {
            return Err(bad_port(port).into());
        }
        if let Some(zone) = host[..end].find("%25") {
            return Ok(format!(
                "{}{}{}",
                unescape(&host[..zone], Part::Host)?,
                unescape(&host[zone..end], Part::Zone)?,
                unescape(&host[end..], Part::Host)?
            ));
        }
    } else if let Some(colon) = host.rfind(':') {
        let port = &host[colon..];
        if !valid_port(port) {
            return Err(bad_port(port).into());
        }
    }
    unescape(host, Part::Host)
}

/// Decodes `%XX` escapes.
fn unescape(s: &str, part: Part) -> Result<String, GoError> {
    let mut out = Vec::with_capacity(s.len());
    let b = s.as_bytes();
    let mut i = 0;
    while i < b.len() {
        match b[i] {
            b'%' => {
                let digits = s
                    .get(i + 1..i + 3)
                    .filter(|d| d.bytes().all(|c| c.is_ascii_hexdigit()));
                let bad = |i: usize| {
                    let end = (i + 3).min(s.len());
                    let escape = String::from_utf8_lossy(&b[i..end]);
                    format!("invalid URL escape {}", quote(escape.as_bytes()))
                };
                let Some(value) = digits.and_then(|d| u8::from_str_radix(d, 16).ok()) else {
                    return Err(bad(i).into());
                };
                if part == Part::Host && value < 0x80 && &s[i..i + 3] != "%25" {
                    return Err(bad(i).into());
                }
                if part == Part::Zone
                    && &s[i..i + 3] != "%25"
                    && value != b' '
                    && should_escape(value, Part::Host)
                {
                    return Err(bad(i).into());
                }
                out.push(value);
                i += 3;
            }
            c => {
                let host = matches!(part, Part::Host | Part::Zone);
                if host && c < 0x80 && should_escape(c, part) {
                    let character = quote(&b[i..=i]);
                    return Err(format!("invalid character {character} in host name").into());
                }
                out.push(c);
                i += 1;
            }
        }
    }
    Ok(String::from_utf8_lossy(&out).into_owned())
}

fn should_escape(c: u8, part: Part) -> bool {
    if c.is_ascii_alphanumeric() || b"-_.~".contains(&c) {
        return false;
    }
    let host = matches!(part, Part::Host | Part::Zone);
    if host && b"!$&'()*+,;=:[]<>\"".contains(&c) {
        return false;
    }
    if b"$&+,/:;=?@".contains(&c) {
        return match part {
            Part::Path => c == b'?',
            Part::User => b"@/?:".contains(&c),
            Part::Fragment => false,
            Part::Host | Part::Zone => true,
        };
    }
    !(part == Part::Fragment && b"!()*".contains(&c))
}

fn escape(s: &str, part: Part) -> String {
    let mut out = String::with_capacity(s.len());
    for b in s.bytes() {
        if should_escape(b, part) {
            out.push_str(&format!("%{b:02X}"));
        } else {
            out.push(char::from(b));
        }
    }
    out
}

fn hostname(host: &str) -> String {
    let bare = match host.rfind(':') {
        Some(colon) if valid_port(&host[colon..]) => &host[..colon],
        _ => host,
    };
    let inner = bare.strip_prefix('[').and_then(|h| h.strip_suffix(']'));
    inner.unwrap_or(bare).to_owned()
}

fn userinfo(url: &Url) -> String {
    match &url.user {
        None => String::new(),
        Some((name, None)) => escape(name, Part::User),
        Some((name, Some(password))) => {
            format!(
                "{}:{}",
                escape(name, Part::User),
                escape(password, Part::User)
            )
        }
    }
}

fn write(url: &Url) -> String {
    let mut out = String::new();
    if !url.scheme.is_empty() {
        out.push_str(&url.scheme);
        out.push(':');
    }
    if !url.opaque.is_empty() {
        out.push_str(&url.opaque);
    } else {
        if !url.scheme.is_empty() || !url.host.is_empty() || url.user.is_some() {
            if !url.host.is_empty() || !url.path.is_empty() || url.user.is_some() {
                out.push_str("//");
            }
            if url.user.is_some() {
                out.push_str(&userinfo(url));
                out.push('@');
            }
            out.push_str(&escape(&url.host, Part::Host));
        }
        let path = if url.path == "*" {
            "*".to_owned()
        } else {
            escape(&url.path, Part::Path)
        };
        if !path.is_empty() && !path.starts_with('/') && !url.host.is_empty() {
            out.push('/');
        }
        if out.is_empty() && path.split('/').next().unwrap_or_default().contains(':') {
            out.push_str("./");
        }
        out.push_str(&path);
    }
    if !url.query.is_empty() {
        out.push('?');
        out.push_str(&url.query);
    }
    if !url.fragment.is_empty() {
        out.push('#');
        out.push_str(&escape(&url.fragment, Part::Fragment));
    }
    out
}
