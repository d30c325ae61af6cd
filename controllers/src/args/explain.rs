//! Flags of `svcplane explain`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use super::SizeArgs;
use crate::model::ObjectKey;

/// See the module.
#[derive(Debug, Args)]
pub struct ExplainArgs {
    /// The Service
    #[arg(value_name = "NAMESPACE/NAME", value_parser = service)]
    pub service: ObjectKey,

    /// Path of a kubeconfig; without it $KUBECONFIG, else the Pod's service account
    #[arg(long, value_name = "PATH")]
    pub kubeconfig: Option<PathBuf>,

    /// Form of the report
    #[arg(short, long, value_enum, default_value_t = Form::Text)]
    pub output: Form,

    /// Exit with 1 if what is stored is not what it should be, or if that cannot be told
    #[arg(long)]
    pub check: bool,

    /// The zone that the cluster's DNS answers for
    #[arg(long, value_name = "DOMAIN", default_value = "cluster.local")]
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
    use super::*;

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
