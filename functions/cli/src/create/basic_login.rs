//! The flags of a login with a name and a password.

use super::flags::NonEmpty as _;

/// A login with a name and a password.
#[derive(clap::Args)]
pub struct BasicLogin {
    /// The user's name
    #[arg(short, long, value_name = "NAME", allow_hyphen_values = true)]
    username: Option<String>,
    /// The user's password
    #[arg(short, long, allow_hyphen_values = true)]
    password: Option<String>,
}

impl BasicLogin {
    /// Returns the name and the password; `None` for those that are not given, or empty.
    pub fn parts(&self) -> (Option<&str>, Option<&str>) {
        (self.username.non_empty(), self.password.non_empty())
    }
}
