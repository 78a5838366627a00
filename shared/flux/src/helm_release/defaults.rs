//! Flux's defaults, and values derived from spec and status.

use super::super::{FluxKind, ObjectRef, parse_duration};
use super::{
    ActionStrategy, ActionStrategyName, ChartNameChange, CrdsPolicy, DriftMode, HelmRelease,
    Install, ReleaseAction, RemediationSpec, RemediationStrategy, Rollback, ServerSideMode, Test,
    Uninstall, Upgrade, WaitStrategyName,
};
use crate::error::FieldError;
use sha2::{Digest, Sha256};
use std::borrow::Cow;
use std::time::Duration;

/// Helm's limit for the name of a release, in bytes.
const NAME_LENGTH: usize = 53;
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(300);
const DEFAULT_RETRY: Duration = Duration::from_secs(300);
/// Flux's default of `spec.maxHistory`: the number of release records and snapshots to keep.
pub const DEFAULT_HISTORY: usize = 5;

/// Shortens a release name to Helm's limit: a longer one is cut to 40 characters, and 12 digits of
/// its SHA-256 are appended.
pub fn short_release_name(name: &str) -> Cow<'_, str> {
    if name.len() <= NAME_LENGTH {
        return Cow::Borrowed(name);
    }
    let hash = hex::encode(Sha256::digest(name));
    let cut = name.floor_char_boundary(NAME_LENGTH - 13);
    Cow::Owned(format!("{}-{}", &name[..cut], &hash[..12]))
}

/// The remediation of an install or upgrade.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Remediation {
    /// The number of retries; unlimited when negative.
    pub retries: i64,
    /// True if failed tests are ignored.
    pub ignore_test_failures: bool,
    /// True if the last failure is also remediated.
    pub remediate_last_failure: bool,
    /// The strategy: rollback or uninstall.
    pub strategy: RemediationStrategy,
    /// The number of failures of the action so far.
    pub failures: i64,
    /// True if the remediation is that of an upgrade, false for an install.
    pub is_upgrade: bool,
}

impl Remediation {
    /// Returns whether all retries are used up.
    pub fn is_exhausted(&self) -> bool {
        self.retries >= 0 && self.failures > self.retries
    }

    /// Returns whether a failed upgrade is remediated by an uninstall: an install follows even when
    /// no retries are left.
    pub fn is_uninstall_after_upgrade(&self) -> bool {
        self.is_upgrade && self.strategy == RemediationStrategy::Uninstall
    }
}

impl HelmRelease {
    fn non_empty_or<'s>(&'s self, field: &'s Option<String>, default: &'s str) -> &'s str {
        field
            .as_deref()
            .filter(|text| !text.is_empty())
            .unwrap_or(default)
    }

    /// Returns the release's name from the spec, before it is shortened; messages of conditions
    /// have this name.
    pub fn long_release_name(&self) -> String {
        let spec = &self.spec;
        match (&spec.release_name, &spec.target_namespace) {
            (Some(name), _) if !name.is_empty() => name.clone(),
            (_, Some(namespace)) if !namespace.is_empty() => {
                format!("{namespace}-{}", self.id.name)
            }
            _ => self.id.name.clone(),
        }
    }

    /// Returns the release's name, shortened to Helm's limit.
    pub fn release_name(&self) -> String {
        short_release_name(&self.long_release_name()).into_owned()
    }

    /// Returns the namespace to install in.
    pub fn release_namespace(&self) -> &str {
        self.non_empty_or(&self.spec.target_namespace, &self.id.namespace)
    }

    /// Returns the namespace of the release records.
    pub fn storage_namespace(&self) -> &str {
        self.non_empty_or(&self.spec.storage_namespace, &self.id.namespace)
    }

    /// Returns the HelmChart that is created for this release; `None` with a `chartRef`.
    pub fn chart_object(&self) -> Option<ObjectRef> {
        let chart = self.spec.chart.as_ref()?;
        let namespace = self.non_empty_or(&chart.spec.source_ref.namespace, &self.id.namespace);
        let name = format!("{}-{}", self.id.namespace, self.id.name);
        Some(ObjectRef::new(FluxKind::HelmChart, namespace, name))
    }

    /// Returns the object whose artifact is the chart.
    ///
    /// # Errors
    /// The kind of `spec.chartRef` has no chart.
    pub fn chart_source(&self) -> Result<ObjectRef, FieldError> {
        if let Some(chart) = self.chart_object() {
            return Ok(chart);
        }
        let Some(reference) = &self.spec.chart_ref else {
            return Err(FieldError::Value(
                "spec: either chart or chartRef must be set".to_owned(),
            ));
        };
        let kind = FluxKind::parse(&reference.kind).filter(|kind| {
            matches!(
                kind,
                FluxKind::OCIRepository | FluxKind::HelmChart | FluxKind::ExternalArtifact
            )
        });
        let kind = kind.ok_or_else(|| FieldError::Value(format!(
                "spec.chartRef.kind '{}' has no chart: expected OCIRepository, HelmChart or ExternalArtifact",
                reference.kind)))?;
        let namespace = self.non_empty_or(&reference.namespace, &self.id.namespace);
        Ok(ObjectRef::new(kind, namespace, &reference.name))
    }

    /// Returns the dependencies with their `readyExpr`. The default of Flux is the same kind and
    /// namespace.
    ///
    /// # Errors
    /// The kind of a dependency is not supported.
    pub fn dependencies(&self) -> Result<Vec<(ObjectRef, Option<String>)>, FieldError> {
        let all = self.spec.depends_on.iter();
        all.map(|dependency| dependency.resolve(&self.id)).collect()
    }

    /// Returns `spec.interval`.
    ///
    /// # Errors
    /// The field is not a valid duration.
    pub fn interval(&self) -> Result<Duration, FieldError> {
        parse_duration(&self.spec.interval).map_err(FieldError::in_field("spec.interval"))
    }

    /// Returns the timeout of one operation: `spec.timeout`, or five minutes.
    ///
    /// # Errors
    /// The field is not a valid duration.
    pub fn timeout(&self) -> Result<Duration, FieldError> {
        duration(&self.spec.timeout, "spec.timeout", DEFAULT_TIMEOUT)
    }

    fn own_timeout(&self, field: &Option<String>, name: &str) -> Result<Duration, FieldError> {
        duration(field, &format!("spec.{name}.timeout"), self.timeout()?)
    }

    /// Returns the timeout of one operation of an install.
    ///
    /// # Errors
    /// The field is not a valid duration.
    pub fn install_timeout(&self) -> Result<Duration, FieldError> {
        self.own_timeout(&self.install().timeout, "install")
    }

    /// Returns the timeout of one operation of an upgrade.
    ///
    /// # Errors
    /// The field is not a valid duration.
    pub fn upgrade_timeout(&self) -> Result<Duration, FieldError> {
        self.own_timeout(&self.upgrade().timeout, "upgrade")
    }

    /// Returns the timeout of one test.
    ///
    /// # Errors
    /// The field is not a valid duration.
    pub fn test_timeout(&self) -> Result<Duration, FieldError> {
        self.own_timeout(&self.test().timeout, "test")
    }

    /// Returns the timeout of one operation of a rollback.
    ///
    /// # Errors
    /// The field is not a valid duration.
    pub fn rollback_timeout(&self) -> Result<Duration, FieldError> {
        self.own_timeout(&self.rollback().timeout, "rollback")
    }

    /// Returns the timeout of one operation of an uninstall.
    ///
    /// # Errors
    /// The field is not a valid duration.
    pub fn uninstall_timeout(&self) -> Result<Duration, FieldError> {
        self.own_timeout(&self.uninstall().timeout, "uninstall")
    }

    /// Returns the number of release records to keep; `None` for all.
    pub fn max_history(&self) -> Option<usize> {
        let most = self.spec.max_history.unwrap_or(DEFAULT_HISTORY as i64);
        usize::try_from(most).ok().filter(|most| *most > 0)
    }

    /// Returns whether readiness is determined by Helm 3's rules.
    pub fn waits_as_helm_3(&self) -> bool {
        let strategy = self.spec.wait_strategy.as_ref();
        strategy.is_some_and(|strategy| strategy.name == WaitStrategyName::Legacy)
    }

    /// Returns the options of an install.
    pub fn install(&self) -> Cow<'_, Install> {
        or_default(&self.spec.install)
    }

    /// Returns the options of an upgrade.
    pub fn upgrade(&self) -> Cow<'_, Upgrade> {
        or_default(&self.spec.upgrade)
    }

    /// Returns the options of the tests.
    pub fn test(&self) -> Cow<'_, Test> {
        or_default(&self.spec.test)
    }

    /// Returns the options of a rollback.
    pub fn rollback(&self) -> Cow<'_, Rollback> {
        or_default(&self.spec.rollback)
    }

    /// Returns the options of an uninstall.
    pub fn uninstall(&self) -> Cow<'_, Uninstall> {
        or_default(&self.spec.uninstall)
    }

    /// Returns the policy of an install for the chart's CustomResourceDefinitions.
    pub fn install_crds(&self) -> CrdsPolicy {
        self.install().crds.unwrap_or(CrdsPolicy::Create)
    }

    /// Returns the policy of an upgrade for the chart's CustomResourceDefinitions.
    pub fn upgrade_crds(&self) -> CrdsPolicy {
        self.upgrade().crds.unwrap_or(CrdsPolicy::Skip)
    }

    /// Returns whether an install creates the namespace: only with `targetNamespace`.
    pub fn creates_namespace(&self) -> bool {
        let named = self
            .spec
            .target_namespace
            .as_ref()
            .is_some_and(|ns| !ns.is_empty());
        named && self.install().create_namespace
    }

    /// Returns whether an install uses server-side apply; `default` if the object does not set it.
    pub fn install_server_side(&self, default: bool) -> bool {
        self.install().server_side_apply.unwrap_or(default)
    }

    /// Returns whether an upgrade uses server-side apply; `last` is true if the last release used
    /// it.
    pub fn upgrade_server_side(&self, last: bool) -> bool {
        server_side(self.upgrade().server_side_apply, last)
    }

    /// Returns whether a rollback uses server-side apply; `target` is true if the release that is
    /// rolled back to used it.
    pub fn rollback_server_side(&self, target: bool) -> bool {
        server_side(self.rollback().server_side_apply, target)
    }

    /// Returns the strategy when the chart's name changes.
    pub fn chart_name_change(&self) -> ChartNameChange {
        self.upgrade()
            .chart_name_change_strategy
            .unwrap_or_default()
    }

    /// Returns the mode of drift detection.
    pub fn drift_mode(&self) -> DriftMode {
        let drift = self.spec.drift_detection.as_ref();
        drift.and_then(|drift| drift.mode).unwrap_or_default()
    }

    /// Returns the remediation of a failed install.
    pub fn install_remediation(&self) -> Remediation {
        let install = self.install();
        let spec = or_default(&install.remediation);
        Remediation {
            remediate_last_failure: spec.remediate_last_failure.unwrap_or(false),
            strategy: RemediationStrategy::Uninstall,
            ..self.remediation(&spec, self.status.install_failures, false)
        }
    }

    /// Returns the remediation of a failed upgrade.
    pub fn upgrade_remediation(&self) -> Remediation {
        let upgrade = self.upgrade();
        let spec = or_default(&upgrade.remediation);
        Remediation {
            remediate_last_failure: spec.remediate_last_failure.unwrap_or(spec.retries > 0),
            strategy: spec.strategy.unwrap_or_default(),
            ..self.remediation(&spec, self.status.upgrade_failures, true)
        }
    }

    fn remediation(&self, spec: &RemediationSpec, failures: i64, is_upgrade: bool) -> Remediation {
        Remediation {
            retries: spec.retries,
            ignore_test_failures: spec
                .ignore_test_failures
                .unwrap_or(self.test().ignore_failures),
            remediate_last_failure: false,
            strategy: RemediationStrategy::default(),
            failures,
            is_upgrade,
        }
    }

    /// Returns the remediation of the action that was attempted last; `None` if there was no
    /// attempt.
    pub fn active_remediation(&self) -> Option<Remediation> {
        match self.status.last_attempted_release_action? {
            ReleaseAction::Install => Some(self.install_remediation()),
            ReleaseAction::Upgrade => Some(self.upgrade_remediation()),
            _ => None,
        }
    }

    /// Returns whether failed tests are ignored for the action that was attempted last.
    pub fn ignores_test_failures(&self) -> bool {
        match self.active_remediation() {
            Some(remediation) => remediation.ignore_test_failures,
            None => self.test().ignore_failures,
        }
    }

    /// Returns the retry interval of the action that was attempted last, if its strategy is
    /// `RetryOnFailure`.
    ///
    /// # Errors
    /// The field is not a valid duration.
    pub fn active_retry(&self) -> Result<Option<Duration>, FieldError> {
        match self.status.last_attempted_release_action {
            Some(ReleaseAction::Install) => retry(&self.install().strategy, "install"),
            Some(ReleaseAction::Upgrade) => retry(&self.upgrade().strategy, "upgrade"),
            _ => Ok(None),
        }
    }

    /// Returns whether a failed install is only retried, not remediated.
    pub fn install_retries_on_failure(&self) -> bool {
        is_retry(&self.install().strategy)
    }

    /// Returns whether a failed upgrade is only retried, not remediated.
    pub fn upgrade_retries_on_failure(&self) -> bool {
        is_retry(&self.upgrade().strategy)
    }
}

fn or_default<T: Clone + Default>(field: &Option<T>) -> Cow<'_, T> {
    field
        .as_ref()
        .map_or_else(|| Cow::Owned(T::default()), Cow::Borrowed)
}

fn duration(field: &Option<String>, name: &str, default: Duration) -> Result<Duration, FieldError> {
    match field {
        Some(text) => parse_duration(text).map_err(FieldError::in_field(name)),
        None => Ok(default),
    }
}

fn server_side(mode: Option<ServerSideMode>, before: bool) -> bool {
    match mode.unwrap_or_default() {
        ServerSideMode::Enabled => true,
        ServerSideMode::Disabled => false,
        ServerSideMode::Auto => before,
    }
}

fn is_retry(strategy: &Option<ActionStrategy>) -> bool {
    strategy
        .as_ref()
        .is_some_and(|strategy| strategy.name == ActionStrategyName::RetryOnFailure)
}

fn retry(strategy: &Option<ActionStrategy>, action: &str) -> Result<Option<Duration>, FieldError> {
    let Some(strategy) = strategy
        .as_ref()
        .filter(|s| s.name == ActionStrategyName::RetryOnFailure)
    else {
        return Ok(None);
    };
    let name = format!("spec.{action}.strategy.retryInterval");
    duration(&strategy.retry_interval, &name, DEFAULT_RETRY).map(Some)
}
