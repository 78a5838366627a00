//! The parts of a case: a chart, or another input, and its expected result.

use driftless_helm::values::{self, Table};
use driftless_helm::{
    Chart, ChartFile, Compat, HelmError, LoadLimits, Options, Outcome, Render, manifest_text,
};

/// The expected result of a case.
#[derive(Clone)]
pub enum Want {
    /// An error with all of these words.
    Refused(Vec<String>),
    /// The error of a used-up budget, which names the template.
    Budget(String),
    /// An output with these words: Helm also renders it, and it is cheap.
    Answered(Vec<String>),
    /// Either: it only has to end within its limits.
    Ends,
}

/// The result: the output, or the error and whether it is a budget's.
pub type Done = Result<String, (String, bool)>;

pub struct Case {
    pub name: String,
    pub want: Want,
    pub run: Box<dyn Fn() -> Done>,
}

pub fn case(name: &str, want: Want, run: impl Fn() -> Done + 'static) -> Case {
    Case {
        name: name.to_owned(),
        want,
        run: Box::new(run),
    }
}

pub fn refused(words: &[&str]) -> Want {
    Want::Refused(words.iter().map(|w| (*w).to_owned()).collect())
}

pub fn answered(words: &[&str]) -> Want {
    Want::Answered(words.iter().map(|w| (*w).to_owned()).collect())
}

pub const CHART: &str = "apiVersion: v2\nname: top\nversion: 1.0.0\n";

pub fn failed(error: HelmError) -> (String, bool) {
    let budget = matches!(&error, HelmError::Render { budget: true, .. });
    (error.to_string(), budget)
}

pub fn options() -> Options {
    Options::new("rel", "ns")
}

pub fn file(name: &str, text: impl AsRef<[u8]>) -> ChartFile {
    ChartFile {
        name: name.to_owned(),
        data: text.as_ref().into(),
    }
}

pub fn load(files: Vec<ChartFile>) -> Result<Chart, (String, bool)> {
    Chart::from_files(files, Compat::Helm3, &LoadLimits::default()).map_err(failed)
}

pub fn rendered(chart: &Chart, user: &Table) -> Done {
    match Render::new(chart, user, &options()).run().map_err(failed)? {
        Outcome::Done(rendered) => Ok(manifest_text(&rendered, true)),
        Outcome::Needs(needs) => Ok(format!("needs {needs:?}")),
    }
}

/// Renders a chart of these files, and a valid Chart.yaml, with its own values.
pub fn with(files: Vec<ChartFile>) -> Done {
    let mut all = vec![file("Chart.yaml", CHART)];
    all.extend(files);
    rendered(&load(all)?, &Table::new())
}

/// Creates a case of one template.
pub fn template(name: &str, want: Want, text: &str) -> Case {
    let text = text.to_owned();
    case(&format!("template {name}"), want, move || {
        with(vec![file("templates/x.yaml", &text)])
    })
}

/// Creates a case of one template that uses up a budget.
pub fn spends(name: &str, text: &str) -> Case {
    template(name, Want::Budget("templates/x.yaml".to_owned()), text)
}

pub fn read_values(text: &[u8]) -> Result<Table, (String, bool)> {
    values::read(text, "my-values.yaml", Compat::Helm3).map_err(failed)
}
