//! The Helm chart, rendered by the real Helm.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, bail};
use kube::Client;
use serde_json::{Value, json};

use crate::admission::{Said, send};
use crate::cluster::Cluster;
use crate::namespace::TestNamespace;
use crate::svcplane::{Builder, Svcplane};
use crate::tools::other_tool;

/// Where the chart is.
pub const CHART: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../charts/svcplane");

/// The namespace that is rendered into.
pub const NAMESPACE: &str = "svcplane";

/// One of the Helms that the chart must work with.
#[derive(Debug, Clone)]
pub struct Helm {
    program: PathBuf,
    arguments: Vec<String>,
    tests: bool,
}

/// What `helm template` printed.
#[derive(Debug, Clone)]
pub struct Rendered {
    /// As it is.
    pub text: String,
    /// The objects in it.
    pub objects: Vec<Value>,
}

impl Helm {
    /// `helm3` or `helm4`.
    ///
    /// # Errors
    /// It is not built.
    pub fn of(name: &str) -> Result<Self> {
        Ok(Self {
            program: other_tool(name)?,
            arguments: Vec::new(),
            tests: false,
        })
    }

    /// Both.
    ///
    /// # Errors
    /// One is not built.
    pub fn both() -> Result<[Self; 2]> {
        Ok([Self::of("helm4")?, Self::of("helm3")?])
    }

    /// With a further argument, such as `--set=a=b`.
    #[must_use]
    pub fn with(mut self, argument: impl Into<String>) -> Self {
        self.arguments.push(argument.into());
        self
    }

    /// With these values (`--set`).
    #[must_use]
    pub fn set(self, values: &[&str]) -> Self {
        values
            .iter()
            .fold(self, |helm, value| helm.with(format!("--set={value}")))
    }

    /// With this file of values, from the chart's directory.
    #[must_use]
    pub fn values(self, file: &str) -> Self {
        self.with(format!("--values={CHART}/{file}"))
    }

    /// Renders what `helm test` needs, too.
    #[must_use]
    pub fn tests(mut self) -> Self {
        self.tests = true;
        self
    }

    /// What the release `svcplane` consists of.
    ///
    /// # Errors
    /// Helm refuses; with what it says.
    pub fn template(&self) -> Result<Rendered> {
        self.template_as("svcplane", NAMESPACE)
    }

    /// The same with another name, and into another namespace.
    ///
    /// # Errors
    /// As [`Helm::template`].
    pub fn template_as(&self, release: &str, namespace: &str) -> Result<Rendered> {
        let mut command = vec!["template", release, CHART, "--namespace", namespace];
        if !self.tests {
            command.push("--skip-tests");
        }
        let text = self.run(&command)?;
        let objects: Vec<Value> = serde_saphyr::from_multiple(&text).context("what helm prints")?;
        let objects = objects.into_iter().filter(|it| !it.is_null()).collect();
        Ok(Rendered { text, objects })
    }

    /// Runs a command of Helm with the arguments so far, and returns what it prints.
    ///
    /// # Errors
    /// It fails; with what it says.
    pub fn run(&self, command: &[&str]) -> Result<String> {
        let home = std::env::temp_dir().join("svcplane-tests-helm");
        let output = Command::new(&self.program)
            .args(command)
            .args(&self.arguments)
            .env("HELM_CACHE_HOME", home.join("cache"))
            .env("HELM_CONFIG_HOME", home.join("config"))
            .env("HELM_DATA_HOME", home.join("data"))
            .output()
            .with_context(|| format!("starting {}", self.program.display()))?;
        if !output.status.success() {
            bail!(
                "{}{}",
                String::from_utf8_lossy(&output.stdout),
                String::from_utf8_lossy(&output.stderr)
            );
        }
        Ok(String::from_utf8(output.stdout)?)
    }

    /// The same on this cluster, in [`NAMESPACE`].
    ///
    /// # Errors
    /// As [`Helm::run`].
    pub async fn run_on(&self, cluster: &Cluster, command: &[&str]) -> Result<String> {
        let place = [
            format!("--namespace={NAMESPACE}"),
            format!("--kubeconfig={}", cluster.kubeconfig().display()),
        ];
        let given = command.iter().map(ToString::to_string);
        let (helm, all): (_, Vec<String>) = (self.clone(), given.chain(place).collect());
        let run = move || helm.run(&all.iter().map(String::as_str).collect::<Vec<_>>());
        tokio::task::spawn_blocking(run).await?
    }
}

impl Rendered {
    /// All objects of this kind.
    pub fn all(&self, kind: &str) -> Vec<&Value> {
        self.objects.iter().filter(|it| it["kind"] == kind).collect()
    }

    /// The only object of this kind.
    ///
    /// # Panics
    /// There is none, or more than one.
    pub fn one(&self, kind: &str) -> &Value {
        let [one] = self.all(kind)[..] else {
            panic!("{} of kind {kind}", self.all(kind).len())
        };
        one
    }

    /// The arguments of the container, behind `run`.
    pub fn flags(&self) -> Vec<String> {
        let container = &self.one("Deployment")["spec"]["template"]["spec"]["containers"][0];
        let arguments = container["args"].as_array().into_iter().flatten();
        arguments.skip(1).filter_map(Value::as_str).map(String::from).collect()
    }
}

/// The files of values that come with the chart: profiles, and one for each feature.
///
/// # Errors
/// The directories cannot be read.
pub fn value_files() -> Result<Vec<String>> {
    let mut files = Vec::new();
    for directory in ["profiles", "ci"] {
        for entry in std::fs::read_dir(Path::new(CHART).join(directory))? {
            files.push(format!("{directory}/{}", entry?.file_name().to_string_lossy()));
        }
    }
    files.sort();
    Ok(files)
}

/// Where objects of this one's kind are created.
pub fn collection(object: &Value) -> String {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let (version, kind) = (text(&object["apiVersion"]), text(&object["kind"]).to_lowercase());
    let plural = kind
        .strip_suffix('y')
        .map_or_else(|| format!("{kind}s"), |stem| format!("{stem}ies"));
    let root = if version.contains('/') { "apis" } else { "api" };
    match object["metadata"]["namespace"].as_str() {
        Some(namespace) => format!("/{root}/{version}/namespaces/{namespace}/{plural}"),
        None => format!("/{root}/{version}/{plural}"),
    }
}

/// Creates it, or only asks whether that could be done.
///
/// # Errors
/// There is no answer.
pub async fn create(client: &Client, object: &Value, dry_run: bool) -> Result<Said> {
    let query = if dry_run { "?dryRun=All" } else { "" };
    send(client, "POST", &format!("{}{query}", collection(object)), Some(object)).await
}

/// Creates the objects of these kinds.
///
/// # Errors
/// One is refused.
pub async fn install(client: &Client, rendered: &Rendered, kinds: &[&str]) -> Result<()> {
    for kind in kinds {
        for object in rendered.all(kind) {
            let said = create(client, object, false).await?;
            said.accepted()
                .with_context(|| format!("{kind} {}", object["metadata"]["name"]))?;
        }
    }
    Ok(())
}

/// A token of a ServiceAccount, as its Pods get it.
///
/// # Errors
/// The apiserver gives none.
pub async fn token(namespace: &TestNamespace, account: &str) -> Result<String> {
    let path = format!(
        "/api/v1/namespaces/{}/serviceaccounts/{account}/token",
        namespace.name()
    );
    let request =
        json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"expirationSeconds": 3600}});
    let answer = send(&namespace.client(), "POST", &path, Some(&request))
        .await?
        .accepted()?;
    let token = answer["status"]["token"].as_str().context("no token")?;
    Ok(token.to_owned())
}

/// svcplane as the container of the Deployment has it, with servers on free ports of loopback.
pub fn container(rendered: &Rendered, namespace: &TestNamespace, uid: &str) -> Builder {
    let given = [
        "--leader-elect-resource-namespace",
        "--mode",
        "--acknowledge-builtins-disabled",
    ];
    let builder = given
        .iter()
        .fold(Svcplane::builder(), |builder, flag| builder.without(flag));
    let builder = rendered
        .flags()
        .iter()
        .fold(builder, |builder, flag| builder.arg(flag))
        .arg("--admin-address=127.0.0.1:0")
        .env("POD_NAME", &format!("svcplane-{uid}"))
        .env("POD_NAMESPACE", namespace.name())
        .env("POD_UID", uid);
    if rendered
        .flags()
        .iter()
        .any(|flag| flag.starts_with("--webhook-address"))
    {
        return builder.arg("--webhook-address=127.0.0.1:0");
    }
    builder
}
