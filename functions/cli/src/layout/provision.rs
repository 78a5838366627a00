//! The objects with which Kamaji or Cluster API creates a remote cluster. The hub waits for the
//! Secret with the kubeconfig that the provider writes.

use super::checkout::Checkout;
use super::cluster;
use super::edit::{self, Field, File, Target};
use super::environment::{hubs, not_found};
use super::manifests::{self, Api};
use super::resources::{self, EntryPosition};
use crate::error::Error;
use crate::term;
use clap::ValueEnum;
use driftless_flux::{FLUX_SYSTEM, Invalid};
use serde_json::{Value, json};

/// The file with the objects, in the directory of the remote cluster.
const FILE: &str = "cluster.yaml";
const CORE: &str = "cluster.x-k8s.io";
const INFRASTRUCTURE: &str = "infrastructure.cluster.x-k8s.io";
const CONTROL_PLANE: &str = "controlplane.cluster.x-k8s.io";
const BOOTSTRAP: &str = "bootstrap.cluster.x-k8s.io";

/// The socket of containerd in the images of nodes.
const CRI: &str = "unix:///var/run/containerd/containerd.sock";

/// The provider of a cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Provider {
    /// Kamaji: a control plane in pods of the hub
    Kamaji,
    /// Cluster API on Azure: AKS
    Capz,
    /// Cluster API on AWS: EKS
    Capa,
    /// Cluster API in Docker, for tests
    Docker,
}

/// The arguments of `fleet provision`.
#[derive(clap::Args)]
pub struct Args {
    /// HUB/NAME of the remote cluster; NAME in a fleet with one hub
    #[arg(value_parser = super::cluster_name)]
    name: String,
    /// The provider of the cluster, whose controllers run on the hub
    #[arg(long, value_enum)]
    provider: Provider,
    /// The version of Kubernetes
    #[arg(long, value_name = "VERSION", default_value = "v1.34.0", value_parser = version)]
    kubernetes_version: String,
    /// The number of worker nodes, or with kamaji of replicas of the control plane
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u16).range(1..=1000))]
    replicas: u16,
    /// The region of AWS or Azure, for capa and capz
    #[arg(long, value_parser = word)]
    region: Option<String>,
    /// The type of the worker nodes' machines, for capa and capz
    #[arg(long, value_name = "TYPE", value_parser = word)]
    machine_type: Option<String>,
    /// The id of the Azure subscription, for capz
    #[arg(long, value_name = "ID", value_parser = word)]
    subscription: Option<String>,
    /// The Azure resource group, for capz [default: the cluster's name]
    #[arg(long, value_name = "NAME", value_parser = word)]
    resource_group: Option<String>,
    /// The AzureClusterIdentity in flux-system, for capz [default: cluster-identity]
    #[arg(long, value_name = "NAME", value_parser = word)]
    identity: Option<String>,
}

/// Parses a version of Kubernetes.
fn version(text: &str) -> Result<String, Invalid> {
    let numbers: Option<Vec<u16>> = text
        .strip_prefix('v')
        .map(|rest| rest.split('.').map(|part| part.parse().ok()).collect())
        .unwrap_or_default();
    match numbers.is_some_and(|numbers| numbers.len() == 3) {
        true => Ok(text.to_owned()),
        false => Err("expected vMAJOR.MINOR.PATCH, such as v1.34.0".into()),
    }
}

/// Parses a name of a cloud.
fn word(text: &str) -> Result<String, Invalid> {
    let fits = |one: char| one.is_ascii_alphanumeric() || "-_.".contains(one);
    match !text.is_empty() && text.chars().all(fits) {
        true => Ok(text.to_owned()),
        false => Err("expected letters, digits, '-', '_' and '.'".into()),
    }
}

impl Provider {
    /// Returns the name on the command line.
    fn name(self) -> String {
        let value = self.to_possible_value();
        value
            .map(|value| value.get_name().to_owned())
            .unwrap_or_default()
    }

    /// Returns the Secret and the key to which the provider writes the kubeconfig.
    fn kubeconfig(self, cluster: &str) -> (String, &'static str) {
        match self {
            Self::Kamaji => (format!("{cluster}-admin-kubeconfig"), "admin.conf"),
            _ => (format!("{cluster}-kubeconfig"), "value"),
        }
    }

    /// Returns the kind that only objects of this provider have.
    fn kind(self) -> &'static str {
        match self {
            Self::Kamaji => "TenantControlPlane",
            Self::Capz => "AzureManagedControlPlane",
            Self::Capa => "AWSManagedControlPlane",
            Self::Docker => "DockerCluster",
        }
    }
}

impl Args {
    /// Adds the remote cluster, the objects that create it, and the name of its kubeconfig.
    ///
    /// # Errors
    /// Fails if the branch is an environment or the hub is not known, for flags that the provider
    /// does not have or needs, and for files that cannot be edited.
    pub fn write(&self, checkout: &mut Checkout, api: Api) -> Result<(), Error> {
        let (hub, name) = self.place(checkout)?;
        self.check_flags()?;
        let objects = self.objects(&name);
        cluster::add_remote(checkout, api, &hub, &name)?;
        let directory = format!("clusters/{hub}/{name}");
        let path = format!("{directory}/{FILE}");
        match checkout.text(&path)? {
            Some(text) => self.check_existing(&path, &text)?,
            None => {
                let text: String = objects
                    .iter()
                    .map(|object| format!("---\n{}", manifests::text(object)))
                    .collect();
                checkout.put(&*path, text);
            }
        }
        resources::add(checkout, &directory, &[], FILE, EntryPosition::End)?;
        self.name_kubeconfig(checkout, &directory, &name)
    }

    /// Returns the hub and the name of the remote cluster.
    fn place(&self, checkout: &Checkout) -> Result<(String, String), Error> {
        if let Some((hub, name)) = self.name.split_once('/') {
            return Ok((hub.to_owned(), name.to_owned()));
        }
        let hubs = hubs(checkout);
        match hubs.iter().collect::<Vec<_>>().as_slice() {
            [hub] => Ok(((*hub).clone(), self.name.clone())),
            _ => Err(
                not_found("hub", "of the cluster", "hubs", hubs).next(format!(
                    "give HUB/{name}, or add a hub first with driftless fleet add-cluster HUB",
                    name = self.name
                )),
            ),
        }
    }

    /// Checks that the provider has all flags that it needs, and no other ones.
    fn check_flags(&self) -> Result<(), Error> {
        use Provider::{Capa, Capz};
        let provider = self.provider;
        let clouds: &[Provider] = &[Capa, Capz];
        for (flag, value, of, is_required) in [
            ("--region", &self.region, clouds, true),
            ("--machine-type", &self.machine_type, clouds, false),
            ("--subscription", &self.subscription, &[Capz][..], true),
            ("--resource-group", &self.resource_group, &[Capz], false),
            ("--identity", &self.identity, &[Capz], false),
        ] {
            let is_known = of.contains(&provider);
            if value.is_some() && !is_known {
                return Err(Error::usage(format!(
                    "{flag} is not a setting of the provider {}",
                    provider.name()
                ))
                .next(format!("leave {flag} out")));
            }
            if value.is_none() && is_known && is_required {
                return Err(Error::usage(format!(
                    "{flag} is required with the provider {}",
                    provider.name()
                ))
                .next(format!("give {flag}")));
            }
        }
        Ok(())
    }

    /// Checks that an existing file has the objects of the same provider. It stays unchanged.
    fn check_existing(&self, path: &str, text: &str) -> Result<(), Error> {
        let kind = self.provider.kind();
        let documents = File::read(path, text)?.values()?;
        if documents.iter().any(|document| document["kind"] == kind) {
            term::action(&format!(
                "{path} exists, and stays: edit it to change the cluster"
            ));
            return Ok(());
        }
        Err(Error::new(format!(
            "{path}: the file has no {kind}: the cluster has another provider than {}",
            self.provider.name()
        ))
        .next(
            "give the cluster another name, or remove it first with driftless fleet remove-cluster",
        ))
    }

    /// Sets the Secret with the kubeconfig in the Kustomization of the infrastructure.
    fn name_kubeconfig(
        &self,
        checkout: &mut Checkout,
        directory: &str,
        name: &str,
    ) -> Result<(), Error> {
        let path = format!("{directory}/infra.yaml");
        let text = checkout.text(&path)?.unwrap_or_default();
        let sync = format!("{name}-infrastructure");
        let target = Target {
            kind: "Kustomization",
            name: &sync,
        };
        let (secret, key) = self.provider.kubeconfig(name);
        let fields: [Field<'_>; 2] = [
            (&["spec", "kubeConfig", "secretRef", "name"], &secret),
            (&["spec", "kubeConfig", "secretRef", "key"], key),
        ];
        // `value` is the default.
        let fields = match key {
            "value" => &fields[..1],
            _ => &fields,
        };
        let text = edit::set(&path, &text, target, fields)?;
        checkout.put(path, text);
        Ok(())
    }

    /// Returns the objects that create the cluster, in the namespace of the hub's root.
    fn objects(&self, name: &str) -> Vec<Value> {
        match self.provider {
            Provider::Kamaji => vec![self.kamaji(name)],
            Provider::Capz => self.capz(name),
            Provider::Capa => self.capa(name),
            Provider::Docker => self.docker(name),
        }
    }

    fn kamaji(&self, name: &str) -> Value {
        object(
            "kamaji.clastix.io/v1alpha1",
            "TenantControlPlane",
            name,
            json!({
                "controlPlane": {
                    "deployment": {"replicas": self.replicas},
                    "service": {"serviceType": "LoadBalancer"},
                },
                "kubernetes": {
                    "version": self.kubernetes_version,
                    "kubelet": {"cgroupfs": "systemd"},
                },
                "networkProfile": {"port": 6443},
                "addons": {"coreDNS": {}, "kubeProxy": {}, "konnectivity": {}},
            }),
        )
    }

    fn capz(&self, name: &str) -> Vec<Value> {
        let version = format!("{INFRASTRUCTURE}/v1beta1");
        let identity = self.identity.as_deref().unwrap_or("cluster-identity");
        let group = self.resource_group.as_deref().unwrap_or(name);
        let machine = self.machine_type.as_deref().unwrap_or("Standard_D2s_v3");
        let pool = format!("{name}-pool");
        vec![
            cluster_of(
                name,
                (INFRASTRUCTURE, "AzureManagedControlPlane"),
                (INFRASTRUCTURE, "AzureManagedCluster"),
            ),
            object(
                &version,
                "AzureManagedControlPlane",
                name,
                json!({
                    "identityRef": {"apiVersion": version, "kind": "AzureClusterIdentity", "name": identity},
                    "location": self.region,
                    "resourceGroupName": group,
                    "subscriptionID": self.subscription,
                    "version": self.kubernetes_version,
                }),
            ),
            object(&version, "AzureManagedCluster", name, json!({})),
            self.pool(
                name,
                &pool,
                "AzureManagedMachinePool",
                json!({"dataSecretName": ""}),
            ),
            object(
                &version,
                "AzureManagedMachinePool",
                &pool,
                json!({"mode": "System", "sku": machine}),
            ),
        ]
    }

    fn capa(&self, name: &str) -> Vec<Value> {
        let infrastructure = format!("{INFRASTRUCTURE}/v1beta2");
        let pool = format!("{name}-pool");
        let mut machines = json!({"amiType": "AL2023_x86_64_STANDARD"});
        if let Some(machine) = &self.machine_type {
            machines["instanceType"] = machine.as_str().into();
        }
        let config = reference(BOOTSTRAP, "NodeadmConfig", &pool);
        vec![
            cluster_of(
                name,
                (CONTROL_PLANE, "AWSManagedControlPlane"),
                (INFRASTRUCTURE, "AWSManagedCluster"),
            ),
            object(&infrastructure, "AWSManagedCluster", name, json!({})),
            object(
                &format!("{CONTROL_PLANE}/v1beta2"),
                "AWSManagedControlPlane",
                name,
                json!({"region": self.region, "version": self.kubernetes_version}),
            ),
            self.pool(
                name,
                &pool,
                "AWSManagedMachinePool",
                json!({"configRef": config}),
            ),
            object(&infrastructure, "AWSManagedMachinePool", &pool, machines),
            object(
                &format!("{BOOTSTRAP}/v1beta2"),
                "NodeadmConfig",
                &pool,
                json!({}),
            ),
        ]
    }

    fn docker(&self, name: &str) -> Vec<Value> {
        let infrastructure = format!("{INFRASTRUCTURE}/v1beta2");
        let version = &self.kubernetes_version;
        let machines = reference(INFRASTRUCTURE, "DockerMachineTemplate", name);
        let config = reference(BOOTSTRAP, "KubeadmConfigTemplate", name);
        let node = json!({"nodeRegistration": {"criSocket": CRI}});
        vec![
            cluster_of(
                name,
                (CONTROL_PLANE, "KubeadmControlPlane"),
                (INFRASTRUCTURE, "DockerCluster"),
            ),
            object(&infrastructure, "DockerCluster", name, json!({})),
            object(
                &format!("{CONTROL_PLANE}/v1beta2"),
                "KubeadmControlPlane",
                name,
                json!({"replicas": 1, "version": version,
                    "kubeadmConfigSpec": {"initConfiguration": node, "joinConfiguration": node},
                    "machineTemplate": {"spec": {"infrastructureRef": machines}}}),
            ),
            object(
                &infrastructure,
                "DockerMachineTemplate",
                name,
                json!({"template": {"spec": {}}}),
            ),
            object(
                &format!("{BOOTSTRAP}/v1beta2"),
                "KubeadmConfigTemplate",
                name,
                json!({"template": {"spec": {"joinConfiguration": node}}}),
            ),
            object(
                &format!("{CORE}/v1beta2"),
                "MachineDeployment",
                name,
                json!({"clusterName": name, "replicas": self.replicas, "selector": {},
                    "template": {"spec": {"clusterName": name, "version": version,
                        "bootstrap": {"configRef": config}, "infrastructureRef": machines}}}),
            ),
        ]
    }

    /// Returns a pool of worker nodes.
    fn pool(&self, cluster: &str, name: &str, kind: &str, bootstrap: Value) -> Value {
        let machines = reference(INFRASTRUCTURE, kind, name);
        object(
            &format!("{CORE}/v1beta2"),
            "MachinePool",
            name,
            json!({"clusterName": cluster, "replicas": self.replicas,
                "template": {"spec": {"clusterName": cluster, "version": self.kubernetes_version,
                    "bootstrap": bootstrap, "infrastructureRef": machines}}}),
        )
    }
}

/// Returns the Cluster with its control plane and infrastructure of these groups and kinds.
fn cluster_of(name: &str, control_plane: (&str, &str), infrastructure: (&str, &str)) -> Value {
    object(
        &format!("{CORE}/v1beta2"),
        "Cluster",
        name,
        json!({
            "clusterNetwork": {
                "pods": {"cidrBlocks": ["192.168.0.0/16"]},
                "services": {"cidrBlocks": ["10.128.0.0/12"]},
            },
            "controlPlaneRef": reference(control_plane.0, control_plane.1, name),
            "infrastructureRef": reference(infrastructure.0, infrastructure.1, name),
        }),
    )
}

fn reference(group: &str, kind: &str, name: &str) -> Value {
    json!({"apiGroup": group, "kind": kind, "name": name})
}

fn object(version: &str, kind: &str, name: &str, spec: Value) -> Value {
    json!({"apiVersion": version, "kind": kind,
        "metadata": {"name": name, "namespace": FLUX_SYSTEM}, "spec": spec})
}
