//! Flags of `loadbalancer-controller`.

use clap::{ArgAction, Args, ValueEnum};
use svcplane_allocators::balancers::Products;

use crate::loadbalancer::Scope;

/// See the module.
#[derive(Debug, Args)]
pub struct LoadBalancerArgs {
    /// Values of spec.loadBalancerClass whose Services get addresses from LoadBalancerPools; nothing of any other class is written to
    #[arg(long, value_name = "CLASS,…", value_delimiter = ',', default_value = "svcplane.io/lb", value_parser = class)]
    pub load_balancer_class: Vec<String>,

    /// Services of type LoadBalancer without a class get addresses too; only where no other controller serves them
    #[arg(long, value_name = "BOOL", default_value_t = false, default_missing_value = "true", num_args = 0..=1, action = ArgAction::Set)]
    pub load_balancer_default: bool,

    /// Products whose annotations are read beside svcplane.io/…, so that a migration needs no edits of manifests
    #[arg(long, value_enum, value_name = "PRODUCT,…", value_delimiter = ',', default_values_t = [Product::Metallb, Product::Cilium, Product::KubeVip, Product::Purelb])]
    pub load_balancer_annotations: Vec<Product>,
}

/// A product with annotations of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Product {
    /// MetalLB.
    Metallb,
    /// Cilium's LB-IPAM.
    Cilium,
    /// kube-vip.
    KubeVip,
    /// PureLB.
    Purelb,
    /// None of them.
    None,
}

impl LoadBalancerArgs {
    /// What they say.
    pub fn scope(&self) -> Scope {
        let reads = |product| self.load_balancer_annotations.contains(&product);
        Scope {
            classes: self.load_balancer_class.clone(),
            without_class: self.load_balancer_default,
            products: Products {
                metallb: reads(Product::Metallb),
                cilium: reads(Product::Cilium),
                kube_vip: reads(Product::KubeVip),
                purelb: reads(Product::Purelb),
            },
        }
    }
}

/// A class as the apiserver takes it: a name, with a prefix if one likes.
fn class(text: &str) -> Result<String, String> {
    let is_well_formed = !text.is_empty() && text.split('/').count() <= 2 && !text.contains(char::is_whitespace);
    let right = "must be a value of spec.loadBalancerClass, such as svcplane.io/lb";
    if is_well_formed {
        Ok(text.to_owned())
    } else {
        Err(right.to_owned())
    }
}
