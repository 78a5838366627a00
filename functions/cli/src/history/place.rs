//! The place of the journals: the bucket of an installation, or the data directory of `serve`.

use crate::error::Error;
use crate::installation;
use crate::serve::DEFAULT_NAME;
use driftless_kernel::hub;
use driftless_kernel::ports::Blobs;
use std::path::Path;
use std::sync::Arc;

/// The journals of one hub.
pub struct Journals {
    /// The store that has them.
    pub blobs: Arc<dyn Blobs>,
    /// The name of the hub.
    pub hub: String,
}

impl Journals {
    /// Finds the journals: in the directory `data`, else in the bucket of the installation that the
    /// environment configures, else in the directory that `serve` uses by default for the cluster
    /// at `server`. Returns `None` if it finds no place.
    ///
    /// # Errors
    /// The directory does not exist, the bucket cannot be read, or it has several hubs and `named`
    /// is not one of them.
    pub async fn find(
        data: Option<&Path>,
        named: Option<&str>,
        server: &str,
    ) -> Result<Option<Self>, Error> {
        let found = installation::store(data, || {
            Ok((named.unwrap_or(DEFAULT_NAME), server.to_owned()))
        });
        let Some(blobs) = found.await? else {
            return Ok(None);
        };
        let names = hub::names_in(blobs.as_ref()).await?;
        let hub = one(&names, named)?;
        Ok(Some(Self { blobs, hub }))
    }
}

/// Returns the hub that is meant: the named one, else the only one.
fn one(names: &[String], named: Option<&str>) -> Result<String, Error> {
    let next = || match names {
        [] => "no hub is registered: see driftless doctor".to_owned(),
        names => format!("give --hub with one of {}", names.join(", ")),
    };
    match (named, names) {
        (Some(named), _) if names.iter().any(|name| name == named) => Ok(named.to_owned()),
        (Some(named), _) => {
            Err(Error::usage(format!("--hub: no hub is named {named}")).next(next()))
        }
        (None, [only]) => Ok(only.clone()),
        (None, _) => {
            let count = names.len();
            Err(Error::usage(format!("the journal has {count} hubs")).next(next()))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hub_is_named_or_the_only_one() {
        let names = |names: &[&str]| -> Vec<String> {
            names.iter().map(|name| (*name).to_owned()).collect()
        };
        let (none, two) = (names(&[]), names(&["eu", "us"]));
        assert_eq!(one(&two[..1], None).unwrap(), "eu");
        assert_eq!(one(&two, Some("us")).unwrap(), "us");
        for (names, named) in [(&two, None), (&two, Some("asia")), (&none, None)] {
            let error = one(names, named).unwrap_err();
            assert_eq!(error.code, 2, "{}", error.message);
            assert!(error.next.is_some(), "{}", error.message);
        }
    }
}
