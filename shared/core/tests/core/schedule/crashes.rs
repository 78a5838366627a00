//! A worker that dies before or after any of its calls.

use super::world::{Crash, World};
use driftless_kernel::ports::Clock as _;
use driftless_kernel::schedule;
use std::time::Duration;

const HEALED: Duration = Duration::from_secs(60);
const TIMER: Duration = Duration::from_secs(60);
/// The time until which a worker may die.
const ARMED: Duration = Duration::from_secs(240);
/// The time by which all messages have been delivered again.
const END: Duration = Duration::from_secs(1200);

/// Runs a world in which the source fails for a minute and one worker dies. Returns whether the
/// worker died, and when the object was ready.
fn scenario(crash: Crash) -> (bool, Duration) {
    let world = World::start();
    world.arm(crash);
    world.run_until(HEALED, |_| {});
    world.heal();
    let mut ready = None;
    let mut observe = |world: &World| {
        if ready.is_none() && world.ready().as_deref() == Some("True") {
            ready = Some(world.clock.now());
        }
    };
    world.run_until(ARMED, &mut observe);
    let has_crashed = world.has_crashed();
    world.disarm();
    world.run_until(END, &mut observe);
    let left = world.queue.requests();
    assert!(left.is_empty(), "{crash:?}: {left:?}");
    let ready = ready.unwrap_or_else(|| panic!("{crash:?}: never ready"));
    (has_crashed, ready)
}

#[test]
fn a_worker_that_dies_anywhere_delays_the_object_by_its_lease_and_the_timer() {
    let mut latest = Duration::ZERO;
    for is_after in [false, true] {
        for call in 0.. {
            let crash = Crash { call, is_after };
            let (has_crashed, ready) = scenario(crash);
            if !has_crashed {
                assert!(call > 60, "{call} calls were tried");
                break;
            }
            let most = HEALED + schedule::LEASE_DURATION + 2 * TIMER;
            assert!(ready <= most, "{crash:?}: ready at {ready:?}");
            latest = latest.max(ready);
        }
    }
    println!("ready at {latest:?} at the latest");
}
