//! Converts the remotes and packages of a registry's server to the definition of a server, with the
//! values that the user has entered.
//!
//! Publishers write the entries of a registry, so only a few forms are supported: `https` URLs, and
//! packages that a known runner starts, without arguments for the runner. Values are inserted
//! literally; no shell interprets them.

mod package;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::fmt;

use pillion_config::RegistrySection;
use pillion_core::digest::sha256_hex;
use pillion_core::truncated;
use pillion_egress::{EgressPolicy, is_localhost};
use pillion_gateway::client_text::truncate_input;
use serde_json::{Map, Value, json};
use url::Url;

use super::entry::{RegistryInput, RegistryRemote, RegistryServer};
use package::plan_package;

/// Maximum number of values that an installation needs.
const MAX_FIELDS: usize = 32;

/// Maximum size of the JSON of an installable remote or package, in bytes.
const MAX_METHOD_BYTES: usize = 8 * 1024;

/// Maximum length of the address and of the constant settings of a plan together, in bytes. The
/// page that installs a server shows both completely, so that the user sees all that is installed.
const MAX_SHOWN_BYTES: usize = 2_000;

/// Maximum length of the label of a field, in bytes.
const MAX_LABEL_BYTES: usize = 100;

/// Maximum length of a value, in bytes.
const MAX_VALUE_BYTES: usize = 8 * 1024;

/// Maximum length of a description of a server, in bytes.
const MAX_DESCRIPTION_BYTES: usize = 500;

/// The environment variables of the sidecar that a package inherits: the runner is looked up in
/// `PATH`, and has its cache in `HOME`.
const INHERITED_VARIABLES: [&str; 2] = ["PATH", "HOME"];

/// The remote or the package of a server that is installed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InstallMethod {
    /// The remote with this index.
    Remote(usize),
    /// The package with this index.
    Package(usize),
}

impl InstallMethod {
    /// Parses the text that [`Display`](fmt::Display) writes, such as `remote-0`.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let (kind, index) = text.split_once('-')?;
        let method = match kind {
            "remote" => Self::Remote,
            "package" => Self::Package,
            _ => return None,
        };
        index.parse().ok().map(method)
    }
}

impl fmt::Display for InstallMethod {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Remote(index) => write!(f, "remote-{index}"),
            Self::Package(index) => write!(f, "package-{index}"),
        }
    }
}

/// Why a server of the registry cannot be installed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InstallError {
    /// The configuration disables the registry.
    #[error("The registry is disabled (registry.enabled)")]
    Disabled,
    /// The registry has deleted the version of the server.
    #[error("The registry has deleted this version, for example because it is harmful")]
    Deleted,
    /// The server has no such remote or package.
    #[error("The server has no such remote or package")]
    UnknownMethod,
    /// The configuration does not allow the package runner.
    #[error(
        "Packages of this type run with '{runner}' on the sidecar's host, which \
         registry.allowed_commands in the configuration file does not contain"
    )]
    RunnerNotAllowed {
        /// The package runner.
        runner: &'static str,
    },
    /// Pillion cannot install the remote or package.
    #[error("Pillion cannot install this: {0}")]
    Unsupported(String),
    /// The URL is invalid or not allowed.
    #[error("The URL of the server is not allowed: {0}")]
    Url(String),
    /// A value is missing or invalid.
    #[error("{message}")]
    Value {
        /// The index of the value in [`InstallPlan::fields`].
        index: usize,
        /// The problem with the value.
        message: String,
    },
    /// The registry's entry differs from the entry that the user has seen.
    #[error("The entry of the registry has changed since you opened the page: check it again")]
    Changed,
}

/// A value that the user enters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InstallField {
    /// The name of the header, environment variable, argument or variable.
    pub label: String,
    /// The publisher's description.
    pub description: Option<String>,
    /// Whether the value must not be empty.
    pub is_required: bool,
    /// Whether the value is a secret.
    pub is_secret: bool,
    /// The value that the publisher suggests.
    pub default: Option<String>,
    /// The values of which the user must choose one; empty if every value is allowed.
    pub choices: Vec<String>,
}

/// How a remote or a package is installed: the values that the user enters, and the definition of
/// the server, with placeholders for these values.
#[derive(Debug, Clone)]
pub struct InstallPlan {
    fields: Vec<InstallField>,
    endpoint: PlannedEndpoint,
    description: String,
    digest: String,
}

#[derive(Debug, Clone)]
enum PlannedEndpoint {
    Url {
        url: ValueTemplate,
        transport: &'static str,
        headers: Vec<(String, ValueTemplate)>,
    },
    Command {
        command: String,
        arguments: Vec<PlannedArgument>,
        variables: Vec<(String, ValueTemplate)>,
    },
}

/// An argument of a command, omitted if a placeholder of its value has no value.
#[derive(Debug, Clone)]
struct PlannedArgument {
    /// The option before the value, such as `--port`.
    option: Option<String>,
    value: Option<ValueTemplate>,
}

/// A text with placeholders.
#[derive(Debug, Clone)]
struct ValueTemplate(Vec<TemplatePart>);

#[derive(Debug, Clone)]
enum TemplatePart {
    Text(String),
    /// The value of the field with this index.
    Field(usize),
}

impl ValueTemplate {
    fn text(text: impl Into<String>) -> Self {
        Self(vec![TemplatePart::Text(text.into())])
    }

    fn has_fields(&self) -> bool {
        let is_field = |part: &TemplatePart| matches!(part, TemplatePart::Field(_));
        self.0.iter().any(is_field)
    }

    /// Returns the text with the values; `None` if the value of a placeholder is missing.
    fn fill(&self, values: &[Option<String>]) -> Option<String> {
        let mut text = String::new();
        for part in &self.0 {
            match part {
                TemplatePart::Text(part) => text.push_str(part),
                TemplatePart::Field(index) => text.push_str(values.get(*index)?.as_deref()?),
            }
        }
        Some(text)
    }

    /// Returns the text for display, with the labels of the fields in braces.
    fn display(&self, fields: &[InstallField]) -> String {
        let display_part = |part: &TemplatePart| match part {
            TemplatePart::Text(text) => text.clone(),
            TemplatePart::Field(index) => {
                let label = fields.get(*index).map(|field| field.label.as_str());
                format!("{{{}}}", label.unwrap_or_default())
            }
        };
        self.0.iter().map(display_part).collect()
    }
}

/// Collects the fields of a plan.
#[derive(Default)]
struct FieldCollector {
    fields: Vec<InstallField>,
}

impl FieldCollector {
    fn add(&mut self, label: &str, input: &RegistryInput, is_required: bool) -> TemplatePart {
        if let Some(value) = &input.value {
            return TemplatePart::Text(value.clone());
        }
        self.fields.push(InstallField {
            label: truncated(label, MAX_LABEL_BYTES).to_owned(),
            description: input.description.clone(),
            is_required,
            is_secret: input.is_secret,
            default: input.default.clone(),
            choices: input.choices.clone(),
        });
        TemplatePart::Field(self.fields.len() - 1)
    }

    /// Returns the template of a header, environment variable or argument. `name` is its name.
    fn add_input(&mut self, name: &str, input: &RegistryInput) -> ValueTemplate {
        match &input.value {
            Some(text) => {
                let is_secret = input.is_secret;
                self.add_template(text, &input.variables, is_secret, input.is_required, name)
            }
            None => ValueTemplate(vec![self.add(name, input, input.is_required)]),
        }
    }

    /// Returns the template of a text whose variables are in braces. Names in braces that are no
    /// variables stay unchanged. `owner` is `URL`, or the name of the setting that has the text.
    fn add_template(
        &mut self,
        text: &str,
        variables: &BTreeMap<String, RegistryInput>,
        is_secret: bool,
        is_required: bool,
        owner: &str,
    ) -> ValueTemplate {
        let mut parts = Vec::new();
        let mut indexes: BTreeMap<&str, TemplatePart> = BTreeMap::new();
        let mut rest = text;
        while let Some(start) = rest.find('{') {
            let end = rest[start..].find('}').map(|length| start + length);
            let variable = end.and_then(|end| variables.get_key_value(&rest[start + 1..end]));
            if let (Some(end), Some((name, input))) = (end, variable) {
                parts.push(TemplatePart::Text(rest[..start].to_owned()));
                let part = indexes.entry(name).or_insert_with(|| {
                    let label = format!("{name} ({owner})");
                    let variable = RegistryInput {
                        is_secret: is_secret || input.is_secret,
                        ..input.clone()
                    };
                    self.add(&label, &variable, is_required || input.is_required)
                });
                parts.push(part.clone());
                rest = &rest[end + 1..];
            } else {
                parts.push(TemplatePart::Text(rest[..=start].to_owned()));
                rest = &rest[start + 1..];
            }
        }
        parts.push(TemplatePart::Text(rest.to_owned()));
        ValueTemplate(parts)
    }
}

impl InstallPlan {
    /// Plans the installation of a server's remote or package. `policy` decides which URLs the
    /// registry may name.
    ///
    /// # Errors
    /// [`InstallError::UnknownMethod`] if the server has no such remote or package;
    /// [`InstallError::RunnerNotAllowed`] if the configuration does not allow the package's runner;
    /// [`InstallError::Unsupported`] if Pillion cannot install it; [`InstallError::Url`] if the URL
    /// is not allowed; [`InstallError::Disabled`] if the configuration disables the registry.
    pub fn new(
        server: &RegistryServer,
        method: InstallMethod,
        section: &RegistrySection,
        policy: &EgressPolicy,
    ) -> Result<Self, InstallError> {
        if !section.enabled {
            return Err(InstallError::Disabled);
        }
        let mut collector = FieldCollector::default();
        let (endpoint, json) = match method {
            InstallMethod::Remote(index) => {
                let remotes = &server.remotes;
                let remote = remotes.get(index).ok_or(InstallError::UnknownMethod)?;
                (plan_remote(remote, &mut collector)?, to_json(remote))
            }
            InstallMethod::Package(index) => {
                let packages = &server.packages;
                let package = packages.get(index).ok_or(InstallError::UnknownMethod)?;
                let endpoint = plan_package(package, section, &mut collector)?;
                (endpoint, to_json(package))
            }
        };
        let fields = collector.fields;
        if fields.len() > MAX_FIELDS || json.len() > MAX_METHOD_BYTES {
            let message = format!(
                "it has more than {MAX_FIELDS} variables, or its entry is larger than \
                 {MAX_METHOD_BYTES} bytes"
            );
            return Err(InstallError::Unsupported(message));
        }
        if let PlannedEndpoint::Url { url, .. } = &endpoint
            && !url.has_fields()
        {
            check_url(&url.display(&fields), policy)?;
        }
        let description = truncated(&server.description, MAX_DESCRIPTION_BYTES);
        let (name, version) = (&server.name, &server.version);
        let installed = format!("{name} {version}\n{json}\n{description}");
        let plan = Self {
            fields,
            endpoint,
            description: description.to_owned(),
            digest: sha256_hex(&installed),
        };
        let to_len = |(name, value): (&str, String)| name.len() + value.len();
        let constant_bytes: usize = plan.constants().into_iter().map(to_len).sum();
        if plan.address().len() + constant_bytes > MAX_SHOWN_BYTES {
            let message = format!(
                "its URL, or its command, with its constant values is longer than \
                 {MAX_SHOWN_BYTES} bytes"
            );
            return Err(InstallError::Unsupported(message));
        }
        Ok(plan)
    }

    /// Returns the description of the new server.
    #[must_use]
    pub fn description(&self) -> &str {
        &self.description
    }

    /// Returns the values that the user enters.
    #[must_use]
    pub fn fields(&self) -> &[InstallField] {
        &self.fields
    }

    /// Returns the digest of the registry's entry. A form repeats the digest, so that nothing is
    /// installed that the user has not seen.
    #[must_use]
    pub fn digest(&self) -> &str {
        &self.digest
    }

    /// Returns whether the sidecar starts a program for this server.
    #[must_use]
    pub fn is_program(&self) -> bool {
        matches!(self.endpoint, PlannedEndpoint::Command { .. })
    }

    /// Returns the URL, or the program with its arguments, with the names of variables in braces.
    #[must_use]
    pub fn address(&self) -> String {
        match &self.endpoint {
            PlannedEndpoint::Url { url, .. } => url.display(&self.fields),
            PlannedEndpoint::Command {
                command, arguments, ..
            } => {
                let mut words = vec![command.clone()];
                for argument in arguments {
                    words.extend(argument.option.clone());
                    let value = argument.value.as_ref();
                    words.extend(value.map(|value| value.display(&self.fields)));
                }
                words.join(" ")
            }
        }
    }

    /// Returns the headers or environment variables that have constant values.
    #[must_use]
    pub fn constants(&self) -> Vec<(&str, String)> {
        let settings = match &self.endpoint {
            PlannedEndpoint::Url { headers, .. } => headers,
            PlannedEndpoint::Command { variables, .. } => variables,
        };
        settings
            .iter()
            .filter(|(_, value)| !value.has_fields())
            .map(|(name, value)| (name.as_str(), value.display(&self.fields)))
            .collect()
    }

    /// Returns the members of a new server with the name `name`: disabled, and with pinned tools,
    /// so that no model can use the server before an operator has looked at its tools. `values` are
    /// the values of the fields, in order.
    ///
    /// # Errors
    /// [`InstallError::Value`] if a value is missing or invalid; [`InstallError::Url`] if the URL
    /// is not allowed.
    pub fn server_members(
        &self,
        name: &str,
        values: &[String],
        policy: &EgressPolicy,
    ) -> Result<Map<String, Value>, InstallError> {
        let checked_values = self.check_values(values)?;
        let to_object = |settings: &[(String, ValueTemplate)]| {
            let filled = settings.iter().filter_map(|(name, value)| {
                let text = value.fill(&checked_values)?;
                Some((name.clone(), Value::String(text)))
            });
            Value::Object(filled.collect())
        };
        let mut members = match &self.endpoint {
            PlannedEndpoint::Url {
                url,
                transport,
                headers,
            } => {
                let filled_url = url.fill(&checked_values).unwrap_or_default();
                check_url(&filled_url, policy)?;
                object([
                    ("url", json!(filled_url)),
                    ("transport", json!(transport)),
                    ("headers", to_object(headers)),
                ])
            }
            PlannedEndpoint::Command {
                command,
                arguments,
                variables,
            } => {
                let mut words = Vec::new();
                for argument in arguments {
                    let value = argument
                        .value
                        .as_ref()
                        .map(|value| value.fill(&checked_values));
                    if value != Some(None) {
                        words.extend(argument.option.clone());
                        words.extend(value.flatten());
                    }
                }
                object([
                    ("command", json!(command)),
                    ("args", json!(words)),
                    ("env", to_object(variables)),
                    ("inheritEnv", json!(INHERITED_VARIABLES)),
                ])
            }
        };
        members.extend(object([
            ("name", json!(name)),
            ("description", json!(self.description)),
            ("enabled", json!(false)),
            ("pin", json!("block")),
            ("newTools", json!("block")),
        ]));
        Ok(members)
    }

    /// Returns the value of each field; `None` for an empty value.
    fn check_values(&self, values: &[String]) -> Result<Vec<Option<String>>, InstallError> {
        let check = |(index, field): (usize, &InstallField)| {
            let value = values.get(index).map(String::as_str).unwrap_or_default();
            let error = |message: &str| InstallError::Value {
                index,
                message: message.to_owned(),
            };
            if value.is_empty() {
                return match field.is_required {
                    true => Err(error("A value is required")),
                    false => Ok(None),
                };
            }
            if value.len() > MAX_VALUE_BYTES {
                return Err(error("The value is too long"));
            }
            if value.chars().any(char::is_control) {
                return Err(error("The value must not contain control characters"));
            }
            if !field.choices.is_empty() && !field.choices.iter().any(|choice| choice == value) {
                return Err(error("The value is none of the allowed values"));
            }
            Ok(Some(value.to_owned()))
        };
        self.fields.iter().enumerate().map(check).collect()
    }
}

fn plan_remote(
    remote: &RegistryRemote,
    collector: &mut FieldCollector,
) -> Result<PlannedEndpoint, InstallError> {
    let transport = match remote.kind.as_str() {
        "streamable-http" => "streamable_http",
        "sse" => "legacy_sse",
        other => {
            let message = format!("unknown transport '{}'", truncate_input(other));
            return Err(InstallError::Unsupported(message));
        }
    };
    if remote.variables.values().any(|variable| variable.is_secret) {
        // The store does not encrypt the URLs of servers.
        let message = "its URL contains a secret".to_owned();
        return Err(InstallError::Unsupported(message));
    }
    let url = collector.add_template(&remote.url, &remote.variables, false, true, "URL");
    // Other characters are removed or replaced in the URL to which requests are sent, so that the
    // shown URL could seem to lead to another host.
    let is_plain = |byte: u8| byte.is_ascii_graphic() && !matches!(byte, b'{' | b'\\');
    let is_literal = |part: &TemplatePart| match part {
        TemplatePart::Text(text) => text.bytes().all(is_plain),
        TemplatePart::Field(_) => true,
    };
    if !url.0.iter().all(is_literal) {
        let message = "the URL has a variable that the entry does not describe, or a character \
                       that a URL must not contain";
        return Err(InstallError::Unsupported(message.to_owned()));
    }
    let mut headers = Vec::new();
    for input in &remote.headers {
        let name = input.name.as_deref().unwrap_or_default();
        // A header `Host` could make a proxy on this machine send the requests elsewhere.
        if name.eq_ignore_ascii_case("host") {
            let message = "it sets the header 'Host'".to_owned();
            return Err(InstallError::Unsupported(message));
        }
        headers.push((name.to_owned(), collector.add_input(name, input)));
    }
    Ok(PlannedEndpoint::Url {
        url,
        transport,
        headers,
    })
}

/// Checks that the registry may name a URL.
fn check_url(text: &str, policy: &EgressPolicy) -> Result<(), InstallError> {
    let url = Url::parse(text).map_err(|error| InstallError::Url(error.to_string()))?;
    // The policy checks the addresses of a host name only when a request is sent.
    if !policy.allow_loopback && url.domain().is_some_and(is_localhost) {
        let message = "a registry on another host cannot name a server on this machine";
        return Err(InstallError::Url(message.to_owned()));
    }
    policy
        .check_url(&url)
        .map_err(|error| InstallError::Url(error.to_string()))
}

fn to_json(value: &impl serde::Serialize) -> String {
    serde_json::to_string(value).unwrap_or_default()
}

fn object<const N: usize>(members: [(&str, Value); N]) -> Map<String, Value> {
    members
        .into_iter()
        .map(|(name, value)| (name.to_owned(), value))
        .collect()
}
