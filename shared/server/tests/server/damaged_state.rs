//! Tests with a damaged state directory, as after a power loss or a user's mistake: `serve` starts
//! and the fleet converges.

use crate::site::{Site, files};
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// The damage of a file.
#[derive(Clone, Copy, Debug)]
enum Damage {
    Empty,
    Half,
    Garbage,
    Directory,
}

impl Damage {
    const ALL: [Self; 4] = [Self::Empty, Self::Half, Self::Garbage, Self::Directory];

    fn make(self, file: &Path) {
        let content = fs::read(file).unwrap();
        match self {
            Self::Empty => fs::write(file, b"").unwrap(),
            Self::Half => fs::write(file, &content[..content.len() / 2]).unwrap(),
            // Of the same length, so that only the content shows the damage.
            Self::Garbage => fs::write(file, vec![0xa5; content.len().max(7)]).unwrap(),
            Self::Directory => {
                fs::remove_file(file).unwrap();
                fs::create_dir(file).unwrap();
                fs::write(file.join("stray"), b"x").unwrap();
            }
        }
    }
}

/// Returns the other of two versions. There are only two, so that an old artifact becomes the
/// newest again.
fn other(version: &str) -> &'static str {
    match version {
        "one" => "two",
        _ => "one",
    }
}

/// Returns a site that was served for some time, and its version.
async fn served() -> (Site, &'static str) {
    let site = Site::new("one").await;
    for version in ["one", "two", "one"] {
        let serving = site.serve().await.unwrap_or_else(|error| panic!("{error}"));
        serving.rest().await;
        serving.push(version).await;
        serving.converges(version, "before the damage").await;
        serving.rest().await;
        serving.end().await;
    }
    (site, "one")
}

/// Starts, waits until everything is reconciled, pushes another version and waits for it.
async fn recovers(site: &Site, version: &'static str, damage: &str) -> &'static str {
    let serving = match site.serve().await {
        Ok(serving) => serving,
        Err(error) => panic!("{damage}: serve does not start: {error}"),
    };
    serving.rest().await;
    serving.converges(version, damage).await;
    let next = other(version);
    serving.push(next).await;
    serving.converges(next, damage).await;
    serving.end().await;
    next
}

/// Returns the files of a state directory, but only one lock and one record of the audit log: they
/// are all alike, and each recovery writes more of them.
fn records(site: &Site) -> Vec<PathBuf> {
    let root = site.state();
    let mut alike = [root.join("locks"), root.join("blobs/audit")].map(|place| (place, 0));
    let mut is_taken = |file: &PathBuf| {
        let place = alike.iter_mut().find(|(place, _)| file.starts_with(place));
        place.is_none_or(|(_, count)| {
            *count += 1;
            *count == 1
        })
    };
    let all = files(&root).into_iter();
    all.filter(|file| !file.starts_with(root.join("damaged")))
        .filter(|file| is_taken(file))
        .collect()
}

/// Returns the first parts of the keys of the blobs below a directory.
fn kinds(root: &Path) -> BTreeSet<String> {
    let kind = |file: &PathBuf| {
        let mut parts = file.iter().skip_while(|part| *part != "blobs");
        Some(parts.nth(1)?.to_str()?.to_owned())
    };
    files(root).iter().filter_map(kind).collect()
}

#[tokio::test(start_paused = true)]
async fn each_file_in_turn() {
    let (site, mut version) = served().await;
    let known = kinds(&site.state());
    for kind in [
        "artifacts",
        "audit",
        "charts",
        "commits",
        "hubs",
        "index",
        "objects",
        "schedule",
    ] {
        assert!(known.contains(kind), "no {kind} in {known:?}");
    }
    for damage in Damage::ALL {
        for file in records(&site) {
            // A file that an earlier iteration moved to `damaged` may be missing.
            if file.is_file() {
                damage.make(&file);
                let description = format!("{damage:?} {}", file.display());
                version = recovers(&site, version, &description).await;
            }
        }
    }
    let kept = kinds(&site.state().join("damaged"));
    for kind in ["artifacts", "charts", "commits", "hubs", "index"] {
        assert!(kept.contains(kind), "no {kind} is kept of {kept:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn all_files_at_once() {
    let (site, mut version) = served().await;
    for damage in Damage::ALL {
        for file in records(&site) {
            damage.make(&file);
        }
        version = recovers(&site, version, &format!("{damage:?} of everything")).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_file_in_the_place_of_each_directory() {
    let (site, mut version) = served().await;
    let root = site.state();
    let directories: BTreeSet<PathBuf> = records(&site)
        .iter()
        .flat_map(|file| {
            file.ancestors()
                .skip(1)
                .map(Path::to_owned)
                .collect::<Vec<_>>()
        })
        .filter(|directory| directory.starts_with(&root) && *directory != root)
        .collect();
    for directory in directories {
        // An earlier replacement may have removed this directory, and it may not be needed again.
        if !directory.is_dir() {
            continue;
        }
        fs::remove_dir_all(&directory).unwrap();
        fs::write(&directory, b"not a directory").unwrap();
        version = recovers(
            &site,
            version,
            &format!("a file at {}", directory.display()),
        )
        .await;
    }
}

#[tokio::test(start_paused = true)]
async fn an_unreadable_file_is_an_error_and_stays() {
    let (site, _) = served().await;
    let hub = site.state().join("blobs/hubs/hub.json.blob");
    fs::remove_file(&hub).unwrap();
    std::os::unix::fs::symlink(&hub, &hub).unwrap();
    let Err(error) = site.serve().await else {
        panic!("serve starts without an error for an unreadable record")
    };
    assert!(
        error.to_string().contains("blobs/hubs/hub.json.blob"),
        "{error}"
    );
    assert!(fs::symlink_metadata(&hub).unwrap().is_symlink());
}
