//! Renders the objects of an artifact: decrypts, builds and substitutes. Pure.

use super::decrypt::Decryptor;
use driftless_flux::{Kustomization, reason};
use driftless_fuel::{Fuel, Tank};
use driftless_kernel::failure::Failure;
use driftless_kustomize::{ErrorKind, Limits, Options, Remote, on_large_stack};
use driftless_manifest::{FileTree, Object, ReadSet, Reader, TreePath};
use driftless_plans::substitute::{self, SubstituteOptions};
use driftless_sops::MasterKey;
use serde_json::{Map, Value, json};
use std::collections::{BTreeMap, BTreeSet};

/// The inputs of a build in addition to the files.
#[derive(Default)]
pub struct Inputs {
    /// Variables of `postBuild`, in which later sources have already replaced earlier ones.
    pub variables: BTreeMap<String, String>,
    /// The keys, if the object asks for decryption.
    pub decryptor: Option<Decryptor>,
    /// True if a variable without a value and without a default is an empty string instead of a
    /// failure.
    pub lenient: bool,
    /// The fuel of the step that the build is part of.
    pub fuel: Tank,
}

/// The result of a build.
#[derive(Debug)]
pub struct BuildResult {
    /// The objects, in the order of the kustomization.
    pub objects: Vec<Object>,
    /// All files and directories that the build read or looked up.
    pub read_set: ReadSet,
    /// True if remote bases or files were fetched for the build.
    pub has_remote_files: bool,
}

/// The reason that a build stopped.
#[derive(Debug)]
pub enum BuildStop {
    /// The build must run again when the tree has the contents of these files.
    NeedsFiles(Vec<TreePath>),
    /// The build must run again with this remote base or file in the tree.
    Needs(Remote),
    /// The build must run again when key services have decrypted these data keys.
    NeedsKeys(Vec<MasterKey>),
    /// The build failed.
    Failed(Failure),
}

impl From<Failure> for BuildStop {
    fn from(failure: Failure) -> Self {
        Self::Failed(failure)
    }
}

/// Renders a Kustomization as kustomize-controller 1.9 does. With `remote`, entries may be URLs of
/// other hosts.
///
/// # Errors
/// `BuildFailed` with the file and the error; the message has no content of a Secret. Or the remote
/// that must be fetched first.
pub fn build(
    tree: &FileTree,
    kustomization: &Kustomization,
    inputs: &Inputs,
    remote: bool,
) -> Result<BuildResult, BuildStop> {
    let reader = reader(tree, inputs);
    let built = on_large_stack(|| render_and_substitute(&reader, kustomization, inputs, remote));
    complete(&reader, inputs, built).map(|objects| BuildResult {
        objects,
        read_set: reader.into_read_set(),
        has_remote_files: false,
    })
}

fn reader<'t>(tree: &'t FileTree, inputs: &'t Inputs) -> Reader<'t> {
    match &inputs.decryptor {
        Some(decryptor) => Reader::with_filter(tree, decryptor),
        None => Reader::new(tree),
    }
}

/// Returns the result of a build, or what it lacks: the files that the tree does not have yet, or
/// the data keys of encrypted files.
fn complete<T>(
    reader: &Reader<'_>,
    inputs: &Inputs,
    built: Result<T, BuildStop>,
) -> Result<T, BuildStop> {
    let wanted = inputs.decryptor.as_ref().map(Decryptor::take_wanted);
    let missing = reader.missing();
    if !missing.is_empty() {
        return Err(BuildStop::NeedsFiles(missing));
    }
    match wanted.unwrap_or_default() {
        keys if keys.is_empty() || matches!(built, Err(BuildStop::Needs(_))) => built,
        keys => Err(BuildStop::NeedsKeys(keys)),
    }
}

fn render_and_substitute(
    reader: &Reader<'_>,
    kustomization: &Kustomization,
    inputs: &Inputs,
    remote: bool,
) -> Result<Vec<Object>, BuildStop> {
    let objects = render(reader, kustomization, inputs, remote)?;
    // After the render: a part that waits would hold the fuel that the render needs.
    let fuel = substitute::fuel(&inputs.fuel);
    let objects = objects
        .into_iter()
        .map(|object| substitute_variables(object, kustomization, inputs, &fuel));
    Ok(objects.collect::<Result<_, Failure>>()?)
}

/// Returns the variables that a build names and that have no value and no default.
///
/// # Errors
/// Those of [`build`].
pub fn unset(
    tree: &FileTree,
    kustomization: &Kustomization,
    inputs: &Inputs,
    remote: bool,
) -> Result<BTreeSet<String>, BuildStop> {
    let reader = reader(tree, inputs);
    let unset = on_large_stack(|| {
        let objects = render(&reader, kustomization, inputs, remote)?;
        let unset = |object| substitute::unset(object, &inputs.variables);
        Ok(objects.iter().flat_map(unset).collect())
    });
    complete(&reader, inputs, unset)
}

/// Renders the objects, decrypted and not yet substituted.
fn render(
    reader: &Reader<'_>,
    kustomization: &Kustomization,
    inputs: &Inputs,
    remote: bool,
) -> Result<Vec<Object>, BuildStop> {
    let path = directory(kustomization)?;
    match reader.kind(&path).map_err(failed)? {
        Some(driftless_manifest::Kind::Dir) => {}
        _ => {
            // The read-set must survive: a push that adds the directory must requeue this object.
            return Err(Failure::retry(
                reason::ARTIFACT_FAILED,
                format!("kustomization path not found: the source has no directory '{path}'"),
            )
            .into());
        }
    }
    let limits = Limits {
        fuel: inputs.fuel.clone(),
        ..Limits::default()
    };
    let overlay = driftless_kustomize::kustomization_of(reader, &path, &limits);
    let mut overlay = overlay.map_err(failed)?;
    overlay_spec(&mut overlay, kustomization, reader, &path)?;
    let options = Options {
        remote,
        limits,
        ..Options::flux()
    };
    let objects = driftless_kustomize::Build::new(reader, &path)
        .kustomization(&overlay)
        .options(&options)
        .objects();
    let objects = objects.map_err(|error| match error.kind {
        ErrorKind::Needs(remote) => BuildStop::Needs(remote),
        _ => BuildStop::Failed(failed(error)),
    })?;
    let objects = objects
        .into_iter()
        .map(|object| decrypt_entries(object, inputs));
    Ok(objects.collect::<Result<_, Failure>>()?)
}

fn directory(kustomization: &Kustomization) -> Result<TreePath, Failure> {
    TreePath::secure_join(&kustomization.spec.path).map_err(|error| {
        let failure = Failure::terminal(reason::BUILD_FAILED, &error);
        failure.caused_by(error).context("spec.path")
    })
}

fn failed(error: impl std::error::Error + Send + Sync + 'static) -> Failure {
    Failure::retry(reason::BUILD_FAILED, &error).caused_by(error)
}

fn refused(message: impl std::fmt::Display) -> Failure {
    Failure::retry(reason::BUILD_FAILED, message)
}

/// Decrypts the entries of a Secret; whole files were decrypted when they were read.
fn decrypt_entries(object: Object, inputs: &Inputs) -> Result<Object, Failure> {
    let id = object.id();
    let object = match &inputs.decryptor {
        Some(decryptor) => decryptor
            .object(object)
            .map_err(|error| failed(error).context(&id))?,
        None => object,
    };
    if object
        .as_map()
        .get("sops")
        .and_then(|sops| sops.get("mac"))
        .is_some()
    {
        let message = "is SOPS encrypted, configuring decryption is required for this secret to be reconciled";
        return Err(refused(format!("{id} {message}")));
    }
    Ok(object)
}

fn substitute_variables(
    object: Object,
    kustomization: &Kustomization,
    inputs: &Inputs,
    fuel: &Fuel,
) -> Result<Object, Failure> {
    let id = object.id();
    let Some(post_build) = &kustomization.spec.post_build else {
        return Ok(object);
    };
    let always = match post_build.substitute_strategy.as_deref() {
        None | Some("WithVariables") => false,
        Some("Always") => true,
        Some(other) => {
            let message = format!(
                "spec.postBuild.substituteStrategy '{other}' is not WithVariables or Always"
            );
            return Err(Failure::terminal(reason::BUILD_FAILED, message));
        }
    };
    let options = SubstituteOptions {
        always,
        strict: !inputs.lenient,
        ..SubstituteOptions::default()
    };
    substitute::object_within(&object, &inputs.variables, options, fuel)
        .map_err(|error| failed(error).context(&id))
}

/// Adds the fields of the Kustomization object to the kustomization file, as Flux's generator does.
fn overlay_spec(
    file: &mut Value,
    from: &Kustomization,
    reader: &Reader<'_>,
    path: &TreePath,
) -> Result<(), Failure> {
    let spec = &from.spec;
    if file.is_null() {
        *file = json!({});
    }
    let Value::Object(file) = file else {
        return Err(refused(format!(
            "'{path}': the kustomization file is not a map"
        )));
    };
    for (field, value) in [
        ("namespace", &spec.target_namespace),
        ("namePrefix", &spec.name_prefix),
        ("nameSuffix", &spec.name_suffix),
    ] {
        if let Some(value) = value.as_ref().filter(|value| !value.is_empty()) {
            file.insert(field.to_owned(), value.clone().into());
        }
    }
    let patches = spec.patches.iter().map(|patch| {
        let mut entry = json!({"patch": patch.patch});
        if let Some(target) = &patch.target {
            entry["target"] = json!(target);
        }
        entry
    });
    append(file, "patches", patches);
    let merges = spec
        .patches_strategic_merge
        .iter()
        .map(|patch| json!(json!(patch).to_string()));
    append(file, "patchesStrategicMerge", merges);
    let json_patches = spec
        .patches_json6902
        .iter()
        .map(|patch| json!({"patch": json!(patch.patch).to_string(), "target": patch.target}));
    append(file, "patchesJson6902", json_patches);
    append(file, "components", components(from, reader, path)?);
    append(
        file,
        "buildMetadata",
        spec.build_metadata.iter().map(|option| json!(option)),
    );
    merge_images(file, from);
    Ok(())
}

fn append(file: &mut Map<String, Value>, field: &str, more: impl IntoIterator<Item = Value>) {
    let mut more = more.into_iter().peekable();
    if more.peek().is_none() {
        return;
    }
    match file.entry(field.to_owned()).or_insert_with(|| json!([])) {
        Value::Array(list) => list.extend(more),
        slot => *slot = more.collect(),
    }
}

/// Returns the components to add, without missing ones if `spec.ignoreMissingComponents` is set.
fn components(
    from: &Kustomization,
    reader: &Reader<'_>,
    path: &TreePath,
) -> Result<Vec<Value>, Failure> {
    let mut found = Vec::new();
    for component in &from.spec.components {
        let place = path
            .join(component)
            .map_err(|error| failed(error).context("spec.components"))?;
        if reader.kind(&place).map_err(failed)?.is_some() || !from.spec.ignore_missing_components {
            found.push(json!(component));
        }
    }
    Ok(found)
}

/// Adds the images of the object; each replaces the file's image of the same name.
fn merge_images(file: &mut Map<String, Value>, from: &Kustomization) {
    for image in &from.spec.images {
        let entry = json!(image);
        let slot = file.entry("images".to_owned()).or_insert_with(|| json!([]));
        let Value::Array(list) = slot else {
            *slot = json!([entry]);
            continue;
        };
        match list
            .iter_mut()
            .find(|known| known.get("name") == entry.get("name"))
        {
            Some(known) => *known = entry,
            None => list.push(entry),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use driftless_fuel::FuelLimits;

    fn kustomization(spec: Value) -> Kustomization {
        let mut full =
            json!({"interval": "10m", "sourceRef": {"kind": "GitRepository", "name": "x"}});
        if let (Value::Object(full), Value::Object(spec)) = (&mut full, spec) {
            full.extend(spec);
        }
        let object = json!({"apiVersion": "kustomize.toolkit.fluxcd.io/v1", "kind": "Kustomization",
            "metadata": {"name": "apps", "namespace": "team"}, "spec": full});
        Kustomization::from_object(Object::new(object).unwrap()).unwrap()
    }

    fn build(
        tree: &FileTree,
        owner: &Kustomization,
        inputs: &Inputs,
    ) -> Result<BuildResult, Failure> {
        match super::build(tree, owner, inputs, false) {
            Ok(built) => Ok(built),
            Err(BuildStop::Failed(failure)) => Err(failure),
            Err(BuildStop::NeedsFiles(files)) => panic!("{files:?} are not loaded"),
            Err(BuildStop::Needs(remote)) => panic!("{remote:?} is not allowed"),
            Err(BuildStop::NeedsKeys(keys)) => panic!("{keys:?} are not there"),
        }
    }

    const DEPLOYMENT: &str = "apiVersion: apps/v1\nkind: Deployment\nmetadata:\n  name: web\nspec:\n  replicas: ${REPLICAS:-1}\n  \
                              template:\n    spec:\n      containers:\n      - name: web\n        image: web:1\n";

    #[test]
    fn overlays_of_the_object() {
        let tree = FileTree::from_files([("apps/web.yaml", DEPLOYMENT)]).unwrap();
        let apps = kustomization(
            json!({"path": "./apps", "targetNamespace": "team", "namePrefix": "a-",
            "images": [{"name": "web", "newTag": "2"}], "postBuild": {"substitute": {"REPLICAS": "3"}},
            "patches": [{"patch": "- op: add\n  path: /metadata/labels\n  value: {x: why}\n", "target": {"kind": "Deployment"}}]}),
        );
        let variables = [("REPLICAS".to_owned(), "3".to_owned())].into();
        let built = build(
            &tree,
            &apps,
            &Inputs {
                variables,
                ..Inputs::default()
            },
        )
        .unwrap();
        let web = &built.objects[0];
        assert_eq!(
            (web.name(), web.namespace(), web.label("x")),
            ("a-web", "team", Some("why"))
        );
        assert_eq!(web.pointer("/spec/replicas"), Some(&json!(3)));
        assert_eq!(
            web.pointer("/spec/template/spec/containers/0/image"),
            Some(&json!("web:2"))
        );
    }

    /// The stack of a worker is too small for objects of a thousand levels, so a build runs on its
    /// own stack.
    #[test]
    fn deep_objects_are_built_on_a_small_stack() {
        let levels = 990;
        let deep = "{a: ".repeat(levels) + "x" + &"}".repeat(levels);
        let object =
            format!("apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: a}}\ndata: {deep}\n");
        let patch = format!("- op: add\n  path: /data/b\n  value: {deep}\n");
        let spec = json!({"path": "./", "postBuild": {"substitute": {"A": "b"}},
            "patches": [{"patch": object}, {"patch": patch, "target": {"kind": "ConfigMap"}}]});
        let work = move || {
            let tree = FileTree::from_files([("a.yaml", object.as_str())]).unwrap();
            let inputs = Inputs {
                variables: [("A".to_owned(), "b".to_owned())].into(),
                ..Inputs::default()
            };
            let owner = kustomization(spec);
            let built = build(&tree, &owner, &inputs).unwrap();
            assert_eq!(built.objects.len(), 1);
            assert!(unset(&tree, &owner, &inputs, false).is_ok());
        };
        // Half of the stack of a worker: without optimisation, dropping 990 levels needs 550 KiB.
        let thread = std::thread::Builder::new().stack_size(1 << 20).spawn(work);
        thread.unwrap().join().unwrap();
    }

    #[test]
    fn all_parts_of_a_build_charge_the_fuel_of_the_step() {
        let tree = FileTree::from_files([("apps/web.yaml", DEPLOYMENT)]).unwrap();
        let apps =
            kustomization(json!({"path": "./apps", "postBuild": {"substitute": {"A": "b"}}}));
        let inputs = |steps| Inputs {
            variables: [("A".to_owned(), "b".to_owned())].into(),
            fuel: Tank::new(FuelLimits {
                steps,
                ..FuelLimits::NONE
            }),
            ..Inputs::default()
        };
        let enough = inputs(100_000);
        build(&tree, &apps, &enough).unwrap();
        let spent = 100_000 - enough.fuel.left().steps;
        // Each build is a separate part, and the fuel is that of all of them.
        build(&tree, &apps, &enough).unwrap();
        assert_eq!(100_000 - enough.fuel.left().steps, 2 * spent);
        // The substitution is the last part.
        let failure = build(&tree, &apps, &inputs(spent - 1)).unwrap_err();
        let words = format!(
            "the substitution in all objects of this build needs more than {} steps",
            spent - 1
        );
        assert!(failure.message.contains(&words), "{}", failure.message);
        let failure = build(&tree, &apps, &inputs(spent / 10)).unwrap_err();
        let words = format!("more than {} steps", spent / 10);
        assert!(failure.message.contains(&words), "{}", failure.message);
    }

    #[test]
    fn a_failure_of_a_file_has_the_error_as_its_source() {
        let tree = FileTree::from_files([("apps/web.yaml", "a: 1\na: 2\n")]).unwrap();
        let apps = kustomization(json!({"path": "./apps"}));
        let failure = build(&tree, &apps, &Inputs::default()).unwrap_err();
        let source = std::error::Error::source(&failure).unwrap();
        let error = source.downcast_ref::<driftless_kustomize::Error>().unwrap();
        assert_eq!(failure.message, error.to_string());
        let span = error.span().unwrap();
        assert_eq!(
            (span.file.as_str(), span.line, span.column),
            ("apps/web.yaml", 2, 1)
        );
    }

    #[test]
    fn a_missing_directory_is_a_failure_and_not_an_empty_build() {
        let tree = FileTree::from_files([("apps/web.yaml", DEPLOYMENT)]).unwrap();
        let failure = build(
            &tree,
            &kustomization(json!({"path": "./app"})),
            &Inputs::default(),
        )
        .unwrap_err();
        assert_eq!(failure.reason, reason::ARTIFACT_FAILED);
        // A path cannot leave the root.
        let build_of = |path: &str| {
            let kustomization = kustomization(json!({"path": path}));
            build(&tree, &kustomization, &Inputs::default())
        };
        assert_eq!(
            build_of("../x").unwrap_err().reason,
            reason::ARTIFACT_FAILED
        );
        assert_eq!(build_of("../../apps").unwrap().objects.len(), 1);
    }
}
