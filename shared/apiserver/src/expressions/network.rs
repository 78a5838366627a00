//! Addresses, networks and URLs in expressions.

use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;

use ::cel::common::types::{CelList, CelMap, CelString, STRING_TYPE, Type};
use ::cel::common::value::{CowVal, Val};
use ::cel::{DeclarationError, Env, ExecutionError};
use driftless_cel::arguments::text;
use driftless_cel::functions::{integer, string, truth};

use super::own_type::{own, own_type};

static IP: Type = Type::new_unspecified_type("net.IP");
static CIDR: Type = Type::new_unspecified_type("net.CIDR");
static URL: Type = Type::new_unspecified_type("kubernetes.URL");

#[derive(Clone, Debug, PartialEq, Eq)]
struct Address(IpAddr);

#[derive(Clone, Debug, PartialEq, Eq)]
struct Network {
    address: IpAddr,
    length: u8,
}

/// The parts of an absolute URL.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Url {
    scheme: String,
    host: String,
    path: String,
    query: String,
}

own_type!(Address, IP, equal);
own_type!(Network, CIDR, equal);
own_type!(Url, URL, equal);

/// Parses an IP address as Kubernetes does: without zones, and without IPv4 within IPv6.
fn address(written: &str) -> Option<IpAddr> {
    let found: IpAddr = written.parse().ok()?;
    match found {
        IpAddr::V6(inner) if inner.to_ipv4_mapped().is_some() => None,
        other => Some(other),
    }
}

fn bits(address: IpAddr) -> (u128, u8) {
    match address {
        IpAddr::V4(inner) => (u128::from(u32::from(inner)) << 96, 32),
        IpAddr::V6(inner) => (u128::from(inner), 128),
    }
}

impl Network {
    fn parse(written: &str) -> Option<Self> {
        let (own, length) = written.split_once('/')?;
        let own = address(own)?;
        let length: u8 = length.parse().ok().filter(|_| !length.starts_with('+'))?;
        (length <= bits(own).1).then_some(Self {
            address: own,
            length,
        })
    }

    fn mask(&self) -> u128 {
        u128::MAX
            .checked_shl(128 - u32::from(self.length))
            .unwrap_or(0)
    }

    fn holds(&self, other: IpAddr) -> bool {
        let ((own, width), (other, of)) = (bits(self.address), bits(other));
        width == of && own & self.mask() == other & self.mask()
    }

    fn masked(&self) -> Self {
        let kept = bits(self.address).0 & self.mask();
        let address = match self.address {
            IpAddr::V4(_) => IpAddr::V4(u32::try_from(kept >> 96).unwrap_or_default().into()),
            IpAddr::V6(_) => IpAddr::V6(kept.into()),
        };
        Self {
            address,
            length: self.length,
        }
    }
}

impl Url {
    /// Reads an absolute URL, or an absolute path.
    fn parse(written: &str) -> Option<Self> {
        if written.chars().any(|c| c.is_ascii_control() || c == ' ') {
            return None;
        }
        let written = written.split('#').next().unwrap_or_default();
        let (scheme, rest) = match written.split_once("://") {
            Some((scheme, rest)) => (scheme, rest),
            None if written.starts_with('/') => ("", written),
            None => return None,
        };
        if written.contains("://") && !scheme.starts_with(|c: char| c.is_ascii_alphabetic()) {
            return None;
        }
        let (before, query) = rest.split_once('?').unwrap_or((rest, ""));
        let at = if scheme.is_empty() {
            0
        } else {
            before.find('/').unwrap_or(before.len())
        };
        let (authority, path) = before.split_at(at);
        let host = authority.rsplit('@').next().unwrap_or_default();
        Some(Self {
            scheme: scheme.to_ascii_lowercase(),
            host: host.to_owned(),
            path: path.to_owned(),
            query: query.to_owned(),
        })
    }

    fn host_and_port(&self) -> (&str, &str) {
        match self.host.rsplit_once(':') {
            Some((host, port)) if port.bytes().all(|b| b.is_ascii_digit()) => (host, port),
            _ => (&self.host, ""),
        }
    }
}

fn conversion_error(function: &str, message: String) -> ExecutionError {
    ExecutionError::function_error(function, message)
}

/// Declares the functions for addresses, networks and URLs.
///
/// # Errors
/// A function that is declared already.
pub(super) fn declare(env: &mut Env) -> Result<(), DeclarationError> {
    addresses(env)?;
    networks(env)?;
    urls(env)
}

fn addresses(env: &mut Env) -> Result<(), DeclarationError> {
    env.add_overload("isIP", "is_ip", vec![STRING_TYPE], |args| {
        Ok(truth(address(text(&args, 0)?).is_some()))
    })?;
    env.add_overload("ip", "string_to_ip", vec![STRING_TYPE], |args| {
        let written = text(&args, 0)?;
        let found = address(written).ok_or_else(|| {
            conversion_error(
                "ip",
                format!("IP Address {written:?} parse error during conversion from string"),
            )
        })?;
        Ok(CowVal::owned(Address(found)))
    })?;
    env.add_overload(
        "ip.isCanonical",
        "ip_is_canonical",
        vec![STRING_TYPE],
        |args| {
            let written = text(&args, 0)?;
            Ok(truth(
                address(written).is_some_and(|found| found.to_string() == written),
            ))
        },
    )?;
    env.add_overload("string", "ip_to_string", vec![IP.to_owned()], |args| {
        Ok(string(own::<Address>(&args, 0)?.0.to_string()))
    })?;
    let member = |env: &mut Env, name: &str, op| {
        env.add_member_overload(name, &format!("ip_{name}"), IP.to_owned(), vec![], op)
    };
    member(env, "family", |args| {
        Ok(integer(if own::<Address>(&args, 0)?.0.is_ipv4() {
            4
        } else {
            6
        }))
    })?;
    member(env, "isUnspecified", |args| {
        Ok(truth(own::<Address>(&args, 0)?.0.is_unspecified()))
    })?;
    member(env, "isLoopback", |args| {
        Ok(truth(own::<Address>(&args, 0)?.0.is_loopback()))
    })?;
    member(env, "isLinkLocalMulticast", |args| {
        Ok(truth(match own::<Address>(&args, 0)?.0 {
            IpAddr::V4(own) => own.octets()[..3] == [224, 0, 0],
            IpAddr::V6(own) => own.segments()[0] & 0xff0f == 0xff02,
        }))
    })?;
    member(env, "isLinkLocalUnicast", |args| {
        Ok(truth(is_link_local(own::<Address>(&args, 0)?.0)))
    })?;
    member(env, "isGlobalUnicast", |args| {
        let own = own::<Address>(&args, 0)?.0;
        let broadcast = matches!(own, IpAddr::V4(own) if own.is_broadcast());
        let other =
            own.is_unspecified() || own.is_loopback() || own.is_multicast() || is_link_local(own);
        Ok(truth(!broadcast && !other))
    })
}

fn is_link_local(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(own) => own.is_link_local(),
        IpAddr::V6(own) => own.is_unicast_link_local(),
    }
}

fn networks(env: &mut Env) -> Result<(), DeclarationError> {
    fn network(written: &str) -> Result<Network, ExecutionError> {
        Network::parse(written).ok_or_else(|| {
            conversion_error(
                "cidr",
                format!("network address parse error during conversion from string: {written:?}"),
            )
        })
    }
    env.add_overload("isCIDR", "is_cidr", vec![STRING_TYPE], |args| {
        Ok(truth(Network::parse(text(&args, 0)?).is_some()))
    })?;
    env.add_overload("cidr", "string_to_cidr", vec![STRING_TYPE], |args| {
        Ok(CowVal::owned(network(text(&args, 0)?)?))
    })?;
    env.add_overload("string", "cidr_to_string", vec![CIDR.to_owned()], |args| {
        let own: &Network = own(&args, 0)?;
        Ok(string(format!("{}/{}", own.address, own.length)))
    })?;
    let member = |env: &mut Env, name: &str, id: &str, args: Vec<Type>, op| {
        env.add_member_overload(name, id, CIDR.to_owned(), args, op)
    };
    member(
        env,
        "containsIP",
        "cidr_contains_ip_string",
        vec![STRING_TYPE],
        |args| {
            let written = text(&args, 1)?;
            let other = address(written).ok_or_else(|| {
                conversion_error(
                    "containsIP",
                    format!("IP Address {written:?} parse error during conversion from string"),
                )
            })?;
            Ok(truth(own::<Network>(&args, 0)?.holds(other)))
        },
    )?;
    member(
        env,
        "containsIP",
        "cidr_contains_ip_ip",
        vec![IP.to_owned()],
        |args| {
            Ok(truth(
                own::<Network>(&args, 0)?.holds(own::<Address>(&args, 1)?.0),
            ))
        },
    )?;
    fn within(own: &Network, other: &Network) -> bool {
        own.length <= other.length && own.holds(other.address)
    }
    member(
        env,
        "containsCIDR",
        "cidr_contains_cidr_string",
        vec![STRING_TYPE],
        |args| Ok(truth(within(own(&args, 0)?, &network(text(&args, 1)?)?))),
    )?;
    member(
        env,
        "containsCIDR",
        "cidr_contains_cidr",
        vec![CIDR.to_owned()],
        |args| Ok(truth(within(own(&args, 0)?, own(&args, 1)?))),
    )?;
    member(env, "ip", "cidr_ip", vec![], |args| {
        Ok(CowVal::owned(Address(own::<Network>(&args, 0)?.address)))
    })?;
    member(env, "masked", "cidr_masked", vec![], |args| {
        Ok(CowVal::owned(own::<Network>(&args, 0)?.masked()))
    })?;
    member(env, "prefixLength", "cidr_prefix_length", vec![], |args| {
        Ok(integer(own::<Network>(&args, 0)?.length.into()))
    })
}

fn urls(env: &mut Env) -> Result<(), DeclarationError> {
    env.add_overload("isURL", "is_url_string", vec![STRING_TYPE], |args| {
        Ok(truth(Url::parse(text(&args, 0)?).is_some()))
    })?;
    env.add_overload("url", "string_to_url", vec![STRING_TYPE], |args| {
        let written = text(&args, 0)?;
        let found = Url::parse(written).ok_or_else(|| {
            conversion_error("url", format!("URL parse error during conversion from string: parse {written:?}: invalid URI for request"))
        })?;
        Ok(CowVal::owned(found))
    })?;
    let member = |env: &mut Env, name: &str, op| {
        env.add_member_overload(name, &format!("url_{name}"), URL.to_owned(), vec![], op)
    };
    member(env, "getScheme", |args| {
        Ok(string(own::<Url>(&args, 0)?.scheme.clone()))
    })?;
    member(env, "getHost", |args| {
        Ok(string(own::<Url>(&args, 0)?.host.clone()))
    })?;
    member(env, "getHostname", |args| {
        let (host, _) = own::<Url>(&args, 0)?.host_and_port();
        Ok(string(
            host.trim_start_matches('[')
                .trim_end_matches(']')
                .to_owned(),
        ))
    })?;
    member(env, "getPort", |args| {
        Ok(string(own::<Url>(&args, 0)?.host_and_port().1.to_owned()))
    })?;
    member(env, "getEscapedPath", |args| {
        Ok(string(own::<Url>(&args, 0)?.path.clone()))
    })?;
    member(env, "getQuery", |args| {
        let mut found: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for pair in own::<Url>(&args, 0)?
            .query
            .split('&')
            .filter(|pair| !pair.is_empty())
        {
            let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
            found
                .entry(key.to_owned())
                .or_default()
                .push(value.to_owned());
        }
        let entries = found.into_iter().map(|(key, values)| {
            let values: Vec<Box<dyn Val>> = values
                .into_iter()
                .map(|value| Box::new(CelString::from(value)) as Box<dyn Val>)
                .collect();
            (key.into(), Box::new(CelList::from(values)) as Box<dyn Val>)
        });
        Ok(CowVal::owned(CelMap::from(
            entries.collect::<HashMap<_, _>>(),
        )))
    })
}
