//! Connects through a SOCKS 5 proxy (RFC 1928), with a user and password (RFC 1929), for SSH: the
//! proxy resolves the name of the server, as with Go's client.

use crate::percent::decode;
use crate::resolver;
use driftless_kernel::address;
use driftless_kernel::ports::{ErrorKind, PortError, Result, Secret};
use reqwest::Url;
use std::io;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

const VERSION: u8 = 5;
const NO_LOGIN: u8 = 0;
const PASSWORD: u8 = 2;

/// Connects to a host and port through the proxy at this URL.
///
/// # Errors
/// Fails for a proxy of another kind, one that may not be reached, and if the proxy refuses.
pub async fn connect(proxy: &Secret, local: bool, host: &str, port: u16) -> Result<TcpStream> {
    let invalid =
        |reason: &str| PortError::new(ErrorKind::Invalid, format!("the proxy's address {reason}"));
    let url = proxy.expose_str().and_then(|url| Url::parse(url).ok());
    let url = url.ok_or_else(|| invalid("cannot be used"))?;
    if !matches!(url.scheme(), "socks5" | "socks5h") {
        let message = format!(
            "a proxy of the scheme '{}' is not supported over SSH: use socks5://HOST:PORT",
            url.scheme()
        );
        return Err(PortError::new(ErrorKind::Invalid, message));
    }
    let name = url.host_str().unwrap_or_default();
    let name = name.trim_matches(['[', ']']);
    if name.is_empty() || (!local && address::is_local_host(name)) {
        return Err(invalid(
            "is loopback or link-local, and leads back into this installation",
        ));
    }
    let login = (!url.username().is_empty()).then(|| {
        let password = Secret::new(decode(url.password().unwrap_or_default()));
        (decode(url.username()), password)
    });
    let unreachable =
        |error: io::Error| PortError::new(ErrorKind::Unavailable, format!("the proxy: {error}"));
    let mut found = resolver::addresses(name, local)
        .await
        .map_err(unreachable)?;
    let at = url.port().unwrap_or(1080);
    found.iter_mut().for_each(|place| place.set_port(at));
    let stream = TcpStream::connect(found.as_slice()).await;
    let mut stream = stream.map_err(unreachable)?;
    let done = negotiate(&mut stream, login, host, port).await;
    done.map_err(unreachable)?;
    Ok(stream)
}

fn refused<T>(reason: &str) -> io::Result<T> {
    Err(io::Error::other(reason.to_owned()))
}

async fn negotiate(
    stream: &mut TcpStream,
    login: Option<(Vec<u8>, Secret)>,
    host: &str,
    port: u16,
) -> io::Result<()> {
    let method = match login {
        Some(_) => PASSWORD,
        None => NO_LOGIN,
    };
    stream.write_all(&[VERSION, 1, method]).await?;
    let mut answer = [0; 2];
    stream.read_exact(&mut answer).await?;
    if answer != [VERSION, method] {
        return refused("the server is not a SOCKS 5 proxy, or requires another login");
    }
    if let Some((user, password)) = login {
        let mut request = vec![1];
        for part in [user.as_slice(), password.expose()] {
            let Ok(length) = u8::try_from(part.len()) else {
                return refused("the user or password has more than 255 bytes");
            };
            request.push(length);
            request.extend_from_slice(part);
        }
        stream.write_all(&request).await?;
        stream.read_exact(&mut answer).await?;
        if answer[1] != 0 {
            return refused("login refused");
        }
    }
    let mut request = vec![VERSION, 1, 0];
    match host.parse::<std::net::IpAddr>() {
        Ok(std::net::IpAddr::V4(ip)) => {
            request.push(1);
            request.extend_from_slice(&ip.octets());
        }
        Ok(std::net::IpAddr::V6(ip)) => {
            request.push(4);
            request.extend_from_slice(&ip.octets());
        }
        Err(_) => {
            let Ok(length) = u8::try_from(host.len()) else {
                return refused("the name of the server has more than 255 bytes");
            };
            request.extend_from_slice(&[3, length]);
            request.extend_from_slice(host.as_bytes());
        }
    }
    request.extend_from_slice(&port.to_be_bytes());
    stream.write_all(&request).await?;
    let mut head = [0; 4];
    stream.read_exact(&mut head).await?;
    let reason = match head[1] {
        0 => "",
        2 => "connection not allowed",
        3 | 4 => "server not reached",
        5 => "connection refused by the server",
        _ => "no connection to the server",
    };
    if !reason.is_empty() {
        return refused(reason);
    }
    // The address from which the proxy connects.
    let length = match head[3] {
        1 => 4,
        4 => 16,
        3 => usize::from(stream.read_u8().await?),
        _ => return refused("invalid answer"),
    };
    let mut rest = vec![0; length + 2];
    stream.read_exact(&mut rest).await?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::net::TcpListener;

    /// Serves one connection as a SOCKS 5 proxy that echoes, and returns what it was asked.
    async fn proxy(login: bool, verdict: u8) -> (u16, tokio::task::JoinHandle<Vec<u8>>) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let served = tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut greeting = [0; 3];
            stream.read_exact(&mut greeting).await.unwrap();
            assert_eq!(greeting, [5, 1, if login { 2 } else { 0 }]);
            stream.write_all(&[5, greeting[2]]).await.unwrap();
            let mut asked = Vec::new();
            if login {
                let mut request = [0; 11];
                stream.read_exact(&mut request).await.unwrap();
                asked.extend(request);
                stream.write_all(&[1, 0]).await.unwrap();
            }
            let mut request = [0; 18];
            stream.read_exact(&mut request).await.unwrap();
            asked.extend(request);
            let answer = [&[5, verdict, 0, 1, 127, 0, 0, 1, 0, 22][..], b"hello"].concat();
            stream.write_all(&answer).await.unwrap();
            asked
        });
        (port, served)
    }

    #[tokio::test]
    async fn the_proxy_connects() {
        for (user, login) in [("", false), ("ann:pa%40ss@", true)] {
            let (port, served) = proxy(login, 0).await;
            let url = Secret::new(format!("socks5://{user}127.0.0.1:{port}"));
            let mut stream = connect(&url, true, "git.example", 22).await.unwrap();
            let mut bytes = [0; 5];
            stream.read_exact(&mut bytes).await.unwrap();
            assert_eq!(&bytes, b"hello");
            let request = b"\x05\x01\x00\x03\x0bgit.example\x00\x16";
            let expected = match login {
                true => [b"\x01\x03ann\x05pa@ss".as_slice(), request].concat(),
                false => request.to_vec(),
            };
            assert_eq!(served.await.unwrap(), expected);
        }
    }

    #[tokio::test]
    async fn proxies_that_are_refused_or_refuse() {
        let ask = async |url: String, local| {
            let refused = connect(&Secret::new(url), local, "git.example", 22).await;
            refused.unwrap_err().message
        };
        let message = ask("http://proxy.example:3128".to_owned(), true).await;
        assert!(message.contains("use socks5://HOST:PORT"), "{message}");
        let message = ask("socks5://127.0.0.1:1".to_owned(), false).await;
        assert!(
            message.contains("leads back into this installation"),
            "{message}"
        );
        let (port, _) = proxy(false, 2).await;
        let message = ask(format!("socks5://127.0.0.1:{port}"), true).await;
        assert!(message.contains("connection not allowed"), "{message}");
    }
}
