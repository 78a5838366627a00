//! `driftless tenant`, `driftless app` and `driftless release-env`.

use super::{Common, manifests, name, tenant};
use crate::error::{EXIT_CODES, Error};
use clap::Subcommand;

/// The flags for the repository of a tenant.
#[derive(clap::Args)]
struct TenantRepository {
    /// The URL of the repository with the tenant's manifests
    #[arg(long = "repo", value_name = "URL", value_parser = manifests::url)]
    url: String,
    /// The branch of the tenant's repository, for this environment or release
    #[arg(long, value_parser = manifests::branch)]
    branch: String,
}

/// Add tenants to an environment
#[derive(clap::Args)]
#[command(after_help = format!("Examples:
  driftless tenant add shop --repo https://github.com/acme/shop-manifests --branch dev

{EXIT_CODES}"))]
pub struct TenantArgs {
    #[command(subcommand)]
    command: Tenant,
    #[command(flatten)]
    common: Common,
}

#[derive(Subcommand)]
enum Tenant {
    /// Add a tenant to every cluster of the environment
    #[command(after_help = "Examples:
  driftless tenant add shop --repo https://github.com/acme/shop-manifests --branch dev")]
    Add {
        /// The tenant's name
        #[arg(value_parser = name)]
        name: String,
        #[command(flatten)]
        repository: TenantRepository,
    },
}

/// Add applications of a tenant to an environment
#[derive(clap::Args)]
#[command(after_help = format!("Examples:
  driftless app add shop cart

{EXIT_CODES}"))]
pub struct AppArgs {
    #[command(subcommand)]
    command: App,
    #[command(flatten)]
    common: Common,
}

#[derive(Subcommand)]
enum App {
    /// Add an application to every cluster of the environment. Its manifests are in APP/CLUSTER of
    /// the tenant's repository
    #[command(after_help = "Examples:
  driftless app add shop cart")]
    Add {
        /// The tenant
        #[arg(value_parser = name)]
        tenant: String,
        /// The application's name
        #[arg(value_parser = name)]
        name: String,
    },
}

/// Add release environments of a tenant, in addition to the environment itself
#[derive(clap::Args)]
#[command(after_help = format!("Examples:
  driftless release-env add shop 1-0-x --repo https://github.com/acme/shop-manifests \\
    --branch release/1-0-x/dev

{EXIT_CODES}"))]
pub struct ReleaseEnvArgs {
    #[command(subcommand)]
    command: ReleaseEnv,
    #[command(flatten)]
    common: Common,
}

#[derive(Subcommand)]
enum ReleaseEnv {
    /// Add a release environment with the tenant's applications, in the namespace ENV-NAME-TENANT
    #[command(after_help = "Examples:
  driftless release-env add shop 1-0-x --repo https://github.com/acme/shop-manifests \\
    --branch release/1-0-x/dev")]
    Add {
        /// The tenant
        #[arg(value_parser = name)]
        tenant: String,
        /// The release's name
        #[arg(value_parser = name)]
        name: String,
        #[command(flatten)]
        repository: TenantRepository,
    },
}

/// Runs the subcommands of `driftless tenant`.
pub fn run_tenant(args: &TenantArgs) -> Result<(), Error> {
    let (mut checkout, api) = args.common.open()?;
    let Tenant::Add { name, repository } = &args.command;
    let TenantRepository { url, branch } = repository;
    tenant::add(&mut checkout, api, name, url, branch)?;
    args.common.finish(&checkout, &[])
}

/// Runs the subcommands of `driftless app`.
pub fn run_app(args: &AppArgs) -> Result<(), Error> {
    let (mut checkout, api) = args.common.open()?;
    let App::Add { tenant, name } = &args.command;
    tenant::add_app(&mut checkout, api, tenant, name)?;
    args.common.finish(&checkout, &[])
}

/// Runs the subcommands of `driftless release-env`.
pub fn run_release_env(args: &ReleaseEnvArgs) -> Result<(), Error> {
    let (mut checkout, api) = args.common.open()?;
    let ReleaseEnv::Add {
        tenant,
        name,
        repository,
    } = &args.command;
    let TenantRepository { url, branch } = repository;
    tenant::add_release(&mut checkout, api, tenant, name, url, branch)?;
    args.common.finish(&checkout, &[])
}
