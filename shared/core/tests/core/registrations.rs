//! A damaged registration of a hub.

use bytes::Bytes;
use driftless_core::sweep;
use driftless_kernel::hub::{self, RegistrationResult, Settings, connect, names, register};
use driftless_kernel::ports::Precondition;
use driftless_kernel::state;
use driftless_memory::MemoryBlobs;
use futures::FutureExt as _;
use std::sync::Arc;

/// Returns the result of a future that never waits, as those of in-memory ports.
fn now<T>(future: impl Future<Output = T>) -> T {
    future.now_or_never().unwrap()
}

fn locked_down(name: &str) -> Settings {
    Settings {
        name: name.to_owned(),
        no_cross_namespace_refs: true,
        default_service_account: Some("tenant".to_owned()),
        ..Settings::default()
    }
}

#[test]
fn a_damaged_registration_stops_its_hub_alone_and_loosens_nothing() {
    let blobs = Arc::<MemoryBlobs>::default();
    let ports = driftless_memory::ports(blobs, Arc::default(), Arc::default());
    for name in ["eu/staging", "production"] {
        now(register(&ports, &locked_down(name))).unwrap();
    }
    let key = format!("{}{}.json", hub::PREFIX, state::key_part("eu/staging"));
    let error = |name: &str| now(connect(&ports, name)).err().unwrap().message;
    for (damage, found) in [
        ("", RegistrationResult::Restored),
        ("{\"name\": \"eu/sta", RegistrationResult::Restored),
        ("\u{0}\u{1}", RegistrationResult::Restored),
        // Valid documents without the settings of the hub.
        ("{}", RegistrationResult::Written),
        ("{\"name\": \"production\"}", RegistrationResult::Written),
    ] {
        now(ports
            .blobs
            .put(&key, Bytes::from(damage), Precondition::None))
        .unwrap();
        assert_eq!(now(names(&ports)).unwrap(), ["eu/staging", "production"]);
        assert!(error("eu/staging").contains("is damaged"), "{damage}");
        // This hub has no kubeconfig in this test, which is read after the registration.
        assert!(
            error("production").contains("the secret manager has no"),
            "{damage}"
        );
        let reports = now(sweep::sweep(&ports)).unwrap();
        let failures = reports.iter().map(|report| {
            let failure = report.failure.as_ref().unwrap();
            (report.hub.as_str(), failure.message.contains("is damaged"))
        });
        let expected = [("eu/staging", true), ("production", false)];
        assert_eq!(failures.collect::<Vec<_>>(), expected, "{damage}");
        // Only a registration replaces it.
        assert_eq!(now(ports.blobs.get(&key)).unwrap().unwrap().0, damage);
        let again = now(register(&ports, &locked_down("eu/staging"))).unwrap();
        assert_eq!(again, found, "{damage}");
        assert!(
            error("eu/staging").contains("the secret manager has no"),
            "{damage}"
        );
    }
}
