//! How pages follow changes.

/// The way in which pages follow changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Live {
    /// Server-sent events from `/events`, which the caller serves.
    Events,
    /// Repeated requests for `/api/v1/version`.
    Poll,
    /// Pages do not follow changes.
    None,
}

impl Live {
    /// Returns the name for the script.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Events => "events",
            Self::Poll => "poll",
            Self::None => "none",
        }
    }
}
