//! Flags of `svcplane explain`.

use clap::{Args, ValueEnum};
use svcplane_runtime::args::{dns_label, dns_subdomain};
use svcplane_runtime::client::ClusterArgs;

use super::{LoadBalancerArgs, RangeArgs, SizeArgs};
use crate::model::ObjectKey;

/// See the module.
#[derive(Debug, Args)]
pub struct ExplainArgs {
    /// The Service; without a namespace it is looked for in that of --namespace, else in that of the kubeconfig's context, else in `default`
    #[arg(value_name = "[NAMESPACE/]NAME", value_parser = service)]
    pub service: Named,

    /// The Service's namespace
    #[arg(short, long, value_name = "NAMESPACE", value_parser = name)]
    pub namespace: Option<String>,

    /// Which one.
    #[command(flatten)]
    pub cluster: ClusterArgs,

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

    /// As the controllers have them.
    #[command(flatten)]
    pub load_balancer: LoadBalancerArgs,

    /// The values that there are.
    #[command(flatten)]
    pub ranges: RangeArgs,
}

impl ExplainArgs {
    /// What clap cannot see: the namespace is given once, or twice the same.
    pub fn check(&self) -> Result<(), String> {
        match (&self.namespace, &self.service.namespace) {
            (Some(flag), Some(own)) if flag != own => Err(format!(
                "--namespace={flag} and {own}/{} are two namespaces: leave out one",
                self.service.name
            )),
            _ => self.ranges.check(),
        }
    }

    /// The Service; `context`: the namespace of the kubeconfig's context.
    pub fn key(&self, context: &str) -> Result<ObjectKey, String> {
        let context = if context.is_empty() { "default" } else { context };
        let given = self.service.namespace.as_deref().or(self.namespace.as_deref());
        match given {
            None => {
                let context = dns_label(context);
                let context = context
                    .map_err(|error| format!("the kubeconfig's context has a namespace that is none: {error}"))?;
                Ok(ObjectKey::new(context, &*self.service.name))
            }
            Some(given) => Ok(ObjectKey::new(given, &*self.service.name)),
        }
    }
}

/// Form of a report.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Form {
    /// For people.
    Text,
    /// For programs.
    Json,
}

/// A Service as it is called on the command line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Named {
    /// What stands before the `/`.
    pub namespace: Option<String>,
    /// `metadata.name`.
    pub name: String,
}

pub(super) fn service(text: &str) -> Result<Named, String> {
    let (namespace, own) = match text.split_once('/') {
        Some((namespace, own)) => (Some(namespace), own),
        None => (None, text),
    };
    let named = Named {
        namespace: namespace.map(name).transpose()?,
        name: name(own)?,
    };
    Ok(named)
}

/// The Service of the webhook.
pub(super) fn webhook_service(text: &str) -> Result<ObjectKey, String> {
    whole(text, "svcplane/svcplane-webhook")
}

/// The Secret of the webhook's certificate.
pub(super) fn webhook_secret(text: &str) -> Result<ObjectKey, String> {
    whole(text, "svcplane/svcplane-webhook-tls")
}

/// The canary.
pub(super) fn canary(text: &str) -> Result<ObjectKey, String> {
    whole(text, "svcplane/svcplane-canary")
}

/// An object of a flag, which has no other place for the namespace; `such_as`: one that this flag might name.
fn whole(text: &str, such_as: &str) -> Result<ObjectKey, String> {
    let named = service(text)?;
    let namespace = named
        .namespace
        .ok_or_else(|| format!("write it as NAMESPACE/NAME, such as {such_as}"))?;
    Ok(ObjectKey::new(namespace, named.name))
}

fn name(text: &str) -> Result<String, String> {
    let form = "write it as NAMESPACE/NAME, such as default/web, or as -n NAMESPACE NAME";
    dns_label(text).map_err(|error| format!("{error}; {form}"))
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    /// The command line alone.
    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        args: ExplainArgs,
    }

    fn key(words: &[&str], context: &str) -> Result<ObjectKey, String> {
        let line = Line::try_parse_from([&["explain"][..], words].concat()).map_err(|error| error.to_string())?;
        line.args.check()?;
        line.args.key(context)
    }

    type Read = fn(&str) -> Result<ObjectKey, String>;

    #[test]
    fn an_object_of_a_flag_needs_its_namespace() {
        let flags: [(Read, &str); 3] = [
            (canary, "svcplane/svcplane-canary"),
            (webhook_service, "svcplane/svcplane-webhook"),
            (webhook_secret, "svcplane/svcplane-webhook-tls"),
        ];
        for (parse, such_as) in flags {
            let told = format!("write it as NAMESPACE/NAME, such as {such_as}");
            assert_eq!(parse("foo"), Err(told));
            assert_eq!(parse("shop/foo"), Ok(ObjectKey::new("shop", "foo")));
        }
    }

    #[test]
    fn a_domain_that_is_none_is_refused() {
        let parse = |domain: &str| Line::try_parse_from(["explain", "shop/web", "--cluster-domain", domain]);
        assert_eq!(parse("corp.example").unwrap().args.cluster_domain, "corp.example");
        for wrong in ["foo bar", "", "cluster.local.", "Cluster.local"] {
            let error = parse(wrong).err().unwrap().to_string();
            let named = error.contains("--cluster-domain") && error.contains("is not a DNS-1123 subdomain");
            assert!(named, "{wrong:?}: {error}");
        }
    }

    #[test]
    fn a_service_is_named_with_its_namespace_or_found_in_the_contexts() {
        let table: [(&[&str], &str, (&str, &str)); 8] = [
            (&["shop/web-1"], "stage", ("shop", "web-1")),
            (&["-n", "shop", "web-1"], "stage", ("shop", "web-1")),
            (&["web-1", "--namespace=shop"], "stage", ("shop", "web-1")),
            (&["-n", "shop", "shop/web-1"], "stage", ("shop", "web-1")),
            (&["web"], "stage", ("stage", "web")),
            (&["web"], "default", ("default", "web")),
            (&["web"], "", ("default", "web")),
            (&["shop/web"], "../x", ("shop", "web")),
        ];
        for (words, context, (namespace, name)) in table {
            assert_eq!(key(words, context), Ok(ObjectKey::new(namespace, name)), "{words:?}");
        }
        for wrong in [
            "",
            "/",
            "shop/",
            "/web",
            "shop/web/x",
            "shop/We b",
            "shop/../nodes",
            "shop/..",
            "..",
            "-.web",
            "web.shop",
            "web-",
        ] {
            let told = key(&["--", wrong], "default").is_err_and(|it| it.contains("NAMESPACE/NAME"));
            assert!(told, "{wrong}");
        }
        let told = |words: &[&str], context: &str, what: &str| key(words, context).is_err_and(|it| it.contains(what));
        assert!(told(&["-n", "stage", "shop/web"], "default", "--namespace=stage"));
        assert!(told(&["-n", "../x", "web"], "default", "NAMESPACE/NAME"));
        assert!(told(&["web"], "../x", r#"a namespace that is none: "../x""#));
    }
}
