//! The directories of a case and their kustomizations.

use super::File;
use super::objects::{self, CONFIG_MAPS, IMAGES, NAMESPACES, Object, SECRETS, labels, value_text};
use super::patches;
use super::yaml::{Quote, Yaml, list, map, plain, text};
use driftless_harness::random::Random;
use std::collections::BTreeMap;

/// The directories of a case while they are generated.
pub struct Layers<'r> {
    random: &'r mut Random,
    files: BTreeMap<String, File>,
    vars: usize,
    /// True if the base is reached by two paths, which would make its vars duplicates.
    diamond: bool,
}

/// The objects of a directory that the directory above can refer to.
type Scope = Vec<Object>;

/// One kustomization while it is generated.
struct Layer {
    dir: &'static str,
    fields: Yaml,
    scope: Scope,
    component: bool,
}

impl<'r> Layers<'r> {
    pub fn new(random: &'r mut Random) -> Self {
        Self {
            random,
            files: BTreeMap::new(),
            vars: 0,
            diamond: false,
        }
    }

    pub fn into_files(self) -> BTreeMap<String, File> {
        self.files
    }

    /// Generates the directories in one of a few shapes, and returns the one to build.
    pub fn tree(&mut self) -> String {
        match self.random.below(10) {
            0..=3 => {
                self.layer("top", &[], Vec::new(), &[]);
            }
            4..=6 => {
                let scope = self.layer("base", &[], Vec::new(), &[]);
                self.layer("top", &["../base"], scope, &[]);
            }
            7 => {
                self.diamond = true;
                let base = self.layer("base", &[], Vec::new(), &[]);
                let mut scope = self.layer("left", &["../base"], base.clone(), &[]);
                scope.extend(self.layer("right", &["../base"], base, &[]));
                self.layer("top", &["../left", "../right"], scope, &[]);
            }
            8 => {
                let base = self.layer("base", &[], Vec::new(), &[]);
                let middle = self.layer("middle", &["../base"], base, &[]);
                self.layer("top", &["../middle"], middle, &[]);
            }
            _ => {
                let base = self.layer("base", &[], Vec::new(), &[]);
                let part = self.layer("part", &[], base, &[]);
                self.layer("top", &["../base"], part, &["../part"]);
            }
        }
        "top".to_owned()
    }

    /// Generates one directory on top of its bases.
    fn layer(
        &mut self,
        dir: &'static str,
        bases: &[&str],
        scope: Scope,
        components: &[&str],
    ) -> Scope {
        let component = dir == "part";
        let mut layer = Layer {
            dir,
            fields: map([]),
            scope,
            component,
        };
        if component {
            layer
                .fields
                .push("apiVersion", text("kustomize.config.k8s.io/v1alpha1"));
            layer.fields.push("kind", text("Component"));
        } else if self.random.percent(50) {
            layer
                .fields
                .push("apiVersion", text("kustomize.config.k8s.io/v1beta1"));
            layer.fields.push("kind", text("Kustomization"));
        }
        self.resources(&mut layer, bases);
        if !components.is_empty() {
            layer.fields.push("components", strings(components));
        }
        self.generators(&mut layer);
        self.names(&mut layer);
        self.labels(&mut layer);
        self.patches(&mut layer);
        self.values(&mut layer);
        self.plugins(&mut layer);
        self.rest(&mut layer);
        self.files.insert(
            format!("{dir}/kustomization.yaml"),
            File::Documents(vec![layer.fields]),
        );
        layer.scope
    }

    fn add(&mut self, layer: &Layer, name: &str, documents: Vec<Yaml>) {
        self.files
            .insert(format!("{}/{name}", layer.dir), File::Documents(documents));
    }

    fn resources(&mut self, layer: &mut Layer, bases: &[&str]) {
        let most = if bases.is_empty() { 6 } else { 2 };
        let least = usize::from(bases.is_empty() && !layer.component);
        let mut new: Vec<Object> = Vec::new();
        for _ in 0..least + self.random.below(most) {
            let object = objects::object(self.random);
            // No namespace and `default` are the same; a namespace field may make more objects
            // collide.
            let rough = self.random.percent(95);
            let place = |object: &Object| if rough { None } else { object.namespace };
            let there = |other: &Object| {
                (other.kind, &other.name, place(other))
                    == (object.kind, &object.name, place(&object))
            };
            if !layer.scope.iter().chain(&new).any(there) {
                new.push(object);
            }
        }
        let mut entries: Vec<Yaml> = bases.iter().map(|base| text(base)).collect();
        let mut rest: Vec<Yaml> = new.iter().map(|object| object.body.clone()).collect();
        let mut number = 0;
        while !rest.is_empty() {
            let together = (1 + self.random.below(3)).min(rest.len());
            let mut documents: Vec<Yaml> = rest.drain(..together).collect();
            if self.random.percent(6) {
                documents = vec![map([
                    ("apiVersion", text("v1")),
                    ("kind", text("List")),
                    ("items", list(documents)),
                ])];
            }
            let name = format!("r{number}.yaml");
            self.add(layer, &name, documents);
            entries.push(text(&name));
            number += 1;
        }
        if !entries.is_empty() {
            layer.fields.push(
                if self.random.percent(4) && number == 0 {
                    "bases"
                } else {
                    "resources"
                },
                list(entries),
            );
        }
        layer.scope.extend(new);
    }

    fn generators(&mut self, layer: &mut Layer) {
        for (field, kind, pool) in [
            ("configMapGenerator", "ConfigMap", &CONFIG_MAPS),
            ("secretGenerator", "Secret", &SECRETS),
        ] {
            if !self.random.percent(25) {
                continue;
            }
            let name = self.random.pick(pool);
            let there = layer
                .scope
                .iter()
                .any(|object| object.kind == kind && object.name == name);
            let mut entry = map([("name", text(name))]);
            if there {
                entry.push(
                    "behavior",
                    text(self.random.pick(&["merge", "merge", "replace"])),
                );
            }
            self.sources(layer, &mut entry);
            if kind == "Secret" && self.random.percent(20) {
                entry.push("type", text("example.com/kind"));
            }
            if self.random.percent(25) {
                let options = self.generator_options();
                entry.push("options", options);
            }
            layer.fields.push(field, list(vec![entry]));
            if !there {
                let body = map([
                    ("apiVersion", text("v1")),
                    ("kind", text(kind)),
                    ("metadata", map([("name", text(name))])),
                    ("data", map([("mode", text("fast"))])),
                ]);
                layer.scope.push(Object {
                    api_version: "v1",
                    kind,
                    name: name.to_owned(),
                    namespace: None,
                    body,
                });
            }
        }
        if self.random.percent(8) {
            let options = self.generator_options();
            layer.fields.push("generatorOptions", options);
        }
    }

    fn generator_options(&mut self) -> Yaml {
        let mut options = map([]);
        if self.random.percent(50) {
            options.push("disableNameSuffixHash", plain(self.random.percent(80)));
        }
        if self.random.percent(40) {
            options.push("labels", labels(self.random));
        }
        if self.random.percent(20) {
            options.push("annotations", map([("note", value_text(self.random))]));
        }
        if self.random.percent(20) {
            options.push("immutable", plain(true));
        }
        options
    }

    /// Adds literals, files and env files to a generator.
    fn sources(&mut self, layer: &Layer, entry: &mut Yaml) {
        const LITERALS: [&str; 7] = [
            "mode=fast",
            "token=s3cr3t",
            "a=",
            "q=\"quoted\"",
            "eq=a=b=c",
            "n=1",
            "u=é \t x",
        ];
        const CONTENTS: [&str; 6] = [
            "plain",
            "two\nlines\n",
            "key: value\nlist:\n  - a\n",
            "",
            "  lead\ntrail  \n",
            "tab\tand \"quotes\"\r\nwindows\r\n",
        ];
        const ENVS: [&str; 3] = [
            "A=1\n# note\n\nB=two words\n",
            "C=x=y\r\nD='q'\n",
            " E = e \n",
        ];
        let stem = if entry.get("type").is_some() {
            "s"
        } else {
            "c"
        };
        if self.random.percent(70) {
            let first = self.random.below(LITERALS.len());
            let count = 1 + self.random.below(3);
            let chosen = (0..count).map(|at| {
                Yaml::Quoted(
                    LITERALS[(first + at) % LITERALS.len()].to_owned(),
                    Quote::Double,
                )
            });
            entry.push("literals", list(chosen.collect()));
        }
        if self.random.percent(40) {
            let name = format!("{stem}{}.txt", self.files.len());
            self.files.insert(
                format!("{}/{name}", layer.dir),
                File::Text(self.random.pick(&CONTENTS).to_owned()),
            );
            let source = if self.random.percent(50) {
                name
            } else {
                format!("app.yaml={name}")
            };
            entry.push("files", list(vec![plain(source)]));
        }
        if self.random.percent(20) {
            let name = format!("{stem}{}.env", self.files.len());
            self.files.insert(
                format!("{}/{name}", layer.dir),
                File::Text(self.random.pick(&ENVS).to_owned()),
            );
            entry.push("envs", list(vec![plain(name)]));
        }
    }

    fn names(&mut self, layer: &mut Layer) {
        if self.random.percent(25) {
            layer
                .fields
                .push("namespace", text(self.random.pick(&NAMESPACES)));
        }
        let likely = if layer.dir == "left" || layer.dir == "right" {
            80
        } else {
            20
        };
        if self.random.percent(likely) {
            layer
                .fields
                .push("namePrefix", text(&format!("{}-", layer.dir)));
        }
        if self.random.percent(15) {
            layer.fields.push(
                "nameSuffix",
                Yaml::Quoted((self.random.pick(&["-v1", "-x"])).to_owned(), Quote::Single),
            );
        }
    }

    fn labels(&mut self, layer: &mut Layer) {
        if self.random.percent(12) {
            layer.fields.push("commonLabels", labels(self.random));
        }
        if self.random.percent(18) {
            let mut entry = map([("pairs", labels(self.random))]);
            for switch in ["includeSelectors", "includeTemplates"] {
                if self.random.percent(30) {
                    entry.push(switch, plain(self.random.percent(80)));
                }
            }
            if self.random.percent(10) {
                let spec = map([("path", text("spec/labels")), ("create", plain(true))]);
                entry.push("fields", list(vec![spec]));
            }
            layer.fields.push("labels", list(vec![entry]));
        }
        if self.random.percent(15) {
            let mut annotations = map([("added", value_text(self.random))]);
            annotations.push("example.com/owner", text("platform"));
            layer.fields.push("commonAnnotations", annotations);
        }
    }

    fn pick(&mut self, layer: &Layer) -> Option<Object> {
        (!layer.scope.is_empty()).then(|| self.random.choose(&layer.scope).clone())
    }

    fn patches(&mut self, layer: &mut Layer) {
        let mut entries = Vec::new();
        for _ in 0..self.random.below(3) {
            if let Some(object) = self.pick(layer) {
                entries.push(self.patch(layer, &object));
            }
        }
        if !entries.is_empty() {
            layer.fields.push("patches", list(entries));
        }
        if let (true, Some(object)) = (self.random.percent(12), self.pick(layer)) {
            let patch = patches::strategic(&object, self.random);
            let entry = self.placed(layer, patch);
            layer
                .fields
                .push("patchesStrategicMerge", list(vec![entry]));
        }
        if let (true, Some(object)) = (self.random.percent(10), self.pick(layer)) {
            let (group, version) = object
                .api_version
                .split_once('/')
                .unwrap_or(("", object.api_version));
            let mut target = map([
                ("version", text(version)),
                ("kind", text(object.kind)),
                ("name", text(&object.name)),
            ]);
            if !group.is_empty() {
                target.push("group", text(group));
            }
            let patch = patches::inline(&patches::json(&object, self.random));
            layer.fields.push(
                "patchesJson6902",
                list(vec![map([("target", target), ("patch", patch)])]),
            );
        }
    }

    /// Returns a patch as a string, or as the name of its file.
    fn placed(&mut self, layer: &Layer, patch: Yaml) -> Yaml {
        if self.random.percent(50) {
            return patches::inline(&patch);
        }
        let name = format!("p{}.yaml", self.files.len());
        self.add(layer, &name, vec![patch]);
        text(&name)
    }

    fn patch(&mut self, layer: &Layer, object: &Object) -> Yaml {
        let json = self.random.percent(40);
        let patch = if json {
            patches::json(object, self.random)
        } else {
            patches::strategic(object, self.random)
        };
        let placed = self.placed(layer, patch);
        let field = if matches!(placed, Yaml::Block(..)) {
            "patch"
        } else {
            "path"
        };
        let mut entry = map([(field, placed)]);
        if json || self.random.percent(35) {
            entry.push("target", patches::selector(object, self.random));
        }
        if self.random.percent(6) {
            let option = self.random.pick(&["allowNameChange", "allowKindChange"]);
            entry.push("options", map([(option, plain(true))]));
        }
        entry
    }

    fn values(&mut self, layer: &mut Layer) {
        if self.random.percent(20) {
            let name = self
                .random
                .pick(&IMAGES)
                .split([':', '@'])
                .next()
                .unwrap_or_default();
            let mut image = map([("name", text(name))]);
            for (field, value) in [
                ("newName", "mirror.local/x"),
                ("newTag", "2.0"),
                ("tagSuffix", "-debug"),
                ("digest", "sha256:abc"),
            ] {
                if self.random.percent(35) {
                    image.push(field, Yaml::Quoted(value.to_owned(), Quote::Double));
                }
            }
            layer.fields.push("images", list(vec![image]));
        }
        let scaled = layer
            .scope
            .iter()
            .find(|object| ["Deployment", "StatefulSet"].contains(&object.kind));
        if let (true, Some(object)) = (self.random.percent(12), scaled) {
            let replica = map([
                ("name", text(&object.name)),
                ("count", plain(self.random.below(9))),
            ]);
            layer.fields.push("replicas", list(vec![replica]));
        }
        if self.random.percent(20)
            && let (Some(from), Some(to)) = (self.pick(layer), self.pick(layer))
        {
            let entry = patches::replacement(&from, &to, self.random);
            layer.fields.push("replacements", list(vec![entry]));
        }
        if self.random.percent(12)
            && self.vars < objects::VARS.len()
            && !self.diamond
            && let Some(object) = self.pick(layer)
        {
            let var = patches::var(&object, self.vars, self.random);
            self.vars += 1;
            layer.fields.push("vars", list(vec![var]));
        }
    }

    fn plugins(&mut self, layer: &mut Layer) {
        if !self.random.percent(8) {
            return;
        }
        let everywhere =
            |path: &str| list(vec![map([("path", text(path)), ("create", plain(true))])]);
        let start = |kind: &str| {
            map([
                ("apiVersion", text("builtin")),
                ("kind", text(kind)),
                ("metadata", map([("name", text("plugin"))])),
            ])
        };
        let plugin = match self.random.below(5) {
            0 => {
                let mut plugin = start("LabelTransformer");
                plugin.push("labels", labels(self.random));
                plugin.push("fieldSpecs", everywhere("metadata/labels"));
                plugin
            }
            1 => {
                let mut plugin = start("AnnotationsTransformer");
                plugin.push("annotations", map([("plugin", value_text(self.random))]));
                plugin.push("fieldSpecs", everywhere("metadata/annotations"));
                plugin
            }
            2 => {
                let mut plugin = start("PrefixTransformer");
                plugin.push("prefix", text("pre-"));
                plugin.push("fieldSpecs", everywhere("metadata/name"));
                plugin
            }
            3 => {
                let metadata = map([("name", text("plugin")), ("namespace", text("gamma"))]);
                let mut plugin = map([
                    ("apiVersion", text("builtin")),
                    ("kind", text("NamespaceTransformer")),
                    ("metadata", metadata),
                ]);
                plugin.push("unsetOnly", plain(self.random.percent(50)));
                let mode = self
                    .random
                    .pick(&["allServiceAccounts", "defaultOnly", "none"]);
                plugin.push("setRoleBindingSubjects", text(mode));
                plugin.push("fieldSpecs", everywhere("metadata/namespace"));
                plugin
            }
            _ => {
                let mut plugin = start("ReplicaCountTransformer");
                plugin.push("replica", map([("name", text("web")), ("count", plain(3))]));
                plugin.push("fieldSpecs", everywhere("spec/replicas"));
                plugin
            }
        };
        let entry = self.placed(layer, plugin);
        layer.fields.push("transformers", list(vec![entry]));
    }

    fn rest(&mut self, layer: &mut Layer) {
        if self.random.percent(6) {
            let spec = map([
                ("path", text("spec/configMapRef/name")),
                ("kind", text("Widget")),
            ]);
            let reference = map([
                ("kind", text("ConfigMap")),
                ("version", text("v1")),
                ("fieldSpecs", list(vec![spec])),
            ]);
            self.add(
                layer,
                "config.yaml",
                vec![map([("nameReference", list(vec![reference]))])],
            );
            layer
                .fields
                .push("configurations", strings(&["config.yaml"]));
        }
        if layer.dir != "top" {
            return;
        }
        if self.random.percent(10) {
            let order = self.random.pick(&["legacy", "fifo"]);
            layer
                .fields
                .push("sortOptions", map([("order", text(order))]));
        }
        if self.random.percent(12) {
            let options = [
                "originAnnotations",
                "transformerAnnotations",
                "managedByLabel",
            ];
            let first = self.random.below(options.len());
            let count = 1 + self.random.below(options.len());
            let chosen: Vec<&str> = (0..count)
                .map(|at| options[(first + at) % options.len()])
                .collect();
            layer.fields.push("buildMetadata", strings(&chosen));
        }
        if self.random.percent(4) {
            let document = "definitions:\n  v1.Widget:\n    properties:\n      spec:\n        properties:\n          items:\n            type: array\n            items:\n              type: object\n            x-kubernetes-patch-strategy: merge\n            x-kubernetes-patch-merge-key: name\n    x-kubernetes-group-version-kind:\n    - {group: example.com, kind: Widget, version: v1}\n";
            self.files.insert(
                "top/schema.yaml".to_owned(),
                File::Text(document.to_owned()),
            );
            layer
                .fields
                .push("openapi", map([("path", text("schema.yaml"))]));
        }
    }
}

fn strings(entries: &[&str]) -> Yaml {
    list(entries.iter().map(|entry| text(entry)).collect())
}
