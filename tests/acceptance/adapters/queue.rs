use driftless_adapters::aws::SqsQueue;
use driftless_adapters::local::LocalQueue;
use driftless_flux::{FluxKind, ObjectRef};
use driftless_kernel::document::DocumentError;
use driftless_kernel::ports::{Cause, ErrorKind, Queue, Request};
use driftless_nats::{Deliveries, Delivery, NatsQueue, QueueName, Work};
use serde_json::json;
use std::collections::HashSet;
use std::time::{Duration, Instant};

fn request(name: &str) -> Request {
    let object = ObjectRef::new(FluxKind::Kustomization, "apps", name);
    Request::new("staging", object, Cause::Source)
}

/// A queue from which a test can take the messages that are visible now.
trait Taken {
    fn queue(&self) -> &dyn Queue;
    async fn take(&self) -> Vec<Request>;
}

struct InProcess(LocalQueue);

impl Taken for InProcess {
    fn queue(&self) -> &dyn Queue {
        &self.0
    }
    async fn take(&self) -> Vec<Request> {
        let mut taken = Vec::new();
        while let Ok(Some(work)) =
            tokio::time::timeout(Duration::from_millis(20), self.0.next()).await
        {
            taken.push(work.request().clone());
        }
        taken
    }
}

struct Sqs {
    queue: SqsQueue,
    url: String,
}

impl Taken for Sqs {
    fn queue(&self) -> &dyn Queue {
        &self.queue
    }
    async fn take(&self) -> Vec<Request> {
        let mut taken = Vec::new();
        loop {
            let ask = json!({"QueueUrl": self.url, "MaxNumberOfMessages": 10});
            let answer = crate::ministack().aws().must("sqs", "receive_message", ask);
            let messages = answer["Messages"].as_array().cloned().unwrap_or_default();
            if messages.is_empty() {
                return taken;
            }
            for message in messages {
                let body = message["Body"].as_str().expect("a body");
                taken.push(serde_json::from_str(body).expect("a request"));
                let handle =
                    json!({"QueueUrl": self.url, "ReceiptHandle": message["ReceiptHandle"]});
                crate::ministack()
                    .aws()
                    .must("sqs", "delete_message", handle);
            }
        }
    }
}

async fn contract(queue: &impl Taken) {
    // An empty batch is allowed, and so is one that needs more than one call.
    queue.queue().send(Vec::new()).await.expect("nothing");
    let many: Vec<Request> = (0..25).map(|n| request(&format!("app-{n}"))).collect();
    let at_once = many
        .iter()
        .map(|one| (one.clone(), Duration::ZERO))
        .collect();
    queue.queue().send(at_once).await.expect("sent");
    let taken = queue.take().await;
    assert_eq!(taken.len(), 25);
    assert_eq!(
        taken.into_iter().collect::<HashSet<_>>(),
        many.into_iter().collect::<HashSet<_>>()
    );
    assert!(queue.take().await.is_empty());

    // A delay is kept, also a part of a second; one above the maximum becomes the maximum.
    let start = Instant::now();
    let later = [
        ("soon", Duration::from_millis(1200)),
        ("never", Duration::from_secs(86_400)),
    ];
    let later = later.map(|(name, delay)| (request(name), delay)).to_vec();
    queue.queue().send(later).await.expect("sent");
    assert!(queue.take().await.is_empty(), "no message is due");
    let taken = loop {
        let taken = queue.take().await;
        if !taken.is_empty() {
            break taken;
        }
        assert!(
            start.elapsed() < Duration::from_secs(20),
            "the message never arrives"
        );
        tokio::time::sleep(Duration::from_millis(100)).await;
    };
    assert_eq!(taken, [request("soon")]);
    assert!(
        start.elapsed() >= Duration::from_millis(1100),
        "{:?}",
        start.elapsed()
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn in_this_process() {
    contract(&InProcess(LocalQueue::new(1000))).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn in_sqs() {
    let settings = crate::settings().await;
    let aws = crate::ministack().aws();
    let made = aws.must("sqs", "create_queue", json!({"QueueName": "contract"}));
    let url = made["QueueUrl"].as_str().expect("an address").to_owned();
    let queue = SqsQueue::new(&settings, url.as_str());
    contract(&Sqs {
        queue,
        url: url.clone(),
    })
    .await;
    let queue = SqsQueue::new(&settings, url.as_str());
    gives_back(&queue, &url, false).await;
    let made = aws.must("sqs", "create_queue", json!({"QueueName": "contract-2"}));
    let isolated = made["QueueUrl"].as_str().expect("an address");
    gives_back(&queue.with_isolated(isolated), isolated, true).await;
    let nowhere = SqsQueue::new(&settings, url.replace("contract", "nowhere"));
    let error = nowhere.send(vec![(request("a"), Duration::ZERO)]).await;
    assert_eq!(error.expect_err("no queue").kind, ErrorKind::NotFound);
}

/// Each message has the group of its tenant, and an isolated step its own queue, if there is one.
#[tokio::test(flavor = "multi_thread")]
async fn isolated_steps_have_their_own_queue_and_tenants_their_own_group() {
    let settings = crate::settings().await;
    let aws = crate::ministack().aws();
    let urls = ["steps", "isolated", "sweeps"].map(|name| {
        let made = aws.must("sqs", "create_queue", json!({"QueueName": name}));
        made["QueueUrl"].as_str().expect("an address").to_owned()
    });
    let taken = || {
        urls.each_ref().map(|url| {
            let ask =
                json!({"QueueUrl": url, "MaxNumberOfMessages": 10, "AttributeNames": ["All"]});
            let answer = aws.must("sqs", "receive_message", ask);
            let messages = answer["Messages"].as_array().cloned().unwrap_or_default();
            let group = |message: serde_json::Value| {
                let handle = json!({"QueueUrl": url, "ReceiptHandle": message["ReceiptHandle"]});
                aws.must("sqs", "delete_message", handle);
                message["Attributes"]["MessageGroupId"]
                    .as_str()
                    .map(str::to_owned)
            };
            let groups = messages.into_iter().map(group);
            groups.collect::<Option<Vec<_>>>().expect("a group")
        })
    };
    let isolated = Request {
        isolated: true,
        ..request("large")
    };
    let both = || {
        let both = [request("small"), isolated.clone()];
        both.map(|one| (one, Duration::ZERO)).to_vec()
    };
    let ordinary = SqsQueue::new(&settings, urls[0].as_str());
    ordinary.send(both()).await.expect("sent");
    assert_eq!(taken(), [vec!["staging/apps"; 2], vec![], vec![]]);
    let queue = ordinary.with_isolated(urls[1].as_str());
    let queue = queue.with_sweeps(urls[2].as_str());
    queue.send(both()).await.expect("sent");
    let hubs = ["staging".to_owned(), "eu/production".to_owned()];
    assert!(queue.sweep(&hubs).await.expect("sent"));
    let [steps, isolated, mut sweeps] = taken();
    assert_eq!([steps, isolated], [["staging/apps"], ["staging/apps"]]);
    sweeps.sort();
    assert_eq!(sweeps, ["eu%2Fproduction", "staging"]);
}

/// Checks that a message that was given back arrives after the requested delay, not after the
/// queue's 30 s. An isolated step has the queue at `url`.
async fn gives_back(queue: &SqsQueue, url: &str, isolated: bool) {
    let receive = || {
        let ask = json!({"QueueUrl": url, "MaxNumberOfMessages": 1});
        let answer = crate::ministack().aws().must("sqs", "receive_message", ask);
        let receipt = answer["Messages"][0]["ReceiptHandle"].as_str();
        receipt.map(str::to_owned)
    };
    let start = Instant::now();
    let request = Request {
        isolated,
        ..request("back")
    };
    let sent = queue.send(vec![(request, Duration::ZERO)]).await;
    sent.expect("sent");
    let name = url.rsplit('/').next().expect("a name");
    let arn = format!("arn:aws:sqs:us-east-1:000000000000:{name}");
    let receipt = receive().expect("a message");
    assert_eq!(receive(), None, "the message is hidden");
    let given = queue
        .redeliver(&arn, &receipt, Duration::from_secs(1))
        .await;
    given.expect("given back");
    let again = loop {
        if let Some(receipt) = receive() {
            break receipt;
        }
        assert!(
            start.elapsed() < Duration::from_secs(20),
            "the message does not arrive"
        );
        tokio::time::sleep(Duration::from_millis(100)).await;
    };
    let handle = json!({"QueueUrl": url, "ReceiptHandle": again});
    crate::ministack()
        .aws()
        .must("sqs", "delete_message", handle);
}

struct OnNats {
    queue: NatsQueue,
    steps: Deliveries,
}

impl Taken for OnNats {
    fn queue(&self) -> &dyn Queue {
        &self.queue
    }
    async fn take(&self) -> Vec<Request> {
        let mut taken = Vec::new();
        while let Some(delivery) = received(&self.steps, Duration::from_millis(300)).await {
            match delivery.work().expect("a message") {
                Work::Step(request) => taken.push(*request),
                Work::Sweep(hub) => panic!("a sweep of {hub}"),
            }
            delivery.done().await;
        }
        taken
    }
}

/// Returns the next message, if it comes within this time.
async fn received(deliveries: &Deliveries, time: Duration) -> Option<Delivery> {
    let next = tokio::time::timeout(time, deliveries.next()).await;
    next.ok()?.expect("an answer")
}

const MINUTE: Duration = Duration::from_secs(60);

#[tokio::test(flavor = "multi_thread")]
async fn on_nats() {
    let nats = crate::nats("queue").await;
    let queue = NatsQueue::new(&nats, MINUTE);
    let steps = Deliveries::new(&nats, QueueName::Steps);
    contract(&OnNats {
        queue: queue.clone(),
        steps,
    })
    .await;
    // The message of the contract with the longest delay.
    assert_eq!(queue.waiting().await.expect("a number"), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn on_nats_a_message_comes_again_until_it_is_done_or_dead() {
    let nats = crate::nats("again").await;
    let queue = NatsQueue::new(&nats, MINUTE);
    let steps = Deliveries::new(&nats, QueueName::Steps);
    let isolated = Deliveries::new(&nats, QueueName::Isolated);
    let both = [false, true].map(|isolated| Request {
        isolated,
        ..request("back")
    });
    let sent = both.map(|request| (request, Duration::ZERO)).to_vec();
    queue.send(sent).await.expect("sent");
    // An isolated step has its own queue.
    let apart = received(&isolated, MINUTE).await.expect("a message");
    assert!(matches!(apart.work(), Ok(Work::Step(request)) if request.isolated));
    apart.done().await;
    for deliveries in 1..=5 {
        let delivery = received(&steps, MINUTE).await.expect("a message");
        assert_eq!(delivery.deliveries, deliveries);
        let hidden = received(&steps, Duration::from_millis(200)).await;
        assert!(hidden.is_none(), "the message is hidden");
        if deliveries < 5 {
            let start = Instant::now();
            delivery.retry(Duration::from_millis(600)).await;
            assert!(received(&steps, Duration::from_millis(300)).await.is_none());
            assert!(start.elapsed() < Duration::from_secs(20));
            continue;
        }
        delivery.bury("the step\nfailed").await.expect("buried");
    }
    // An acknowledgement has no answer.
    let start = Instant::now();
    while queue.waiting().await.expect("a number") > 0 {
        assert!(
            start.elapsed() < Duration::from_secs(20),
            "a message is left"
        );
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let client = async_nats::connect(crate::nats_server().url()).await;
    let context = async_nats::jetstream::new(client.expect("connect"));
    let dead = context.get_stream("again-dead").await.expect("the stream");
    let message = dead
        .get_last_raw_message_by_subject("again.dead.steps")
        .await;
    let message = message.expect("the dead message");
    let reason = message
        .headers
        .get("Driftless-Reason")
        .map(|reason| reason.as_str());
    assert_eq!(reason, Some("the step failed"));
    let buried: Request = serde_json::from_slice(&message.payload).expect("a request");
    assert_eq!(buried, request("back"));
}

/// Checks that a message of a newer format has another error than a damaged one.
#[tokio::test(flavor = "multi_thread")]
async fn on_nats_a_message_may_be_of_a_newer_version() {
    let nats = crate::nats("newer").await;
    let client = async_nats::connect(crate::nats_server().url()).await;
    let context = async_nats::jetstream::new(client.expect("connect"));
    for (queue, name) in [(QueueName::Steps, "steps"), (QueueName::Sweeps, "sweeps")] {
        for body in [r#"{"format":2}"#, "{}"] {
            let sent = context.publish(format!("newer.queue.{name}"), body.into());
            sent.await.expect("sent").await.expect("an answer");
        }
        let deliveries = Deliveries::new(&nats, queue);
        let newer = received(&deliveries, MINUTE).await.expect("a message");
        let error = newer.work().expect_err("a newer format");
        assert!(matches!(error, DocumentError::Newer(2)), "{error}");
        let damaged = received(&deliveries, MINUTE).await.expect("a message");
        let error = damaged.work().expect_err("no request");
        assert!(matches!(error, DocumentError::Damaged(_)), "{error}");
    }
}

/// Checks that many workers queue one sweep of a hub in an interval.
#[tokio::test(flavor = "multi_thread")]
async fn on_nats_a_hub_has_one_sweep_in_an_interval() {
    let nats = crate::nats("sweeps").await;
    let interval = Duration::from_secs(600);
    let hubs = ["staging".to_owned(), "eu/production".to_owned()];
    for _ in 0..3 {
        let worker = NatsQueue::new(&nats, interval);
        assert!(worker.sweep(&hubs).await.expect("sent"));
    }
    let sweeps = Deliveries::new(&nats, QueueName::Sweeps);
    let mut swept = Vec::new();
    while let Some(delivery) = received(&sweeps, Duration::from_millis(300)).await {
        match delivery.work().expect("a message") {
            Work::Sweep(hub) => swept.push(hub),
            Work::Step(request) => panic!("{request:?}"),
        }
        delivery.done().await;
    }
    swept.sort();
    // At the end of an interval there may be another one.
    assert!([2, 4].contains(&swept.len()), "{swept:?}");
    swept.dedup();
    assert_eq!(swept, ["eu/production", "staging"]);
}
