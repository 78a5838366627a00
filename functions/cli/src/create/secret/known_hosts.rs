//! Keys of SSH servers, from a file or from the server.
//!
//! A server sends its key in the first messages, which are not yet encrypted (RFC 4253): versions,
//! then the algorithms of both sides, then the key exchange, whose reply begins with the key.
//! Nothing has to be computed: the client closes the connection there. As with `ssh-keyscan`, the
//! key is not authenticated.

use super::key::{number, take, write};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use p256::elliptic_curve::sec1::ToEncodedPoint as _;
use std::io::{self, BufRead as _, BufReader, Read, Write as _};
use std::net::{SocketAddr, TcpStream, ToSocketAddrs as _};
use std::time::Duration;

/// The timeout of each read, write and connect.
const TIMEOUT: Duration = Duration::from_secs(30);
/// The default port of SSH.
const PORT: u16 = 22;
/// The maximum size of a packet, in bytes.
const MAX_PACKET: u32 = 256 * 1024;
/// The maximum number of lines before the version, and of messages before the expected one.
const MAX_MESSAGES: usize = 64;

const DISCONNECT: u8 = 1;
const KEXINIT: u8 = 20;
const EXCHANGE: u8 = 30;
const ANSWER: u8 = 31;

/// Key exchanges that begin with a public value of the client.
const EXCHANGES: &str = "curve25519-sha256,curve25519-sha256@libssh.org,ecdh-sha2-nistp256,ecdh-sha2-nistp384,ecdh-sha2-nistp521,\
                         diffie-hellman-group14-sha256,diffie-hellman-group16-sha512,diffie-hellman-group14-sha1";
/// The host key algorithms in the order of Flux.
const KEYS: &str = "ecdsa-sha2-nistp256,ecdsa-sha2-nistp384,ecdsa-sha2-nistp521,rsa-sha2-256,rsa-sha2-512,ssh-rsa,ssh-ed25519";
const CIPHERS: &str = "aes128-gcm@openssh.com,aes256-gcm@openssh.com,chacha20-poly1305@openssh.com,aes128-ctr,aes192-ctr,aes256-ctr";
const MACS: &str = "hmac-sha2-256-etm@openssh.com,hmac-sha2-512-etm@openssh.com,hmac-sha2-256,hmac-sha2-512,hmac-sha1";

/// The reason that lines of `known_hosts` are not valid for a host.
#[derive(Debug, thiserror::Error)]
pub enum InvalidKnownHosts {
    /// A line has another form.
    #[error("line {0}: expected HOSTS TYPE KEY")]
    Line(usize),
    /// The key of a line is not of its type.
    #[error("line {line}: the key is not a valid {key_type} key")]
    Key {
        /// The number of the line, from one.
        line: usize,
        /// The type in the line.
        key_type: String,
    },
    /// No line is for the host.
    #[error("the file has no key for {0}")]
    NoKey(String),
}

/// The reason that a server gives no key.
#[derive(Debug, thiserror::Error)]
pub enum ScanError {
    /// The name of the host has no address.
    #[error("the host name has no address")]
    NoAddress,
    /// The server cannot be reached at its last address.
    #[error("{0}: {1}")]
    Unreachable(SocketAddr, io::Error),
    /// The name cannot be resolved, or the connection broke.
    #[error("{0}")]
    Io(#[from] io::Error),
    /// The system gives no random bytes.
    #[error("{0}")]
    Random(#[from] getrandom::Error),
    /// The server has another protocol.
    #[error("the server does not speak SSH 2")]
    NotSsh,
    /// The server and this client have no key exchange in common.
    #[error("the server offers other key exchanges: {0}")]
    OtherExchanges(String),
    /// The server closed the connection without a reason.
    #[error("the server closed the connection")]
    Closed,
    /// The server closed the connection.
    #[error("the server closed the connection: {0}")]
    Disconnected(String),
    /// A packet has a length that is not valid.
    #[error("the server sent an invalid packet")]
    Packet,
    /// A message came too early.
    #[error("the server sent a message out of order")]
    OutOfOrder,
    /// The expected message did not come.
    #[error("the server did not send its key")]
    NoKey,
    /// The key has another form.
    #[error("the server's key cannot be parsed")]
    Key,
}

type Result<T> = std::result::Result<T, ScanError>;

/// Splits `HOST[:PORT]`.
fn parts(host: &str) -> (&str, u16) {
    let port = host.rsplit_once(':');
    let port = port.and_then(|(name, port)| Some((name, port.parse().ok()?)));
    let (name, port) = match port {
        Some((name, _)) if name.contains(':') && !name.ends_with(']') => (host, PORT),
        Some(found) => found,
        None => (host.trim_end_matches(':'), PORT),
    };
    let bare = name
        .strip_prefix('[')
        .and_then(|name| name.strip_suffix(']'));
    (bare.unwrap_or(name), port)
}

/// Returns the name of a host in `known_hosts`.
fn entry_name(host: &str) -> String {
    match parts(host) {
        (name, PORT) => name.to_owned(),
        (name, port) => format!("[{name}]:{port}"),
    }
}

/// Checks that a string has valid lines of `known_hosts`, one of them for this host. Hashed names
/// and patterns count as this host's.
///
/// # Errors
/// A line is not valid (names the first one), or the host has no key.
pub fn check(text: &str, host: &str) -> std::result::Result<(), InvalidKnownHosts> {
    let wanted = entry_name(host);
    let mut found = false;
    for (index, line) in text.lines().enumerate() {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let mut words = line.split_whitespace();
        if line.starts_with('@') {
            words.next();
        }
        let (names, key_type, key) = (words.next(), words.next(), words.next());
        let key = key.and_then(|key| STANDARD.decode(key).ok());
        let type_of_key = key.as_deref().and_then(|mut key| take(&mut key));
        let (Some(names), Some(key_type)) = (names, key_type) else {
            return Err(InvalidKnownHosts::Line(index + 1));
        };
        if type_of_key != Some(key_type.as_bytes()) {
            return Err(InvalidKnownHosts::Key {
                line: index + 1,
                key_type: key_type.to_owned(),
            });
        }
        let fits =
            |name: &str| name == wanted || name.starts_with('|') || name.contains(['*', '?']);
        found |= names.split(',').any(fits);
    }
    match found {
        true => Ok(()),
        false => Err(InvalidKnownHosts::NoKey(wanted)),
    }
}

/// Returns a line of `known_hosts` with the key that the server sends.
///
/// # Errors
/// Fails if the server cannot be reached, or does not follow the SSH protocol.
pub fn scan(host: &str) -> Result<String> {
    let (name, port) = parts(host);
    let addresses = (name, port).to_socket_addrs();
    let mut failed = ScanError::NoAddress;
    for address in addresses? {
        match TcpStream::connect_timeout(&address, TIMEOUT) {
            Ok(stream) => return exchange(stream).map(|key| format!("{} {key}", entry_name(host))),
            Err(error) => failed = ScanError::Unreachable(address, error),
        }
    }
    Err(failed)
}

/// Exchanges the first messages with a server. Returns the type and the key that it sends.
fn exchange(stream: TcpStream) -> Result<String> {
    stream.set_read_timeout(Some(TIMEOUT))?;
    stream.set_write_timeout(Some(TIMEOUT))?;
    let mut out = stream.try_clone()?;
    let mut input = BufReader::new(stream);
    out.write_all(b"SSH-2.0-driftless\r\n")?;
    version(&mut input)?;
    let mut random = [0; 256];
    getrandom::fill(&mut random)?;
    out.write_all(&packet(&offer(&random[..16])))?;
    let offered = answer(&mut input, KEXINIT)?;
    let chosen = choose(&offered)?;
    let public = match chosen {
        // No secret is computed, so any point of the curve works.
        "ecdh-sha2-nistp256" => p256::AffinePoint::GENERATOR
            .to_encoded_point(false)
            .as_bytes()
            .to_vec(),
        "ecdh-sha2-nistp384" => p384::AffinePoint::GENERATOR
            .to_encoded_point(false)
            .as_bytes()
            .to_vec(),
        "ecdh-sha2-nistp521" => p521::AffinePoint::GENERATOR
            .to_encoded_point(false)
            .as_bytes()
            .to_vec(),
        _ if chosen.starts_with("curve25519") => random[..32].to_vec(),
        // A number far below the prime of every group.
        _ => number(&random[1..]),
    };
    let begin = [&[EXCHANGE], write(&[&public]).as_slice()].concat();
    out.write_all(&packet(&begin))?;
    let reply = answer(&mut input, ANSWER)?;
    let invalid = || ScanError::Key;
    let blob = take(&mut reply.as_slice()).ok_or_else(invalid)?;
    let key_type = take(&mut &*blob).and_then(|key_type| std::str::from_utf8(key_type).ok());
    let key_type = key_type.filter(|key_type| KEYS.split(',').any(|known| known == *key_type));
    let key_type = key_type.ok_or_else(invalid)?;
    Ok(format!("{key_type} {}", STANDARD.encode(blob)))
}

/// Reads up to the line with the server's version.
fn version(input: &mut impl std::io::BufRead) -> Result<()> {
    for _ in 0..MAX_MESSAGES {
        let mut line = Vec::new();
        let mut limited = input.take(1024);
        let count = limited.read_until(b'\n', &mut line);
        if count? == 0 {
            break;
        }
        if line.starts_with(b"SSH-2.0-") || line.starts_with(b"SSH-1.99-") {
            return Ok(());
        }
    }
    Err(ScanError::NotSsh)
}

/// Returns the client's KEXINIT message.
fn offer(cookie: &[u8]) -> Vec<u8> {
    let lists = [
        EXCHANGES, KEYS, CIPHERS, CIPHERS, MACS, MACS, "none", "none", "", "",
    ];
    let lists = write(&lists.map(str::as_bytes));
    // No guessed packet of the exchange follows.
    [&[KEXINIT], cookie, &lists, &[0; 5]].concat()
}

/// Returns the first of our key exchanges that the server also offers.
fn choose(offered: &[u8]) -> Result<&'static str> {
    let lists = offered.get(16..).and_then(|mut rest| take(&mut rest));
    let theirs = lists.and_then(|list| std::str::from_utf8(list).ok());
    let theirs: Vec<&str> = theirs.unwrap_or_default().split(',').collect();
    let chosen = EXCHANGES.split(',').find(|ours| theirs.contains(ours));
    chosen.ok_or_else(|| ScanError::OtherExchanges(theirs.join(",")))
}

/// Returns an unencrypted packet.
fn packet(payload: &[u8]) -> Vec<u8> {
    // The size of a packet is a multiple of eight, with at least four bytes of padding.
    let padding = 8 - (payload.len() + 5) % 8;
    let padding = if padding < 4 { padding + 8 } else { padding };
    let length = u32::try_from(payload.len() + padding + 1).unwrap_or(u32::MAX);
    let mut out = length.to_be_bytes().to_vec();
    out.push(u8::try_from(padding).unwrap_or(u8::MAX));
    out.extend_from_slice(payload);
    out.resize(out.len() + padding, 0);
    out
}

/// Reads the body of the next message of a kind; ignorable messages are skipped.
fn answer(input: &mut impl Read, wanted: u8) -> Result<Vec<u8>> {
    for _ in 0..MAX_MESSAGES {
        let mut head = [0; 5];
        let closed = |error: io::Error| match error.kind() {
            io::ErrorKind::UnexpectedEof => ScanError::Closed,
            _ => error.into(),
        };
        input.read_exact(&mut head).map_err(closed)?;
        let [a, b, c, d, padding] = head;
        let length = u32::from_be_bytes([a, b, c, d]);
        let padding = usize::from(padding);
        if !(2..=MAX_PACKET).contains(&length) {
            return Err(ScanError::Packet);
        }
        let mut body = vec![0; usize::try_from(length - 1).unwrap_or_default()];
        input.read_exact(&mut body).map_err(closed)?;
        body.truncate(body.len().saturating_sub(padding));
        match body.split_first() {
            Some((kind, rest)) if *kind == wanted => return Ok(rest.to_vec()),
            Some((&DISCONNECT, rest)) => {
                let reason = rest.get(4..).and_then(|mut rest| take(&mut rest));
                let reason = String::from_utf8_lossy(reason.unwrap_or_default()).into_owned();
                return Err(ScanError::Disconnected(reason));
            }
            // SSH_MSG_IGNORE, SSH_MSG_UNIMPLEMENTED and SSH_MSG_DEBUG.
            Some((2..=4, _)) => {}
            _ => return Err(ScanError::OutOfOrder),
        }
    }
    Err(ScanError::NoKey)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    #[test]
    fn hosts_have_their_names_of_known_hosts() {
        for (host, want) in [
            ("github.com", "github.com"),
            ("github.com:22", "github.com"),
            ("git.example.com:2222", "[git.example.com]:2222"),
            ("[::1]", "::1"),
            ("[::1]:2222", "[::1]:2222"),
        ] {
            assert_eq!(entry_name(host), want, "{host}");
        }
    }

    #[test]
    fn files_are_checked_line_by_line() {
        let key = STANDARD.encode(write(&[b"ssh-ed25519", &[7; 32]]));
        let line = |names: &str| format!("# a comment\n\n{names} ssh-ed25519 {key} note\n");
        for names in [
            "git.test,10.0.0.1",
            "|1|c2FsdA==|aGFzaA==",
            "*.test",
            "@cert-authority git.test",
        ] {
            check(&line(names), "git.test").unwrap();
        }
        for (text, word) in [
            (line("other.test"), "the file has no key for git.test"),
            (line("[git.test]:2222"), "the file has no key for git.test"),
            (
                "git.test ssh-rsa\n".to_owned(),
                "line 1: the key is not a valid ssh-rsa key",
            ),
            (
                format!("git.test ssh-rsa {key}\n"),
                "line 1: the key is not a valid ssh-rsa key",
            ),
            ("\nhello\n".to_owned(), "line 2: expected HOSTS TYPE KEY"),
        ] {
            let error = check(&text, "git.test").unwrap_err();
            assert!(error.to_string().contains(word), "{error}");
        }
    }

    /// Starts a server that sends these messages; returns its address.
    fn server(answers: Vec<Vec<u8>>) -> String {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            for answer in answers {
                stream.write_all(&answer).unwrap();
            }
            // Wait until the client closes the connection.
            let _ = std::io::copy(&mut stream, &mut std::io::sink());
        });
        address.to_string()
    }

    fn kexinit(exchanges: &str) -> Vec<u8> {
        let mut lists = [""; 10];
        lists[0] = exchanges;
        let lists = write(&lists.map(str::as_bytes));
        packet(&[&[KEXINIT], [0; 16].as_slice(), &lists, &[0; 5]].concat())
    }

    #[test]
    fn the_key_of_a_server_is_scanned() {
        let key = write(&[b"ssh-ed25519", &[7; 32]]);
        let reply = packet(&[&[ANSWER], write(&[&key, b"rest"]).as_slice()].concat());
        let answers = vec![
            b"welcome\r\nSSH-2.0-test\r\n".to_vec(),
            packet(&[2, 0, 0, 0, 0]),
            kexinit("other,diffie-hellman-group14-sha256"),
            reply,
        ];
        let host = server(answers);
        let (name, port) = host.split_once(':').unwrap();
        let want = format!("[{name}]:{port} ssh-ed25519 {}", STANDARD.encode(&key));
        assert_eq!(scan(&host).unwrap(), want);
    }

    #[test]
    fn a_server_that_breaks_the_protocol_is_an_error() {
        let version = b"SSH-2.0-test\r\n".to_vec();
        let gone = packet(&[&[DISCONNECT, 0, 0, 0, 2], write(&[b"too many"]).as_slice()].concat());
        for (answers, word) in [
            (
                vec![b"HTTP/1.1 400 Bad Request\r\n".repeat(MAX_MESSAGES)],
                "does not speak SSH 2",
            ),
            (
                vec![version.clone(), kexinit("other")],
                "offers other key exchanges: other",
            ),
            (
                vec![version.clone(), gone],
                "closed the connection: too many",
            ),
            (
                vec![version.clone(), packet(&[50])],
                "a message out of order",
            ),
            (vec![version, vec![255; 16]], "an invalid packet"),
        ] {
            let error = scan(&server(answers)).unwrap_err();
            assert!(error.to_string().contains(word), "{error}");
        }
        // Nothing listens on this port.
        let free = TcpListener::bind("127.0.0.1:0")
            .unwrap()
            .local_addr()
            .unwrap();
        scan(&free.to_string()).unwrap_err();
    }
}
