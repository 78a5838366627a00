//! The blob store on S3.

use super::error::{status_and_code, to_error};
use async_trait::async_trait;
use aws_config::SdkConfig;
use aws_config::retry::RetryConfig;
use aws_sdk_s3::Client;
use aws_sdk_s3::operation::get_object::GetObjectOutput;
use aws_sdk_s3::presigning::PresigningConfig;
use aws_sdk_s3::primitives::ByteStream;
use bytes::Bytes;
use driftless_kernel::ports::{
    BlobEntry, Blobs, ErrorKind, PortError, Precondition, PutOutcome, Result, Version, blob_key,
};
use std::ops::Range;
use std::time::Duration;

/// A bucket of S3. A blob's version is its ETag.
#[derive(Clone, Debug)]
pub struct S3Blobs {
    client: Client,
    bucket: String,
}

impl S3Blobs {
    /// Creates a store. `path_style` puts the bucket into the path, as S3's emulators need it.
    pub fn new(settings: &SdkConfig, bucket: impl Into<String>, path_style: bool) -> Self {
        let config = aws_sdk_s3::config::Builder::from(settings)
            .force_path_style(path_style)
            .build();
        Self {
            client: Client::from_conf(config),
            bucket: bucket.into(),
        }
    }

    fn operation(&self, verb: &str, key: &str) -> String {
        format!("{verb} {}", self.url(key))
    }

    /// Requests an object, or the bytes of a `Range` header; `None` if it does not exist.
    async fn object(
        &self,
        operation: &str,
        key: &str,
        range: Option<String>,
    ) -> Result<Option<GetObjectOutput>> {
        blob_key::check(key)?;
        let request = self.client.get_object().bucket(&self.bucket).key(key);
        match request.set_range(range).send().await {
            Ok(answer) => Ok(Some(answer)),
            Err(error) => match status_and_code(&error) {
                // A missing bucket has another code.
                Some((_, "NoSuchKey")) => Ok(None),
                Some((416, _)) => {
                    let message = format!("{operation}: the object has no byte of the range");
                    Err(PortError::new(ErrorKind::Unreadable, message))
                }
                _ => Err(to_error(operation, &error)),
            },
        }
    }
}

#[async_trait]
impl Blobs for S3Blobs {
    async fn get(&self, key: &str) -> Result<Option<(Bytes, Version)>> {
        let operation = self.operation("read", key);
        let Some(answer) = self.object(&operation, key, None).await? else {
            return Ok(None);
        };
        let version = version(&operation, answer.e_tag)?;
        let content = body(&operation, answer.body).await?;
        Ok(Some((content, version)))
    }

    async fn get_range(&self, key: &str, range: Range<u64>) -> Result<Option<Bytes>> {
        let operation = self.operation("read a part of", key);
        let Some(last) = range.end.checked_sub(1).filter(|last| *last >= range.start) else {
            let message = format!("{operation}: the range is empty");
            return Err(PortError::new(ErrorKind::Unreadable, message));
        };
        let bytes = format!("bytes={}-{last}", range.start);
        let Some(answer) = self.object(&operation, key, Some(bytes)).await? else {
            return Ok(None);
        };
        let content = body(&operation, answer.body).await?;
        if content.len() as u64 > range.end - range.start {
            let message = format!("{operation}: the answer has more bytes than the range");
            return Err(PortError::new(ErrorKind::Unreadable, message));
        }
        Ok(Some(content))
    }

    async fn put(&self, key: &str, content: Bytes, when: Precondition) -> Result<PutOutcome> {
        blob_key::check(key)?;
        let operation = self.operation("write", key);
        let mut request = self
            .client
            .put_object()
            .bucket(&self.bucket)
            .key(key)
            .body(ByteStream::from(content));
        let mut overrides = aws_sdk_s3::config::Builder::new();
        match &when {
            Precondition::None => {}
            Precondition::Absent => request = request.if_none_match("*"),
            Precondition::Is(Version(etag)) => request = request.if_match(etag),
        }
        if when != Precondition::None {
            // A retry after an unclear answer would find its own write and mistake it for another
            // writer's.
            overrides = overrides.retry_config(RetryConfig::disabled());
        }
        match request.customize().config_override(overrides).send().await {
            Ok(answer) => Ok(PutOutcome::Done(version(&operation, answer.e_tag)?)),
            Err(error) => match (status_and_code(&error), &when) {
                (Some((412, _)), _) => Ok(PutOutcome::PreconditionFailed),
                (Some((404, code)), Precondition::Is(_)) if code != "NoSuchBucket" => {
                    Ok(PutOutcome::PreconditionFailed)
                }
                _ => Err(to_error(&operation, &error)),
            },
        }
    }

    async fn delete(&self, key: &str) -> Result<()> {
        blob_key::check(key)?;
        let answer = self
            .client
            .delete_object()
            .bucket(&self.bucket)
            .key(key)
            .send()
            .await;
        answer
            .map(|_| ())
            .map_err(|error| to_error(&self.operation("delete", key), &error))
    }

    async fn delete_version(&self, key: &str, version: &Version) -> Result<bool> {
        blob_key::check(key)?;
        let request = self.client.delete_object().bucket(&self.bucket).key(key);
        match request.if_match(&version.0).send().await {
            Ok(_) => Ok(true),
            Err(error) => match status_and_code(&error) {
                Some((404, code)) if code != "NoSuchBucket" => Ok(true),
                Some((412, _)) => Ok(false),
                _ => Err(to_error(&self.operation("delete", key), &error)),
            },
        }
    }

    async fn size(&self, key: &str) -> Result<Option<u64>> {
        blob_key::check(key)?;
        let operation = self.operation("read the size of", key);
        let request = self.client.head_object().bucket(&self.bucket).key(key);
        match request.send().await {
            Ok(answer) => size(&operation, answer.content_length).map(Some),
            // The answer to a HEAD has no body, so it does not distinguish a missing object from a
            // missing bucket.
            Err(error) if status_and_code(&error).is_some_and(|(status, _)| status == 404) => {
                Ok(None)
            }
            Err(error) => Err(to_error(&operation, &error)),
        }
    }

    /// Deletes the object: the bucket keeps superseded versions, and so deleted objects, for a
    /// while.
    async fn set_aside(&self, key: &str, version: &Version) -> Result<()> {
        self.delete_version(key, version).await.map(|_| ())
    }

    async fn list(&self, prefix: &str) -> Result<Vec<BlobEntry>> {
        self.list_some(prefix, usize::MAX).await
    }

    async fn list_some(&self, prefix: &str, most: usize) -> Result<Vec<BlobEntry>> {
        let operation = self.operation("list", prefix);
        let mut found = Vec::new();
        let mut next = None;
        loop {
            let request = self
                .client
                .list_objects_v2()
                .bucket(&self.bucket)
                .prefix(prefix)
                .set_continuation_token(next);
            let page = request
                .send()
                .await
                .map_err(|error| to_error(&operation, &error))?;
            for object in page.contents.unwrap_or_default() {
                let key = object.key.ok_or_else(|| {
                    PortError::new(
                        ErrorKind::Unreadable,
                        format!("{operation}: an entry has no key"),
                    )
                })?;
                found.push(BlobEntry {
                    key,
                    size: size(&operation, object.size)?,
                    version: object.e_tag.map(Version),
                });
            }
            if found.len() >= most {
                found.truncate(most);
                return Ok(found);
            }
            next = page.next_continuation_token;
            match (page.is_truncated.unwrap_or_default(), &next) {
                (false, _) => return Ok(found),
                (true, Some(_)) => {}
                (true, None) => {
                    let operation =
                        format!("{operation}: the list is truncated but has no continuation token");
                    return Err(PortError::new(ErrorKind::Unreadable, operation));
                }
            }
        }
    }

    fn url(&self, key: &str) -> String {
        format!("s3://{}/{key}", self.bucket)
    }

    /// Returns a presigned URL. It ends with the credentials that signed it, if that is earlier
    /// (Amazon S3 User Guide, "Download and upload objects with presigned URLs").
    async fn link(&self, key: &str, valid: Duration) -> Result<Option<String>> {
        blob_key::check(key)?;
        let operation = self.operation("sign a link to", key);
        let config = PresigningConfig::expires_in(valid).map_err(|_| {
            let message = format!("{operation}: the time is longer than a week");
            PortError::new(ErrorKind::Invalid, message)
        })?;
        let request = self.client.get_object().bucket(&self.bucket).key(key);
        let signed = request.presigned(config).await;
        let signed = signed.map_err(|error| to_error(&operation, &error))?;
        Ok(Some(signed.uri().to_owned()))
    }
}

async fn body(operation: &str, body: ByteStream) -> Result<Bytes> {
    let content = body.collect().await.map_err(|_| {
        let message = format!("{operation}: the body is incomplete");
        PortError::new(ErrorKind::Unavailable, message)
    })?;
    Ok(content.into_bytes())
}

fn version(operation: &str, etag: Option<String>) -> Result<Version> {
    etag.map(Version).ok_or_else(|| {
        PortError::new(
            ErrorKind::Unreadable,
            format!("{operation}: the answer has no ETag"),
        )
    })
}

fn size(operation: &str, size: Option<i64>) -> Result<u64> {
    let size = size.and_then(|size| u64::try_from(size).ok());
    size.ok_or_else(|| {
        PortError::new(
            ErrorKind::Unreadable,
            format!("{operation}: the answer has no size"),
        )
    })
}
