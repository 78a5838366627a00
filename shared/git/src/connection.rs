//! A connection to `git-upload-pack`: protocol version 2 (<https://git-scm.com/docs/protocol-v2>),
//! and versions 0 and 1 (<https://git-scm.com/docs/pack-protocol>) for servers without version 2.

use crate::error::{Error, Limit, Result, protocol, quoted};
use crate::limits::{Deadline, Limits};
use crate::packets::{Packet, Packets, push};
use crate::remote::Remote;
use crate::smart_http::SmartHttp;
use crate::ssh::Ssh;
use gix_hash::ObjectId;
use gix_packetline::{BandRef, PacketLineRef};

const AGENT: &str = concat!("agent=driftless/", env!("CARGO_PKG_VERSION"));

/// A reference of a repository: a branch, a tag or `HEAD`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reference {
    /// The full name, for example `refs/heads/main` or `HEAD`.
    pub name: String,
    /// The id of the object: a commit or an annotated tag.
    pub object: ObjectId,
    /// The id of the object that the annotated tag points to.
    pub peeled: Option<ObjectId>,
}

impl Reference {
    /// Returns the id of the commit; of another object if the reference points to one.
    pub fn target(&self) -> ObjectId {
        self.peeled.unwrap_or(self.object)
    }
}

/// The objects of a pack.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Scope {
    /// True without the earlier commits.
    pub shallow: bool,
    /// True without trees and files that were not named themselves. A server that does not filter
    /// sends them.
    pub bare: bool,
}

/// The filter for [`Scope::bare`].
const BARE: &str = "filter tree:0\n";

enum Transport {
    Http(Box<SmartHttp>),
    Ssh(Box<Ssh>),
}

pub(crate) struct Connection {
    transport: Transport,
    packets: Packets,
    advertisement: Advertisement,
    limits: Limits,
}

enum Advertisement {
    V2(Vec<String>),
    V0 {
        capabilities: Vec<String>,
        references: Vec<Reference>,
    },
}

impl Connection {
    pub async fn open(remote: &Remote, deadline: Deadline) -> Result<Self> {
        let (transport, mut packets) = match remote.url.is_ssh() {
            true => {
                let (ssh, packets) = Ssh::open(remote, deadline).await?;
                (Transport::Ssh(Box::new(ssh)), packets)
            }
            false => {
                let (http, packets) = SmartHttp::open(remote, deadline).await?;
                (Transport::Http(Box::new(http)), packets)
            }
        };
        let advertisement = match (advertisement(&mut packets).await, &transport) {
            (Err(error @ Error::Protocol(_)), Transport::Ssh(ssh)) => {
                return Err(ssh.failure().unwrap_or(error));
            }
            (advertisement, _) => advertisement?,
        };
        let (Advertisement::V2(capabilities) | Advertisement::V0 { capabilities, .. }) =
            &advertisement;
        let format = value(capabilities, "object-format");
        if format.is_some_and(|format| format != "sha1") {
            return protocol("the repository's hashes are not SHA-1, which is not supported");
        }
        Ok(Self {
            transport,
            packets,
            advertisement,
            limits: remote.limits.clone(),
        })
    }

    async fn command(&mut self, request: Vec<u8>, limit: Limit) -> Result<&mut Packets> {
        match &self.transport {
            Transport::Http(http) => self.packets = http.command(request, limit).await?,
            Transport::Ssh(ssh) => {
                self.packets.allow(limit);
                ssh.command(request).await?;
            }
        }
        Ok(&mut self.packets)
    }

    /// Lists the references whose names start with one of these prefixes.
    pub async fn references(&mut self, prefixes: &[&str]) -> Result<Vec<Reference>> {
        let wanted = |name: &str| prefixes.iter().any(|prefix| name.starts_with(prefix));
        let capabilities = match &self.advertisement {
            Advertisement::V0 { references, .. } => {
                let found = references.iter().filter(|found| wanted(&found.name));
                return Ok(found.cloned().collect());
            }
            Advertisement::V2(capabilities) => capabilities,
        };
        let mut request = command("ls-refs", capabilities);
        push(&mut request, "peel\n");
        for prefix in prefixes {
            push(&mut request, &format!("ref-prefix {prefix}\n"));
        }
        request.extend_from_slice(b"0000");
        let limit = Limit::References(self.limits.references);
        let packets = self.command(request, limit).await?;
        let mut found = Vec::new();
        loop {
            match packets.next().await? {
                Packet::Data(line) => found.extend(parse_reference(&line)?),
                Packet::Flush => break,
                _ => return protocol("the list of references is incomplete"),
            }
        }
        // A server may send references that were not requested.
        found.retain(|reference| wanted(&reference.name));
        Ok(found)
    }

    /// Returns whether the server sends parts of commits: single trees and files, by their ids.
    pub fn sends_parts(&self) -> bool {
        match &self.advertisement {
            Advertisement::V2(capabilities) => {
                features(capabilities, "fetch").any(|feature| feature == "filter")
            }
            // Version 0 does not accept the ids of trees and files without further permission.
            Advertisement::V0 { .. } => false,
        }
    }

    /// Fetches a pack with these objects and, within `scope`, the objects that they refer to.
    pub async fn pack(&mut self, wants: &[ObjectId], scope: Scope) -> Result<Vec<u8>> {
        let request = match &self.advertisement {
            Advertisement::V2(capabilities) => fetch_v2(capabilities, wants, scope),
            Advertisement::V0 { capabilities, .. } => fetch_v0(capabilities, wants, scope)?,
        };
        let is_v2 = matches!(self.advertisement, Advertisement::V2(_));
        let packed = self.limits.packed;
        let packets = self.command(request, Limit::Packed(packed)).await?;
        match is_v2 {
            true => packfile_v2(packets).await?,
            false => packfile_v0(packets).await?,
        }
        let mut pack = Vec::new();
        loop {
            let line = match packets.next().await? {
                Packet::Data(line) => line,
                Packet::Flush | Packet::ResponseEnd => return Ok(pack),
                Packet::End if pack.is_empty() => return protocol("the pack is missing"),
                _ => return protocol("the pack is incomplete"),
            };
            match PacketLineRef::Data(&line).decode_band() {
                Ok(BandRef::Data(bytes)) => pack.extend_from_slice(bytes),
                Ok(BandRef::Progress(_)) => {}
                Ok(BandRef::Error(message)) => return Err(Error::Refused(quoted(message))),
                Err(_) => return protocol("a packet of the pack has no side band"),
            }
        }
    }
}

async fn advertisement(packets: &mut Packets) -> Result<Advertisement> {
    let mut first = packets.next().await?;
    if matches!(&first, Packet::Data(line) if line.starts_with(b"# service=git-upload-pack")) {
        match packets.next().await? {
            Packet::Flush => first = packets.next().await?,
            _ => return protocol("the service is not followed by a flush"),
        }
    }
    if matches!(&first, Packet::Data(line) if line.trim_ascii() == b"version 1") {
        first = packets.next().await?;
    }
    if matches!(&first, Packet::Data(line) if line.trim_ascii() == b"version 2") {
        let mut capabilities = Vec::new();
        loop {
            match packets.next().await? {
                Packet::Data(line) => capabilities.push(text(&line)?.to_owned()),
                Packet::Flush => return Ok(Advertisement::V2(capabilities)),
                _ => return protocol("the list of capabilities is incomplete"),
            }
        }
    }
    let (mut capabilities, mut references) = (Vec::new(), Vec::<Reference>::new());
    loop {
        let line = match first {
            Packet::Data(line) => line,
            Packet::Flush => break,
            Packet::End => return protocol("the list of references is missing"),
            _ => return protocol("the list of references is incomplete"),
        };
        first = packets.next().await?;
        check_refusal(&line)?;
        let (line, given) = match line.iter().position(|byte| *byte == 0) {
            Some(at) => (&line[..at], &line[at + 1..]),
            None => (&line[..], &[][..]),
        };
        capabilities.extend(text(given)?.split(' ').map(str::to_owned));
        let Some((object, name)) = text(line)?.split_once(' ') else {
            return protocol(format!("'{}' is not a reference", quoted(line)));
        };
        if matches!(object, "shallow") || name == "capabilities^{}" {
            continue;
        }
        match name.strip_suffix("^{}") {
            None => references.push(Reference {
                name: name.to_owned(),
                object: id(object)?,
                peeled: None,
            }),
            Some(tag) => match references.last_mut() {
                Some(last) if last.name == tag => last.peeled = Some(id(object)?),
                _ => return protocol("a peeled tag does not follow its tag"),
            },
        }
    }
    Ok(Advertisement::V0 {
        capabilities,
        references,
    })
}

/// Parses a line of the answer to `ls-refs`.
fn parse_reference(line: &[u8]) -> Result<Option<Reference>> {
    check_refusal(line)?;
    let mut parts = text(line)?.split(' ');
    let (Some(object), Some(name)) = (parts.next(), parts.next()) else {
        return protocol(format!("'{}' is not a reference", quoted(line)));
    };
    if object == "unborn" {
        return Ok(None);
    }
    let mut peeled = None;
    for part in parts {
        if let Some(target) = part.strip_prefix("peeled:") {
            peeled = Some(id(target)?);
        }
    }
    Ok(Some(Reference {
        name: name.to_owned(),
        object: id(object)?,
        peeled,
    }))
}

/// Renders the start of a command, up to its arguments.
fn command(name: &str, capabilities: &[String]) -> Vec<u8> {
    let mut request = Vec::new();
    push(&mut request, &format!("command={name}\n"));
    if value(capabilities, "agent").is_some() {
        push(&mut request, &format!("{AGENT}\n"));
    }
    if value(capabilities, "object-format").is_some() {
        push(&mut request, "object-format=sha1\n");
    }
    request.extend_from_slice(b"0001");
    request
}

fn fetch_v2(capabilities: &[String], wants: &[ObjectId], scope: Scope) -> Vec<u8> {
    let mut request = command("fetch", capabilities);
    for want in wants {
        push(&mut request, &format!("want {want}\n"));
    }
    let has = |name: &str| features(capabilities, "fetch").any(|feature| feature == name);
    if scope.shallow && has("shallow") {
        push(&mut request, "deepen 1\n");
    }
    if scope.bare && has("filter") {
        push(&mut request, BARE);
    }
    for line in ["no-progress\n", "ofs-delta\n", "done\n"] {
        push(&mut request, line);
    }
    request.extend_from_slice(b"0000");
    request
}

fn fetch_v0(capabilities: &[String], wants: &[ObjectId], scope: Scope) -> Result<Vec<u8>> {
    let has = |name: &str| value(capabilities, name).is_some();
    if !has("side-band-64k") {
        return protocol("the capability side-band-64k is missing");
    }
    let known = ["side-band-64k", "ofs-delta", "no-progress"];
    let mut requested: Vec<&str> = known.into_iter().filter(|name| has(name)).collect();
    let is_filtered = scope.bare && has("filter");
    if is_filtered {
        requested.push("filter");
    }
    if has("agent") {
        requested.push(AGENT);
    }
    let requested = requested.join(" ");
    let mut request = Vec::new();
    for (index, want) in wants.iter().enumerate() {
        match index {
            0 => push(&mut request, &format!("want {want} {requested}\n")),
            _ => push(&mut request, &format!("want {want}\n")),
        }
    }
    if scope.shallow && has("shallow") {
        push(&mut request, "deepen 1\n");
    }
    if is_filtered {
        push(&mut request, BARE);
    }
    request.extend_from_slice(b"0000");
    push(&mut request, "done\n");
    Ok(request)
}

/// Reads the packets before the pack.
async fn packfile_v2(packets: &mut Packets) -> Result<()> {
    loop {
        match packets.next().await? {
            Packet::Data(line) if line.trim_ascii() == b"packfile" => return Ok(()),
            Packet::Data(line) => check_refusal(&line)?,
            Packet::Delimiter => {}
            _ => return protocol("the pack is missing"),
        }
    }
}

/// Reads the packets before the pack.
async fn packfile_v0(packets: &mut Packets) -> Result<()> {
    loop {
        match packets.next().await? {
            Packet::Data(line) if line.trim_ascii() == b"NAK" => return Ok(()),
            Packet::Data(line) if line.starts_with(b"shallow ") => {}
            Packet::Data(line) if line.starts_with(b"unshallow ") => {}
            Packet::Data(line) => {
                check_refusal(&line)?;
                return protocol(format!("unexpected line '{}'", quoted(&line)));
            }
            // A flush ends the list of shallow commits.
            Packet::Flush => {}
            _ => return protocol("the pack is missing"),
        }
    }
}

/// Returns the server's error message as an error, if the line is one.
fn check_refusal(line: &[u8]) -> Result<()> {
    match line.strip_prefix(b"ERR ") {
        Some(message) => Err(Error::Refused(quoted(message))),
        None => Ok(()),
    }
}

fn text(line: &[u8]) -> Result<&str> {
    let line = line.strip_suffix(b"\n").unwrap_or(line);
    let text = std::str::from_utf8(line);
    text.map_err(|_| Error::Protocol("a line is not UTF-8".to_owned()))
}

fn id(text: &str) -> Result<ObjectId> {
    let is_sha1 = text.len() == 40;
    match ObjectId::from_hex(text.as_bytes()) {
        Ok(id) if is_sha1 => Ok(id),
        _ => protocol(format!(
            "'{}' is not an object's id",
            quoted(text.as_bytes())
        )),
    }
}

/// Returns the value of a capability; an empty string if the capability has no value.
fn value<'a>(capabilities: &'a [String], name: &str) -> Option<&'a str> {
    capabilities
        .iter()
        .find_map(|capability| match capability.split_once('=') {
            Some((found, value)) => (found == name).then_some(value),
            None => (capability == name).then_some(""),
        })
}

/// Returns the features that the server announces for a command.
fn features<'a>(capabilities: &'a [String], name: &str) -> impl Iterator<Item = &'a str> {
    let features = value(capabilities, name).unwrap_or_default();
    features.split(' ')
}
