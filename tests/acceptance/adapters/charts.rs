//! Hosts of charts: a repository of files and an OCI registry on loopback, filled by the real Helm;
//! hostile hosts too.

use driftless_adapters::charts::HttpCharts;
use driftless_harness::charts::{self, Fault, Host, Validators};
use driftless_harness::proxy::Proxy;
use driftless_kernel::ports::{
    Charts, Connection, DownloadOutcome, ErrorKind, PortError, Secret, Validator,
};
use std::time::Duration;
use tempfile::TempDir;

const CHART: &str = "application/vnd.cncf.helm.chart.content.v1.tar+gzip";
const LIMIT: u64 = 1 << 20;

fn connection() -> Connection {
    Connection {
        allow_local: true,
        timeout: Duration::from_secs(20),
        ..Connection::default()
    }
}

fn login(user: &str, password: &str) -> Connection {
    Connection {
        login: Some((user.to_owned(), Secret::new(password.as_bytes().to_vec()))),
        ..connection()
    }
}

async fn get(
    charts: &HttpCharts,
    url: &str,
    connection: &Connection,
) -> Result<Vec<u8>, PortError> {
    match charts
        .get(url, connection, &Validator::default(), LIMIT)
        .await?
    {
        DownloadOutcome::Body { bytes, .. } => Ok(bytes.to_vec()),
        DownloadOutcome::Unchanged => panic!("unchanged, and nothing was known"),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unchanged_file_is_not_sent_again() {
    for kind in [Validators::Etag, Validators::LastModified] {
        let host = Host::start();
        host.put("/index.yaml", "one");
        host.set_validators(kind);
        let charts = HttpCharts::new();
        let url = format!("{}/index.yaml", host.url());
        let first = charts
            .get(&url, &connection(), &Validator::default(), LIMIT)
            .await;
        let Ok(DownloadOutcome::Body { bytes, validator }) = first else {
            panic!("{first:?}");
        };
        assert_eq!(bytes, "one");
        assert_eq!(validator.etag.is_some(), kind == Validators::Etag);
        let again = charts
            .get(&url, &connection(), &validator, LIMIT)
            .await
            .unwrap();
        assert_eq!(again, DownloadOutcome::Unchanged);
        let statuses: Vec<u16> = host.take_calls().iter().map(|call| call.status).collect();
        assert_eq!(statuses, [200, 304]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn logins_stay_with_their_host() {
    let (host, other) = (Host::start(), Host::start());
    host.require("ann", "pw");
    host.put("/a", "here");
    other.put("/a", "there");
    let away = format!("{}/a", other.url());
    host.fault("/away", Fault::Redirect(away));
    host.fault("/near", Fault::Redirect("/a".to_owned()));
    let charts = HttpCharts::new();
    let at = |path: &str| format!("{}{path}", host.url());

    let denied = get(&charts, &at("/a"), &connection()).await.unwrap_err();
    assert_eq!(denied.kind, ErrorKind::Denied);
    assert!(denied.message.ends_with("answered 401 Unauthorized"));
    let wrong = get(&charts, &at("/a"), &login("ann", "hunter2")).await;
    assert!(!format!("{:?}", wrong.unwrap_err()).contains("hunter2"));
    let known = login("ann", "pw");
    assert_eq!(get(&charts, &at("/a"), &known).await.unwrap(), b"here");
    assert_eq!(get(&charts, &at("/near"), &known).await.unwrap(), b"here");

    assert_eq!(get(&charts, &at("/away"), &known).await.unwrap(), b"there");
    assert_eq!(other.take_calls()[0].authorization, "");
    let everywhere = Connection {
        pass_credentials: true,
        ..known
    };
    assert_eq!(
        get(&charts, &at("/away"), &everywhere).await.unwrap(),
        b"there"
    );
    assert!(other.take_calls()[0].authorization.starts_with("Basic "));
}

#[tokio::test(flavor = "multi_thread")]
async fn proxies() {
    let (plain, secure) = (Host::start(), Host::start_tls());
    let proxies = [Proxy::http("ann", "pw"), Proxy::socks("ann", "pw")];
    let charts = HttpCharts::new();
    let through = |proxy: &Proxy, login: &str| Connection {
        proxy: Some(Secret::new(
            proxy.url().replace("//", &format!("//{login}@")),
        )),
        certificate_authority: Some(secure.authority().as_bytes().to_vec()),
        ..connection()
    };
    for host in [&plain, &secure] {
        host.put("/a", "here");
        let url = format!("{}/a", host.url());
        for proxy in &proxies {
            let known = through(proxy, "ann:pw");
            assert_eq!(get(&charts, &url, &known).await.unwrap(), b"here");
            let wrong = through(proxy, "ann:hunter2");
            let error = get(&charts, &url, &wrong).await.unwrap_err();
            assert!(!format!("{error:?}").contains("hunter2"), "{error}");
        }
        assert_eq!(host.take_calls().len(), 2);
    }
    // The address leads to this machine, which is not allowed.
    let elsewhere = Connection {
        allow_local: false,
        ..through(&proxies[0], "ann:pw")
    };
    let error = get(&charts, "http://charts.example.com/a", &elsewhere)
        .await
        .unwrap_err();
    assert_eq!(error.kind, ErrorKind::Invalid, "{error}");
    assert!(
        error.message.contains("leads back into this installation"),
        "{error}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn hostile_hosts() {
    let host = Host::start();
    host.put("/large", vec![0; 2 << 20]);
    for (path, fault) in [
        ("/endless", Fault::Endless),
        ("/round", Fault::Redirect("/round".to_owned())),
        ("/file", Fault::Redirect("file:///etc/passwd".to_owned())),
        ("/busy", Fault::Status(429)),
        ("/broken", Fault::Status(500)),
    ] {
        host.fault(path, fault);
    }
    let charts = HttpCharts::new();
    for (path, kind, message) in [
        ("/large", ErrorKind::Invalid, "larger than 1048576 bytes"),
        ("/endless", ErrorKind::Invalid, "larger than 1048576 bytes"),
        ("/round", ErrorKind::Invalid, "redirects more than 10 times"),
        ("/file", ErrorKind::Invalid, "neither http nor https"),
        ("/none", ErrorKind::NotFound, "404"),
        ("/busy", ErrorKind::RateLimited, "429"),
        ("/broken", ErrorKind::Unavailable, "500"),
    ] {
        let url = format!("{}{path}?token=canary", host.url());
        let error = get(&charts, &url, &connection()).await.unwrap_err();
        assert_eq!(error.kind, kind, "{path}: {error}");
        assert!(error.message.contains(message), "{path}: {error}");
        assert!(!error.message.contains("canary"), "{path}: {error}");
    }
}

/// Names and numbers of loopback are refused unless the operator allowed them; no request is sent.
#[tokio::test(flavor = "multi_thread")]
async fn this_machine_is_not_reached() {
    let host = Host::start();
    host.put("/a", "secret");
    let charts = HttpCharts::new();
    let guarded = Connection {
        allow_local: false,
        insecure: true,
        ..connection()
    };
    let port = host.name().rsplit(':').next().unwrap().to_owned();
    for name in [
        "127.0.0.1",
        "localhost",
        "localtest.localhost",
        "[::ffff:127.0.0.1]",
        "2130706433",
    ] {
        let url = format!("http://{name}:{port}/a");
        let error = get(&charts, &url, &guarded).await.unwrap_err();
        assert!(
            error.message.contains("loopback or link-local"),
            "{name}: {error}"
        );
        let error = charts.tags(&format!("{name}:{port}/a"), &guarded).await;
        assert!(error.is_err(), "{name}");
    }
    assert_eq!(host.take_calls(), []);
}

#[tokio::test(flavor = "multi_thread")]
async fn certificates_from_a_secret() {
    let host = Host::start_tls();
    host.put("/a", "here");
    let charts = HttpCharts::new();
    let url = format!("{}/a", host.url());
    let refused = get(&charts, &url, &connection()).await.unwrap_err();
    assert_eq!(refused.kind, ErrorKind::Unavailable, "{refused}");
    let trusting = Connection {
        certificate_authority: Some(host.authority().as_bytes().to_vec()),
        ..connection()
    };
    assert_eq!(get(&charts, &url, &trusting).await.unwrap(), b"here");
    // A redirect from https to http is not followed, whichever host it leads to.
    let plain = Host::start();
    plain.put("/a", "there");
    host.fault("/out", Fault::Redirect(format!("{}/a", plain.url())));
    let out = get(&charts, &format!("{}/out", host.url()), &trusting).await;
    assert!(out.unwrap_err().message.contains("from https to http"));
    assert_eq!(plain.take_calls(), []);
    let broken = Connection {
        certificate_authority: Some(b"no PEM".to_vec()),
        ..connection()
    };
    assert!(get(&charts, &url, &broken).await.is_err());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_registry_that_helm_pushed_to() {
    let directory = TempDir::new().unwrap();
    let host = Host::start();
    for version in ["1.0.0", "1.1.0", "2.0.0-rc.1", "1.1.0+build.5"] {
        let chart = charts::package(
            directory.path(),
            "app",
            version,
            &[("values.yaml", "a: 1\n")],
        );
        charts::push(directory.path(), &chart, &host, "team/charts");
    }
    host.require("ann", "pw");
    host.take_calls();
    let registry = HttpCharts::new();
    let insecure = |how: Connection| Connection {
        insecure: true,
        ..how
    };
    let known = insecure(login("ann", "pw"));
    let name = format!("{}/team/charts/app", host.name());

    // The list has two pages, and one token serves both.
    let tags = registry.tags(&name, &known).await.unwrap();
    assert_eq!(tags, ["1.0.0", "1.1.0", "1.1.0_build.5", "2.0.0-rc.1"]);
    let calls = host.take_calls();
    let paths: Vec<&str> = calls
        .iter()
        .map(|call| call.path.split('?').next().unwrap())
        .collect();
    let list = "/v2/team/charts/app/tags/list";
    assert_eq!(paths, [list, "/token", list, list]);
    assert!(
        calls[1].path.contains("scope=repository%3Aany%3Apull"),
        "{}",
        calls[1].path
    );
    assert!(calls[1].authorization.starts_with("Basic "));
    assert!(calls[3].authorization.starts_with("Bearer "));

    let manifest = registry.manifest(&name, "1.1.0", &known).await.unwrap();
    let by_digest = registry
        .manifest(&name, &manifest.digest, &known)
        .await
        .unwrap();
    assert_eq!(manifest, by_digest);
    let layer = manifest
        .layers
        .iter()
        .find(|layer| layer.media_type == CHART)
        .unwrap();
    let bytes = registry.layer(&name, layer, &known, LIMIT).await.unwrap();
    let packed = std::fs::read(directory.path().join("packed/app-1.1.0.tgz")).unwrap();
    assert_eq!(bytes, packed);

    let none = registry.manifest(&name, "9.9.9", &known).await.unwrap_err();
    assert_eq!(none.kind, ErrorKind::NotFound);
    for wrong in [insecure(connection()), insecure(login("ann", "hunter2"))] {
        let denied = registry.tags(&name, &wrong).await.unwrap_err();
        assert_eq!(denied.kind, ErrorKind::Denied, "{denied}");
    }
    let capped = registry.layer(&name, layer, &known, 10).await.unwrap_err();
    assert!(capped.message.contains("larger than 10 bytes"));
    host.spoil_blobs();
    let spoiled = registry
        .layer(&name, layer, &known, LIMIT)
        .await
        .unwrap_err();
    assert_eq!(spoiled.kind, ErrorKind::Unreadable, "{spoiled}");
    host.fault(
        &format!("/v2/team/charts/app/manifests/{}", manifest.digest),
        Fault::Bytes(b"{\"layers\": []}".to_vec()),
    );
    let other = registry
        .manifest(&name, &manifest.digest, &known)
        .await
        .unwrap_err();
    assert!(other.message.contains("unexpected digest"), "{other}");
}
