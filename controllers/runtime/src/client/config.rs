//! Which cluster: `--kubeconfig`, else the files that `$KUBECONFIG` lists, else the Pod's service account, else `~/.kube/config`; and which of
//! their contexts.

use std::error::Error;
use std::ffi::OsStr;
use std::fmt;
use std::path::{Path, PathBuf};

use clap::Args;
use kube::Config;
use kube::config::{InClusterError, KubeConfigOptions, Kubeconfig, KubeconfigError};

use crate::api::innermost;

/// Where kubectl keeps its configuration, below the home directory.
const DEFAULT_FILE: &str = ".kube/config";

/// Flags of every command that talks to an apiserver; names and meaning are kubectl's.
#[derive(Args, Clone, Debug, Default)]
pub struct ClusterArgs {
    /// Path of a kubeconfig; without it the files that $KUBECONFIG lists, else the Pod's service account, else ~/.kube/config
    #[arg(long, value_name = "PATH")]
    pub kubeconfig: Option<PathBuf>,

    /// The context of the kubeconfig, instead of its current one; the Pod's service account is then passed over
    #[arg(long, value_name = "NAME")]
    pub context: Option<String>,
}

/// Why there is no usable configuration, in one line that says what to set.
#[derive(Debug)]
pub struct ConfigError(String);

impl ConfigError {
    /// A client cannot be made of the configuration.
    pub(super) fn unusable(error: &kube::Error) -> Self {
        Self(format!("the cluster configuration cannot be used: {}", words(error)))
    }
}

/// The innermost words. kube puts paths into two pairs of quotes, and says of a file that is not there neither that nor which.
fn words(error: &(dyn Error + 'static)) -> String {
    match error.downcast_ref() {
        Some(KubeconfigError::ReadConfig(error, _)) => error.to_string(),
        _ => innermost(error).replace("'\"", "'").replace("\"'", "'"),
    }
}

/// Why this is no Pod.
fn no_pod(error: &InClusterError) -> String {
    match error {
        // It does not say which.
        InClusterError::ReadEnvironmentVariable(_) => {
            "KUBERNETES_SERVICE_HOST or KUBERNETES_SERVICE_PORT is not set".into()
        }
        other => words(other),
    }
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Error for ConfigError {}

/// Reads the configuration from the first place that has one.
pub async fn load_config(cluster: &ClusterArgs) -> Result<Config, ConfigError> {
    let listed = std::env::var_os("KUBECONFIG").unwrap_or_default();
    find(cluster, &listed, Config::incluster, std::env::home_dir().as_deref()).await
}

async fn find(
    cluster: &ClusterArgs,
    listed: &OsStr,
    pod: impl FnOnce() -> Result<Config, InClusterError>,
    home: Option<&Path>,
) -> Result<Config, ConfigError> {
    let context = cluster.context.as_deref();
    if let Some(path) = &cluster.kubeconfig {
        return read("--kubeconfig", vec![path.clone()], context).await;
    }
    let listed: Vec<PathBuf> = std::env::split_paths(listed)
        .filter(|path| !path.as_os_str().is_empty())
        .collect();
    if !listed.is_empty() {
        return read("KUBECONFIG", listed, context).await;
    }
    let no_pod = match context {
        Some(_) => "passed over, as it has no contexts".to_owned(),
        None => match pod() {
            Ok(config) => return Ok(config),
            Err(error) => no_pod(&error),
        },
    };
    let default = home.map(|home| home.join(DEFAULT_FILE));
    let no_file = match default {
        Some(path) if path.exists() => return read("~/.kube/config", vec![path], context).await,
        Some(path) => format!("{} does not exist", path.display()),
        None => "no home directory".to_owned(),
    };
    Err(ConfigError(format!(
        "no cluster to connect to; tried --kubeconfig (not given), KUBECONFIG (not set), in-cluster ({no_pod}), ~/.kube/config ({no_file})"
    )))
}

/// Reads files and merges them as kubectl does: what stands in an earlier one counts, and of several those that are not there are left out.
async fn read(origin: &str, mut paths: Vec<PathBuf>, context: Option<&str>) -> Result<Config, ConfigError> {
    let names = |paths: &[PathBuf]| {
        let names: Vec<String> = paths.iter().map(|path| path.display().to_string()).collect();
        names.join(", ")
    };
    let bad = |paths: &[PathBuf], error: &(dyn Error + 'static)| {
        ConfigError(format!("{origin}: cannot use {}: {}", names(paths), words(error)))
    };
    if paths.iter().any(|path| path.exists()) {
        paths.retain(|path| path.exists());
    }
    let mut merged = Kubeconfig::default();
    for path in &paths {
        let next = Kubeconfig::read_from(path).and_then(|next| merged.merge(next));
        let named = if path.exists() {
            std::slice::from_ref(path)
        } else {
            &paths
        };
        merged = next.map_err(|error| bad(named, &error))?;
    }
    let known = || merged.contexts.iter().map(|context| context.name.as_str());
    if let Some(wanted) = context.filter(|wanted| !known().any(|name| name == *wanted)) {
        return Err(ConfigError(format!(
            "--context={wanted}: {} has no context of this name; it has: {}",
            names(&paths),
            known().collect::<Vec<_>>().join(", ")
        )));
    }
    let options = KubeConfigOptions {
        context: context.map(str::to_owned),
        ..KubeConfigOptions::default()
    };
    Config::from_custom_kubeconfig(merged, &options)
        .await
        .map_err(|error| bad(&paths, &error))
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;

    use serde_json::{Value, json};

    use super::*;

    /// Files of one test, gone with it.
    struct Files(PathBuf);

    impl Files {
        fn new(test: &str) -> Self {
            let directory = std::env::temp_dir().join(format!("svcplane-{test}-{}", std::process::id()));
            std::fs::create_dir_all(directory.join(".kube")).unwrap();
            Self(directory)
        }

        fn file(&self, name: &str, text: &str) -> PathBuf {
            let path = self.0.join(name);
            std::fs::write(&path, text).unwrap();
            path
        }

        fn kubeconfig(&self, name: &str, server: &str) -> PathBuf {
            self.file(name, &config(server).to_string())
        }
    }

    impl Drop for Files {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }

    fn config(server: &str) -> Value {
        json!({
            "current-context": "c", "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
            "clusters": [{"name": "c", "cluster": {"server": server}}], "users": [],
        })
    }

    fn list(paths: &[&Path]) -> OsString {
        std::env::join_paths(paths).unwrap()
    }

    fn outside() -> Result<Config, InClusterError> {
        Err(InClusterError::ReadEnvironmentVariable(std::env::VarError::NotPresent))
    }

    /// The server found, or why there is none.
    async fn found(
        flag: Option<&Path>,
        listed: &OsStr,
        pod: fn() -> Result<Config, InClusterError>,
        home: Option<&Path>,
    ) -> Result<String, String> {
        let cluster = ClusterArgs {
            kubeconfig: flag.map(Path::to_path_buf),
            context: None,
        };
        let found = find(&cluster, listed, pod, home).await;
        let found = found.map(|config| config.cluster_url.to_string());
        found.map_err(|error| {
            let text = error.to_string();
            assert!(!text.contains('\n'), "{text}");
            text
        })
    }

    #[tokio::test]
    async fn places_have_an_order_and_all_that_were_tried_are_named() {
        let files = Files::new("places");
        let flag = files.kubeconfig("flag", "https://flag");
        let listed = list(&[&files.kubeconfig("listed", "https://listed")]);
        files.kubeconfig(DEFAULT_FILE, "https://home");
        let (listed, nothing, home) = (listed.as_os_str(), OsStr::new(""), Some(files.0.as_path()));
        let pod: fn() -> Result<Config, InClusterError> = || Ok(Config::new("https://pod".parse().unwrap()));
        assert_eq!(
            found(Some(&flag), listed, pod, home).await.as_deref(),
            Ok("https://flag/")
        );
        assert_eq!(found(None, listed, pod, home).await.as_deref(), Ok("https://listed/"));
        for nothing in [nothing, OsStr::new(":")] {
            assert_eq!(found(None, nothing, pod, home).await.as_deref(), Ok("https://pod/"));
            assert_eq!(
                found(None, nothing, outside, home).await.as_deref(),
                Ok("https://home/")
            );
        }
        let elsewhere = files.0.join("elsewhere");
        let error = found(None, nothing, outside, Some(&elsewhere)).await.unwrap_err();
        let default = format!("{}/.kube/config does not exist", elsewhere.display());
        for part in [
            "--kubeconfig (not given)",
            "KUBECONFIG (not set)",
            "KUBERNETES_SERVICE_HOST",
            &default,
        ] {
            assert!(error.contains(part), "{error}");
        }
        let error = found(None, nothing, outside, None).await.unwrap_err();
        assert!(error.contains("no home directory"), "{error}");
        let home = files.file(DEFAULT_FILE, "clusters: 7");
        let error = found(None, nothing, outside, Some(&files.0)).await.unwrap_err();
        let start = format!("~/.kube/config: cannot use {}: ", home.display());
        assert!(error.starts_with(&start), "{error}");
    }

    #[tokio::test]
    async fn listed_files_are_merged_and_the_first_that_says_something_counts() {
        let files = Files::new("merge");
        let context =
            json!({"current-context": "c", "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}]});
        let context = files.file("context", &context.to_string());
        let clusters = |server: &str| json!({"clusters": [{"name": "c", "cluster": {"server": server}}]}).to_string();
        let first = files.file("first", &clusters("https://first"));
        let second = files.file("second", &clusters("https://second"));
        let absent = files.0.join("absent");
        let listed = list(&[&context, &absent, &first, &second]);
        assert_eq!(
            found(None, &listed, outside, None).await.as_deref(),
            Ok("https://first/")
        );
        let listed = list(&[&second, &first, &context]);
        assert_eq!(
            found(None, &listed, outside, None).await.as_deref(),
            Ok("https://second/")
        );

        // A part is missing; none is there; one is broken.
        let broken = files.file("broken", "clusters: 7");
        for (listed, named, why) in [
            (list(&[&context, &absent]), &context, "cluster"),
            (list(&[&absent]), &absent, "No such file"),
            (list(&[&context, &broken]), &broken, "line 1"),
        ] {
            let error = found(None, &listed, outside, None).await.unwrap_err();
            let start = format!("KUBECONFIG: cannot use {}: ", named.display());
            assert!(error.starts_with(&start) && error.contains(why), "{error}");
        }
        let listed = list(&[&absent, &files.0.join("gone")]);
        let error = found(None, &listed, outside, None).await.unwrap_err();
        let start = format!(
            "KUBECONFIG: cannot use {0}, {1}/gone: ",
            absent.display(),
            files.0.display()
        );
        assert!(error.starts_with(&start), "{error}");
    }

    #[tokio::test]
    async fn a_context_is_taken_from_the_files_and_one_that_is_not_there_is_told_with_those_that_are() {
        let files = Files::new("context");
        let one = |name: &str, server: &str| {
            json!({
                "contexts": [{"name": name, "context": {"cluster": name, "user": "u"}}],
                "clusters": [{"name": name, "cluster": {"server": server}}], "users": [],
            })
        };
        let mut first = one("east", "https://east");
        first["current-context"] = json!("east");
        let first = files.file("first", &first.to_string());
        let second = files.file("second", &one("west", "https://west").to_string());
        let listed = list(&[&first, &second]);
        let pod: fn() -> Result<Config, InClusterError> = || Ok(Config::new("https://pod".parse().unwrap()));
        let of = async |kubeconfig: Option<&Path>, context: &str, listed: &OsStr| {
            let cluster = ClusterArgs {
                kubeconfig: kubeconfig.map(Path::to_path_buf),
                context: Some(context.to_owned()),
            };
            let found = find(&cluster, listed, pod, Some(&files.0)).await;
            found
                .map(|config| config.cluster_url.to_string())
                .map_err(|error| error.to_string())
        };
        assert_eq!(of(None, "west", &listed).await.as_deref(), Ok("https://west/"));
        assert_eq!(
            of(Some(&first), "east", OsStr::new("")).await.as_deref(),
            Ok("https://east/")
        );
        let want = format!(
            "--context=north: {}, {} has no context of this name; it has: east, west",
            first.display(),
            second.display()
        );
        assert_eq!(of(None, "north", &listed).await, Err(want));
        // A Pod's service account has no contexts.
        let error = of(None, "west", OsStr::new("")).await.unwrap_err();
        assert!(error.contains("in-cluster (passed over"), "{error}");
        files.file(DEFAULT_FILE, &one("west", "https://home").to_string());
        assert_eq!(of(None, "west", OsStr::new("")).await.as_deref(), Ok("https://home/"));
    }

    #[tokio::test]
    async fn a_bad_kubeconfig_is_named_with_its_flag() {
        let files = Files::new("flag");
        for path in [files.0.join("missing"), files.file("broken", "clusters: 7")] {
            let error = found(Some(&path), OsStr::new(""), outside, None).await.unwrap_err();
            let start = format!("--kubeconfig: cannot use {}: ", path.display());
            assert!(error.starts_with(&start), "{error}");
        }
    }
}
