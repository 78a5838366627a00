//! The login that a Secret has, as notification-controller reads it.

use crate::Settings;
use crate::url::decode;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;

/// The token, username and password of a Provider; each may be empty.
#[derive(Clone, Default)]
pub(crate) struct Login {
    pub token: String,
    pub username: String,
    pub password: String,
}

impl Login {
    /// Reads the login of a Provider. A Secret that has only one of `username` and `password` gives
    /// no login, as with Flux.
    pub fn of(settings: &Settings) -> Self {
        let value = |key: &str| {
            let value = settings.secret.get(key);
            value.map(|value| String::from_utf8_lossy(value).into_owned())
        };
        let mut login = Self {
            username: settings.username.clone(),
            ..Self::default()
        };
        match (value("username"), value("password")) {
            (Some(username), Some(password)) => {
                (login.username, login.password) = (username, password)
            }
            (None, None) => {}
            _ => return login,
        }
        login.token = value("token").unwrap_or_default();
        login
    }

    /// Reads the login of a URL.
    pub fn of_userinfo(userinfo: &str) -> Self {
        let (username, password) = userinfo.split_once(':').unwrap_or((userinfo, ""));
        Self {
            token: String::new(),
            username: decode(username),
            password: decode(password),
        }
    }

    /// Returns the token; the password without a token.
    pub fn token_or_password(&self) -> &str {
        match self.token.is_empty() {
            true => &self.password,
            false => &self.token,
        }
    }

    /// Returns the content of the header `Authorization` for a username and a password.
    pub fn basic(&self) -> String {
        let login = format!("{}:{}", self.username, self.password);
        format!("Basic {}", STANDARD.encode(login))
    }
}
