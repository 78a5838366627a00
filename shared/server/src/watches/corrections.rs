//! Owners whose objects have changed: when each is checked, and how often it may be queued.

use driftless_core::sweep::drift_watch::DriftCheck;
use driftless_flux::ObjectRef;
use driftless_manifest::ObjectId;
use std::collections::BTreeMap;
use std::time::Duration;
use tokio::time::Instant;

/// The fingerprints of the changed objects of an owner; `None` for an object that is gone.
pub(super) type Live = BTreeMap<ObjectId, Option<String>>;

/// The delay before a check: a step that made the change may be about to end.
const SETTLE: Duration = Duration::from_millis(150);
/// The delay before an owner with a running step is checked again; it doubles.
const BUSY_WAIT: Duration = Duration::from_secs(1);
/// The checks of an owner that stays busy: then the change is left to the sweep.
const MAX_CHECKS: u32 = 8;
/// The least time between two corrections of an owner. It doubles while another client changes the
/// objects back.
const FIRST_PAUSE: Duration = Duration::from_secs(5);
/// The longest time between two corrections: that of sweeps.
const MAX_PAUSE: Duration = Duration::from_secs(60);
/// The time after which a correction no longer delays the next ones.
const FORGET_AFTER: Duration = Duration::from_secs(300);
/// The most owners that wait for a check. Further ones are left to the sweep.
const MAX_OWNERS: usize = 10_000;
/// The most objects of an owner that are compared: one that differs is sufficient.
const MAX_OBJECTS: usize = 100;

/// The owners that wait for a check, and those that were queued not long ago.
#[derive(Default)]
pub(super) struct Corrections {
    waiting: BTreeMap<ObjectRef, Waiting>,
    done: BTreeMap<ObjectRef, Done>,
}

struct Waiting {
    live: Live,
    at: Instant,
    checks: u32,
    /// True while the owner is checked.
    is_checked: bool,
}

struct Done {
    at: Instant,
    /// The time until the next correction.
    pause: Duration,
}

impl Corrections {
    /// Adds a changed object of an owner.
    pub(super) fn add(&mut self, owner: ObjectRef, id: ObjectId, now: Option<String>) {
        let time = Instant::now();
        let free = self.done.get(&owner).map(|done| done.at + done.pause);
        let at = (time + SETTLE).max(free.unwrap_or(time));
        if self.waiting.len() >= MAX_OWNERS && !self.waiting.contains_key(&owner) {
            return;
        }
        let waiting = self.waiting.entry(owner).or_insert_with(|| Waiting {
            live: Live::new(),
            at,
            checks: 0,
            is_checked: false,
        });
        if waiting.live.len() < MAX_OBJECTS || waiting.live.contains_key(&id) {
            waiting.live.insert(id, now);
        }
    }

    /// Returns the time of the next check.
    pub(super) fn next(&self) -> Option<Instant> {
        let open = self.waiting.values().filter(|one| !one.is_checked);
        open.map(|one| one.at).min()
    }

    /// Takes the owners whose check is due, with their changed objects.
    pub(super) fn take_due(&mut self) -> Vec<(ObjectRef, Live)> {
        let time = Instant::now();
        self.done
            .retain(|_, done| done.at + done.pause.max(FORGET_AFTER) > time);
        let due = self.waiting.iter_mut();
        let due = due.filter(|(_, one)| !one.is_checked && one.at <= time);
        due.map(|(owner, one)| {
            one.is_checked = true;
            (owner.clone(), std::mem::take(&mut one.live))
        })
        .collect()
    }

    /// Ends a check. Returns whether the owner is queued now.
    pub(super) fn checked(
        &mut self,
        owner: &ObjectRef,
        live: Live,
        result: Option<DriftCheck>,
    ) -> bool {
        let Some(mut waiting) = self.waiting.remove(owner) else {
            return false;
        };
        let time = Instant::now();
        waiting.is_checked = false;
        waiting.checks += 1;
        match result {
            Some(DriftCheck::Busy) if waiting.checks < MAX_CHECKS => {
                waiting.at = time + BUSY_WAIT * 2_u32.pow(waiting.checks - 1);
                // What has changed during the check is newer.
                let newer = std::mem::replace(&mut waiting.live, live);
                waiting.live.extend(newer);
                self.waiting.insert(owner.clone(), waiting);
                false
            }
            Some(DriftCheck::Drifted) => {
                let before = self.done.get(owner).map(|done| done.pause * 2);
                let pause = before.unwrap_or(FIRST_PAUSE).min(MAX_PAUSE);
                self.done.insert(owner.clone(), Done { at: time, pause });
                self.again(owner, waiting, time + pause);
                true
            }
            _ => {
                self.again(owner, waiting, time + SETTLE);
                false
            }
        }
    }

    /// Keeps an owner whose objects have changed during the check.
    fn again(&mut self, owner: &ObjectRef, mut waiting: Waiting, at: Instant) {
        if !waiting.live.is_empty() {
            waiting.at = at;
            waiting.checks = 0;
            self.waiting.insert(owner.clone(), waiting);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use driftless_flux::FluxKind;

    fn owner() -> ObjectRef {
        ObjectRef::new(FluxKind::Kustomization, "team", "apps")
    }

    fn add(corrections: &mut Corrections) {
        let id = ObjectId {
            namespace: "team".to_owned(),
            name: "a".to_owned(),
            group: String::new(),
            kind: "ConfigMap".to_owned(),
        };
        corrections.add(owner(), id, None);
    }

    /// Waits for the next check. Returns the time until it, in milliseconds, and whether it queues
    /// the owner.
    async fn check(corrections: &mut Corrections, result: DriftCheck) -> (u128, bool) {
        let start = Instant::now();
        tokio::time::sleep_until(corrections.next().unwrap()).await;
        let due = corrections.take_due();
        let [(owner, live)] = due.as_slice() else {
            panic!("{} owners", due.len())
        };
        let is_queued = corrections.checked(owner, live.clone(), Some(result));
        (start.elapsed().as_millis(), is_queued)
    }

    #[tokio::test(start_paused = true)]
    async fn a_fight_with_another_client_backs_off() {
        let mut corrections = Corrections::default();
        let mut waits = Vec::new();
        for _ in 0..7 {
            add(&mut corrections);
            let (time, is_queued) = check(&mut corrections, DriftCheck::Drifted).await;
            assert!(is_queued);
            waits.push(time / 1000);
        }
        assert_eq!(waits, [0, 5, 10, 20, 40, 60, 60]);
        tokio::time::sleep(FORGET_AFTER).await;
        assert!(corrections.take_due().is_empty());
        add(&mut corrections);
        let (time, is_queued) = check(&mut corrections, DriftCheck::Drifted).await;
        assert_eq!((time, is_queued), (SETTLE.as_millis(), true));
    }

    #[tokio::test(start_paused = true)]
    async fn the_objects_of_a_running_step_are_checked_when_it_has_ended() {
        let mut corrections = Corrections::default();
        add(&mut corrections);
        let (_, is_queued) = check(&mut corrections, DriftCheck::Busy).await;
        assert!(!is_queued);
        let (time, is_queued) = check(&mut corrections, DriftCheck::Unchanged).await;
        assert_eq!((time, is_queued), (1000, false));
        assert_eq!(corrections.next(), None);
        add(&mut corrections);
        for _ in 0..MAX_CHECKS {
            check(&mut corrections, DriftCheck::Busy).await;
        }
        assert_eq!(corrections.next(), None, "left to the sweep");
    }
}
