//! The options of the command line.

use driftless_harness::{command, tools};
use std::path::PathBuf;
use std::time::Duration;

pub const USAGE: &str = "usage: sync-bench [--sizes N,..] [--releases N,..] [--bin FILE] [--flux] \
    [--only SYSTEM,..] [--rest SECONDS] [--json FILE] [--svg FILE] [--with FILE,..]";

pub struct Options {
    /// The numbers of Kustomizations.
    pub sizes: Vec<usize>,
    /// The numbers of HelmReleases.
    pub releases: Vec<usize>,
    /// The systems to measure: `driftless`, `floor`, `flux`.
    pub systems: Vec<String>,
    /// The `driftless` command.
    pub program: PathBuf,
    /// The time that a system at rest is observed; zero to leave it out.
    pub rest: Duration,
    pub json: Option<PathBuf>,
    pub svg: Option<PathBuf>,
    /// The figures of earlier runs, as JSON: they are added to the table, the JSON and the picture.
    pub with: Vec<PathBuf>,
}

impl Options {
    pub fn parse(arguments: Vec<String>) -> Result<Self, String> {
        let mut program = None;
        let mut options = Self {
            sizes: vec![10, 100],
            releases: vec![10, 100],
            systems: vec!["floor".to_owned(), "driftless".to_owned()],
            program: PathBuf::new(),
            rest: Duration::from_secs(60),
            json: None,
            svg: None,
            with: Vec::new(),
        };
        let mut arguments = arguments.into_iter();
        while let Some(argument) = arguments.next() {
            if argument == "--flux" {
                options.systems.push("flux".to_owned());
                continue;
            }
            let value = arguments.next();
            let value = value.ok_or_else(|| format!("{argument} needs a value"))?;
            match argument.as_str() {
                "--sizes" => options.sizes = numbers(&argument, &value)?,
                "--releases" => options.releases = numbers(&argument, &value)?,
                "--only" => options.systems = value.split(',').map(str::to_owned).collect(),
                "--bin" => program = Some(PathBuf::from(value)),
                "--rest" => {
                    let seconds = numbers(&argument, &value)?;
                    let seconds = seconds.first().copied().unwrap_or_default();
                    options.rest = Duration::from_secs(seconds as u64);
                }
                "--json" => options.json = Some(value.into()),
                "--svg" => options.svg = Some(value.into()),
                "--with" => options.with = value.split(',').map(PathBuf::from).collect(),
                other => return Err(format!("unknown option {other}")),
            }
        }
        options.program = program.unwrap_or_else(default_program);
        Ok(options)
    }
}

fn numbers(argument: &str, value: &str) -> Result<Vec<usize>, String> {
    let parts = value.split(',').filter(|part| !part.is_empty());
    let number = |part: &str| {
        let number = part.parse();
        number.map_err(|_| format!("{argument} needs numbers, not '{value}'"))
    };
    parts.map(number).collect()
}

/// Returns the release build of the workspace if it exists, or else a build with the profile of
/// this program.
fn default_program() -> PathBuf {
    let release = tools::workspace().join("target/release/driftless");
    match release.is_file() {
        true => release,
        false => command::program(),
    }
}
