//! The log: the records that are written, and those that never are.
//!
//! At their finest levels, libraries that carry requests log their content: headers, addresses, bodies, the
//! messages of the keyring. A user's rule for one of their modules is more exact than a rule for the whole
//! library, so an added rule cannot silence them; a filter after the user's rules does.

use std::io::IsTerminal as _;

use tracing::{Level, Metadata, Subscriber};
use tracing_subscriber::filter::{EnvFilter, filter_fn};
use tracing_subscriber::fmt::{MakeWriter, layer};
use tracing_subscriber::layer::{Layer as _, SubscriberExt as _};
use tracing_subscriber::registry;
use tracing_subscriber::util::SubscriberInitExt as _;

use crate::cli_error::CliError;
use crate::settings::{LogFormat, ProcessConfig};

/// The crates of this project: they log names, hosts and codes, but no values.
const OWN_CRATES: [&str; 6] = ["a2s", "a2s_cli", "aos", "executor", "guardian", "registry"];

/// Libraries that credentials pass through: they log errors alone.
const CREDENTIAL_LIBRARIES: [&str; 10] = [
    "h2",
    "hyper",
    "hyper_rustls",
    "hyper_util",
    "keyring",
    "reqwest",
    "rustls",
    "secret_service",
    "tokio_rustls",
    "zbus",
];

/// Starts logging.
pub(super) fn start(process: &ProcessConfig) -> Result<(), CliError> {
    let writer = std::io::stderr;
    let is_terminal = std::io::stderr().is_terminal();
    let subscriber = build_subscriber(&process.log, process.log_format, is_terminal, writer)?;
    let started = subscriber.try_init();
    started.map_err(|error| CliError::cannot_serve(error.to_string()))
}

/// Builds the subscriber that writes the log to `writer`.
fn build_subscriber<W>(
    rules: &str,
    format: LogFormat,
    ansi: bool,
    writer: W,
) -> Result<impl Subscriber + Send + Sync, CliError>
where
    W: for<'w> MakeWriter<'w> + Send + Sync + 'static,
{
    let asked = EnvFilter::try_new(rules).map_err(|error| {
        CliError::invalid_argument(format!("`{rules}` is not a log filter: {error}"))
    })?;
    let layer = layer().with_ansi(ansi).with_writer(writer);
    let layer = match format {
        LogFormat::Text => layer.boxed(),
        LogFormat::Json => layer.json().boxed(),
    };
    // Global filters: a layer's filter remembers its last check, and a library that checks whether
    // to log and then does not would suppress the next record of others.
    Ok(registry().with(asked).with(filter_fn(may_be_logged)).with(layer))
}

/// Returns true when a record may be written at all.
fn may_be_logged(metadata: &Metadata<'_>) -> bool {
    let library = metadata.target().split("::").next().unwrap_or_default();
    let finest = if OWN_CRATES.contains(&library) {
        Level::TRACE
    } else if CREDENTIAL_LIBRARIES.contains(&library) {
        Level::ERROR
    } else {
        Level::INFO
    };
    *metadata.level() <= finest
}

#[cfg(test)]
mod tests {
    use std::io::{self, Write};
    use std::sync::{Arc, Mutex};

    use super::*;

    #[derive(Clone, Default)]
    struct Written(Arc<Mutex<Vec<u8>>>);

    impl Write for Written {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    /// Returns the output for records of many modules and levels under `rules`.
    fn written(rules: &str, format: LogFormat) -> String {
        let written = Written::default();
        let writer = written.clone();
        let subscriber = build_subscriber(rules, format, false, move || writer.clone()).unwrap();
        tracing::subscriber::with_default(subscriber, || {
            macro_rules! record {
                ($($target:literal)*) => {$(
                    tracing::trace!(target: $target, "trace of {}", $target);
                    tracing::debug!(target: $target, "debug of {}", $target);
                    tracing::info!(target: $target, "info of {}", $target);
                    tracing::error!(target: $target, "error of {}", $target);
                )*};
            }
            record!("executor::outbound" "hyper::proto::h1" "h2::client" "reqwest::connect" "rustls"
                "hyper_util::client" "zbus" "sqlx::query" "hyperion");
        });
        let bytes = written.0.lock().unwrap().clone();
        String::from_utf8(bytes).unwrap()
    }

    #[test]
    fn libraries_with_credentials_never_log() {
        for rules in [
            "trace",
            "hyper=trace,h2=trace,reqwest=trace,rustls=trace,hyper_util=trace,zbus=trace,executor=trace",
            "error,hyper::proto::h1=trace,h2::client=trace,reqwest::connect=trace,executor=trace",
            "trace,hyper::proto=debug,hyper[{peer}]=trace",
        ] {
            for format in [LogFormat::Text, LogFormat::Json] {
                let text = written(rules, format);
                assert!(text.contains("trace of executor::outbound"), "{rules}: {text}");
                for module in ["hyper::", "h2::", "reqwest::", "rustls", "hyper_util::", "zbus"] {
                    for level in ["trace", "debug", "info"] {
                        assert!(!text.contains(&format!("{level} of {module}")), "{rules}: {text}");
                    }
                }
                assert!(!text.contains("debug of sqlx"), "{rules}: {text}");
            }
        }
        let text = written("trace", LogFormat::Text);
        for told in ["error of hyper::proto::h1", "info of hyperion", "info of sqlx::query"] {
            assert!(text.contains(told), "{told}: {text}");
        }
    }

    #[test]
    fn a_library_that_asks_whether_to_tell_silences_no_other() {
        let written = Written::default();
        let writer = written.clone();
        let subscriber =
            build_subscriber("info", LogFormat::Text, false, move || writer.clone()).unwrap();
        tracing::subscriber::with_default(subscriber, || {
            for number in 0..3 {
                // As `sqlx` does before each statement.
                assert!(!tracing::enabled!(target: "sqlx::query", Level::DEBUG));
                tracing::info!(target: "registry::index", number, "told");
            }
        });
        let bytes = written.0.lock().unwrap().clone();
        assert_eq!(String::from_utf8(bytes).unwrap().lines().count(), 3);
    }

    #[test]
    fn what_is_asked_for_holds_for_the_rest() {
        let text = written("warn,executor=debug", LogFormat::Text);
        assert!(
            text.contains("debug of executor") && !text.contains("trace of executor"),
            "{text}"
        );
        assert!(!text.contains("info of") || text.contains("info of executor"), "{text}");
        assert!(build_subscriber("a=b=c", LogFormat::Text, false, io::sink).is_err());
    }
}
