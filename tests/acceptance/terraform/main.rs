//! The Terraform module, run by the real OpenTofu with the real provider of AWS (its services
//! CloudFormation, S3 and STS, from its source) against MiniStack. AWS itself runs the transform of
//! SAM templates; here an endpoint before MiniStack does, with AWS's translator.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use driftless_harness::aws::{MiniStack, Transform};
use driftless_harness::process;
use driftless_harness::tools::{self, OPENTOFU, TERRAFORM_AWS};
use serde_json::{Value, json};

const FUNCTIONS: [&str; 6] = [
    "webhook",
    "reconcile",
    "drift",
    "capsule",
    "dashboard",
    "plan",
];

fn module() -> PathBuf {
    tools::workspace().join("infra/terraform")
}

/// A directory with a configuration, which OpenTofu applies to MiniStack.
struct Workplace {
    directory: tempfile::TempDir,
    environment: Vec<(String, String)>,
}

impl Workplace {
    /// Creates a directory that uses the module with these arguments, and its dependencies.
    fn new(ministack: &MiniStack, transform: &Transform, arguments: &str) -> Self {
        let directory = tempfile::tempdir().expect("a directory");
        let provider = TERRAFORM_AWS.path();
        let place = provider.parent().expect("a directory").display();
        let settings = format!(
            "disable_checkpoint = true\nprovider_installation {{\n  dev_overrides {{\n    \"hashicorp/aws\" = \"{place}\"\n  }}\n  direct {{}}\n}}\n"
        );
        let file = directory.path().join("tofu.rc");
        std::fs::write(&file, settings).expect("write the settings");
        let configuration = format!(
            "provider \"aws\" {{\n  region = \"us-east-1\"\n  s3_use_path_style = true\n  skip_metadata_api_check = true\n  \
             skip_credentials_validation = true\n  skip_requesting_account_id = true\n  \
             endpoints {{\n    cloudformation = \"{}\"\n    s3 = \"{url}\"\n    sts = \"{url}\"\n  }}\n}}\n\
             module \"driftless\" {{\n  source = \"{}\"\n  {arguments}\n}}\n\
             output \"all\" {{\n  value = module.driftless\n}}\n",
            transform.url(),
            relative(directory.path(), &module()),
            url = ministack.url(),
        );
        let main = directory.path().join("main.tf");
        std::fs::write(main, configuration).expect("write the configuration");
        let mut environment = ministack.environment();
        environment.retain(|(name, _)| name != "AWS_ENDPOINT_URL");
        environment.extend([
            ("TF_CLI_CONFIG_FILE".to_owned(), file.display().to_string()),
            ("TF_IN_AUTOMATION".to_owned(), "1".to_owned()),
            ("HOME".to_owned(), directory.path().display().to_string()),
        ]);
        let workplace = Self {
            directory,
            environment,
        };
        // The modules alone: the provider of the settings needs no installation.
        workplace.must(&["get"]);
        workplace
    }

    fn run(&self, arguments: &[&str]) -> Output {
        let mut command = Command::new(OPENTOFU.path());
        command
            .current_dir(self.directory.path())
            .envs(self.environment.iter().map(|(name, value)| (name, value)))
            .args(arguments);
        command.output().expect("run OpenTofu")
    }

    fn must(&self, arguments: &[&str]) -> String {
        let output = self.run(arguments);
        let (text, errors) = (text(&output.stdout), text(&output.stderr));
        assert!(
            output.status.success(),
            "tofu {arguments:?}:\n{text}\n{errors}"
        );
        text
    }
}

/// Returns the path of a module from a directory: OpenTofu uses such a module in its place, and
/// copies one with an absolute path.
fn relative(from: &Path, to: &Path) -> String {
    let from = from.canonicalize().expect("a directory");
    let up = "../".repeat(from.components().count() - 1);
    let to = to.canonicalize().expect("the module");
    format!("{up}{}", to.strip_prefix("/").expect("a path").display())
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Packs a program as the zip of each function. Returns the argument `zips`.
fn zips(directory: &Path) -> String {
    let mut entries = String::new();
    for name in FUNCTIONS {
        let zip = directory.join(format!("{name}.zip"));
        let program = format!("#!/bin/sh\n# {name}\nexec sleep 3600\n");
        process::run(
            Command::new(tools::MINISTACK.python())
                .args([
                    "-c",
                    "import sys, zipfile\nzipfile.ZipFile(sys.argv[1], 'w').writestr('bootstrap', sys.argv[2])",
                ])
                .arg(&zip)
                .arg(program),
        );
        entries.push_str(&format!("    {name} = \"{}\"\n", zip.display()));
    }
    format!("zips = {{\n{entries}  }}")
}

#[test]
fn the_module_is_formatted() {
    process::run(
        Command::new(OPENTOFU.path())
            .args(["fmt", "-check", "-diff", "-recursive"])
            .arg(module()),
    );
}

#[test]
fn opentofu_deploys_the_stack_of_the_template() {
    let ministack = MiniStack::start();
    let transform = Transform::start(&ministack);
    let aws = ministack.aws();
    let code = tempfile::tempdir().expect("a directory");
    let zips = zips(code.path());
    let wrong = format!("{zips}\n  concurrency = 1\n  architecture = \"riscv64\"");
    let wrong = Workplace::new(&ministack, &transform, &wrong);
    let refused = wrong.run(&["plan", "-no-color"]);
    assert!(!refused.status.success());
    let errors = text(&refused.stderr);
    for expected in [
        "The value must be from 2 to 1000.",
        "Allowed values: arm64, x86_64.",
    ] {
        assert!(errors.contains(expected), "{errors}");
    }

    let arguments = format!(
        "{zips}\n  name = \"fleet\"\n  hub = \"staging\"\n  plans = true\n  log_retention_days = 7\n  \
         eks_clusters = [\"arn:aws:eks:us-east-1:000000000000:cluster/a\", \"arn:aws:eks:us-east-1:000000000000:cluster/b\"]"
    );
    let workplace = Workplace::new(&ministack, &transform, &arguments);
    workplace.must(&["apply", "-auto-approve", "-no-color"]);
    let outputs = workplace.must(&["output", "-json", "all"]);
    let outputs: Value = serde_json::from_str(&outputs).expect("the outputs");

    let stack = json!({"StackName": "fleet"});
    let stack = aws.must("cloudformation", "describe_stacks", stack);
    let stack = &stack["Stacks"][0];
    assert_eq!(stack["StackStatus"], "CREATE_COMPLETE");
    let found = stack["Outputs"].as_array().expect("outputs");
    let output = |name: &str| {
        let mut found = found.iter();
        let one = found.find(|one| one["OutputKey"] == name);
        one.unwrap_or_else(|| panic!("no output {name}"))["OutputValue"].clone()
    };
    for (name, key) in [
        ("webhook_url", "WebhookUrl"),
        ("bucket", "Bucket"),
        ("queue_url", "QueueUrl"),
        ("plan_queue_url", "PlanQueueUrl"),
        ("drift_role", "DriftRole"),
    ] {
        assert_eq!(outputs[name], output(key), "{name}");
    }
    // Functions that the parameters do not ask for have no output.
    assert_eq!(outputs["dashboard_url"], Value::Null);
    let listed = stack["Parameters"].as_array().expect("parameters");
    let value = |name: &str| {
        let one = listed.iter().find(|one| one["ParameterKey"] == name);
        one.expect(name)["ParameterValue"].clone()
    };
    assert_eq!(value("Plans"), "true");
    assert_eq!(
        value("EksClusters"),
        "arn:aws:eks:us-east-1:000000000000:cluster/a,arn:aws:eks:us-east-1:000000000000:cluster/b"
    );
    let reconcile = json!({"FunctionName": output("ReconcileFunction")});
    let reconcile = aws.must("lambda", "get_function_configuration", reconcile);
    let variables = &reconcile["Environment"]["Variables"];
    assert_eq!(variables["DRIFTLESS_HUB"], "staging");
    let groups = aws.must("logs", "describe_log_groups", json!({}));
    let groups = groups["logGroups"].as_array().expect("log groups");
    assert!(groups.len() >= 5);
    assert!(groups.iter().all(|group| group["retentionInDays"] == 7));

    // The state agrees with the stack: a second run would change nothing.
    workplace.must(&["plan", "-detailed-exitcode", "-no-color"]);
    workplace.must(&["destroy", "-auto-approve", "-no-color"]);
    let buckets = aws.must("s3", "list_buckets", json!({}));
    let buckets = buckets["Buckets"].as_array().expect("buckets");
    let name = |bucket: &Value| bucket["Name"].as_str().unwrap_or_default().to_owned();
    let left: Vec<String> = buckets.iter().map(name).collect();
    assert!(
        !left
            .iter()
            .any(|name| name.starts_with("driftless-code-") && name.len() > 20),
        "{left:?}"
    );
}
