//! The output of a rendered chart, on stdout or into a directory.

use crate::error::Error;
use crate::term;
use driftless_helm::{OutputFilter, Rendered, template_text};
use std::collections::BTreeSet;
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};

#[derive(clap::Args)]
#[group(skip)]
pub struct Args {
    /// Also print the files under crds/
    #[arg(long)]
    include_crds: bool,
    /// Leave hooks out
    #[arg(long)]
    no_hooks: bool,
    /// Leave tests out
    #[arg(long)]
    skip_tests: bool,
    /// Print only these templates: templates/x.yaml, or a pattern
    #[arg(short, long, value_name = "TEMPLATE")]
    show_only: Vec<String>,
    /// Write one file for each template into this directory
    #[arg(long, value_name = "DIR")]
    output_dir: Option<PathBuf>,
    /// Write into a subdirectory of --output-dir with the release's name
    #[arg(long)]
    release_name: bool,
}

/// Prints the manifests, or writes them to the directory.
pub fn all(rendered: &Rendered, release: &str, args: &Args) -> Result<(), Error> {
    let shown = OutputFilter {
        include_crds: args.include_crds,
        no_hooks: args.no_hooks,
        skip_tests: args.skip_tests,
        show_only: args.show_only.clone(),
    };
    if let Some(directory) = &args.output_dir {
        let directory = match args.release_name {
            true => directory.join(release),
            false => directory.clone(),
        };
        return write_all(rendered, &directory, &shown);
    }
    term::result(&template_text(rendered, &shown).map_err(Error::caused_by)?)
}

fn write_all(rendered: &Rendered, directory: &Path, shown: &OutputFilter) -> Result<(), Error> {
    let crds = rendered
        .crds
        .iter()
        .filter(|_| shown.include_crds)
        .map(|(name, text)| (name, text));
    let manifests = rendered.manifests.iter().map(|m| (&m.source, &m.content));
    let hooks = rendered.hooks.iter().filter(|hook| shown.hook(hook));
    let hooks = hooks.map(|hook| (&hook.manifest.source, &hook.manifest.content));
    let mut written = BTreeSet::new();
    for (source, text) in crds.chain(manifests).chain(hooks) {
        let path = directory.join(source);
        let first = written.insert(source.clone());
        append(&path, source, text, first).map_err(|error| {
            Error::caused_by(error).context(format!("write '{}'", path.display()))
        })?;
        if first {
            term::result(&format!("wrote {}\n", path.display()))?;
        }
    }
    Ok(())
}

fn append(path: &Path, source: &str, text: &str, first: bool) -> std::io::Result<()> {
    if let Some(parent) = path.parent() {
        fs::create_dir_all(parent)?;
    }
    let mut file = fs::OpenOptions::new()
        .create(true)
        .write(true)
        .append(!first)
        .truncate(first)
        .open(path)?;
    write!(file, "---\n# Source: {source}\n{text}\n")
}
