//! Objects by the names that kubectl accepts: `deployment my-app`, `po/web-0`, `ks/apps`,
//! `deployments.apps/web`.

use super::objects;
use crate::concurrent;
use crate::error::Error;
use driftless_kernel::hub::Hub;
use driftless_kernel::ports::{ListRequest, Resource as Served};
use driftless_manifest::{Gvk, Object};

/// The short names of Kubernetes' and Flux's own kinds. Those of other definitions are read from
/// the hub.
const SHORT: [(&str, &str); 29] = [
    ("cj", "CronJob"),
    ("cm", "ConfigMap"),
    ("crd", "CustomResourceDefinition"),
    ("crds", "CustomResourceDefinition"),
    ("deploy", "Deployment"),
    ("ds", "DaemonSet"),
    ("ea", "ExternalArtifact"),
    ("ep", "Endpoints"),
    ("gitrepo", "GitRepository"),
    ("hc", "HelmChart"),
    ("helmrepo", "HelmRepository"),
    ("hpa", "HorizontalPodAutoscaler"),
    ("hr", "HelmRelease"),
    ("ing", "Ingress"),
    ("ks", "Kustomization"),
    ("limits", "LimitRange"),
    ("netpol", "NetworkPolicy"),
    ("no", "Node"),
    ("ns", "Namespace"),
    ("ocirepo", "OCIRepository"),
    ("pc", "PriorityClass"),
    ("pdb", "PodDisruptionBudget"),
    ("po", "Pod"),
    ("pv", "PersistentVolume"),
    ("pvc", "PersistentVolumeClaim"),
    ("quota", "ResourceQuota"),
    ("rs", "ReplicaSet"),
    ("sa", "ServiceAccount"),
    ("svc", "Service"),
];

/// An object that the command line names.
pub struct Named {
    /// The resource, in the form of the command line.
    pub resource: Resource,
    /// The name that the command line gives.
    pub name: String,
}

/// A resource in the form that the command line names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Resource {
    /// The kind of `--api-version` and `--kind`.
    Exact(Gvk),
    /// A word: a kind, a plural or a short name, with or without `.GROUP`.
    Word(String),
}

/// Parses `RESOURCE NAME...` or `RESOURCE/NAME...`.
///
/// # Errors
/// The words have neither form.
pub fn parse(words: &[String]) -> Result<Vec<Named>, Error> {
    let wrong = |problem: &str| {
        Error::usage(problem)
            .next("give RESOURCE NAME or RESOURCE/NAME, such as deployment my-app or pod/web-0")
    };
    let named = |resource: &str, name: &str| match resource.is_empty()
        || name.is_empty()
        || name.contains('/')
    {
        true => Err(wrong(&format!(
            "'{resource}/{name}' does not name an object"
        ))),
        false => Ok(Named {
            resource: Resource::Word(resource.to_owned()),
            name: name.to_owned(),
        }),
    };
    if words.iter().all(|word| word.contains('/')) {
        let pairs = words.iter().filter_map(|word| word.split_once('/'));
        return pairs
            .map(|(resource, name)| named(resource, name))
            .collect();
    }
    match words {
        [resource, names @ ..]
            if !names.is_empty() && !words.iter().any(|word| word.contains('/')) =>
        {
            names.iter().map(|name| named(resource, name)).collect()
        }
        [only] => Err(wrong(&format!("'{only}' does not name an object"))),
        _ => Err(wrong("RESOURCE NAME and RESOURCE/NAME cannot be mixed")),
    }
}

/// Reads the objects.
///
/// # Errors
/// A resource is not served, or an object does not exist.
pub async fn read_all(hub: &Hub, named: &[Named], namespace: &str) -> Result<Vec<Object>, Error> {
    let mut resources: Vec<(Resource, Served)> = Vec::new();
    let mut kinds = None;
    for one in named {
        if resources.iter().any(|(known, _)| *known == one.resource) {
            continue;
        }
        let served = served_among(hub, &one.resource, &mut kinds).await?;
        resources.push((one.resource.clone(), served));
    }
    let reads = named.iter().filter_map(|one| {
        let (_, served) = resources.iter().find(|(known, _)| *known == one.resource)?;
        Some(read(hub, served, namespace, &one.name))
    });
    let read = concurrent::run(reads).await;
    read.into_iter().collect()
}

/// Returns the API resource that the hub serves for a resource of the command line.
///
/// # Errors
/// The hub does not serve it.
pub async fn served(hub: &Hub, resource: &Resource) -> Result<Served, Error> {
    served_among(hub, resource, &mut None).await
}

/// Returns the API resource; `kinds` has those of the hub once they are read.
async fn served_among(
    hub: &Hub,
    resource: &Resource,
    kinds: &mut Option<Vec<Gvk>>,
) -> Result<Served, Error> {
    match resource {
        Resource::Exact(gvk) => objects::resource(hub, gvk).await.map_err(|error| {
            error.next("give --api-version and --kind as kubectl api-resources lists them")
        }),
        Resource::Word(word) => {
            if kinds.is_none() {
                *kinds = Some(self::kinds(hub).await?);
            }
            by_word(hub, word, kinds.as_deref().unwrap_or_default()).await
        }
    }
}

async fn read(hub: &Hub, served: &Served, namespace: &str, name: &str) -> Result<Object, Error> {
    let place = if served.namespaced { namespace } else { "" };
    let found = hub.cluster.get(served, place, name).await?;
    found.ok_or_else(|| {
        let (plural, group) = (&served.plural, &served.gvk.group);
        let resource = match group.is_empty() {
            true => plural.clone(),
            false => format!("{plural}.{group}"),
        };
        let error = Error::new(format!("{resource} \"{name}\" not found"));
        match served.namespaced {
            true => error.next(format!(
                "give another namespace than {namespace} with -n NAMESPACE"
            )),
            false => error.next(format!("kubectl get {resource} lists the objects")),
        }
    })
}

/// Returns every kind that the hub serves, in the order of its discovery.
async fn kinds(hub: &Hub) -> Result<Vec<Gvk>, Error> {
    let abilities = hub.cluster.abilities().await?;
    let kinds = abilities.api_versions.iter().filter_map(|text| {
        // `v1/Pod` or `apps/v1/Deployment`; entries without a kind are versions.
        let (version, kind) = text.rsplit_once('/')?;
        let is_kind = kind.starts_with(|one: char| one.is_ascii_uppercase());
        is_kind.then(|| Gvk::new(version, kind))
    });
    Ok(kinds.collect())
}

async fn by_word(hub: &Hub, word: &str, kinds: &[Gvk]) -> Result<Served, Error> {
    let lower = word.to_lowercase();
    let (name, group) = match lower.split_once('.') {
        Some((name, group)) => (name, Some(group)),
        None => (lower.as_str(), None),
    };
    let short = SHORT.iter().find(|(short, _)| *short == name);
    let name = short.map_or_else(|| name.to_owned(), |(_, kind)| kind.to_lowercase());
    // `deployments.v1.apps` is a version and a group.
    let has_group = |gvk: &Gvk| {
        group.is_none_or(|group| {
            gvk.group == group
                || format!("{}.{}", gvk.version, gvk.group).trim_end_matches('.') == group
        })
    };
    let mut like: Vec<&Gvk> = kinds.iter().filter(|gvk| has_group(gvk)).collect();
    // Kubernetes' own groups come first, as in kubectl.
    like.sort_by_key(|gvk| gvk.group.contains('.') && !gvk.group.ends_with(".k8s.io"));
    if let Some(gvk) = like.iter().find(|gvk| gvk.kind.to_lowercase() == name) {
        return objects::resource(hub, gvk).await;
    }
    for gvk in like
        .iter()
        .filter(|gvk| may_be_plural(&name, &gvk.kind.to_lowercase()))
    {
        if let Some(served) = hub.cluster.resource(gvk).await?
            && served.plural == name
        {
            return Ok(served);
        }
    }
    if let Some(gvk) = by_short_name(hub, &name).await? {
        return objects::resource(hub, &gvk).await;
    }
    Err(Error::new(format!("the hub has no resource '{word}'"))
        .next("kubectl api-resources lists the resources; give the kind, its plural or its short name"))
}

/// Returns whether a word may be the plural of a kind; the resource of the kind decides.
fn may_be_plural(word: &str, kind: &str) -> bool {
    let stem = kind.strip_suffix('y').unwrap_or(kind);
    word.starts_with(stem)
}

/// Returns the kind of the definition with a short name.
async fn by_short_name(hub: &Hub, name: &str) -> Result<Option<Gvk>, Error> {
    let gvk = Gvk::new("apiextensions.k8s.io/v1", "CustomResourceDefinition");
    let resource = objects::resource(hub, &gvk).await?;
    let definitions = match hub.cluster.list(&ListRequest::all(&resource)).await {
        Ok(definitions) => definitions,
        // Without the right to read definitions, their short names are unknown.
        Err(error) if error.kind == driftless_kernel::ports::ErrorKind::Denied => Vec::new(),
        Err(error) => return Err(error.into()),
    };
    let has_name = |definition: &&Object| {
        let names = definition.pointer("/spec/names/shortNames");
        let names = names.and_then(|names| names.as_array());
        names
            .into_iter()
            .flatten()
            .any(|one| one.as_str() == Some(name))
    };
    let found = definitions.iter().find(has_name);
    Ok(found.and_then(|definition| {
        let text = |pointer: &str| definition.pointer(pointer).and_then(|one| one.as_str());
        let versions = definition.pointer("/spec/versions")?.as_array()?;
        let stored = versions.iter().find(|version| version["storage"] == true)?;
        let group = text("/spec/group")?;
        let version = format!("{group}/{}", stored["name"].as_str()?);
        Some(Gvk::new(&version, text("/spec/names/kind")?))
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(line: &str) -> Result<Vec<(String, String)>, Error> {
        let words: Vec<String> = line.split(' ').map(str::to_owned).collect();
        let named = parse(&words)?;
        let pair = |one: Named| match one.resource {
            Resource::Word(word) => (word, one.name),
            Resource::Exact(gvk) => (gvk.kind, one.name),
        };
        Ok(named.into_iter().map(pair).collect())
    }

    #[test]
    fn objects_are_named_as_for_kubectl() {
        let pair = |resource: &str, name: &str| (resource.to_owned(), name.to_owned());
        assert_eq!(parsed("deploy web").unwrap(), vec![pair("deploy", "web")]);
        assert_eq!(
            parsed("cm a b").unwrap(),
            vec![pair("cm", "a"), pair("cm", "b")]
        );
        assert_eq!(
            parsed("po/a deployments.apps/b").unwrap(),
            vec![pair("po", "a"), pair("deployments.apps", "b")]
        );
        for wrong in ["deploy", "deploy a/b", "a/b c", "/a", "a/", "a/b/c"] {
            assert!(parsed(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn plurals_are_recognized() {
        for (word, kind) in [
            ("deployments", "deployment"),
            ("networkpolicies", "networkpolicy"),
            ("ingresses", "ingress"),
        ] {
            assert!(may_be_plural(word, kind), "{word}");
        }
        assert!(!may_be_plural("pods", "service"));
    }
}
