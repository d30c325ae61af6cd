//! How a Lease shows that an order noted on it was read, without clock or client.

use std::time::Duration;

use svcplane_runtime::leader::{MODE_ANNOTATION, SeenLease};

/// Writes that were sent before the order was read are over after this time: none may take longer.
pub const WRITES_END: Duration = crate::reconcile::CALL_LIMIT;

/// From the moment of the order on.
pub struct Obedience {
    ordered: SeenLease,
}

impl Obedience {
    /// The Lease as the order has left it.
    pub fn new(ordered: SeenLease) -> Self {
        Self { ordered }
    }

    /// Whether nobody writes any more who has not read the order, by the Lease as it is `waited` after it. The error: it was taken back.
    ///
    /// Every write of the Lease is conditional on the version before it. So whoever has changed it since has read the order; and one who
    /// has not for as long as others believe him leads no more.
    pub fn shown_by(&self, now: &SeenLease, waited: Duration) -> Result<bool, String> {
        if now.notes.get(MODE_ANNOTATION) != self.ordered.notes.get(MODE_ANNOTATION) {
            return Err("somebody else has taken the order off the Lease".to_owned());
        }
        let record = &self.ordered.record;
        let believed = Duration::from_secs(record.duration_seconds.unwrap_or_default().unsigned_abs().into());
        Ok(record.holder.is_empty() || now.record != *record || waited > believed)
    }
}

#[cfg(test)]
mod tests {
    use svcplane_runtime::leader::record::{Micros, Record};

    use super::*;

    fn lease(holder: &str, renewed: i64, mode: Option<&str>) -> SeenLease {
        SeenLease {
            record: Record {
                holder: holder.to_owned(),
                duration_seconds: Some(15),
                renewed: Some(Micros(renewed)),
                ..Record::default()
            },
            notes: mode
                .map(|mode| (MODE_ANNOTATION.to_owned(), mode.to_owned()))
                .into_iter()
                .collect(),
        }
    }

    #[test]
    fn a_renewal_another_leader_none_and_silence_show_it() {
        let ordered = lease("a", 1, Some("observe"));
        let table = [
            ("nothing has happened", lease("a", 1, Some("observe")), 3, Ok(false)),
            ("renewed", lease("a", 2, Some("observe")), 1, Ok(true)),
            ("released", lease("", 2, Some("observe")), 1, Ok(true)),
            ("another leads", lease("b", 2, Some("observe")), 1, Ok(true)),
            (
                "as long as it is believed",
                lease("a", 1, Some("observe")),
                15,
                Ok(false),
            ),
            ("dead", lease("a", 1, Some("observe")), 16, Ok(true)),
            ("taken back", lease("a", 2, None), 1, Err(())),
        ];
        for (what, now, waited, want) in table {
            let shown = Obedience::new(ordered.clone()).shown_by(&now, Duration::from_secs(waited));
            assert_eq!(shown.map_err(drop), want, "{what}");
        }
        let nobody = lease("", 1, Some("observe"));
        assert_eq!(
            Obedience::new(nobody.clone()).shown_by(&nobody, Duration::ZERO),
            Ok(true)
        );
    }
}
