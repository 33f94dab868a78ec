//! Who learns of runs: the flag over OpenTelemetry's own environment over the TOML file.

use a2s::Secret;
use executor::{Export, Telemetry};
use percent_encoding::percent_decode_str;
use serde::Deserialize;
use url::Url;

use crate::failure::{CANNOT_SERVE, Exit, Failure};

/// What this service is called when nobody says it.
const SERVICE: &str = "a2s";

/// `[telemetry]` of the TOML file.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct Section {
    otlp_endpoint: Option<Url>,
    service_name: Option<String>,
    propagate: Option<bool>,
}

impl Section {
    /// The settings, where `flag` is an address to send to and `variable` reads the environment.
    /// There a variable without a value is as good as none (OpenTelemetry, environment variables).
    pub(super) fn read(
        &self,
        flag: Option<&Url>,
        variable: impl Fn(&str) -> Option<String>,
    ) -> Result<Telemetry, Failure> {
        let variable = |name: &str| {
            let value = variable(name)?;
            let value = value.trim();
            (!value.is_empty()).then(|| (name.to_owned(), value.to_owned()))
        };
        let below = |base: &Url| {
            let mut url = base.clone();
            url.set_path(&format!("{}/v1/traces", base.path().trim_end_matches('/')));
            url
        };
        let endpoint = if let Some(base) = flag {
            Some(below(base))
        } else if let Some(whole) = variable("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT") {
            Some(read_url(whole)?)
        } else if let Some(base) = variable("OTEL_EXPORTER_OTLP_ENDPOINT") {
            Some(below(&read_url(base)?))
        } else {
            self.otlp_endpoint.as_ref().map(below)
        };
        let headers = variable("OTEL_EXPORTER_OTLP_TRACES_HEADERS")
            .or_else(|| variable("OTEL_EXPORTER_OTLP_HEADERS"));
        let service = variable("OTEL_SERVICE_NAME").map(|(_, name)| name);
        let service = service.or_else(|| self.service_name.clone());
        let export = match endpoint {
            None => None,
            Some(endpoint) => Some(Export {
                endpoint,
                headers: headers.map(read_headers).transpose()?.unwrap_or_default(),
                service: service.unwrap_or_else(|| SERVICE.to_owned()),
            }),
        };
        let default = Telemetry::default();
        Ok(Telemetry { export, propagate: self.propagate.unwrap_or(default.propagate) })
    }
}

fn read_url((name, value): (String, String)) -> Result<Url, Failure> {
    // Not the value: a key may be in it.
    Url::parse(&value).map_err(|error| wrong(format!("{name} is no URL: {error}")))
}

/// `name=value,name=value`, the values percent-encoded (OTLP exporter, headers).
fn read_headers((variable, text): (String, String)) -> Result<Vec<(String, Secret)>, Failure> {
    let pair = |pair: &str| {
        let (name, value) = pair.split_once('=')?;
        let value = percent_decode_str(value.trim()).decode_utf8().ok()?;
        Some((name.trim().to_owned(), Secret::new(value.into_owned())))
    };
    let pairs = text.split(',').map(str::trim).filter(|text| !text.is_empty());
    let pairs: Option<Vec<_>> = pairs.map(pair).collect();
    pairs.ok_or_else(|| wrong(format!("{variable} has to be `name=value,name=value`")))
}

fn wrong(message: String) -> Failure {
    Failure::new(Exit::Usage, CANNOT_SERVE, message)
        .with_hint("`docs/runs.md` tells how traces are exported.")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The settings of a file, a flag and variables.
    fn read(file: &str, flag: Option<&str>, variables: &[(&str, &str)]) -> Telemetry {
        try_read(file, flag, variables).unwrap()
    }

    fn try_read(
        file: &str,
        flag: Option<&str>,
        variables: &[(&str, &str)],
    ) -> Result<Telemetry, Failure> {
        let section: Section = toml::from_str(file).unwrap();
        let flag = flag.map(|flag| flag.parse().unwrap());
        let variable = |name: &str| {
            let found = variables.iter().find(|(known, _)| *known == name);
            found.map(|(_, value)| (*value).to_owned())
        };
        section.read(flag.as_ref(), variable)
    }

    fn endpoint(file: &str, flag: Option<&str>, variables: &[(&str, &str)]) -> Option<String> {
        read(file, flag, variables).export.map(|export| export.endpoint.to_string())
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
        let file = "otlp-endpoint = 'http://file:4318'\nservice-name = 'mine'\npropagate = false";
        let variables = [("OTEL_EXPORTER_OTLP_HEADERS", "api-key = a%20b%3D , x=1,")];
        let telemetry = read(file, None, &variables);
        let export = telemetry.export.unwrap();
        let headers: Vec<_> =
            export.headers.iter().map(|(name, value)| (name.as_str(), value.reveal())).collect();
        assert_eq!(headers, [("api-key", "a b="), ("x", "1")]);
        assert_eq!((export.service.as_str(), telemetry.propagate), ("mine", false));
        let named = read(file, None, &[("OTEL_SERVICE_NAME", "theirs")]);
        assert_eq!(named.export.unwrap().service, "theirs");
        assert!(read("", None, &[]).propagate);
    }

    #[test]
    fn what_cannot_be_read_is_refused_without_telling_it() {
        for (name, value) in [
            ("OTEL_EXPORTER_OTLP_ENDPOINT", "s3cret"),
            ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "s3cret/"),
            ("OTEL_EXPORTER_OTLP_HEADERS", "s3cret"),
        ] {
            let flag = (name == "OTEL_EXPORTER_OTLP_HEADERS").then_some("http://a");
            let failure = try_read("", flag, &[(name, value)]).unwrap_err();
            assert!(failure.message.contains(name), "{}", failure.message);
            assert!(!failure.message.contains("s3cret"), "{}", failure.message);
        }
    }
}
