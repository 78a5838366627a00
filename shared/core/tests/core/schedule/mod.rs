//! Steps, the timer and a queue that behaves like SQS, in virtual time: how often an object is looked at, and what is left
//! when a worker dies anywhere.

mod crashes;
mod log;
mod world;

use driftless_core::ports::{Cause, Clock as _};
use driftless_core::schedule;
use std::time::Duration;
use world::World;

const HOUR: Duration = Duration::from_secs(3600);
const DAY: Duration = Duration::from_secs(24 * 3600);

mod one_chain_an_object {
    use super::*;

    #[test]
    fn a_failing_source_is_tried_later_and_later() {
        let world = World::start();
        world.run_until(DAY, |world| {
            let live = world.queue.requests();
            assert!(live.len() <= 1, "at {:?}: {live:?}", world.clock.now());
        });
        let looks = world.looks();
        assert!((140..=150).contains(&looks), "{looks} looks in a day");
    }

    /// SQS delivers some messages twice, GitHub a push more than once, and the timer sees the object each minute.
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
        let looks = world.looks();
        assert!(looks <= 150 + pushes, "{looks} looks, {pushes} pushes");
    }

    /// Whatever is asked while a worker has the object is looked at once, when the worker is ready.
    #[test]
    fn a_busy_object_is_not_bounced() {
        let world = World::start();
        world.run_until(Duration::from_secs(5), |_| {});
        let before = (world.looks(), world.queue.sent());
        world.meanwhile(|world| {
            for cause in [Cause::Push, Cause::Push, Cause::Changed, Cause::Timer] {
                world.ask(cause);
            }
            // Other workers take them all.
            while world.work() {}
        });
        world.run_until(Duration::from_secs(120), |_| {});
        let after = (world.looks(), world.queue.sent());
        // The look at 10 s, the one that was asked for, and that after it. Each of them sent one message, the workers that were
        // turned away one in case of a dead worker, and four were asked.
        assert_eq!(after.0 - before.0, 3, "looks");
        assert_eq!(after.1 - before.1, 3 + 1 + 4, "messages");
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
        // From now on the interval alone.
        let before = world.looks();
        world.run_until(HOUR * 2, |world| {
            assert!(world.queue.requests().len() <= 1);
        });
        assert!(
            (59..=61).contains(&(world.looks() - before)),
            "{}",
            world.looks() - before
        );
    }

    /// A queue that loses everything costs a look of the timer.
    #[test]
    fn a_lost_message_costs_a_look_of_the_timer() {
        let world = World::start();
        world.run_until(HOUR, |_| {});
        world.queue.lose_all();
        let before = world.looks();
        let due = Duration::from_secs(600) + Duration::from_secs(30) + Duration::from_secs(60);
        world.run_until(HOUR + due, |_| {});
        assert!(world.looks() > before, "it is looked at again");
        assert!(world.queue.requests().len() <= 1);
    }

    #[test]
    fn a_stale_token_is_dropped() {
        let world = World::start();
        world.run_until(Duration::from_secs(1), |_| {});
        let old = world.queue.requests();
        world.ask(Cause::Push);
        world.run_until(Duration::from_secs(2), |_| {});
        let before = world.looks();
        for request in old {
            let begun = world.now(schedule::begin(&world.ports, &request));
            assert!(matches!(begun, Ok(schedule::Begin::Skip(_))), "{request:?}");
        }
        assert_eq!(world.looks(), before);
    }
}

mod a_late_worker {
    use super::*;

    /// A function that stood still until another worker could have its object goes on, and what it read is old.
    #[test]
    fn writes_nothing() {
        let world = World::start();
        world.meanwhile(|world| world.clock.advance(schedule::TERM));
        world.ask(Cause::Push);
        assert!(world.work());
        assert_eq!((world.looks(), world.ready()), (1, None));
        world.run_until(HOUR, |_| {});
        assert_eq!(world.ready().as_deref(), Some("False"));
    }
}
