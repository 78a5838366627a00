//! Builds the tools. Every failure names what to install.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::process::run;

/// Builds a package of the module in a directory.
pub(super) fn go_module(source: &Path, package: &str, ldflags: &str, output: &Path) {
    run(go()
        .current_dir(source)
        .args(["build", "-mod=readonly", "-trimpath", "-ldflags"])
        .arg(format!("-s -w {ldflags}"))
        .arg("-o")
        .arg(output)
        .arg(package));
}

pub(super) fn go_program(source: &Path, module: &str, output: &Path) {
    run(go()
        .current_dir(source)
        .args(["build", "-mod=readonly", "-trimpath", "-ldflags", "-s -w"])
        .arg("-o")
        .arg(output)
        .arg(module));
    let place = run(go().current_dir(source).args([
        "list",
        "-mod=readonly",
        "-m",
        "-f",
        "{{.Dir}}",
        module,
    ]));
    let crds = output.join("crds");
    std::fs::create_dir(&crds).expect("create a directory");
    copy_definitions(Path::new(place.trim()), &crds);
}

pub(super) fn definitions(modules: &[&str], output: &Path) {
    std::fs::create_dir(output).expect("create a directory");
    for module in modules {
        copy_definitions(&downloaded(module, output), output);
    }
}

/// Copies the CustomResourceDefinitions that a module has next to its program.
fn copy_definitions(module: &Path, output: &Path) {
    let bases = module.join("config/crd/bases");
    for entry in std::fs::read_dir(&bases).expect("list the module's definitions") {
        let entry = entry.expect("a definition");
        std::fs::copy(entry.path(), output.join(entry.file_name())).expect("copy a definition");
    }
}

/// Downloads a module (`MODULE@vVERSION`). Returns its directory in Go's own cache.
fn downloaded(module: &str, workplace: &Path) -> PathBuf {
    let answer = run(go()
        .current_dir(workplace)
        .args(["mod", "download", "-json", module]));
    let answer: serde_json::Value =
        serde_json::from_str(&answer).expect("Go's description of the module");
    PathBuf::from(answer["Dir"].as_str().expect("the module's directory"))
}

pub(super) fn go_install(package: &str, output: &Path) {
    // Run outside the workspace's modules: `go install p@v` then uses p's own go.mod.
    run(go().current_dir(output).env("GOBIN", output).args([
        "install",
        "-trimpath",
        "-ldflags",
        "-s -w",
        package,
    ]));
}

/// Builds a program in a copy of its module: files must not be added to Go's own cache, and the
/// module's own go.mod has the replacements that the program needs.
pub(super) fn go_source(module: &str, package: &str, files: &[(&str, &str)], output: &Path) {
    let copy = tempfile::tempdir().expect("a directory for the module's source");
    copy_directory(&downloaded(module, copy.path()), copy.path());
    for (name, text) in files {
        let path = copy.path().join(name);
        std::fs::create_dir_all(path.parent().expect("a directory")).expect("make a directory");
        std::fs::write(path, text).expect("add a file to the module");
    }
    run(go()
        .current_dir(copy.path())
        .args(["build", "-mod=readonly", "-trimpath", "-ldflags", "-s -w"])
        .arg("-o")
        .arg(output)
        .arg(package));
}

/// Copies a directory without the files' modes: files in Go's cache are read-only.
fn copy_directory(from: &Path, to: &Path) {
    for entry in std::fs::read_dir(from).expect("list a module's directory") {
        let entry = entry.expect("an entry of a module's directory");
        let target = to.join(entry.file_name());
        match entry.file_type().expect("the kind of an entry").is_dir() {
            true => {
                std::fs::create_dir_all(&target).expect("make a directory");
                copy_directory(&entry.path(), &target);
            }
            false => {
                let content = std::fs::read(entry.path()).expect("read a module's file");
                std::fs::write(target, content).expect("copy a module's file");
            }
        }
    }
}

pub(super) fn python(requirements: &str, directory: &Path) {
    need(
        Command::new("python3").args(["-c", "import venv, ensurepip"]),
        "python3 with venv",
        "python3-venv",
    );
    run(Command::new("python3").args(["-m", "venv"]).arg(directory));
    let list = directory.join("requirements.txt");
    std::fs::write(&list, requirements).expect("write the requirements");
    run(Command::new(directory.join("bin/pip"))
        .args(["install", "--quiet", "--no-input", "--no-deps"])
        .args(["--disable-pip-version-check", "-r"])
        .arg(&list));
}

/// Downloads packages of the machine's Debian and unpacks them in the tool's directory. The lists
/// of packages are read again, because a machine may have none.
pub(super) fn debian(packages: &[&str], with_dependencies: bool, directory: &Path) {
    need(Command::new("apt-get").arg("--version"), "apt-get", "apt");
    let state = directory.join("apt");
    for name in ["lists/partial", "cache/archives/partial"] {
        std::fs::create_dir_all(state.join(name)).expect("make a directory");
    }
    let apt = || {
        let mut apt = Command::new("apt-get");
        apt.current_dir(directory).args(["-q", "-o"]);
        apt.arg(format!(
            "Dir::State::lists={}",
            state.join("lists").display()
        ));
        apt.arg("-o");
        apt.arg(format!("Dir::Cache={}", state.join("cache").display()));
        apt
    };
    run(apt().arg("update"));
    let mut all: Vec<String> = packages.iter().map(|one| (*one).to_owned()).collect();
    if with_dependencies {
        let install = ["install", "--simulate", "--no-install-recommends"];
        let output = apt().args(install).args(packages).output();
        let output = output.expect("simulate the installation");
        assert!(
            output.status.success(),
            "apt-get install --simulate {packages:?}: {}",
            String::from_utf8_lossy(&output.stderr)
        );
        let text = String::from_utf8_lossy(&output.stdout);
        let lacking = text.lines().filter_map(|line| line.strip_prefix("Inst "));
        let lacking = lacking.filter_map(|line| line.split(' ').next());
        all = lacking.map(str::to_owned).collect();
        assert!(!all.is_empty(), "{packages:?} are installed already");
    }
    run(apt().arg("download").args(all));
    for entry in std::fs::read_dir(directory).expect("list the packages") {
        let path = entry.expect("an entry").path();
        if path.extension().is_some_and(|extension| extension == "deb") {
            run(Command::new("dpkg-deb").arg("-x").arg(path).arg(directory));
        }
    }
    std::fs::remove_dir_all(state).expect("remove the lists of packages");
}

/// Returns the Go command at low priority: a server's build takes all cores for minutes.
fn go() -> Command {
    need(
        Command::new("go").arg("version"),
        "Go 1.26 or newer",
        "golang-go (or the archive of go.dev, when the release has an older one)",
    );
    let mut go = Command::new("nice");
    go.args(["-n", "10", "go"]).env("GOWORK", "off");
    go
}

pub(super) fn need(probe: &mut Command, program: &str, package: &str) {
    let found = probe.output().is_ok_and(|output| output.status.success());
    assert!(
        found,
        "the tests need {program}: install the Debian package {package} or put it on PATH"
    );
}
