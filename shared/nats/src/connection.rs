//! The connection to the servers, and the streams.

use crate::error::unavailable;
use async_nats::connection::State;
use async_nats::jetstream::consumer::pull;
use async_nats::jetstream::consumer::{AckPolicy, PullConsumer};
use async_nats::jetstream::stream::{self, RetentionPolicy, StorageType, Stream};
use async_nats::jetstream::{self, Context};
use async_nats::{Client, ConnectOptions, Event, ServerAddr};
use driftless_kernel::ports::Result;
use percent_encoding::percent_decode_str;
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::Instant;

/// The time within which a message that the server delivered must be acknowledged, or marked as in
/// progress. Then the server delivers it to another worker.
pub(crate) const ACK_WAIT: Duration = Duration::from_secs(30);
/// The time within which the server recognizes a second message with the same id.
const DUPLICATES: Duration = Duration::from_secs(600);
/// The time for which messages that failed are kept: that of the dead-letter queue on AWS.
const DEAD: Duration = Duration::from_secs(14 * 24 * 3600);
/// The most messages that all workers have at the same time.
const MAX_ACK_PENDING: i64 = 65_536;
/// The time for an answer of the server.
const TIMEOUT: Duration = Duration::from_secs(10);
/// The time for which a request waits for a connection, and the interval of its checks.
const CONNECT_WAIT: Duration = Duration::from_secs(5);
const CONNECT_POLL: Duration = Duration::from_millis(50);
/// The longest pause before another try to connect: shorter than the wait of a request.
const RECONNECT: Duration = Duration::from_secs(1);
/// The interval of pings, which find that a server no longer answers.
const PING: Duration = Duration::from_secs(10);

/// The servers, the login and the names of an installation.
#[derive(Clone)]
pub struct NatsOptions {
    /// The addresses of the servers of one cluster: `nats://HOST:4222`, or `tls://HOST:4222`, with
    /// `USER:PASSWORD@` or `TOKEN@` before the host of one of them if there is such a login.
    pub servers: Vec<String>,
    /// The file with the login (a JWT and a seed, as `nsc` writes it).
    pub credentials: Option<PathBuf>,
    /// The file with the servers' certificate authorities, instead of those of the system.
    pub certificate_authority: Option<PathBuf>,
    /// The prefix of the names of streams and subjects: letters, digits, `-` and `_`.
    pub prefix: String,
    /// The number of servers that store each message, for streams that are created.
    pub replicas: usize,
}

/// Without the logins of the addresses.
impl fmt::Debug for NatsOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let servers = self.servers.iter().map(|server| without_login(server));
        f.debug_struct("NatsOptions")
            .field("servers", &servers.collect::<Vec<_>>())
            .field("credentials", &self.credentials)
            .field("certificate_authority", &self.certificate_authority)
            .field("prefix", &self.prefix)
            .field("replicas", &self.replicas)
            .finish()
    }
}

/// The reason why the connection failed.
#[derive(Debug)]
pub struct ConnectError {
    message: String,
    /// The next action of the operator.
    pub next: &'static str,
}

impl fmt::Display for ConnectError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for ConnectError {}

/// A connection to the servers of an installation. It reconnects by itself.
#[derive(Clone)]
pub struct Nats {
    pub(crate) client: Client,
    pub(crate) context: Context,
    pub(crate) prefix: String,
    pub(crate) blobs: Stream<()>,
    pub(crate) chunks: Stream<()>,
    pub(crate) queue: Stream<()>,
    /// The number of times that the connection was lost.
    pub(crate) losses: watch::Receiver<u64>,
}

/// Connects to the servers, and creates the streams that are missing.
///
/// # Errors
/// No server answers or accepts the login, or one lacks JetStream or is too old.
pub async fn connect(options: &NatsOptions) -> std::result::Result<Nats, ConnectError> {
    let (lost, losses) = watch::channel(0_u64);
    let mut settings = ConnectOptions::new()
        .name("driftless")
        .ping_interval(PING)
        .request_timeout(Some(TIMEOUT))
        .reconnect_delay_callback(reconnect_delay)
        .event_callback(move |event| {
            let lost = lost.clone();
            async move {
                match event {
                    Event::Connected => tracing::info!("connected to NATS"),
                    Event::Disconnected => {
                        tracing::warn!("the connection to NATS is lost; connecting again");
                        lost.send_modify(|count| *count += 1);
                    }
                    event => tracing::warn!("NATS: {event}"),
                }
            }
        });
    settings = match options.servers.iter().find_map(|server| login(server)) {
        Some((user, Some(password))) => settings.user_and_password(user, password),
        Some((token, None)) => settings.token(token),
        None => settings,
    };
    if let Some(file) = &options.credentials {
        settings = settings
            .credentials_file(file)
            .await
            .map_err(|error| ConnectError {
                message: format!("read the login in {}: {error}", file.display()),
                next: "give a file that `nsc generate creds` wrote",
            })?;
    }
    if let Some(file) = &options.certificate_authority {
        settings = settings.add_root_certificates(file.clone());
    }
    let client = settings.connect(&options.servers).await;
    let client = client.map_err(|error| ConnectError {
        message: format!("connect to NATS: {error}"),
        next: "check the addresses and the login, and that a server runs there",
    })?;
    if !client.is_server_compatible(2, 12, 0) {
        let version = client.server_info().version;
        return Err(ConnectError {
            message: format!("the server of NATS has version {version}"),
            next: "update it to 2.12 or newer, which has message schedules",
        });
    }
    let mut context = jetstream::new(client.clone());
    context.set_timeout(TIMEOUT);
    let streams = Streams {
        context: &context,
        prefix: &options.prefix,
        replicas: options.replicas,
    };
    let blobs = streams.blobs().await?;
    let chunks = streams.chunks().await?;
    let queue = streams.queue().await?;
    streams.dead().await?;
    Ok(Nats {
        blobs,
        chunks,
        queue,
        prefix: options.prefix.clone(),
        client,
        context,
        losses,
    })
}

/// Returns the pause before a try to connect again, which doubles from 1 ms on. The first one has
/// none.
fn reconnect_delay(attempts: usize) -> Duration {
    let exponent = u32::try_from(attempts.saturating_sub(2)).unwrap_or(u32::MAX);
    let delay = Duration::from_millis(2_u64.saturating_pow(exponent));
    match attempts {
        0 | 1 => Duration::ZERO,
        _ => delay.min(RECONNECT),
    }
}

/// Returns the address of a server without its login: a password may have any character, also the
/// one that ends it.
pub fn without_login(server: &str) -> String {
    let Some((login, host)) = server.rsplit_once('@') else {
        return server.to_owned();
    };
    match ["nats://", "tls://"]
        .into_iter()
        .find(|scheme| login.starts_with(scheme))
    {
        Some(scheme) => format!("{scheme}{host}"),
        None => host.to_owned(),
    }
}

/// Returns the user and the password of an address, or its token without a password. The client
/// itself ignores them.
fn login(server: &str) -> Option<(String, Option<String>)> {
    let address = server.parse::<ServerAddr>().ok()?;
    let decode = |text: &str| percent_decode_str(text).decode_utf8_lossy().into_owned();
    let user = decode(address.username()?);
    Some((user, address.password().map(decode)))
}

impl Nats {
    /// Returns whether a server is connected now.
    pub fn is_connected(&self) -> bool {
        self.client.connection_state() == State::Connected
    }

    /// Waits until the server has what was sent, such as acknowledgements; for 3 s at most.
    pub async fn flush(&self) {
        let flushed = tokio::time::timeout(Duration::from_secs(3), self.client.flush()).await;
        if !matches!(flushed, Ok(Ok(()))) {
            tracing::warn!(
                "the last acknowledgements may be lost: their messages are delivered again"
            );
        }
    }

    /// Waits until a server is connected, for a few seconds: a server that is restarted, or another
    /// one of the cluster, is soon there. The client itself would keep a request until then without
    /// a limit, and send it when its caller no longer waits.
    pub(crate) async fn ready(&self, operation: &str) -> Result<()> {
        let start = Instant::now();
        while !self.is_connected() {
            if start.elapsed() >= CONNECT_WAIT {
                return Err(unavailable(operation, "no server of NATS is connected"));
            }
            tokio::time::sleep(CONNECT_POLL).await;
        }
        Ok(())
    }

    /// Returns the receiving end of a queue, and creates it if it does not exist.
    pub(crate) async fn consumer(&self, queue: &str) -> Result<PullConsumer> {
        let config = pull::Config {
            durable_name: Some(queue.to_owned()),
            filter_subject: format!("{}.queue.{queue}", self.prefix),
            ack_policy: AckPolicy::Explicit,
            ack_wait: ACK_WAIT,
            max_ack_pending: MAX_ACK_PENDING,
            ..pull::Config::default()
        };
        let operation = format!("receive from the queue {queue}");
        self.ready(&operation).await?;
        let found = self.queue.get_or_create_consumer(queue, config).await;
        found.map_err(|error| unavailable(&operation, error))
    }
}

/// The streams of an installation.
struct Streams<'a> {
    context: &'a Context,
    prefix: &'a str,
    replicas: usize,
}

impl Streams<'_> {
    /// The newest version of each blob. Reads go to the stream's leader, so that a worker sees what
    /// another one has written.
    async fn blobs(&self) -> std::result::Result<Stream<()>, ConnectError> {
        let subjects = ["blobs", "aside"].map(|part| format!("{}.{part}.>", self.prefix));
        self.create(stream::Config {
            subjects: subjects.to_vec(),
            max_messages_per_subject: 1,
            allow_message_ttl: true,
            ..self.config("blobs")
        })
        .await
    }

    /// The parts of large blobs, which never change: every replica may answer.
    async fn chunks(&self) -> std::result::Result<Stream<()>, ConnectError> {
        self.create(stream::Config {
            subjects: vec![format!("{}.chunks.>", self.prefix)],
            allow_message_ttl: true,
            allow_direct: true,
            ..self.config("chunks")
        })
        .await
    }

    /// The messages. One that is acknowledged is deleted.
    async fn queue(&self) -> std::result::Result<Stream<()>, ConnectError> {
        self.create(stream::Config {
            subjects: vec![format!("{}.queue.>", self.prefix)],
            retention: RetentionPolicy::WorkQueue,
            duplicate_window: DUPLICATES,
            allow_message_schedules: true,
            allow_message_ttl: true,
            allow_rollup: true,
            ..self.config("queue")
        })
        .await
    }

    /// The messages that failed.
    async fn dead(&self) -> std::result::Result<Stream<()>, ConnectError> {
        self.create(stream::Config {
            subjects: vec![format!("{}.dead.>", self.prefix)],
            max_age: DEAD,
            duplicate_window: DUPLICATES,
            allow_direct: true,
            ..self.config("dead")
        })
        .await
    }

    fn config(&self, name: &str) -> stream::Config {
        stream::Config {
            name: format!("{}-{name}", self.prefix),
            storage: StorageType::File,
            num_replicas: self.replicas,
            ..stream::Config::default()
        }
    }

    /// Creates a stream, unless there is one of its name: its settings are the operator's.
    async fn create(
        &self,
        config: stream::Config,
    ) -> std::result::Result<Stream<()>, ConnectError> {
        let name = config.name.clone();
        let failed = |error: String| ConnectError {
            message: format!("create the stream {name}: {error}"),
            next: "start the server with JetStream (`nats-server -js`), and allow this login to use it",
        };
        let created = self.context.get_or_create_stream(config).await;
        created.map_err(|error| failed(error.to_string()))?;
        let stream = self.context.get_stream_no_info(&name).await;
        stream.map_err(|error| failed(error.to_string()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_may_have_a_login() {
        let pair = |user: &str, password: Option<&str>| {
            Some((user.to_owned(), password.map(str::to_owned)))
        };
        assert_eq!(login("nats://127.0.0.1:4222"), None);
        assert_eq!(login("tls://me:a%40b@nats:4222"), pair("me", Some("a@b")));
        assert_eq!(login("nats://a-token@nats"), pair("a-token", None));
        let strange = login("nats://me:a@b@nats:4222");
        assert_eq!(strange, pair("me", Some("a@b")));
    }

    #[test]
    fn a_lost_server_is_tried_again_within_the_wait_of_a_request() {
        let delays = [0, 1, 2, 3, 11, 12, usize::MAX].map(reconnect_delay);
        let milliseconds = [0, 0, 1, 2, 512, 1000, 1000].map(Duration::from_millis);
        assert_eq!(delays, milliseconds);
    }

    #[test]
    fn a_login_is_not_shown() {
        let servers = [
            ("nats://nats:4222", "nats://nats:4222"),
            ("tls://me:hidden@nats:4222", "tls://nats:4222"),
            ("nats://me:a@hidden@nats", "nats://nats"),
            ("nats://hidden@nats", "nats://nats"),
            ("me:hidden@nats:4222", "nats:4222"),
            ("me:hidden://hidden@nats", "nats"),
        ];
        for (server, shown) in servers {
            assert_eq!(without_login(server), shown);
        }
        let options = NatsOptions {
            servers: servers.map(|(server, _)| server.to_owned()).to_vec(),
            credentials: None,
            certificate_authority: None,
            prefix: "driftless".to_owned(),
            replicas: 1,
        };
        let text = format!("{options:?}");
        assert!(text.contains("tls://nats:4222"), "{text}");
        assert!(!text.contains("hidden"), "{text}");
    }
}
