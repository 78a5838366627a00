//! `build DIR [--reorder none|legacy] [--load-restrictor LoadRestrictionsNone|LoadRestrictionsRootOnly] …`: the engine with
//! the command line of `kustomize build`, for the conformance runner.
#![expect(
    clippy::disallowed_methods,
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a program reads its files"
)]

use driftless_kustomize::{LoadRestrictor, Options, Reorder};
use driftless_manifest::{EntryKind, FileTree, Reader, TreePath};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

fn main() -> ExitCode {
    match run(std::env::args().skip(1).collect()) {
        Ok(yaml) => {
            print!("{yaml}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("Error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(args: Vec<String>) -> Result<String, Box<dyn std::error::Error>> {
    let mut args = args.into_iter();
    if args.next().as_deref() != Some("build") {
        return Err("usage: build DIR [flags]".into());
    }
    let mut options = Options::default();
    let mut dir = ".".to_owned();
    while let Some(arg) = args.next() {
        match arg.as_str() {
            "--reorder" => {
                options.reorder = match args.next().as_deref() {
                    Some("none") => Reorder::None,
                    Some("legacy") => Reorder::Legacy,
                    other => return Err(format!("--reorder {other:?}").into()),
                };
            }
            "--load-restrictor" => {
                options.load_restrictor = match args.next().as_deref() {
                    Some("LoadRestrictionsNone") => LoadRestrictor::None,
                    Some("LoadRestrictionsRootOnly") => LoadRestrictor::RootOnly,
                    other => return Err(format!("--load-restrictor {other:?}").into()),
                };
            }
            "--enable-helm" => options.enable_helm = true,
            "--enable-managedby-label" => options.managed_by_label = true,
            "--enable-alpha-plugins" => {}
            flag if flag.starts_with("--") => return Err(format!("unknown flag {flag}").into()),
            path => dir = path.to_owned(),
        }
    }
    let mut tree = FileTree::new();
    read(Path::new("."), &PathBuf::new(), &mut tree)?;
    let reader = Reader::new(&tree);
    let documents = driftless_kustomize::build_documents(&reader, &TreePath::new(&dir)?, &options)?;
    Ok(driftless_kustomize::documents_to_yaml(&documents))
}

fn read(root: &Path, below: &Path, tree: &mut FileTree) -> Result<(), Box<dyn std::error::Error>> {
    for entry in std::fs::read_dir(root.join(below))? {
        let entry = entry?;
        let path = below.join(entry.file_name());
        let place = TreePath::new(&path.to_string_lossy())?;
        let kind = entry.file_type()?;
        if kind.is_symlink() {
            let to = std::fs::read_link(entry.path())?;
            tree.insert(place, EntryKind::Link, to.to_string_lossy().into_owned())?;
        } else if kind.is_dir() {
            read(root, &path, tree)?;
        } else {
            tree.insert(place, EntryKind::File, std::fs::read(entry.path())?)?;
        }
    }
    Ok(())
}
