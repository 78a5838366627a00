//! Name references: follows renamed objects in the fields that name them.

use crate::config::BackReferences;
use crate::error::{Error, ErrorKind};
use crate::fieldspec::{CreateKind, FieldSpec};
use crate::loader::Context;
use crate::node::{Map, Node, Scalar};
use crate::resid::{CLUSTER, GvkFilter};
use crate::resmap::ResMap;
use crate::resource::{PreviousId, Resource};
use crate::schema::Schema;
use std::collections::{HashMap, HashSet};
use std::rc::Rc;

/// Updates the fields that refer to renamed objects.
///
/// # Errors
/// A reference that matches several objects whose names now differ.
pub(crate) fn fix_references(
    map: &mut ResMap,
    references: &[BackReferences],
    context: &Context<'_, '_>,
) -> Result<(), Error> {
    let schema = context.schema.borrow();
    let targets = Targets::new(map, &schema);
    let by_kind = Referrers::new(references);
    for at in 0..map.list().len() {
        let resource = &map.list()[at];
        let first = resource.original_id(&schema);
        context.budget.spend_steps(by_kind.count(first.gvk.kind))?;
        let specs: Vec<_> = by_kind
            .of(first.gvk.kind)
            .filter(|(_, spec)| spec.gvk.selects(first.gvk))
            .collect();
        if specs.is_empty() {
            continue;
        }
        check_api_version(resource)?;
        let referrer = Referrer::new(resource, &schema)?;
        let mut node = std::mem::replace(&mut map.list_mut()[at].node, Node::null());
        for (target, spec) in specs {
            let search = Search {
                context,
                targets: &targets,
                referrer: &referrer,
                target,
                role: spec.path.ends_with("roleRef/name"),
            };
            // The kind was checked against the first id; the present one may differ.
            let anywhere = FieldSpec::new(GvkFilter::default(), spec.path.clone(), false);
            let set = &mut |node: &mut Node| search.set(node);
            anywhere.visit(&mut node, CreateKind::Nothing, &context.budget, set)?;
        }
        map.list_mut()[at].node = node;
    }
    Ok(())
}

/// Fails if the apiVersion starts with a slash: kustomize joins it again from group and version,
/// and refuses to resolve references if the result differs.
fn check_api_version(resource: &Resource) -> Result<(), Error> {
    if !resource.api_version().starts_with('/') {
        return Ok(());
    }
    let (kind, name) = (resource.kind(), resource.name());
    Err(ErrorKind::Object(format!(
        "{kind} {name}: the apiVersion starts with a slash: write group/version, or the version alone"
    ))
    .into())
}

/// The field paths, by the kind that has them.
struct Referrers<'c> {
    by_kind: HashMap<&'c str, Vec<(usize, &'c GvkFilter, &'c FieldSpec)>>,
}

impl<'c> Referrers<'c> {
    fn new(references: &'c [BackReferences]) -> Self {
        let mut by_kind: HashMap<&str, Vec<_>> = HashMap::new();
        let all = references
            .iter()
            .flat_map(|one| one.referrers.iter().map(move |spec| (&one.target, spec)));
        for (order, (target, spec)) in all.enumerate() {
            by_kind
                .entry(&spec.gvk.kind)
                .or_default()
                .push((order, target, spec));
        }
        Self { by_kind }
    }

    /// Returns the number of fields that [`Referrers::of`] yields.
    fn count(&self, kind: &str) -> usize {
        let count = |kind| self.by_kind.get(kind).map_or(0, Vec::len);
        count(kind) + count("")
    }

    /// Returns the fields of a kind, with those of any kind, in order.
    fn of(&self, kind: &str) -> impl Iterator<Item = (&'c GvkFilter, &'c FieldSpec)> {
        let mut found: Vec<_> = self
            .by_kind
            .get(kind)
            .into_iter()
            .flatten()
            .copied()
            .collect();
        if !kind.is_empty() {
            found.extend(self.by_kind.get("").into_iter().flatten().copied());
        }
        found.sort_by_key(|(order, _, _)| *order);
        found.into_iter().map(|(_, target, spec)| (target, spec))
    }
}

/// The properties of an object that may be referred to. None of them changes while references are
/// fixed.
struct Target {
    api_version: String,
    kind: String,
    name: String,
    namespace: String,
    cluster: bool,
    effective_namespace: String,
    original_namespace: String,
    previous: Vec<PreviousId>,
    prefixes: Vec<Rc<str>>,
    suffixes: Vec<Rc<str>>,
}

struct Targets {
    all: Vec<Target>,
    /// The objects that have or had a name, in order.
    by_name: HashMap<Rc<str>, Vec<usize>>,
    /// The present places of the objects, by their original namespace.
    moved: HashMap<String, HashSet<NamespaceScope>>,
}

/// The present place of an object.
#[derive(PartialEq, Eq, Hash)]
struct NamespaceScope {
    cluster: bool,
    effective_namespace: String,
    namespace: String,
}

impl Targets {
    fn new(map: &ResMap, schema: &Schema) -> Self {
        let mut all = Vec::new();
        let mut by_name: HashMap<Rc<str>, Vec<usize>> = HashMap::new();
        for resource in map
            .list()
            .iter()
            .filter(|resource| !resource.previous.is_empty())
        {
            let id = resource.id(schema);
            for previous in &resource.previous {
                let places = by_name.entry(Rc::clone(&previous.name)).or_default();
                if places.last() != Some(&all.len()) {
                    places.push(all.len());
                }
            }
            all.push(Target {
                api_version: resource.api_version().to_owned(),
                kind: resource.kind().to_owned(),
                name: resource.name().to_owned(),
                namespace: resource.namespace().to_owned(),
                cluster: id.cluster,
                effective_namespace: id.effective_namespace().to_owned(),
                original_namespace: resource
                    .original_id(schema)
                    .effective_namespace()
                    .to_owned(),
                previous: resource.previous.clone(),
                prefixes: resource.prefixes.clone(),
                suffixes: resource.suffixes.clone(),
            });
        }
        // A reference with a namespace depends on whether anything started there, renamed or not.
        let mut moved: HashMap<String, HashSet<NamespaceScope>> = HashMap::new();
        for resource in map.list() {
            let id = resource.id(schema);
            let place = NamespaceScope {
                cluster: id.cluster,
                effective_namespace: id.effective_namespace().to_owned(),
                namespace: resource.namespace().to_owned(),
            };
            let started = resource
                .original_id(schema)
                .effective_namespace()
                .to_owned();
            moved.entry(started).or_default().insert(place);
        }
        Self {
            all,
            by_name,
            moved,
        }
    }
}

/// The object whose fields are fixed.
struct Referrer {
    shown: String,
    cluster: bool,
    effective_namespace: String,
    prefixes: Vec<Rc<str>>,
    suffixes: Vec<Rc<str>>,
    /// The namespaces of the service accounts that a role binding binds.
    subject_namespaces: HashSet<String>,
    /// The group and kind of a binding's role.
    role: Option<GvkFilter>,
}

impl Referrer {
    fn new(resource: &Resource, schema: &Schema) -> Result<Self, Error> {
        let id = resource.id(schema);
        Ok(Self {
            shown: id.to_string(),
            cluster: id.cluster,
            effective_namespace: id.effective_namespace().to_owned(),
            prefixes: resource.prefixes.clone(),
            suffixes: resource.suffixes.clone(),
            subject_namespaces: if id.cluster {
                HashSet::new()
            } else {
                subject_namespaces(resource)?
            },
            role: role(&resource.node),
        })
    }
}

fn subject_namespaces(resource: &Resource) -> Result<HashSet<String>, Error> {
    let mut namespaces = HashSet::new();
    if resource.kind() != "RoleBinding" {
        return Ok(namespaces);
    }
    for subject in resource
        .node
        .get("subjects")
        .and_then(Node::as_seq)
        .into_iter()
        .flatten()
    {
        let fault = |reason: &str| ErrorKind::Transform {
            transformer: "name references",
            reason: format!("RoleBinding {}: {reason}", resource.name()),
        };
        if subject.as_map().is_none() {
            return Err(fault("a subject is not a map").into());
        }
        let (Some(namespace), Some(kind)) = (subject.get("namespace"), subject.get("kind")) else {
            continue;
        };
        let kind = string(kind).ok_or_else(|| fault("the kind of a subject is not a string"))?;
        if kind == "ServiceAccount" {
            let namespace = string(namespace)
                .ok_or_else(|| fault("the namespace of a subject is not a string"))?;
            namespaces.insert(namespace.to_owned());
        }
    }
    Ok(namespaces)
}

fn string(node: &Node) -> Option<&str> {
    match node {
        Node::Scalar(scalar) if scalar.is_string() => Some(&scalar.text),
        _ => None,
    }
}

fn role(node: &Node) -> Option<GvkFilter> {
    let reference = node.get("roleRef")?;
    let text = |field| reference.get(field).map(Node::text);
    Some(GvkFilter {
        group: text("apiGroup")?.to_owned().into(),
        ..GvkFilter::kind(text("kind")?.to_owned())
    })
}

/// The lookup of one kind of reference of one object.
struct Search<'s> {
    context: &'s Context<'s, 's>,
    targets: &'s Targets,
    referrer: &'s Referrer,
    target: &'s GvkFilter,
    /// True if the field is a binding's role, with its kind in a sibling field.
    role: bool,
}

impl Search<'_> {
    fn set(&self, node: &mut Node) -> Result<(), Error> {
        match node {
            node if node.is_null() => Ok(()),
            Node::Scalar(scalar) => self.set_scalar(scalar),
            Node::Map(map) => self.set_map(map),
            Node::Seq(items) => items.iter_mut().try_for_each(|item| match item {
                item if item.is_null() => Ok(()),
                Node::Scalar(scalar) => self.set_scalar(scalar),
                Node::Map(map) => self.set_map(map),
                Node::Seq(_) => Err(self.fault("a list in a list of references")),
            }),
        }
    }

    fn fault(&self, reason: &str) -> Error {
        let reason = format!("{}: {reason}", self.referrer.shown);
        ErrorKind::Transform {
            transformer: "name references",
            reason,
        }
        .into()
    }

    fn set_scalar(&self, scalar: &mut Scalar) -> Result<(), Error> {
        let same = |a: &Target, b: &Target| a.name == b.name;
        if let Some(found) = self.find(&scalar.text, None, same)?
            && found.name != scalar.text
        {
            self.context.budget.spend_text(found.name.len())?;
            scalar.set_plain(found.name.clone());
        }
        Ok(())
    }

    /// Sets a reference with its own namespace, such as a binding's subject.
    fn set_map(&self, map: &mut Map) -> Result<(), Error> {
        let Some(name) = map.get("name") else {
            return Err(self.fault("a reference has no name"));
        };
        let name = name.text().to_owned();
        let namespace = map
            .get("namespace")
            .map(|namespace| namespace.text().to_owned());
        let same = |a: &Target, b: &Target| a.name == b.name && a.namespace == b.namespace;
        let Some(found) = self.find(&name, namespace.as_deref(), same)? else {
            return Ok(());
        };
        if found.name == name && found.namespace.is_empty() {
            return Ok(());
        }
        let length = found.name.len() + found.namespace.len();
        self.context.budget.spend_text(length)?;
        map.set_plain("name", &found.name);
        if !found.namespace.is_empty() {
            map.set_plain("namespace", &found.namespace);
        }
        Ok(())
    }

    /// Returns the object that a name refers to.
    fn find(
        &self,
        name: &str,
        namespace: Option<&str>,
        same: impl Fn(&Target, &Target) -> bool,
    ) -> Result<Option<&Target>, Error> {
        let Some(places) = self.targets.by_name.get(name) else {
            return Ok(None);
        };
        self.context.budget.spend_steps(places.len())?;
        let mut found: Vec<&Target> = places.iter().map(|at| &self.targets.all[*at]).collect();
        found.retain(|target| self.is_reachable(target) && self.is_in(target, namespace));
        found.retain(|target| {
            Self::had_gvk(target, self.target) && self.fits_role(target) && self.is_near(target)
        });
        if let [one] = found.as_slice() {
            return Ok(Some(one));
        }
        found.retain(|target| self.same_layers(target, true));
        if found.len() > 1 {
            found.retain(|target| self.same_layers(target, false));
        }
        match found.as_slice() {
            [] => Ok(None),
            [first, rest @ ..] if rest.iter().all(|target| same(first, target)) => Ok(Some(first)),
            many => {
                const SHOWN: usize = 10;
                let shown = many
                    .iter()
                    .take(SHOWN)
                    .map(|target| format!("{} {}", target.kind, target.name));
                Err(ErrorKind::Ambiguous {
                    name: name.to_owned(),
                    referrer: self.referrer.shown.clone(),
                    candidates: shown.collect::<Vec<_>>().join(", "),
                }
                .into())
            }
        }
    }

    /// Checks whether the object can be referred to at all: it is in the same namespace, in none,
    /// or bound from another.
    fn is_reachable(&self, target: &Target) -> bool {
        self.reaches(
            target.cluster,
            &target.effective_namespace,
            &target.namespace,
        )
    }

    fn reaches(&self, cluster: bool, effective_namespace: &str, namespace: &str) -> bool {
        self.referrer.cluster
            || cluster
            || effective_namespace == self.referrer.effective_namespace
            || self.referrer.subject_namespaces.contains(namespace)
    }

    /// Checks whether the object is in the namespace of the reference: its original one, or
    /// otherwise its present one.
    fn is_in(&self, target: &Target, namespace: Option<&str>) -> bool {
        match namespace {
            None => true,
            Some(CLUSTER) => false,
            Some(namespace) if self.started_in(namespace) => target.original_namespace == namespace,
            Some(namespace) => target.effective_namespace == namespace,
        }
    }

    /// Checks whether an object that can be referred to started in a namespace.
    fn started_in(&self, namespace: &str) -> bool {
        let places = self.targets.moved.get(namespace).into_iter().flatten();
        places
            .into_iter()
            .any(|place| self.reaches(place.cluster, &place.effective_namespace, &place.namespace))
    }

    fn had_gvk(target: &Target, filter: &GvkFilter) -> bool {
        let gvk = crate::resid::Gvk::new(&target.api_version, &target.kind);
        target.previous.iter().any(|previous| {
            filter.selects(crate::resid::Gvk {
                kind: &previous.kind,
                ..gvk
            })
        })
    }

    fn fits_role(&self, target: &Target) -> bool {
        match &self.referrer.role {
            Some(role) if self.role => Self::had_gvk(target, role),
            _ => true,
        }
    }

    fn is_near(&self, target: &Target) -> bool {
        self.referrer.cluster
            || target.cluster
            || target.kind == "ServiceAccount"
            || target.effective_namespace == self.referrer.effective_namespace
    }

    fn same_layers(&self, target: &Target, allow_empty: bool) -> bool {
        crate::resource::same_layers(
            (&target.prefixes, &target.suffixes),
            (&self.referrer.prefixes, &self.referrer.suffixes),
            allow_empty,
        )
    }
}
