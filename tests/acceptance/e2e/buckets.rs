//! An S3 bucket as a source.

use driftless_adapters::aws::S3Buckets;
use driftless_harness::aws::MiniStack;
use driftless_tests::buckets::*;
use serde_json::json;
use std::sync::Arc;

#[test]
fn a_bucket_of_s3_is_a_source() {
    let ministack = MiniStack::start();
    let aws = ministack.aws();
    aws.must("s3", "create_bucket", json!({"Bucket": BUCKET}));
    let url = ministack.url();
    let endpoint = url.strip_prefix("http://").expect("plain HTTP");
    let world = World::start(aws, Arc::new(S3Buckets::new()), endpoint);
    scenario(&world);
}
