//! Flags of `svcplane explain`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use svcplane_runtime::args::dns_subdomain;

use super::SizeArgs;
use crate::model::ObjectKey;

/// See the module.
#[derive(Debug, Args)]
pub struct ExplainArgs {
    /// The Service
    #[arg(value_name = "NAMESPACE/NAME", value_parser = service)]
    pub service: ObjectKey,

    /// Path of a kubeconfig; without it the files that $KUBECONFIG lists, else the Pod's service account, else ~/.kube/config
    #[arg(long, value_name = "PATH")]
    pub kubeconfig: Option<PathBuf>,

    /// Form of the report
    #[arg(short, long, value_enum, default_value_t = Form::Text)]
    pub output: Form,

    /// Exit with 1 if what is stored is not what it should be, or if that cannot be told
    #[arg(long)]
    pub check: bool,

    /// The zone that the cluster's DNS answers for
    #[arg(long, value_name = "DOMAIN", default_value = "cluster.local", value_parser = dns_subdomain)]
    pub cluster_domain: String,

    /// As the controllers have them.
    #[command(flatten)]
    pub sizes: SizeArgs,
}

/// Form of a report.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Form {
    /// For people.
    Text,
    /// For programs.
    Json,
}

/// `NAMESPACE/NAME`, in letters that names are made of.
fn service(text: &str) -> Result<ObjectKey, String> {
    let is_name = |text: &str| {
        let fits = |letter: char| letter.is_ascii_lowercase() || letter.is_ascii_digit() || "-.".contains(letter);
        !text.is_empty() && text.chars().all(fits)
    };
    match text.split_once('/') {
        Some((namespace, name)) if is_name(namespace) && is_name(name) => Ok(ObjectKey::new(namespace, name)),
        _ => Err("write it as NAMESPACE/NAME, such as default/web".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Cli {
        #[command(flatten)]
        explain: ExplainArgs,
    }

    #[test]
    fn a_domain_that_is_none_is_refused() {
        let parse = |domain: &str| Cli::try_parse_from(["svcplane", "shop/web", "--cluster-domain", domain]);
        assert_eq!(parse("corp.example").unwrap().explain.cluster_domain, "corp.example");
        for wrong in ["foo bar", "", "cluster.local.", "Cluster.local"] {
            let error = parse(wrong).err().unwrap().to_string();
            let named = error.contains("--cluster-domain") && error.contains("is not a DNS-1123 subdomain");
            assert!(named, "{wrong:?}: {error}");
        }
    }

    #[test]
    fn a_service_is_named_with_its_namespace() {
        assert_eq!(service("shop/web-1"), Ok(ObjectKey::new("shop", "web-1")));
        for wrong in [
            "web",
            "",
            "/",
            "shop/",
            "/web",
            "shop/web/x",
            "shop/We b",
            "shop/../nodes",
        ] {
            assert!(service(wrong).is_err_and(|it| it.contains("NAMESPACE/NAME")), "{wrong}");
        }
    }
}
