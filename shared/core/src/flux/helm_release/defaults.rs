//! Flux's defaults, and what follows from spec and status.

use super::super::{FluxKind, ObjectRef, parse_duration};
use super::{
    ActionStrategy, ActionStrategyName, ChartNameChange, CrdsPolicy, DriftMode, HelmRelease,
    Install, ReleaseAction, RemediationSpec, RemediationStrategy, Rollback, ServerSideMode, Test,
    Uninstall, Upgrade, WaitStrategyName,
};
use sha2::{Digest, Sha256};
use std::borrow::Cow;
use std::time::Duration;

/// Helm's limit for the name of a release.
const NAME_LENGTH: usize = 53;
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(300);
const DEFAULT_RETRY: Duration = Duration::from_secs(300);
/// Release records and snapshots that are kept.
pub(crate) const DEFAULT_HISTORY: usize = 5;

/// The name that a release of that name gets: longer ones are cut to 40 characters, with 12 digits of their hash behind.
pub fn short_release_name(name: &str) -> Cow<'_, str> {
    if name.len() <= NAME_LENGTH {
        return Cow::Borrowed(name);
    }
    let hash = hex::encode(Sha256::digest(name));
    let cut = name.floor_char_boundary(NAME_LENGTH - 13);
    Cow::Owned(format!("{}-{}", &name[..cut], &hash[..12]))
}

/// How a failure of the last action is made good.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Remediation {
    /// How often to try again; without end when negative.
    pub retries: i64,
    /// Failed tests are no failure.
    pub ignore_test_failures: bool,
    /// The last failure is made good, too.
    pub remediate_last_failure: bool,
    /// How.
    pub strategy: RemediationStrategy,
    /// Failures of the action so far.
    pub failures: i64,
    /// Whether it is that of an upgrade.
    pub is_upgrade: bool,
}

impl Remediation {
    /// Whether all retries are used up.
    pub fn is_exhausted(&self) -> bool {
        self.retries >= 0 && self.failures > self.retries
    }

    /// Whether a failed upgrade is made good by an uninstall: an install follows it even when no retries are left.
    pub fn is_uninstall_after_upgrade(&self) -> bool {
        self.is_upgrade && self.strategy == RemediationStrategy::Uninstall
    }
}

impl HelmRelease {
    fn text<'s>(&'s self, field: &'s Option<String>, default: &'s str) -> &'s str {
        field
            .as_deref()
            .filter(|text| !text.is_empty())
            .unwrap_or(default)
    }

    /// The release's name as it stands in the spec; `status.conditions` speak of it.
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

    /// The release's name.
    pub fn release_name(&self) -> String {
        short_release_name(&self.long_release_name()).into_owned()
    }

    /// The namespace to install in.
    pub fn release_namespace(&self) -> &str {
        self.text(&self.spec.target_namespace, &self.id.namespace)
    }

    /// The namespace of the release records.
    pub fn storage_namespace(&self) -> &str {
        self.text(&self.spec.storage_namespace, &self.id.namespace)
    }

    /// The HelmChart that is made for this release; `None` with a `chartRef`.
    pub fn chart_object(&self) -> Option<ObjectRef> {
        let chart = self.spec.chart.as_ref()?;
        let namespace = self.text(&chart.spec.source_ref.namespace, &self.id.namespace);
        let name = format!("{}-{}", self.id.namespace, self.id.name);
        Some(ObjectRef::new(FluxKind::HelmChart, namespace, name))
    }

    /// The object whose artifact is the chart.
    ///
    /// # Errors
    /// A kind that is none of those.
    pub fn chart_source(&self) -> Result<ObjectRef, String> {
        if let Some(chart) = self.chart_object() {
            return Ok(chart);
        }
        let Some(reference) = &self.spec.chart_ref else {
            return Err("spec: either chart or chartRef must be set".to_owned());
        };
        let kind = FluxKind::parse(&reference.kind).filter(|kind| {
            matches!(
                kind,
                FluxKind::OCIRepository | FluxKind::HelmChart | FluxKind::ExternalArtifact
            )
        });
        let kind = kind.ok_or_else(|| {
            format!(
                "spec.chartRef.kind '{}' has no chart: expected OCIRepository, HelmChart or ExternalArtifact",
                reference.kind
            )
        })?;
        let namespace = self.text(&reference.namespace, &self.id.namespace);
        Ok(ObjectRef::new(kind, namespace, &reference.name))
    }

    /// The dependencies, with Flux's default of the same kind and namespace.
    ///
    /// # Errors
    /// A kind that nothing can depend on.
    pub fn dependencies(&self) -> Result<Vec<(ObjectRef, Option<String>)>, String> {
        let all = self.spec.depends_on.iter();
        all.map(|dependency| dependency.resolve(&self.id)).collect()
    }

    /// The interval.
    ///
    /// # Errors
    /// No duration.
    pub fn interval(&self) -> Result<Duration, String> {
        parse_duration(&self.spec.interval).map_err(|error| format!("spec.interval: {error}"))
    }

    /// How long one operation may take: `spec.timeout`, or five minutes.
    ///
    /// # Errors
    /// No duration.
    pub fn timeout(&self) -> Result<Duration, String> {
        duration(&self.spec.timeout, "spec.timeout", DEFAULT_TIMEOUT)
    }

    fn own_timeout(&self, field: &Option<String>, name: &str) -> Result<Duration, String> {
        duration(field, &format!("spec.{name}.timeout"), self.timeout()?)
    }

    /// How long one operation of an install may take.
    ///
    /// # Errors
    /// No duration.
    pub fn install_timeout(&self) -> Result<Duration, String> {
        self.own_timeout(&self.install().timeout, "install")
    }

    /// How long one operation of an upgrade may take.
    ///
    /// # Errors
    /// No duration.
    pub fn upgrade_timeout(&self) -> Result<Duration, String> {
        self.own_timeout(&self.upgrade().timeout, "upgrade")
    }

    /// How long one test may take.
    ///
    /// # Errors
    /// No duration.
    pub fn test_timeout(&self) -> Result<Duration, String> {
        self.own_timeout(&self.test().timeout, "test")
    }

    /// How long one operation of a rollback may take.
    ///
    /// # Errors
    /// No duration.
    pub fn rollback_timeout(&self) -> Result<Duration, String> {
        self.own_timeout(&self.rollback().timeout, "rollback")
    }

    /// How long one operation of an uninstall may take.
    ///
    /// # Errors
    /// No duration.
    pub fn uninstall_timeout(&self) -> Result<Duration, String> {
        self.own_timeout(&self.uninstall().timeout, "uninstall")
    }

    /// How many release records to keep; `None` for all.
    pub fn max_history(&self) -> Option<usize> {
        let most = self.spec.max_history.unwrap_or(DEFAULT_HISTORY as i64);
        usize::try_from(most).ok().filter(|most| *most > 0)
    }

    /// Whether readiness is told by Helm 3's rules.
    pub fn waits_as_helm_3(&self) -> bool {
        let strategy = self.spec.wait_strategy.as_ref();
        strategy.is_some_and(|strategy| strategy.name == WaitStrategyName::Legacy)
    }

    /// How to install.
    pub fn install(&self) -> Cow<'_, Install> {
        or_default(&self.spec.install)
    }

    /// How to upgrade.
    pub fn upgrade(&self) -> Cow<'_, Upgrade> {
        or_default(&self.spec.upgrade)
    }

    /// How to test.
    pub fn test(&self) -> Cow<'_, Test> {
        or_default(&self.spec.test)
    }

    /// How to roll back.
    pub fn rollback(&self) -> Cow<'_, Rollback> {
        or_default(&self.spec.rollback)
    }

    /// How to uninstall.
    pub fn uninstall(&self) -> Cow<'_, Uninstall> {
        or_default(&self.spec.uninstall)
    }

    /// What happens to the chart's definitions at an install.
    pub fn install_crds(&self) -> CrdsPolicy {
        self.install().crds.unwrap_or(CrdsPolicy::Create)
    }

    /// What happens to the chart's definitions at an upgrade.
    pub fn upgrade_crds(&self) -> CrdsPolicy {
        self.upgrade().crds.unwrap_or(CrdsPolicy::Skip)
    }

    /// Whether an install creates the namespace: only one that `targetNamespace` names.
    pub fn creates_namespace(&self) -> bool {
        let named = self
            .spec
            .target_namespace
            .as_ref()
            .is_some_and(|ns| !ns.is_empty());
        named && self.install().create_namespace
    }

    /// Whether an install applies on the server; `default` where the object does not say.
    pub fn install_server_side(&self, default: bool) -> bool {
        self.install().server_side_apply.unwrap_or(default)
    }

    /// Whether an upgrade applies on the server; `last` says whether the last release was applied so.
    pub fn upgrade_server_side(&self, last: bool) -> bool {
        server_side(self.upgrade().server_side_apply, last)
    }

    /// Whether a rollback applies on the server; `target` says whether the release that is rolled back to was applied so.
    pub fn rollback_server_side(&self, target: bool) -> bool {
        server_side(self.rollback().server_side_apply, target)
    }

    /// What happens when the chart's name changes.
    pub fn chart_name_change(&self) -> ChartNameChange {
        self.upgrade()
            .chart_name_change_strategy
            .unwrap_or_default()
    }

    /// What to do about changes that others make.
    pub fn drift_mode(&self) -> DriftMode {
        let drift = self.spec.drift_detection.as_ref();
        drift.and_then(|drift| drift.mode).unwrap_or_default()
    }

    /// How a failed install is made good.
    pub fn install_remediation(&self) -> Remediation {
        let install = self.install();
        let spec = or_default(&install.remediation);
        Remediation {
            remediate_last_failure: spec.remediate_last_failure.unwrap_or(false),
            strategy: RemediationStrategy::Uninstall,
            ..self.remediation(&spec, self.status.install_failures, false)
        }
    }

    /// How a failed upgrade is made good.
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

    /// How a failure of the action that was tried last is made good; `None` if none was tried.
    pub fn active_remediation(&self) -> Option<Remediation> {
        match self.status.last_attempted_release_action? {
            ReleaseAction::Install => Some(self.install_remediation()),
            ReleaseAction::Upgrade => Some(self.upgrade_remediation()),
            _ => None,
        }
    }

    /// Whether failed tests do not count, for the action that was tried last.
    pub fn ignores_test_failures(&self) -> bool {
        match self.active_remediation() {
            Some(remediation) => remediation.ignore_test_failures,
            None => self.test().ignore_failures,
        }
    }

    /// How soon the action that was tried last is tried again after a failure, if its strategy is `RetryOnFailure`.
    ///
    /// # Errors
    /// No duration.
    pub fn active_retry(&self) -> Result<Option<Duration>, String> {
        match self.status.last_attempted_release_action {
            Some(ReleaseAction::Install) => retry(&self.install().strategy, "install"),
            Some(ReleaseAction::Upgrade) => retry(&self.upgrade().strategy, "upgrade"),
            _ => Ok(None),
        }
    }

    /// Whether a failed install is only tried again.
    pub fn install_retries_on_failure(&self) -> bool {
        is_retry(&self.install().strategy)
    }

    /// Whether a failed upgrade is only tried again.
    pub fn upgrade_retries_on_failure(&self) -> bool {
        is_retry(&self.upgrade().strategy)
    }
}

fn or_default<T: Clone + Default>(field: &Option<T>) -> Cow<'_, T> {
    field
        .as_ref()
        .map_or_else(|| Cow::Owned(T::default()), Cow::Borrowed)
}

fn duration(field: &Option<String>, name: &str, default: Duration) -> Result<Duration, String> {
    match field {
        Some(text) => parse_duration(text).map_err(|error| format!("{name}: {error}")),
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

fn retry(strategy: &Option<ActionStrategy>, action: &str) -> Result<Option<Duration>, String> {
    let Some(strategy) = strategy
        .as_ref()
        .filter(|s| s.name == ActionStrategyName::RetryOnFailure)
    else {
        return Ok(None);
    };
    let name = format!("spec.{action}.strategy.retryInterval");
    duration(&strategy.retry_interval, &name, DEFAULT_RETRY).map(Some)
}
