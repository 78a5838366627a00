//! Flags of `flux bootstrap` for features that driftless does not have, each with the step to take
//! instead.

use crate::create::Time;
use crate::error::Error;
use std::time::Duration;

/// The interval of the root source.
const INTERVAL: Duration = Duration::from_secs(60);

/// The flags. They are declared, so that the error can name the next step.
#[derive(clap::Args)]
pub struct FluxFlags {
    #[arg(long, hide = true)]
    team: Vec<String>,
    #[arg(long, hide = true)]
    interval: Option<Time>,
    #[arg(long, hide = true, num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    reconcile: Option<bool>,
    #[arg(long, hide = true)]
    components: Vec<String>,
    #[arg(long, hide = true)]
    components_extra: Vec<String>,
    #[arg(long, hide = true, num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    deploy_token_auth: Option<bool>,
}

impl FluxFlags {
    /// Fails for a flag without a counterpart.
    pub fn refuse(&self) -> Result<(), Error> {
        let is_other = |time: &Time| time.0 != INTERVAL;
        let flags = [
            (
                "--team",
                !self.team.is_empty(),
                "driftless gives no team access to the repository",
                "leave --team out, and add the teams in the settings of the repository",
            ),
            (
                "--interval",
                self.interval.as_ref().is_some_and(is_other),
                "the source of the root is read every minute",
                "leave --interval out",
            ),
            (
                "--reconcile",
                self.reconcile == Some(true),
                "the settings of a repository that exists stay",
                "leave --reconcile out, and change the settings at the host; each run updates the manifests",
            ),
            (
                "--components",
                !self.components.is_empty(),
                "driftless runs no controllers",
                "leave --components out",
            ),
            (
                "--components-extra",
                !self.components_extra.is_empty(),
                "driftless runs no controllers",
                "leave --components-extra out",
            ),
            (
                "--deploy-token-auth",
                self.deploy_token_auth == Some(true),
                "driftless creates no deploy tokens",
                "use a deploy key (the default), or --token-auth with a token that may only read",
            ),
        ];
        match flags.into_iter().find(|(_, is_given, ..)| *is_given) {
            None => Ok(()),
            Some((flag, _, reason, next)) => {
                Err(Error::usage(format!("{flag} is not supported: {reason}")).next(next))
            }
        }
    }
}
