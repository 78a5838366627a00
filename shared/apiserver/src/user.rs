//! Users.

/// A user as RBAC sees one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct User {
    /// The name, such as `system:serviceaccount:NAMESPACE:NAME`.
    pub name: String,
    /// The uid, often empty.
    pub uid: String,
    /// The groups of the user.
    pub groups: Vec<String>,
    /// Extra values by key.
    pub extra: Vec<(String, Vec<String>)>,
}

impl User {
    /// Returns a user in `system:masters`, which may do everything.
    pub fn admin(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            groups: vec!["system:masters".into(), "system:authenticated".into()],
            ..Self::default()
        }
    }
}
