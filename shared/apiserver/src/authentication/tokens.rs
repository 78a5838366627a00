//! Tokens of service accounts. They are opaque; a real cluster signs JSON web tokens.

use std::collections::BTreeMap;

use jiff::Timestamp;

use crate::store::Key;
use crate::store::state::State;
use crate::user::User;
use crate::values::clock::Clock;
use crate::values::text;

/// An issued token.
#[derive(Clone, Debug)]
pub(crate) struct Issued {
    pub namespace: String,
    pub account: String,
    /// The account's uid: a token does not outlive its account.
    pub uid: String,
    /// The id of the token (`JTI`).
    pub id: String,
    pub audiences: Vec<String>,
    pub expires: Timestamp,
}

/// All tokens of a server.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tokens(BTreeMap<String, Issued>);

impl Tokens {
    /// Issues a token, and removes expired ones.
    pub(crate) fn issue(&mut self, issued: Issued, clock: &mut Clock) -> String {
        let token: String = (0..4).map(|_| format!("{:016x}", clock.next())).collect();
        self.0.retain(|_, known| known.expires > clock.now);
        self.0.insert(token.clone(), issued);
        token
    }

    /// Returns the record of a token; `None` if this server did not issue it, it has expired, or
    /// its account was deleted.
    pub(crate) fn find(&self, state: &State, token: &str, now: Timestamp) -> Option<&Issued> {
        let issued = self.0.get(token)?;
        let key = (issued.namespace.clone(), issued.account.clone());
        let account = state.store.get(&accounts(), &key)?;
        (issued.expires > now && text(account, "/metadata/uid") == issued.uid).then_some(issued)
    }
}

impl Issued {
    /// Returns the service account as a user.
    pub(crate) fn user(&self) -> User {
        let credential = "authentication.kubernetes.io/credential-id".to_owned();
        User {
            name: format!("system:serviceaccount:{}:{}", self.namespace, self.account),
            uid: self.uid.clone(),
            groups: vec![
                "system:serviceaccounts".to_owned(),
                format!("system:serviceaccounts:{}", self.namespace),
                "system:authenticated".to_owned(),
            ],
            extra: vec![(credential, vec![format!("JTI={}", self.id)])],
        }
    }
}

fn accounts() -> Key {
    (String::new(), "serviceaccounts".to_owned())
}
