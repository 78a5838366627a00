//! Pull requests of forks.

use crate::site::{Login, PASSWORDS, Site, deployment, sealed};

#[test]
fn a_fork_is_compared_with_the_base_and_reads_no_secret_but_the_login_at_github() {
    let site = Site::new(Login::App);
    site.commit(
        "change",
        &[
            ("apps/web.yaml", &deployment(3)),
            ("apps/secret.yaml", &sealed(&site.recipient, PASSWORDS[1])),
        ],
    );
    let pull =
        site.github
            .open_pull_request_of_fork(&site.repository, "change", "main", "mallory/fleet");
    site.deliver(&pull);
    let mut request = site.requests().remove(0);
    assert!(request.is_fork);
    // Only GitHub's answer counts.
    request.is_fork = false;
    site.secrets.read.lock().expect("names").clear();
    assert_eq!(site.run(&request, 1), 0);
    let text = site.comments(pull.number).remove(0);
    assert!(text.contains("comes from a fork"), "{text}");
    assert!(text.contains("+  replicas: 3"), "{text}");
    assert!(text.contains("`Secret/default/database`"), "{text}");
    let read = site.secrets.read.lock().expect("names").clone();
    assert!(read.iter().all(|name| name == "github/app"), "{read:?}");
    let all = site.everything();
    for secret in PASSWORDS {
        assert!(!all.contains(secret), "'{secret}' has left the process");
    }
}
