//! Rules of LoadBalancer addresses that can be broken in one line, and the test that must notice: rows of docs/loadbalancer.md.

use crate::mutate::Change;

/// A row.
#[derive(Clone, Copy, Debug)]
pub struct Row {
    /// As the document has it: `target: function`.
    pub test: &'static str,
    /// What breaks its rule.
    pub change: Change,
}

/// All that are known.
pub const ROWS: &[Row] = &[
    Row {
        test: "svcplane-webhook: the_ends_of_networks_are_left_out_and_those_of_ranges_are_not",
        change: Change {
            name: "a range is treated like a network",
            file: "allocators/src/pools/parse.rs",
            line: "        let is_network = text.contains('/') && first_last == FirstLast::Reserve;",
            instead: "        let is_network = first_last == FirstLast::Reserve;",
        },
    },
    Row {
        test: "balancers: pools_serve_by_selector_class_mode_fence_and_reservation",
        change: Change {
            name: "selectors select everybody",
            file: "webhook/src/pools/balancer.rs",
            line: "            && self.selection.mismatch(namespace, namespace_labels, labels).is_none()",
            instead: "            && self.selection.mismatch(namespace, namespace_labels, labels) != Some(\"nothing\")",
        },
    },
    Row {
        test: "balancers: pools_serve_by_selector_class_mode_fence_and_reservation",
        change: Change {
            name: "an enforced pool overrules nobody",
            file: "allocators/src/balancers/choose.rs",
            line: "        Mode::Active => overruled(),",
            instead: "        Mode::Active => overruled().and(None),",
        },
    },
    Row {
        test: "svcplane-allocators: pools_serve_by_priority_mode_and_fence",
        change: Change {
            name: "a higher number is first",
            file: "allocators/src/balancers/engine.rs",
            line: "            (left.terms.priority, &left.terms.name).cmp(&(right.terms.priority, &right.terms.name))",
            instead: "            (right.terms.priority, &left.terms.name).cmp(&(left.terms.priority, &right.terms.name))",
        },
    },
    Row {
        test: "balancers: pools_serve_by_selector_class_mode_fence_and_reservation",
        change: Change {
            name: "every pool is automatic",
            file: "allocators/src/balancers/choose.rs",
            line: "            let automatic = parts().filter(|part| !ask.pools.is_empty() || part.pool.terms.auto_assign);",
            instead: "            let automatic = parts();",
        },
    },
    Row {
        test: "svcplane-allocators: pools_serve_by_priority_mode_and_fence",
        change: Change {
            name: "a pool that is drained gives",
            file: "allocators/src/balancers/choose.rs",
            line: "        Mode::Drain => overruled().or(Some(PoolVerdict::Draining)),",
            instead: "        Mode::Drain => None,",
        },
    },
    Row {
        test: "balancers: a_service_gets_an_address_a_condition_and_an_event_in_one_write",
        change: Change {
            name: "the ends of networks are given",
            file: "allocators/src/pools/parse.rs",
            line: "        Ok(if is_network { addresses.within() } else { addresses })",
            instead: "        Ok(if is_network { addresses } else { addresses.within() })",
        },
    },
    Row {
        test: "balancers: pools_serve_by_selector_class_mode_fence_and_reservation",
        change: Change {
            name: "what is reserved is free",
            file: "allocators/src/balancers/book.rs",
            line: "        } else if self.reserved.contains_key(&value) {",
            instead: "        } else if self.reserved.len() > 1_000_000 {",
        },
    },
    Row {
        test: "balancers: order_ip_mode_and_rest_are_the_pools",
        change: Change {
            name: "nothing rests",
            file: "allocators/src/balancers/book.rs",
            line: "                .filter(|delay| !delay.is_zero())",
            instead: "                .filter(|delay| delay.is_zero())",
        },
    },
    Row {
        test: "svcplane-allocators: orders_choose_and_spread_returns_to_the_same_address",
        change: Change {
            name: "the highest is the lowest",
            file: "allocators/src/balancers/part.rs",
            line: "            Order::Highest => self.free.highest(),",
            instead: "            Order::Highest => self.free.lowest(),",
        },
    },
    Row {
        test: "balancers: order_ip_mode_and_rest_are_the_pools",
        change: Change {
            name: "ipMode is always VIP",
            file: "controllers/src/loadbalancer/condition.rs",
            line: "            let entry = |(address, mode): &(IpAddr, IpMode)| json!({\"ip\": address, \"ipMode\": mode.as_str()});",
            instead: "            let entry = |(address, _): &(IpAddr, IpMode)| json!({\"ip\": address, \"ipMode\": \"VIP\"});",
        },
    },
    Row {
        test: "balancers: pools_that_take_from_others_are_refused_at_admission",
        change: Change {
            name: "nobody overlaps",
            file: "controllers/src/loadbalancer/controller/guard.rs",
            line: "        let others = pools.filter(|other| other.is_enabled() && *other.terms.name != *pool);",
            instead: "        let others = pools.filter(|other| !other.is_enabled() && *other.terms.name != *pool);",
        },
    },
    Row {
        test: "balancers: pools_that_take_from_others_are_refused_at_admission",
        change: Change {
            name: "nobody is stranded",
            file: "webhook/src/pools/guard.rs",
            line: "    let stranded = users.stranded(name, holdings);",
            instead: "    let stranded = users.stranded(\"\", holdings);",
        },
    },
    Row {
        test: "balancers: b78_what_nodes_pods_and_cluster_ips_use_is_not_given_and_is_said",
        change: Change {
            name: "addresses of Nodes are given",
            file: "controllers/src/loadbalancer/neighbours.rs",
            line: "                ipv4: both.ipv4,",
            instead: "                ipv4: both.ipv4.minus(&both.ipv4),",
        },
    },
    Row {
        test: "balancers: b78_no_address_has_two_owners_whatever_pools_say",
        change: Change {
            name: "what is used is counted as what is free",
            file: "controllers/src/loadbalancer/pool_status.rs",
            line: "        used: number(counts.held),",
            instead: "        used: number(counts.free),",
        },
    },
    Row {
        test: "balancers: addresses_are_asked_for_in_everybodys_words",
        change: Change {
            name: "an annotation of Cilium is not known",
            file: "allocators/src/balancers/request.rs",
            line: "    (Cilium, \"lbipam.cilium.io/ips\"),",
            instead: "    (Cilium, \"lbipam.cilium.io/ip\"),",
        },
    },
    Row {
        test: "balancers: addresses_are_asked_for_in_everybodys_words",
        change: Change {
            name: "of two sources the first wins",
            file: "allocators/src/balancers/request.rs",
            line: "        Some((earlier, first)) if same(&first, &second) => Ok((earlier, first)),",
            instead: "        Some((earlier, first)) if same(&first, &first) => Ok((earlier, first)),",
        },
    },
    Row {
        test: "balancers: pins_of_several_pools_and_what_is_in_their_way",
        change: Change {
            name: "one address of a family is all",
            file: "allocators/src/balancers/decide.rs",
            line: "                Ok(()) => part.addresses.push(pin),",
            instead: "                Ok(()) => part.addresses = vec![pin],",
        },
    },
    Row {
        test: "balancers: b76_a_new_wish_is_followed_without_a_gap",
        change: Change {
            name: "a wish for another pool is not heard",
            file: "allocators/src/balancers/decide.rs",
            line: "                .filter(|address| self.is_from(*address, &ask.pools));",
            instead: "                .filter(|address| self.is_from(*address, &[]));",
        },
    },
    Row {
        test: "balancers: b81_prefer_dual_stack_degrades_and_upgrades_and_require_waits",
        change: Change {
            name: "PreferDualStack does not degrade",
            file: "allocators/src/balancers/decide.rs",
            line: "                let degraded = ask.policy == Policy::Prefer && only_lacking && !pinned && !addresses.is_empty();",
            instead: "                let degraded = only_lacking && !pinned && addresses.len() > 9;",
        },
    },
    Row {
        test: "balancers: b64_a_freed_address_goes_to_the_oldest_who_waits",
        change: Change {
            name: "the youngest is served first",
            file: "allocators/src/balancers/wait.rs",
            line: "            None => queue.first().cloned(),",
            instead: "            None => queue.last().cloned(),",
        },
    },
    Row {
        test: "balancers: the_rule_of_sharing_has_a_reason_for_each_part",
        change: Change {
            name: "ports do not count",
            file: "allocators/src/balancers/group.rs",
            line: "        let taken = share.ports.iter().find_map(|port| Some((port, self.at_port(*port)?)));",
            instead: "        let taken = share.ports.iter().find_map(|port| Some((port, self.at_port(*port).filter(|_| port.1 == 0)?)));",
        },
    },
    Row {
        test: "svcplane-allocators: each_rule_of_sharing_has_its_reason",
        change: Change {
            name: "Cluster goes with Local",
            file: "allocators/src/balancers/share.rs",
            line: "            (Self::Cluster, Self::Cluster) => true,",
            instead: "            (Self::Cluster, _) | (_, Self::Cluster) => true,",
        },
    },
    Row {
        test: "balancers: a_key_of_another_namespace_needs_consent_unless_it_is_metallbs",
        change: Change {
            name: "no namespace is asked",
            file: "allocators/src/balancers/share.rs",
            line: "            || (self.consent.covers(&other.namespace) && other.consent.covers(&self.namespace))",
            instead: "            || (self.consent.covers(&other.namespace) || !other.namespace.is_empty())",
        },
    },
    Row {
        test: "svcplane-allocators: who_joins_a_set_of_addresses_gets_the_set",
        change: Change {
            name: "one address of a set is shared",
            file: "allocators/src/balancers/obtain.rs",
            line: "                .filter(|(group, _)| group.has(founder))",
            instead: "                .filter(|(group, _)| group.has(founder)).take(1)",
        },
    },
    Row {
        test: "balancers: b82_who_breaks_the_rule_leaves_and_comes_back",
        change: Change {
            name: "who breaks the rule stays",
            file: "allocators/src/balancers/engine.rs",
            line: "            if may && held.contains(&address) {",
            instead: "            if held.contains(&address) {",
        },
    },
    Row {
        test: "balancers: b70_a_foreign_class_and_no_class_get_not_a_single_write",
        change: Change {
            name: "every class is ours",
            file: "controllers/src/loadbalancer/desk.rs",
            line: "            self.classes.iter().any(|ours| ours == class)",
            instead: "            !self.classes.is_empty()",
        },
    },
    Row {
        test: "balancers: conditions_of_others_are_kept",
        change: Change {
            name: "conditions of others are written over",
            file: "controllers/src/loadbalancer/controller/work.rs",
            line: "        let patch = Patch::Strategic(&change.patch);",
            instead: "        let patch = Patch::Merge(&change.patch);",
        },
    },
    Row {
        test: "balancers: a_service_gets_an_address_a_condition_and_an_event_in_one_write",
        change: Change {
            name: "no Event tells of a reason",
            file: "controllers/src/loadbalancer/controller/work.rs",
            line: "        if !change.of_reason {",
            instead: "        if change.of_reason {",
        },
    },
    Row {
        test: "balancers: a_status_that_somebody_wipes_is_restored",
        change: Change {
            name: "the first change by somebody else is a fight",
            file: "controllers/src/loadbalancer/contention.rs",
            line: "        if again {",
            instead: "        if again || !writer.is_empty() {",
        },
    },
    Row {
        test: "balancers: a_second_writer_is_answered_once_and_then_left_alone",
        change: Change {
            name: "a fight never ends",
            file: "controllers/src/loadbalancer/contention.rs",
            line: "        if again {",
            instead: "        if again && writer.is_empty() {",
        },
    },
    Row {
        test: "balancers: b63_a_restart_writes_nothing_and_moves_nobody",
        change: Change {
            name: "a restart adopts nothing",
            file: "allocators/src/balancers/term.rs",
            line: "            self.adopt_shown(&owner.service);",
            instead: "            self.adopt(&owner.service, &BTreeSet::new(), may_keep);",
        },
    },
    Row {
        test: "balancers: b67_a_pool_that_is_deleted_gives_nothing_and_takes_nothing_away",
        change: Change {
            name: "what no pool has is lost",
            file: "allocators/src/balancers/decide.rs",
            line: "            _ => Standing::Retained,",
            instead: "            _ => Standing::Lost,",
        },
    },
    Row {
        test: "balancers: with_reassign_users_move_and_a_renamed_pool_moves_nobody",
        change: Change {
            name: "Reassign does nothing",
            file: "allocators/src/balancers/engine.rs",
            line: "                if now_there.unwrap_or(&had).on_removal == OnRemoval::Reassign {",
            instead: "                if now_there.unwrap_or(&had).on_removal != OnRemoval::Reassign {",
        },
    },
    Row {
        test: "balancers: metallb_takes_what_is_exported_and_gives_nothing_of_it_itself",
        change: Change {
            name: "an address alone is exported as it is",
            file: "controllers/src/pools/export.rs",
            line: "        (false, false) => format!(\"{span}/32\"),",
            instead: "        (false, false) => span.to_owned(),",
        },
    },
    Row {
        test: "balancers: ciliums_pools_come_over_from_files_and_from_the_cluster",
        change: Change {
            name: "Cilium's ends of networks are given",
            file: "controllers/src/pools/import/cilium.rs",
            line: "            Some(\"No\") => FirstLast::Reserve,",
            instead: "            Some(\"no\") => FirstLast::Reserve,",
        },
    },
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_that_is_changed_is_there_once_and_every_test_is_in_the_document() {
        let document = include_str!("../../docs/loadbalancer.md");
        for Row { test, change } in ROWS {
            change.check().unwrap();
            assert!(document.contains(&format!("`{test}`")), "{test}");
        }
    }
}
