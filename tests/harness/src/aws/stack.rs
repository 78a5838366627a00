//! The deployment: the SAM template, translated, with the real bootstraps.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::ministack::REGION;
use super::{Aws, MiniStack, emulate};
use crate::process::{self, PATIENCE};
use crate::tools;

const CODE: &str = "driftless-code";

/// A deployed stack.
#[derive(Clone, Debug)]
pub struct Stack {
    /// The name of the CloudFormation stack.
    pub name: String,
    /// The outputs of the template.
    pub outputs: BTreeMap<String, String>,
}

impl Stack {
    /// Returns an output of the template; panics if no output has this name.
    pub fn output(&self, name: &str) -> &str {
        let found = self.outputs.get(name);
        found.unwrap_or_else(|| panic!("no output {name} in {:?}", self.outputs))
    }
}

/// Translates a SAM template into CloudFormation. `code` maps the logical id of
/// each function to the `s3://` address of its code, if the template does not have it.
pub fn translate(template: &Path, code: &BTreeMap<String, String>) -> Value {
    let mut child = Command::new(tools::SAM.python())
        .arg(tools::tests().join("harness/src/aws/translate.py"))
        .arg(template)
        .env("AWS_DEFAULT_REGION", REGION)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("start the SAM translator");
    let mut input = child.stdin.take().expect("a pipe");
    write!(input, "{}", json!(code)).expect("write to the SAM translator");
    drop(input);
    let output = child.wait_with_output().expect("the SAM translator");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.success(),
        "SAM refuses {}:\n{errors}",
        template.display()
    );
    serde_json::from_slice(&output.stdout).expect("a CloudFormation template")
}

/// Lints a translated template. Returns the output of cfn-lint, which is empty without findings.
pub fn lint(template: &Value) -> String {
    let file = tempfile::Builder::new()
        .suffix(".json")
        .tempfile()
        .expect("a file");
    std::fs::write(file.path(), template.to_string()).expect("write the template");
    let output = Command::new(tools::SAM.path())
        .args(["--format", "parseable", "--regions", REGION, "--template"])
        .arg(file.path())
        .output()
        .expect("run cfn-lint");
    let text = [output.stdout, output.stderr].concat();
    String::from_utf8_lossy(&text).trim().to_owned()
}

impl MiniStack {
    /// Deploys a SAM template as `name` and waits for it. `bootstraps` are the
    /// functions' binaries by logical id; panics with the stack's events when
    /// the deployment fails.
    pub fn deploy(
        &self,
        name: &str,
        template: &Path,
        parameters: &[(&str, &str)],
        bootstraps: &[(&str, PathBuf)],
    ) -> Stack {
        let code = bootstraps
            .iter()
            .map(|(function, path)| ((*function).to_owned(), self.upload(function, path)))
            .collect();
        let template = adapted(template, &code, parameters);
        let parameter =
            |(key, value): &(&str, &str)| json!({"ParameterKey": key, "ParameterValue": value});
        let parameters: Vec<Value> = parameters.iter().map(parameter).collect();
        self.aws().must(
            "cloudformation",
            "create_stack",
            json!({
                "StackName": name,
                "TemplateURL": upload_template(self.aws(), &self.url(), name, &template),
                "Parameters": parameters,
                "Capabilities": ["CAPABILITY_IAM"],
            }),
        );
        self.wait_for(name)
    }

    fn wait_for(&self, name: &str) -> Stack {
        let start = Instant::now();
        while start.elapsed() < PATIENCE {
            let answer = self.aws().must(
                "cloudformation",
                "describe_stacks",
                json!({"StackName": name}),
            );
            let stack = &answer["Stacks"][0];
            match stack["StackStatus"].as_str().unwrap_or_default() {
                "CREATE_COMPLETE" => return read(name, stack),
                "CREATE_IN_PROGRESS" => std::thread::sleep(Duration::from_millis(100)),
                status => panic!("the stack {name} is {status}:\n{}", self.failures(name)),
            }
        }
        panic!(
            "the stack {name} is not complete after {PATIENCE:?}:\n{}",
            self.failures(name)
        );
    }

    fn failures(&self, name: &str) -> String {
        let answer = self.aws().must(
            "cloudformation",
            "describe_stack_events",
            json!({"StackName": name}),
        );
        let events = answer["StackEvents"]
            .as_array()
            .cloned()
            .unwrap_or_default();
        let failed = |event: &&Value| {
            event["ResourceStatus"]
                .as_str()
                .is_some_and(|s| s.contains("FAILED"))
        };
        let line = |event: &Value| {
            format!(
                "{}: {}\n",
                event["LogicalResourceId"], event["ResourceStatusReason"]
            )
        };
        events.iter().filter(failed).map(line).collect()
    }

    /// Packs a bootstrap as `sam deploy` does and stores it under its hash.
    fn upload(&self, function: &str, bootstrap: &Path) -> String {
        let directory = tempfile::tempdir().expect("a directory");
        let zip = directory.path().join("code.zip");
        process::run(
            Command::new(tools::SAM.python())
                .args(["-c", PACK])
                .arg(bootstrap)
                .arg(&zip),
        );
        let hash = hex::encode(Sha256::digest(std::fs::read(&zip).expect("the archive")));
        let key = format!("{function}-{}.zip", &hash[..16]);
        store(self.aws(), &key, &zip);
        format!("s3://{CODE}/{key}")
    }
}

/// Translates a SAM template as [`translate`] does, and adapts it to MiniStack for these
/// parameters.
pub(super) fn adapted(
    template: &Path,
    code: &BTreeMap<String, String>,
    parameters: &[(&str, &str)],
) -> Value {
    let mut template = translate(template, code);
    emulate::adapt(&mut template, parameters);
    template
}

/// Stores a template as `sam deploy` does: a request may contain one of 51,200 bytes only. Returns
/// its URL at the endpoint of S3.
pub(super) fn upload_template(aws: &Aws, endpoint: &str, stack: &str, template: &Value) -> String {
    let file = tempfile::NamedTempFile::new().expect("a file");
    std::fs::write(file.path(), template.to_string()).expect("write the template");
    let key = format!("{stack}.template");
    store(aws, &key, file.path());
    format!("{endpoint}/{CODE}/{key}")
}

fn store(aws: &Aws, key: &str, file: &Path) {
    // Not an error if the bucket exists already.
    let _ = aws.call("s3", "create_bucket", &json!({"Bucket": CODE}));
    let object = json!({"Bucket": CODE, "Key": key, "Body": {"$file": file}});
    aws.must("s3", "put_object", object);
}

/// An archive with one executable file `bootstrap`.
const PACK: &str = r"
import sys, zipfile
entry = zipfile.ZipInfo('bootstrap')
entry.external_attr = 0o100755 << 16
entry.compress_type = zipfile.ZIP_DEFLATED
with open(sys.argv[1], 'rb') as source, zipfile.ZipFile(sys.argv[2], 'w') as archive:
    archive.writestr(entry, source.read(), compresslevel=1)
";

fn read(name: &str, stack: &Value) -> Stack {
    let output = |output: &Value| {
        let text = |field: &str| output[field].as_str().unwrap_or_default().to_owned();
        (text("OutputKey"), text("OutputValue"))
    };
    let outputs = stack["Outputs"].as_array().into_iter().flatten();
    Stack {
        name: name.to_owned(),
        outputs: outputs.map(output).collect(),
    }
}
