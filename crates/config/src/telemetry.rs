use std::fmt;

use serde::Deserialize;
use serde::de::{Deserializer, Error};
use url::Url;

/// `[telemetry]`: trace export to an OpenTelemetry collector. Without an endpoint, no traces are
/// exported.
///
/// The standard OpenTelemetry environment variables override this section:
/// `OTEL_EXPORTER_OTLP_ENDPOINT`, `OTEL_EXPORTER_OTLP_HEADERS`, `OTEL_SERVICE_NAME`,
/// `OTEL_TRACES_SAMPLER` and the other variables that the OpenTelemetry SDK reads.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub struct TelemetrySection {
    /// The base URL of the collector (OTLP over HTTP), such as `http://127.0.0.1:4318`; spans go to
    /// `/v1/traces` below this URL. Without an endpoint, no traces are exported.
    #[cfg_attr(test, schemars(with = "Option<String>"))]
    pub endpoint: Option<CollectorUrl>,
    /// The service name in exported traces.
    pub service_name: String,
    /// The share of traces started by the sidecar that is recorded, from 0 to 1. A trace that
    /// continues a caller's `traceparent` follows the sampled flag of that header.
    #[serde(deserialize_with = "read_ratio")]
    #[cfg_attr(test, schemars(range(min = 0, max = 1)))]
    pub sample_ratio: f64,
}

impl Default for TelemetrySection {
    fn default() -> Self {
        Self {
            endpoint: None,
            service_name: "pillion".to_owned(),
            sample_ratio: 1.0,
        }
    }
}

/// The URL of a collector. `Debug` shows only the host, because the URL may contain a password.
#[derive(Clone, PartialEq, Eq)]
pub struct CollectorUrl(pub Url);

impl fmt::Debug for CollectorUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("CollectorUrl")
            .field(&self.0.host_str())
            .finish()
    }
}

impl<'de> Deserialize<'de> for CollectorUrl {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let parsed_url = Url::parse(&text).ok();
        let url =
            parsed_url.filter(|url| matches!(url.scheme(), "http" | "https") && url.has_host());
        url.map(Self)
            .ok_or_else(|| D::Error::custom("expected an http:// or https:// URL"))
    }
}

fn read_ratio<'de, D: Deserializer<'de>>(deserializer: D) -> Result<f64, D::Error> {
    let ratio = f64::deserialize(deserializer)?;
    if (0.0..=1.0).contains(&ratio) {
        Ok(ratio)
    } else {
        Err(D::Error::custom("expected a number from 0 to 1"))
    }
}

#[cfg(test)]
mod tests {
    use crate::Config;

    #[test]
    fn m1_invalid_collectors_and_ratios_are_rejected_without_showing_passwords() {
        let parse = |text: &str| Config::parse(&format!("[telemetry]\n{text}"), "t.toml");
        for invalid_text in [
            "endpoint = \"collector:4318\"",
            "endpoint = \"ftp://collector\"",
            "sample_ratio = 1.5",
            "sample_ratio = nan",
            "headers = {}",
        ] {
            let error = parse(invalid_text).unwrap_err().to_string();
            assert!(error.starts_with("t.toml:2: telemetry."), "{error}");
        }
        let config = parse("endpoint = \"https://me:hush@collector/otlp\"\nsample_ratio = 0.5");
        let debug_text = format!("{:?}", config.unwrap().telemetry);
        assert!(debug_text.contains("collector"), "{debug_text}");
        assert!(!debug_text.contains("hush"), "{debug_text}");
    }
}
