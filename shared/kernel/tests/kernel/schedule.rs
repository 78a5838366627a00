//! Leases and messages: which worker reconciles an object, and when.

use driftless_flux::{FluxKind, ObjectRef};
use driftless_kernel::context::{LONGEST_RETRY, Outcome};
use driftless_kernel::failure::Failure;
use driftless_kernel::ports::{
    Cause, Clock as _, ErrorKind, Origin, Ports, Precondition, PutOutcome, Request, TraceIds,
    TraceParent,
};
use driftless_kernel::schedule::{
    LEASE_DURATION, Lease, MAX_FAST_REQUEUES, MAX_INTERRUPTIONS, MessageDecision, await_object,
    begin, end, read_record,
};
use driftless_memory::faults::Fault;
use driftless_memory::{MemoryBlobs, MemoryQueue, TestClock};
use futures::FutureExt as _;
use std::sync::Arc;
use std::time::Duration;

/// Runs a future of in-memory ports, which never wait.
fn now<T>(future: impl Future<Output = T>) -> T {
    future
        .now_or_never()
        .expect("in-memory ports answer at once")
}

struct World {
    ports: Ports,
    blobs: Arc<MemoryBlobs>,
    queue: Arc<MemoryQueue>,
    clock: Arc<TestClock>,
}

fn world() -> World {
    let (blobs, queue) = (Arc::<MemoryBlobs>::default(), Arc::<MemoryQueue>::default());
    let clock = Arc::<TestClock>::default();
    World {
        ports: driftless_memory::ports(blobs.clone(), queue.clone(), clock.clone()),
        blobs,
        queue,
        clock,
    }
}

fn seconds(count: u64) -> Duration {
    Duration::from_secs(count)
}

fn request(name: &str, cause: Cause) -> Request {
    let object = ObjectRef::new(FluxKind::Kustomization, "apps", name);
    Request::new("hub", object, cause)
}

impl World {
    fn begin(&self, request: &Request) -> Option<Lease> {
        match now(begin(&self.ports, request)).expect("the store answers") {
            MessageDecision::Run(held) => Some(held),
            MessageDecision::Skip(_) => None,
        }
    }

    /// Ends a step, and returns the requests that are sent.
    fn end(
        &self,
        held: Lease,
        request: &Request,
        mut outcome: Outcome,
    ) -> Vec<(Request, Duration)> {
        now(end(&self.ports, held, request, &mut outcome)).expect("the store answers");
        outcome.enqueue
    }

    /// Runs a whole step that requeues the object after a delay; returns the message.
    fn put_back(&self, request: &Request, after: Duration) -> Request {
        let held = self.begin(request).expect("the lease is free");
        let mut sent = self.end(held, request, waiting("for a pod", after));
        assert_eq!(sent.len(), 1, "{sent:?}");
        let (message, delay) = sent.remove(0);
        assert_eq!((delay, &message.cause), (after, &Cause::Requeue));
        message
    }
}

fn waiting(summary: &str, after: Duration) -> Outcome {
    Outcome {
        requeue_after: Some(after),
        ..Outcome::done(summary)
    }
}

#[test]
fn an_object_has_one_lease_until_it_is_over() {
    let world = world();
    let (a, b) = (request("a", Cause::Push), request("b", Cause::Push));
    let held = world.begin(&a).expect("the lease is free");
    assert!(world.begin(&a).is_none());
    assert!(world.begin(&b).is_some());
    world.queue.take();
    world.end(held, &a, Outcome::done("done"));
    assert!(world.begin(&a).is_some());
    assert!(world.begin(&a).is_none());
    world.clock.advance(LEASE_DURATION);
    assert!(world.begin(&a).is_some());
}

/// During a roll back, a function of the earlier release leaves an object that a newer one
/// reconciles.
#[test]
fn the_lease_of_a_newer_function_is_respected() {
    const KEY: &str = "objects/hub/kustomizations/apps/a.json";
    let world = world();
    let a = request("a", Cause::Push);
    let _held = world.begin(&a).expect("the lease is free");
    let (record, _) = now(world.ports.blobs.get(KEY)).unwrap().unwrap();
    let mut record: serde_json::Value = serde_json::from_slice(&record).unwrap();
    record["format"] = 2.into();
    record["failures"] = "of another form".into();
    let record: bytes::Bytes = record.to_string().into();
    let put = world
        .ports
        .blobs
        .put(KEY, record.clone(), Precondition::None);
    now(put).unwrap();
    let refused = now(begin(&world.ports, &a))
        .err()
        .expect("the lease is held");
    assert_eq!(refused.kind, ErrorKind::Unavailable, "{refused}");
    let (stored, _) = now(world.ports.blobs.get(KEY)).unwrap().unwrap();
    assert_eq!(stored, record, "the record is unchanged");
    world.clock.advance(LEASE_DURATION);
    assert!(world.begin(&a).is_some(), "the newer function has ended");
}

#[test]
fn the_nonce_resolves_an_unclear_answer() {
    for fault in [Fault::After, Fault::Echo, Fault::Before, Fault::Conflict] {
        let world = world();
        let a = request("a", Cause::Push);
        world.blobs.fail_next(fault);
        let held = world.begin(&a).expect("taken");
        assert!(world.begin(&a).is_none(), "{fault:?}: there is one holder");
        world.queue.take();
        // The request that came meanwhile is queued, exactly one time.
        world.blobs.fail_next(fault);
        let sent = world.end(held, &a, Outcome::done("done"));
        assert_eq!(sent.len(), 1, "{fault:?}: {sent:?}");
        assert!(world.begin(&sent[0].0).is_some(), "{fault:?}");
    }
}

#[test]
fn a_late_end_does_not_free_the_next_holder() {
    let world = world();
    let a = request("a", Cause::Push);
    let late = world.begin(&a).expect("the lease is free");
    world.clock.advance(LEASE_DURATION);
    let _next = world.begin(&a).expect("the lease is over");
    let sent = world.end(late, &a, waiting("for a pod", seconds(5)));
    assert!(
        sent.is_empty(),
        "the next holder queues what follows: {sent:?}"
    );
    assert!(world.begin(&a).is_none());
}

#[test]
fn a_clock_far_ahead_does_not_lock_for_ever() {
    let world = world();
    let a = request("a", Cause::Push);
    world.clock.advance(seconds(1_000_000_000));
    let _dead = world.begin(&a);
    let message = world.put_back(&request("b", Cause::Push), seconds(5));
    let back = self::world();
    for key in [
        "objects/hub/kustomizations/apps/a.json",
        "objects/hub/kustomizations/apps/b.json",
    ] {
        let (bytes, _) = now(world.ports.blobs.get(key))
            .expect("stored")
            .expect("there");
        let put = now(back.ports.blobs.put(key, bytes, Precondition::None));
        assert!(matches!(put, Ok(PutOutcome::Done(_))));
    }
    assert!(back.begin(&a).is_some());
    assert!(back.begin(&request("b", Cause::Timer)).is_some());
    assert!(
        back.begin(&message).is_none(),
        "its record has another token or holder"
    );
}

#[test]
fn requests_during_a_step_are_queued_once() {
    let world = world();
    let source = request("a", Cause::Source);
    let held = world.begin(&source).expect("the lease is free");
    assert!(world.begin(&source).is_none());
    let watch = world.queue.take();
    assert_eq!(watch.len(), 1, "in case that the holder is dead");
    assert!(watch[0].1 > LEASE_DURATION && watch[0].0.token.is_some());
    // Again, and for a cause that makes the step do more, and by the timer.
    assert!(world.begin(&source).is_none());
    assert!(world.queue.take().is_empty());
    assert!(world.begin(&request("a", Cause::Changed)).is_none());
    assert!(world.begin(&request("a", Cause::Timer)).is_none());
    assert!(world.queue.take().is_empty());
    let sent = world.end(held, &source, Outcome::done("done"));
    assert_eq!(sent.len(), 1, "{sent:?}");
    assert_eq!(
        (&sent[0].0.cause, sent[0].1),
        (&Cause::Changed, Duration::ZERO)
    );
    // The message for a dead holder is stale, the other one is not.
    assert!(world.begin(&watch[0].0).is_none());
    let held = world.begin(&sent[0].0).expect("the request is queued");
    assert!(
        world
            .end(held, &sent[0].0, Outcome::done("done"))
            .is_empty()
    );
}

#[test]
fn a_request_during_the_lease_of_a_dead_worker_runs_when_the_lease_is_over() {
    let world = world();
    let push = request("a", Cause::Push);
    let _dead = world.begin(&push).expect("the lease is free");
    assert!(world.begin(&push).is_none());
    let mut watch = world.queue.take();
    let (message, after) = watch.remove(0);
    world.clock.advance(seconds(3));
    assert!(world.begin(&message).is_none(), "the message is early");
    assert_eq!(world.queue.take(), [(message.clone(), after - seconds(3))]);
    world.clock.advance(after);
    assert!(world.begin(&message).is_some());
    assert!(world.begin(&message).is_none(), "a duplicate message");
}

#[test]
fn a_message_is_stale_when_another_replaced_it() {
    let world = world();
    let push = request("a", Cause::Push);
    let first = world.put_back(&push, seconds(600));
    // Another request comes before the message.
    let second = world.put_back(&push, seconds(600));
    world.clock.advance(seconds(600));
    assert!(world.begin(&first).is_none());
    let held = world.begin(&second).expect("it brings the object back");
    assert!(world.begin(&second).is_none(), "a duplicate message");
    assert!(world.queue.take().is_empty(), "and queues nothing");
    assert!(
        world
            .end(held, &second, Outcome::done("at rest"))
            .is_empty()
    );
    for message in [&first, &second] {
        assert!(
            world.begin(message).is_none(),
            "an object at rest has no message"
        );
    }
}

#[test]
fn the_timer_finds_an_object_whose_message_is_lost() {
    let world = world();
    let timer = request("a", Cause::Timer);
    let lost = world.put_back(&timer, seconds(60));
    let record = |world: &World| now(read_record(&world.ports, "hub", &timer.object));
    for _ in 0..3 {
        assert!(world.begin(&timer).is_none());
        let record = record(&world).expect("read").expect("there");
        assert!(record.is_busy(world.clock.now()) && !record.is_lost(world.clock.now()));
        world.clock.advance(seconds(29));
    }
    world.clock.advance(seconds(3));
    let found = record(&world).expect("read").expect("there");
    assert!(found.is_lost(world.clock.now()));
    let held = world.begin(&timer).expect("the message is late");
    world.end(held, &timer, Outcome::done("at rest"));
    assert!(world.begin(&lost).is_none(), "the late message");
    assert!(world.begin(&timer).is_some(), "the interval is over");
}

/// The queue's longest delay is shorter than the delay that a host may ask for.
#[test]
fn a_message_before_its_time_is_put_back() {
    let world = world();
    let message = world.put_back(&request("a", Cause::Push), seconds(3600));
    for left in [2700, 1800, 900] {
        world.clock.advance(seconds(900));
        assert!(world.begin(&message).is_none());
        assert_eq!(world.queue.take(), [(message.clone(), seconds(left))]);
    }
    world.clock.advance(seconds(899));
    assert!(world.begin(&message).is_some());
}

#[test]
fn an_object_without_progress_is_left_to_the_timer() {
    let world = world();
    let mut message = request("a", Cause::Push);
    for hop in 0..=MAX_FAST_REQUEUES {
        let summary = if hop < 10 {
            "none is ready"
        } else {
            "one is ready"
        };
        let held = world.begin(&message).expect("the lease is free");
        let mut sent = world.end(held, &message, waiting(summary, Duration::ZERO));
        message = sent.pop().expect("it comes back").0;
    }
    let mut steps = 0;
    loop {
        let held = world.begin(&message).expect("the lease is free");
        steps += 1;
        match world
            .end(held, &message, waiting("one is ready", Duration::ZERO))
            .pop()
        {
            Some((next, _)) => message = next,
            None => break,
        }
    }
    assert_eq!(steps, 10, "a different summary counted as progress");
    // The timer runs one step. Another request resets the count.
    let timer = request("a", Cause::Timer);
    let held = world.begin(&timer).expect("no message brings it back");
    assert!(
        world
            .end(held, &timer, waiting("one is ready", Duration::ZERO))
            .is_empty()
    );
    world.put_back(&request("a", Cause::Push), seconds(5));
    // A slow chain is not a loop.
    let mut message = request("b", Cause::Push);
    for _ in 0..2 * MAX_FAST_REQUEUES {
        message = world.put_back(&message, seconds(60));
        world.clock.advance(seconds(60));
    }
}

#[test]
fn an_unreadable_object_is_retried_with_back_off() {
    let world = world();
    let mut message = request("a", Cause::Push);
    let mut delays = Vec::new();
    for _ in 0..9 {
        let held = world.begin(&message).expect("the lease is free");
        let dark = Failure::retry(driftless_flux::reason::FAILED, "no answer");
        let outcome = Outcome::failed(dark, LONGEST_RETRY);
        let (next, after) = world.end(held, &message, outcome).remove(0);
        world.clock.advance(after);
        delays.push(after.as_secs());
        message = next;
    }
    assert_eq!(delays, [10, 20, 40, 80, 160, 320, 600, 600, 600]);
}

#[test]
fn an_object_of_a_dark_cluster_leaves_its_next_try_to_the_sweep() {
    let world = world();
    let mut message = request("a", Cause::Push);
    let dark = || {
        let failure = Failure::retry(driftless_flux::reason::FAILED, "no answer");
        Outcome {
            is_cluster_dark: true,
            ..Outcome::failed(failure, LONGEST_RETRY)
        }
    };
    for delay in [10, 20, 40] {
        let held = world.begin(&message).expect("the lease is free");
        let (next, after) = world.end(held, &message, dark()).remove(0);
        assert_eq!(after, seconds(delay));
        world.clock.advance(after);
        message = next;
    }
    let held = world.begin(&message).expect("the lease is free");
    let last = world.clock.now();
    assert!(world.end(held, &message, dark()).is_empty());
    let record = now(read_record(&world.ports, "hub", &message.object));
    let record = record.expect("the store answers").expect("a record");
    // The fourth failure: the next try is 160 s later, and without an answer after an hour.
    assert!(!record.is_lost(last) && !record.is_busy(last));
    assert!(!record.may_try_cluster(last + seconds(159)));
    assert!(record.may_try_cluster(last + seconds(160)));
    assert!(record.waits_for_cluster(last + seconds(3599)));
    assert!(!record.waits_for_cluster(last + seconds(3600)));
    // A success ends it.
    let timer = request("a", Cause::Timer);
    let held = world.begin(&timer).expect("no message requeues it");
    assert!(world.end(held, &timer, Outcome::done("applied")).is_empty());
    let record = now(read_record(&world.ports, "hub", &timer.object));
    let record = record.expect("the store answers").expect("a record");
    assert!(!record.waits_for_cluster(last) && !record.may_try_cluster(last + seconds(600)));
}

#[test]
fn a_deleted_object_leaves_no_record() {
    let world = world();
    let push = request("a", Cause::Push);
    let held = world.begin(&push).expect("the lease is free");
    assert!(world.end(held, &push, Outcome::gone("gone")).is_empty());
    assert!(
        now(world.ports.blobs.list("objects/"))
            .expect("listed")
            .is_empty()
    );
    // The object may exist again: a request that came meanwhile runs when the lease would have been
    // over.
    let held = world.begin(&push).expect("the lease is free");
    assert!(world.begin(&push).is_none());
    let (message, after) = world.queue.take().remove(0);
    assert!(world.end(held, &push, Outcome::gone("gone")).is_empty());
    world.clock.advance(after);
    assert!(world.begin(&message).is_some());
}

#[test]
fn a_waiting_object_is_requeued_by_the_end_of_a_running_step() {
    let world = world();
    let push = request("a", Cause::Push);
    let held = world.begin(&push).expect("the lease is free");
    // While the step runs, another object begins to wait.
    let note = "waits/hub/kustomizations/apps/a/kustomizations/apps/b";
    let put = now(world.ports.blobs.put(note, "".into(), Precondition::None));
    assert!(put.is_ok());
    for _ in 0..2 {
        now(await_object(&world.ports, "hub", &push.object)).expect("noted");
    }
    let outcome = Outcome {
        notifies: true,
        ..Outcome::done("ready")
    };
    let sent = world.end(held, &push, outcome);
    assert_eq!(sent, [(request("b", Cause::Dependency), Duration::ZERO)]);
    let record = now(read_record(&world.ports, "hub", &push.object))
        .expect("read")
        .expect("there");
    assert!(!record.is_busy(world.clock.now()));
    let stored = serde_json::to_value(&record).expect("JSON");
    assert_eq!(stored["awaited"], false);
}

#[test]
fn a_recorded_request_keeps_its_origin() {
    let origin = |digit: u8| {
        let ids = TraceIds {
            trace: [digit; 16],
            span: [digit; 8],
            is_sampled: true,
        };
        Some(Origin::new(TraceParent::new(ids), Some("72d3162e")))
    };
    let of = |digit| Request {
        origin: origin(digit),
        ..request("a", Cause::Push)
    };
    let world = world();
    let first = of(1);
    let held = world.begin(&first).expect("the lease is free");
    // The message for the case that the worker dies, and the one that the worker sends.
    assert!(world.begin(&of(2)).is_none());
    let (message, _) = world.queue.take().remove(0);
    assert_eq!(message.origin, origin(2));
    assert!(world.begin(&of(3)).is_none());
    assert!(world.queue.take().is_empty());
    let (message, _) = world.end(held, &first, Outcome::done("done")).remove(0);
    assert_eq!(message.origin, origin(2));
    // The step that requeues its own object is the origin of the message.
    let next = world.put_back(&message, seconds(5));
    assert_eq!(next.origin, None);
    let text = serde_json::to_string(&first).expect("JSON");
    assert_eq!(serde_json::from_str::<Request>(&text).expect("JSON"), first);
}

#[test]
fn a_step_asks_the_store_three_times() {
    let world = world();
    let push = request("a", Cause::Push);
    let message = world.put_back(&push, seconds(5));
    world.clock.advance(seconds(5));
    let writes = world.blobs.writes();
    let held = world.begin(&message).expect("the lease is free");
    world.end(held, &message, Outcome::done("at rest"));
    assert_eq!(world.blobs.writes() - writes, 2, "behind one GET");
}

#[test]
fn a_worker_that_was_frozen_keeps_the_record_of_the_next_one() {
    let world = world();
    let push = request("a", Cause::Push);
    let frozen = world.begin(&push).expect("the lease is free");
    world.clock.advance(LEASE_DURATION);
    // The object exists again, and another worker has it.
    let _next = world.begin(&push).expect("the lease is over");
    assert!(world.end(frozen, &push, Outcome::gone("gone")).is_empty());
    assert!(
        world.begin(&push).is_none(),
        "the next worker has the lease"
    );
}

#[test]
fn another_try_of_a_write_pauses() {
    for fault in [Fault::Before, Fault::Conflict] {
        let world = world();
        world.blobs.fail_next(fault);
        assert!(world.begin(&request("a", Cause::Push)).is_some());
        let pause = world.clock.now();
        let range = Duration::from_millis(25)..=Duration::from_millis(50);
        assert!(range.contains(&pause), "{fault:?}: {pause:?}");
    }
}

/// The worker of each step dies. Returns the lease of the step that only reports that.
fn interrupt(world: &World, push: &Request) -> Lease {
    for _ in 0..MAX_INTERRUPTIONS {
        let dead = world.begin(push).expect("the lease is over");
        assert!(!dead.only_reports_interruptions());
        world.clock.advance(LEASE_DURATION);
    }
    let report = world.begin(push).expect("the lease is over");
    assert!(report.only_reports_interruptions());
    report
}

fn interrupted() -> Outcome {
    let failure = Failure::retry(driftless_flux::reason::STEP_INTERRUPTED, "interrupted");
    Outcome::failed(failure, LONGEST_RETRY)
}

#[test]
fn an_object_whose_steps_do_not_end_is_isolated() {
    let world = world();
    let push = request("a", Cause::Push);
    let mut report = interrupt(&world, &push);
    let mut delays = Vec::new();
    for _ in 0..8 {
        let (message, after) = world.end(report, &push, interrupted()).remove(0);
        assert!(message.isolated);
        delays.push(after.as_secs());
        for cause in [Cause::Timer, Cause::Source, Cause::Drift, Cause::Dependency] {
            assert!(world.begin(&request("a", cause)).is_none());
        }
        world.clock.advance(after);
        // The isolated step runs, and does not end either.
        let step = world.begin(&message).expect("the lease is free");
        assert!(!step.only_reports_interruptions() && step.is_interrupted());
        world.clock.advance(LEASE_DURATION);
        // Its message comes again.
        report = world.begin(&message).expect("the lease is over");
        assert!(report.only_reports_interruptions());
    }
    assert_eq!(delays, [10, 20, 40, 80, 160, 320, 600, 600]);

    // A change is tried at once, and a step that ends resets everything.
    world.end(report, &push, interrupted());
    let changed = request("a", Cause::Changed);
    let report = world.begin(&changed).expect("a change is urgent");
    let (message, after) = world.end(report, &changed, interrupted()).remove(0);
    assert_eq!((message.isolated, after), (true, seconds(10)));
    world.clock.advance(after);
    let step = world.begin(&message).expect("the lease is free");
    let sent = world.end(step, &message, waiting("for a pod", seconds(5)));
    assert!(!sent[0].0.isolated, "{sent:?}");
    world.clock.advance(seconds(5));
    let step = world.begin(&sent[0].0).expect("the lease is free");
    assert!(!step.is_interrupted());
}

#[test]
fn two_interrupted_steps_isolate_nothing() {
    let world = world();
    let push = request("a", Cause::Push);
    for _ in 0..3 {
        for _ in 1..MAX_INTERRUPTIONS {
            world.begin(&push).expect("the lease is over");
            world.clock.advance(LEASE_DURATION);
        }
        let step = world.begin(&push).expect("the lease is over");
        assert!(step.is_interrupted() && !step.only_reports_interruptions());
        let sent = world.end(step, &push, waiting("for a pod", seconds(5)));
        assert!(!sent[0].0.isolated, "{sent:?}");
    }
}

/// The failures of a cluster that did not answer do not postpone the retry of another failure.
#[test]
fn the_first_answer_of_a_cluster_restarts_the_back_off() {
    let world = world();
    let fail = |is_cluster_dark: bool| {
        let failure = Failure::retry("ReconciliationFailed", "no answer");
        let mut outcome = Outcome::failed(failure, LONGEST_RETRY);
        outcome.is_cluster_dark = is_cluster_dark;
        outcome
    };
    let mut message = request("a", Cause::Timer);
    let mut delays = Vec::new();
    for is_cluster_dark in [true, true, true, true, true, false, false] {
        let held = world.begin(&message).expect("the lease is free");
        let sent = world.end(held, &message, fail(is_cluster_dark));
        delays.push(sent.first().map(|(_, after)| after.as_secs()));
        world.clock.advance(seconds(1000));
        message = match sent.into_iter().next() {
            Some((next, _)) => next,
            None => request("a", Cause::Timer),
        };
    }
    let expected = [Some(10), Some(20), Some(40), None, None, Some(10), Some(20)];
    assert_eq!(delays, expected);
}

/// A release whose uninstall does not end waits, fails, and begins again.
#[test]
fn a_wait_between_failures_keeps_the_back_off() {
    let world = world();
    let mut message = request("a", Cause::Changed);
    let mut delays = Vec::new();
    for count in 0..9 {
        let held = world.begin(&message).expect("the lease is free");
        let mut outcome = match count % 3 {
            0 => waiting("for a pod", seconds(5)),
            _ => Outcome::done("terminating"),
        };
        if count % 3 == 1 {
            outcome.wait(LONGEST_RETRY);
        }
        if count % 3 == 2 {
            outcome.retry(LONGEST_RETRY);
        }
        let (next, after) = world.end(held, &message, outcome).remove(0);
        world.clock.advance(after);
        delays.push(after.as_secs());
        message = next;
    }
    assert_eq!(delays, [5, 5, 20, 5, 20, 80, 5, 80, 320]);
    let held = world.begin(&message).expect("the lease is free");
    assert!(world.end(held, &message, Outcome::done("ready")).is_empty());
    let held = world.begin(&request("a", Cause::Timer)).expect("free");
    let mut outcome = Outcome::done("terminating");
    outcome.wait(LONGEST_RETRY);
    assert_eq!(world.end(held, &message, outcome)[0].1, seconds(5));
}

#[test]
fn messages_of_older_versions_are_read() {
    let text = r#"{"hub":"h","object":{"kind":"Kustomization","namespace":"apps","name":"a"},"cause":"again"}"#;
    let read: Request = serde_json::from_str(text).expect("a request");
    assert_eq!((&read.cause, &read.token), (&Cause::Requeue, &None));
    let text = serde_json::to_string(&request("a", Cause::Push)).expect("JSON");
    assert!(!text.contains("token"), "{text}");
}
