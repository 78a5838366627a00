//! The `helmCharts` of kustomizations, rendered by the Helm engine as Helm 3 does.

use crate::error::Error;
use crate::template::Release;
use driftless_helm::values::{self, Table};
use driftless_helm::{Compat, OutputFilter, template_text};
use driftless_kustomize::{ChartCall, ChartFault, Charts};
use std::path::PathBuf;

/// The charts below a directory of the disk.
pub struct DiskCharts {
    pub root: PathBuf,
}

impl Charts for DiskCharts {
    fn render(&self, call: &ChartCall) -> Result<String, ChartFault> {
        self.template(call).map_err(|error| error.message.into())
    }
}

impl DiskCharts {
    fn template(&self, call: &ChartCall) -> Result<String, Error> {
        let compat = Compat::Helm3;
        let mut table = Table::new();
        for file in &call.values {
            let more = values::read(file.text.as_bytes(), &file.name, compat);
            table = values::merge(table, more.map_err(Error::caused_by)?);
        }
        let rendered = Release {
            chart: &self.root.join(call.dir.as_str()),
            name: &call.release,
            namespace: &call.namespace,
            values: table,
            kube_version: call.kube_version.as_deref(),
            api_versions: &call.api_versions,
            is_upgrade: false,
            check_schema: true,
            compat,
        }
        .render()?;
        let shown = OutputFilter {
            include_crds: call.include_crds,
            no_hooks: call.skip_hooks,
            skip_tests: call.skip_tests,
            show_only: Vec::new(),
        };
        template_text(&rendered, &shown).map_err(Error::caused_by)
    }
}
