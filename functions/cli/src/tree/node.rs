//! A tree of objects, printed with lines as Flux does.

use driftless_manifest::ObjectId;
use serde_json::{Value, json};

/// An object with the objects that it has applied.
pub struct Node {
    /// The id of the object.
    pub id: ObjectId,
    /// The nodes of the objects that it has applied.
    pub children: Vec<Node>,
}

impl Node {
    /// Creates a node without children.
    pub fn leaf(id: ObjectId) -> Self {
        Self {
            id,
            children: Vec::new(),
        }
    }

    /// Returns the lines of the tree.
    pub fn print(&self) -> String {
        let mut text = format!("{}\n", self.id);
        self.print_children("", &mut text);
        text
    }

    fn print_children(&self, before: &str, text: &mut String) {
        for (at, child) in self.children.iter().enumerate() {
            let (branch, below) = match at + 1 == self.children.len() {
                true => ("└── ", "    "),
                false => ("├── ", "│   "),
            };
            text.push_str(&format!("{before}{branch}{}\n", child.id));
            child.print_children(&format!("{before}{below}"), text);
        }
    }

    /// Returns the tree in the form of `flux tree -o json`.
    pub fn document(&self) -> Value {
        let id = &self.id;
        let mut document = json!({"resource": {"Namespace": id.namespace, "Name": id.name,
            "GroupKind": {"Group": id.group, "Kind": id.kind}}});
        if !self.children.is_empty() {
            document["resources"] = self.children.iter().map(Self::document).collect();
        }
        document
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn leaf(text: &str) -> Node {
        Node::leaf(ObjectId::from_inventory_id(text).unwrap())
    }

    #[test]
    fn branches_are_drawn() {
        let mut root = leaf("flux-system_root_kustomize.toolkit.fluxcd.io_Kustomization");
        let mut apps = leaf("team-a_apps_kustomize.toolkit.fluxcd.io_Kustomization");
        apps.children = vec![
            leaf("team-a_web_apps_Deployment"),
            leaf("team-a_web__Service"),
        ];
        root.children = vec![leaf("_team-a__Namespace"), apps, leaf("x_last__Secret")];
        assert_eq!(
            root.print(),
            "Kustomization/flux-system/root
├── Namespace/team-a
├── Kustomization/team-a/apps
│   ├── Deployment/team-a/web
│   └── Service/team-a/web
└── Secret/x/last
"
        );
        root.retain(|id| id.group.contains("toolkit.fluxcd.io"));
        assert_eq!(
            root.print(),
            "Kustomization/flux-system/root\n└── Kustomization/team-a/apps\n"
        );
        assert_eq!(
            root.document()["resources"][0],
            json!({"resource": {"Namespace": "team-a", "Name": "apps",
                "GroupKind": {"Group": "kustomize.toolkit.fluxcd.io", "Kind": "Kustomization"}}})
        );
    }
}
