//! Steps, the timer and a queue that behaves like SQS, in virtual time: how many steps an object
//! needs, and the result if a worker dies at any call.

mod crashes;
mod log;
mod world;

use driftless_kernel::ports::{Cause, Clock as _};
use driftless_kernel::schedule;
use std::time::Duration;
use world::World;

const HOUR: Duration = Duration::from_secs(3600);
const DAY: Duration = Duration::from_secs(24 * 3600);

mod one_chain_an_object {
    use super::*;

    #[test]
    fn a_failing_source_is_retried_with_back_off() {
        let world = World::start();
        world.run_until(DAY, |world| {
            let live = world.queue.requests();
            assert!(live.len() <= 1, "at {:?}: {live:?}", world.clock.now());
        });
        let steps = world.steps();
        assert!((140..=150).contains(&steps), "{steps} steps in a day");
    }

    /// SQS duplicates some messages, GitHub some pushes, and the timer sees the object each minute.
    #[test]
    fn duplicates_add_no_chain() {
        let world = World::start();
        world.duplicate(&[
            Duration::ZERO,
            Duration::from_secs(7),
            Duration::from_secs(400),
        ]);
        let mut pushes = 0;
        for hour in 1..=24 {
            world.run_until(HOUR * hour, |world| {
                let live = world.queue.requests().len();
                assert!(live <= 16, "at {:?}: {live} messages", world.clock.now());
            });
            for _ in 0..3 {
                world.ask(Cause::Push);
                pushes += 1;
            }
        }
        let steps = world.steps();
        assert!(steps <= 150 + pushes, "{steps} steps, {pushes} pushes");
    }

    /// Requests that come while a worker has the object lead to one step, when the worker has
    /// finished.
    #[test]
    fn a_busy_object_is_not_bounced() {
        let world = World::start();
        world.run_until(Duration::from_secs(5), |_| {});
        let before = (world.steps(), world.queue.sent());
        world.meanwhile(|world| {
            for cause in [Cause::Push, Cause::Push, Cause::Changed, Cause::Timer] {
                world.ask(cause);
            }
            // Other workers receive all of them.
            while world.work() {}
        });
        world.run_until(Duration::from_secs(120), |_| {});
        let after = (world.steps(), world.queue.sent());
        // The step at 10 s, the requested one, and three after it: a change of the object begins
        // the back-off anew. Each of them sent one message, the workers that were turned away sent
        // one in case of a dead worker, and there were four requests.
        assert_eq!(after.0 - before.0, 5, "steps");
        assert_eq!(after.1 - before.1, 5 + 1 + 4, "messages");
    }

    #[test]
    fn an_object_at_rest_has_no_message() {
        let world = World::start();
        world.run_until(Duration::from_secs(100), |_| {});
        world.heal();
        world.ask(Cause::Push);
        world.run_until(HOUR, |_| {});
        assert_eq!(world.ready().as_deref(), Some("True"));
        assert!(world.queue.requests().is_empty());
        // From now on only the interval counts.
        let before = world.steps();
        world.run_until(HOUR * 2, |world| {
            assert!(world.queue.requests().len() <= 1);
        });
        assert!(
            (59..=61).contains(&(world.steps() - before)),
            "{}",
            world.steps() - before
        );
    }

    /// After a queue has lost all messages, the timer finds the object.
    #[test]
    fn the_timer_replaces_a_lost_message() {
        let world = World::start();
        world.run_until(HOUR, |_| {});
        world.queue.lose_all();
        let before = world.steps();
        let due = Duration::from_secs(600) + Duration::from_secs(30) + Duration::from_secs(60);
        world.run_until(HOUR + due, |_| {});
        assert!(world.steps() > before, "a step runs again");
        assert!(world.queue.requests().len() <= 1);
    }

    #[test]
    fn a_stale_token_is_dropped() {
        let world = World::start();
        world.run_until(Duration::from_secs(1), |_| {});
        let old = world.queue.requests();
        world.ask(Cause::Push);
        world.run_until(Duration::from_secs(2), |_| {});
        let before = world.steps();
        for request in old {
            let begun = world.now(schedule::begin(&world.ports, &request));
            assert!(
                matches!(begun, Ok(schedule::MessageDecision::Skip(_))),
                "{request:?}"
            );
        }
        assert_eq!(world.steps(), before);
    }
}

mod a_late_worker {
    use super::*;

    /// A function that was frozen until another worker may have taken its object continues with an
    /// old state.
    #[test]
    fn writes_nothing() {
        let world = World::start();
        world.meanwhile(|world| world.clock.advance(schedule::LEASE_DURATION));
        world.ask(Cause::Push);
        assert!(world.work());
        assert_eq!((world.steps(), world.ready()), (1, None));
        world.run_until(HOUR, |_| {});
        assert_eq!(world.ready().as_deref(), Some("False"));
    }
}
