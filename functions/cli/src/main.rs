//! The `driftless` command. This file only dispatches; each subcommand has its own file.

mod accepted;
mod age;
mod audit;
mod bootstrap;
mod build;
mod change_options;
mod check;
mod cluster_options;
mod completion;
mod concurrent;
mod create;
mod delete;
mod demo;
mod diff;
mod doctor;
mod error;
mod events;
mod export;
mod fleet_options;
mod follow;
mod get;
mod global;
mod gotemplate_vectors;
mod history;
mod hub;
mod installation;
mod kinds;
mod kustomize;
mod layout;
mod logs;
mod nats;
mod output;
mod plan;
mod progress;
mod reconcile;
mod root;
mod serve;
mod stats;
mod suspend;
mod table;
mod template;
mod term;
mod trace;
mod tree;
mod usage;
mod version;
mod worker;

use accepted::Accepted;
use clap::{CommandFactory as _, Parser, Subcommand};
use driftless_fleet::ready;
use error::Error;
use global::Global;
use mimalloc::MiMalloc;
use std::ffi::{OsStr, OsString};
use std::process::ExitCode;

/// Rendering makes many small allocations: with the system's allocator they take a third of the
/// time of a chart.
#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

/// Serverless GitOps for Kubernetes fleets: Flux's API without controllers.
#[derive(Parser)]
#[command(name = "driftless", version, arg_required_else_help = true, max_term_width = error::MAX_HELP_WIDTH,
    after_help = format!("{EXAMPLES}\n\n{}", error::EXIT_CODES))]
struct Cli {
    #[command(subcommand)]
    command: Command,
    #[command(flatten)]
    _global: Accepted<Global>,
}

const EXAMPLES: &str = "Examples:
  driftless demo                                       # see it work, without a cluster
  driftless check fleet                                # every error of a fleet repository
  driftless serve --repository acme/fleet --path clusters/staging
  driftless -n apps get kustomizations
  driftless doctor                                     # what a cluster lacks";

#[derive(Subcommand)]
enum Command {
    Audit(audit::Args),
    Bootstrap(bootstrap::Args),
    #[command(flatten)]
    Render(Render),
    Check(check::Args),
    Completion(completion::CompletionArgs),
    Create(create::Args),
    Delete(delete::Args),
    Demo(demo::Args),
    Diff(diff::Args),
    Doctor(doctor::Args),
    Events(events::Args),
    Export(export::Args),
    App(layout::AppArgs),
    Env(layout::EnvArgs),
    Fleet(layout::FleetArgs),
    ReleaseEnv(layout::ReleaseEnvArgs),
    Tenant(layout::TenantArgs),
    Get(get::Args),
    History(history::Args),
    #[command(hide = true)]
    GotemplateVectors(gotemplate_vectors::Args),
    Logs(logs::Args),
    Man(completion::ManArgs),
    Plan(plan::Args),
    Reconcile(reconcile::Args),
    Suspend(suspend::SuspendArgs),
    Resume(suspend::ResumeArgs),
    Serve(serve::Args),
    Stats(stats::Args),
    Trace(trace::Args),
    Tree(tree::Args),
    Version(version::Args),
    Worker(worker::Args),
}

/// The commands that only render, or write a kustomization: they need no runtime and no TLS, and
/// finish in the time that these take to start.
#[derive(Subcommand)]
enum Render {
    Build(build::Args),
    Kustomize(kustomize::Args),
    Template(template::Args),
}

/// The command line of the [`Render`] commands. To declare the options of all other commands would
/// take as long as to build a small kustomization.
#[derive(Parser)]
#[command(name = "driftless", version, max_term_width = error::MAX_HELP_WIDTH)]
struct RenderCli {
    #[command(subcommand)]
    command: Render,
}

fn main() -> ExitCode {
    let command = match command() {
        Ok(command) => command,
        Err(code) => return code,
    };
    let done = match command {
        Command::Audit(args) => block_on(audit::run(args)),
        Command::Bootstrap(args) => block_on(bootstrap::run(args)),
        Command::Render(Render::Build(args)) => build::run(&args),
        Command::Render(Render::Kustomize(args)) => kustomize::run(&args),
        Command::Render(Render::Template(args)) => template::run(&args),
        Command::Check(args) => block_on(check::run(args)),
        Command::Completion(args) => completion::completion(&args, Cli::command()),
        Command::Create(args) => block_on(create::run(args)),
        Command::Delete(args) => block_on(delete::run(args)),
        Command::Demo(args) => demo::run(args),
        Command::Diff(args) => block_on(diff::run(args)),
        Command::Doctor(args) => block_on(doctor::run(args)),
        Command::Events(args) => block_on(events::run(args)),
        Command::Export(args) => block_on(export::run(args)),
        Command::App(args) => layout::run_app(&args),
        Command::Env(args) => block_on(layout::run_env(args)),
        Command::Fleet(args) => block_on(layout::run_fleet(args)),
        Command::ReleaseEnv(args) => layout::run_release_env(&args),
        Command::Tenant(args) => layout::run_tenant(&args),
        Command::Get(args) => block_on(get::run(args)),
        Command::History(args) => block_on(history::run(args)),
        Command::GotemplateVectors(args) => gotemplate_vectors::run(&args),
        Command::Logs(args) => block_on(logs::run(args)),
        Command::Man(args) => completion::man(&args, Cli::command()),
        Command::Plan(args) => block_on(plan::run(args)),
        Command::Reconcile(args) => block_on(reconcile::run(args)),
        Command::Suspend(args) => block_on(suspend::suspend(args)),
        Command::Resume(args) => block_on(suspend::resume(args)),
        Command::Serve(args) => serve::run(args),
        Command::Stats(args) => block_on(stats::run(args)),
        Command::Trace(args) => block_on(trace::run(args)),
        Command::Tree(args) => block_on(tree::run(args)),
        Command::Version(args) => block_on(version::run(args)),
        Command::Worker(args) => worker::run(args),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            term::error(&error);
            ExitCode::from(error.code)
        }
    }
}

/// Parses the command line.
///
/// # Errors
/// The exit code, if there is nothing to run: help was requested, or the command line is not valid.
fn command() -> Result<Command, ExitCode> {
    let line = global::move_after_command(std::env::args_os().collect());
    let first = line.get(1).map(OsString::as_os_str);
    let first = first.and_then(OsStr::to_str);
    let parsed = match first.is_some_and(Render::has_subcommand) {
        true => RenderCli::try_parse_from(&line).map(|cli| Command::Render(cli.command)),
        false => Cli::try_parse_from(&line).map(|cli| cli.command),
    };
    parsed.map_err(|error| usage::end(&error, Cli::command(), &line))
}

/// Runs an asynchronous command, such as one that connects to a cluster.
fn block_on(work: impl Future<Output = Result<(), Error>>) -> Result<(), Error> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    runtime
        .map_err(|error| Error::caused_by(error).context("start"))?
        .block_on(work)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// clap checks its definitions only in debug builds: two flags of one name, two groups of one
    /// name.
    #[test]
    fn the_definitions_of_commands_are_valid() {
        Cli::command().debug_assert();
        RenderCli::command().debug_assert();
    }
}
