//! The settings of telemetry: the flag over the environment (for traces, OpenTelemetry's own) over
//! the TOML file.

use std::path::PathBuf;

use a2s::Secret;
use executor::{OcsfFile, OtlpExport, TelemetryConfig};
use percent_encoding::percent_decode_str;
use url::Url;

use super::{Layer as _, settings_error};
use crate::cli_error::CliError;

/// The environment variable with the headers for the receiver of security events.
const OCSF_HEADERS: &str = "A2S_OCSF_HEADERS";
/// The environment variable with the headers for the receiver of alarms.
const ALARM_HEADERS: &str = "A2S_ALARM_HEADERS";

settings! {
    /// The receivers of telemetry about runs.
    #[serde(deny_unknown_fields)]
    pub(crate) struct TelemetrySettings {
        /// Send the spans of runs to a receiver of OpenTelemetry (OTLP over HTTP), at /v1/traces below
        /// this address [or `OTEL_EXPORTER_OTLP_ENDPOINT`; docs/telemetry.md has all settings]
        #[arg(long, value_name = "URL")]
        otlp_endpoint: Option<Url>,
        #[arg(skip)]
        service_name: Option<String>,
        #[arg(skip)]
        propagate: Option<bool>,
        /// Write every decision of the guardian and every tool step as a security event (OCSF) into this
        /// file, one on each line
        #[arg(long, value_name = "FILE", env = "A2S_OCSF_FILE")]
        ocsf_file: Option<PathBuf>,
        #[arg(skip)]
        ocsf_file_bytes: Option<u64>,
        #[arg(skip)]
        ocsf_files_kept: Option<u32>,
        /// Send the security events to this address, as JSON arrays [headers for the receiver:
        /// `A2S_OCSF_HEADERS`]
        #[arg(long, value_name = "URL", env = "A2S_OCSF_ENDPOINT", hide_env_values = true)]
        ocsf_endpoint: Option<Url>,
        #[arg(skip)]
        alarm_url: Option<Url>,
    }
}

impl TelemetrySettings {
    /// Reads the settings; `variable` reads the environment. A variable with an empty value counts as not
    /// set (OpenTelemetry, environment variables).
    pub(super) fn resolve(
        mut self,
        file: Self,
        variable: impl Fn(&str) -> Option<String>,
    ) -> Result<TelemetryConfig, CliError> {
        let variable = |name: &str| {
            let value = variable(name)?;
            let value = value.trim();
            (!value.is_empty()).then(|| (name.to_owned(), value.to_owned()))
        };
        let endpoint = if let Some(base) = self.otlp_endpoint.take() {
            Some(below(&base))
        } else if let Some(whole) = variable("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT") {
            Some(read_url(whole)?)
        } else if let Some(base) = variable("OTEL_EXPORTER_OTLP_ENDPOINT") {
            Some(below(&read_url(base)?))
        } else {
            file.otlp_endpoint.as_ref().map(below)
        };
        self.service_name = variable("OTEL_SERVICE_NAME").map(|(_, name)| name);
        let settings = self.over(file);
        let headers = variable("OTEL_EXPORTER_OTLP_TRACES_HEADERS")
            .or_else(|| variable("OTEL_EXPORTER_OTLP_HEADERS"));
        let export = |endpoint: Option<Url>, headers: Option<(String, String)>| {
            let Some(endpoint) = endpoint else { return Ok(None) };
            let headers = headers.map(read_headers).transpose()?.unwrap_or_default();
            Ok::<_, CliError>(Some(OtlpExport { endpoint, headers }))
        };
        let default = TelemetryConfig::default();
        Ok(TelemetryConfig {
            spans: export(endpoint, headers)?,
            ocsf_file: settings.ocsf_file()?,
            ocsf_endpoint: export(settings.ocsf_endpoint, variable(OCSF_HEADERS))?,
            alarm: export(settings.alarm_url, variable(ALARM_HEADERS))?,
            service: settings.service_name.unwrap_or(default.service),
            propagate: settings.propagate.unwrap_or(default.propagate),
        })
    }

    /// Returns the settings of the file for security events.
    fn ocsf_file(&self) -> Result<Option<OcsfFile>, CliError> {
        let path = self.ocsf_file.as_ref().filter(|path| !path.as_os_str().is_empty());
        let Some(path) = path else { return Ok(None) };
        let default = OcsfFile::new(path.clone());
        let keep = self.ocsf_files_kept.unwrap_or(default.max_rotated_files);
        if keep > MAX_FILES {
            return Err(wrong(format!("`ocsf-files-kept` must be at most {MAX_FILES}")));
        }
        let max_bytes = self.ocsf_file_bytes.unwrap_or(default.max_bytes);
        Ok(Some(OcsfFile { max_bytes, max_rotated_files: keep, ..default }))
    }
}

/// Returns the address for traces below the address of a receiver.
fn below(base: &Url) -> Url {
    let mut url = base.clone();
    url.set_path(&format!("{}/v1/traces", base.path().trim_end_matches('/')));
    url
}

/// The maximum number of stored full files: each of them is renamed whenever a file is full.
const MAX_FILES: u32 = 1_000;

fn read_url((name, value): (String, String)) -> Result<Url, CliError> {
    // Not the value: a key may be in it.
    Url::parse(&value).map_err(|error| wrong(format!("{name} is not a URL: {error}")))
}

/// Parses `name=value,name=value` with percent-encoded values (OTLP exporter, headers).
fn read_headers((variable, text): (String, String)) -> Result<Vec<(String, Secret)>, CliError> {
    let pair = |pair: &str| {
        let (name, value) = pair.split_once('=')?;
        let value = percent_decode_str(value.trim()).decode_utf8().ok()?;
        Some((name.trim().to_owned(), Secret::new(value.into_owned())))
    };
    let pairs = text.split(',').map(str::trim).filter(|text| !text.is_empty());
    let pairs: Option<Vec<_>> = pairs.map(pair).collect();
    pairs.ok_or_else(|| wrong(format!("{variable} must be `name=value,name=value`")))
}

fn wrong(message: String) -> CliError {
    settings_error(message)
        .with_hint("`docs/telemetry.md` describes the export of traces and security events.")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The settings of a file, a flag and variables.
    fn read(file: &str, flag: Option<&str>, variables: &[(&str, &str)]) -> TelemetryConfig {
        try_read(file, flag, variables).unwrap()
    }

    fn try_read(
        file: &str,
        flag: Option<&str>,
        variables: &[(&str, &str)],
    ) -> Result<TelemetryConfig, CliError> {
        let otlp_endpoint = flag.map(|flag| flag.parse().unwrap());
        let flags = TelemetrySettings { otlp_endpoint, ..TelemetrySettings::default() };
        let variable = |name: &str| {
            let found = variables.iter().find(|(known, _)| *known == name);
            found.map(|(_, value)| (*value).to_owned())
        };
        flags.resolve(parse(file), variable)
    }

    fn parse(file: &str) -> TelemetrySettings {
        toml::from_str(file).unwrap()
    }

    fn endpoint(file: &str, flag: Option<&str>, variables: &[(&str, &str)]) -> Option<String> {
        read(file, flag, variables).spans.map(|export| export.endpoint.to_string())
    }

    #[test]
    fn a_flag_wins_over_the_environment_and_that_over_the_file() {
        let file = "otlp-endpoint = 'http://file:4318'";
        let all = ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://all:4318/otel/");
        let traces = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "http://traces:4318/whole");
        let empty = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", " ");
        let told = |text: &str| Some(text.to_owned());
        assert_eq!(endpoint("", None, &[]), None);
        assert_eq!(endpoint(file, None, &[]), told("http://file:4318/v1/traces"));
        assert_eq!(endpoint(file, None, &[all, empty]), told("http://all:4318/otel/v1/traces"));
        assert_eq!(endpoint(file, None, &[all, traces]), told("http://traces:4318/whole"));
        let flag = endpoint(file, Some("https://flag:1"), &[all, traces]);
        assert_eq!(flag, told("https://flag:1/v1/traces"));
    }

    #[test]
    fn headers_names_and_propagation_are_read() {
        let file = "otlp-endpoint = 'http://file:4318'\nservice-name = 'mine'\npropagate = true";
        let variables = [("OTEL_EXPORTER_OTLP_HEADERS", "api-key = a%20b%3D , x=1,")];
        let telemetry = read(file, None, &variables);
        let export = telemetry.spans.unwrap();
        let headers: Vec<_> = export
            .headers
            .iter()
            .map(|(name, value)| (name.as_str(), value.expose_secret()))
            .collect();
        assert_eq!(headers, [("api-key", "a b="), ("x", "1")]);
        assert_eq!((telemetry.service.as_str(), telemetry.propagate), ("mine", true));
        let named = read(file, None, &[("OTEL_SERVICE_NAME", "theirs")]);
        assert_eq!(named.service, "theirs");
        let nothing = read("", None, &[]);
        assert_eq!((nothing.service.as_str(), nothing.propagate), ("a2s", false));
    }

    #[test]
    fn security_events_go_where_flags_or_the_file_say() {
        let file = "ocsf-file = '/var/log/a'\nocsf-file-bytes = 7\nocsf-files-kept = 0\nocsf-endpoint = 'http://file/x'";
        let read = |flags: TelemetrySettings, file, headers: Option<&str>| {
            let variable = |name: &str| (headers == Some(name)).then(|| "key=s3cret".to_owned());
            flags.resolve(parse(file), variable)
        };
        let none = TelemetrySettings::default;
        let telemetry = read(none(), file, Some(OCSF_HEADERS)).unwrap();
        let expected = OcsfFile { path: "/var/log/a".into(), max_bytes: 7, max_rotated_files: 0 };
        assert_eq!(telemetry.ocsf_file, Some(expected));
        let endpoint = telemetry.ocsf_endpoint.unwrap();
        assert_eq!(endpoint.endpoint.as_str(), "http://file/x");
        assert_eq!(endpoint.headers[0].1.expose_secret(), "s3cret");
        assert!(telemetry.spans.is_none());

        let flags = || TelemetrySettings {
            ocsf_file: Some("b".into()),
            ocsf_endpoint: Some("http://flag/y".parse().unwrap()),
            ..none()
        };
        let telemetry = read(flags(), file, None).unwrap();
        assert_eq!(telemetry.ocsf_file.unwrap().path, PathBuf::from("b"));
        assert_eq!(telemetry.ocsf_endpoint.unwrap().endpoint.as_str(), "http://flag/y");
        let alarm = read(none(), "alarm-url = 'https://alarm/z'", Some(ALARM_HEADERS)).unwrap();
        let alarm = alarm.alarm.unwrap();
        assert_eq!(alarm.endpoint.as_str(), "https://alarm/z");
        assert_eq!(alarm.headers[0].1.expose_secret(), "s3cret");
        let alone = read(flags(), "", None).unwrap();
        assert_eq!(alone.ocsf_file, Some(OcsfFile::new("b".into())));
        assert!(read(none(), "ocsf-file = 'a'\nocsf-files-kept = 1001", None).is_err());
    }

    #[test]
    fn what_cannot_be_read_is_refused_without_telling_it() {
        for (name, value) in [
            ("OTEL_EXPORTER_OTLP_ENDPOINT", "s3cret"),
            ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "s3cret/"),
            ("OTEL_EXPORTER_OTLP_HEADERS", "s3cret"),
            (OCSF_HEADERS, "s3cret"),
        ] {
            let flag = (name == "OTEL_EXPORTER_OTLP_HEADERS").then_some("http://a");
            let failure = try_read("ocsf-endpoint = 'http://a'", flag, &[(name, value)]);
            let failure = failure.unwrap_err();
            assert!(failure.message.contains(name), "{}", failure.message);
            assert!(!failure.message.contains("s3cret"), "{}", failure.message);
        }
    }
}
