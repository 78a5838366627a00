//! `telegram`: a message of a bot, in Telegram's Markdown.

use super::Provider;
use crate::Failure;
use crate::notification::Notification;
use crate::url;
use async_trait::async_trait;
use serde_json::json;
use std::fmt::Write;

/// The characters that Telegram's Markdown gives a meaning.
const SPECIAL: &str = "\\.-_[]()~>`#+=|{}!*";

pub(super) struct Telegram;

#[async_trait]
impl Provider for Telegram {
    async fn send(&self, notification: &Notification<'_>) -> Result<(), Failure> {
        let channel = notification.required(&notification.settings.channel, "spec.channel")?;
        let token = &notification.login.token;
        let token = notification.required(token, "the bot's token ('token' of the Secret)")?;
        let event = notification.event;
        let object = &event.involved_object;
        let mark = if event.is_error() { "🚨" } else { "💫" };
        let kind = object.kind.to_lowercase();
        let title = format!("{mark} {kind}/{}/{}", object.name, object.namespace);
        let mut text = format!("*{}*\n{}\n", escape(&title), escape(&event.message));
        for (key, value) in &event.metadata {
            // Writing to a string cannot fail.
            let _ = writeln!(text, "\\- *{}*: {}", escape(key), escape(value));
        }
        let (chat, thread) = channel.split_once(':').unwrap_or((channel, ""));
        let mut body = json!({"chat_id": chat, "text": text, "parse_mode": "MarkdownV2"});
        if !thread.is_empty() {
            body["message_thread_id"] = thread.into();
        }
        let token = url::segment(token);
        let url = format!("https://api.telegram.org/bot{token}/sendMessage");
        notification.post_json(&url, &body).await
    }
}

fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        if SPECIAL.contains(c) {
            escaped.push('\\');
        }
        escaped.push(c);
    }
    escaped
}
