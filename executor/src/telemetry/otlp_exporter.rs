//! Sending spans to a receiver of OTLP over HTTP.

use super::export_queue::ExportSink;
use super::http_sink::HttpReceiver;
use super::otlp::{self, ReadySpan};
use crate::config::OtlpExport;
use crate::error::Error;

/// A receiver of spans.
#[derive(Debug)]
pub(super) struct SpanReceiver {
    receiver: HttpReceiver,
    service: String,
}

impl SpanReceiver {
    /// Creates the receiver from the configuration. Nothing is sent yet.
    ///
    /// # Errors
    /// Fails when its address or a header cannot be used, or when a client cannot be created.
    pub(super) fn new(export: &OtlpExport, service: &str) -> Result<Self, Error> {
        let receiver = HttpReceiver::new(export, "traces", "application/x-protobuf")?;
        Ok(Self { receiver, service: service.to_owned() })
    }
}

impl ExportSink for SpanReceiver {
    type Item = ReadySpan;
    const ITEMS: &'static str = "spans";
    const MAX_WAITING: usize = 32_768;
    // As OpenTelemetry's own batches.
    const BATCH: usize = 512;

    async fn export(&self, batch: Vec<ReadySpan>) -> Result<usize, String> {
        let answer = self.receiver.send(otlp::encode(&self.service, batch)).await?;
        Ok(usize::try_from(otlp::count_rejected(&answer)).unwrap_or(usize::MAX))
    }
}
