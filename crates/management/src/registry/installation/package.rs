//! Packages of npm and PyPI, which a package runner starts. An entry chooses neither the runner nor
//! arguments or environment variables that change what the runner runs.

use pillion_config::RegistrySection;
use pillion_gateway::client_text::truncate_input;

use super::{FieldCollector, InstallError, PlannedArgument, PlannedEndpoint, ValueTemplate};
use crate::registry::entry::{RegistryInput, RegistryPackage};

/// A package type that Pillion can run.
struct PackageType {
    registry_type: &'static str,
    /// The labels of the host of the registry from which the runner downloads.
    registry_host: &'static [&'static str],
    runner: &'static str,
    /// The arguments of the runner before the package.
    arguments: &'static [&'static str],
    is_name: fn(&str) -> bool,
}

static PACKAGE_TYPES: [PackageType; 2] = [
    PackageType {
        registry_type: "npm",
        registry_host: &["registry", "npmjs", "org"],
        runner: "npx",
        // Without `--yes`, npx waits for a confirmation on its standard input before it installs a
        // package.
        arguments: &["--yes"],
        is_name: is_npm_name,
    },
    PackageType {
        registry_type: "pypi",
        registry_host: &["pypi", "org"],
        runner: "uvx",
        arguments: &[],
        is_name: is_package_word,
    },
];

pub(super) fn plan_package(
    package: &RegistryPackage,
    section: &RegistrySection,
    collector: &mut FieldCollector,
) -> Result<PlannedEndpoint, InstallError> {
    let unsupported = |message: &str| Err(InstallError::Unsupported(message.to_owned()));
    let mut types = PACKAGE_TYPES.iter();
    let Some(package_type) = types.find(|kind| kind.registry_type == package.registry_type) else {
        return unsupported(
            "it runs only packages of npm and PyPI. Run the server yourself, and add its URL, or \
             add its command to the configuration file",
        );
    };
    let runner = package_type.runner;
    let command = section
        .allowed_command(runner)
        .ok_or(InstallError::RunnerNotAllowed { runner })?;
    let transport = package.transport.as_ref();
    if transport.is_some_and(|transport| transport.kind != "stdio") {
        return unsupported("the package does not use the transport stdio");
    }
    if package
        .runtime_hint
        .as_deref()
        .is_some_and(|hint| !hint.is_empty() && hint != runner)
    {
        return unsupported(&format!("the package needs another runner than '{runner}'"));
    }
    let base_url = package.registry_base_url.as_deref().unwrap_or_default();
    let registry_url = format!("https://{}", package_type.registry_host.join("."));
    if !base_url.is_empty() && base_url.trim_end_matches('/') != registry_url {
        return unsupported("the package is not in the public registry of its type");
    }
    // Arguments of the runner could make it run something else than the package.
    let is_known_argument = |argument: &RegistryInput| {
        let names = [&argument.name, &argument.value];
        let is_yes = |text: &str| matches!(text, "" | "-y" | "--yes");
        runner == "npx" && names.into_iter().flatten().all(|text| is_yes(text))
    };
    if !package.runtime_arguments.iter().all(is_known_argument) {
        return unsupported(&format!("the package needs arguments for '{runner}'"));
    }
    let version = package.version.as_deref().unwrap_or_default();
    if !(package_type.is_name)(&package.identifier) || !is_package_version(version) {
        return unsupported("the name or the version of the package is invalid");
    }
    let mut arguments = Vec::new();
    let mut add_word = |word: String| {
        arguments.push(PlannedArgument {
            option: None,
            value: Some(ValueTemplate::text(word)),
        });
    };
    for argument in package_type.arguments {
        add_word((*argument).to_owned());
    }
    add_word(format!("{}@{version}", package.identifier));
    for argument in &package.package_arguments {
        arguments.push(plan_argument(argument, collector)?);
    }
    let mut variables = Vec::new();
    for input in &package.environment_variables {
        let name = input.name.as_deref().unwrap_or_default();
        if !is_safe_variable(name) {
            let message = format!(
                "it sets the environment variable '{}'",
                truncate_input(name)
            );
            return Err(InstallError::Unsupported(message));
        }
        variables.push((name.to_owned(), collector.add_input(name, input)));
    }
    Ok(PlannedEndpoint::Command {
        command: command.to_owned(),
        arguments,
        variables,
    })
}

fn plan_argument(
    argument: &RegistryInput,
    collector: &mut FieldCollector,
) -> Result<PlannedArgument, InstallError> {
    let has_secret = argument.is_secret || argument.variables.values().any(|v| v.is_secret);
    if has_secret {
        // Other processes of the host can read the arguments of a program.
        let message = "the package takes a secret as an argument".to_owned();
        return Err(InstallError::Unsupported(message));
    }
    let option = match argument.kind.as_deref() {
        Some("named") => {
            let name = argument.name.as_deref().unwrap_or_default();
            if !name.starts_with('-') {
                let message = "an argument of the package has no name".to_owned();
                return Err(InstallError::Unsupported(message));
            }
            Some(name.to_owned())
        }
        _ => None,
    };
    let hint = argument.value_hint.as_deref();
    let label = option.as_deref().or(hint).unwrap_or("argument").to_owned();
    let value = match argument.value.as_deref() {
        // A named argument with an empty value is an option without a value.
        Some("") if option.is_some() => None,
        _ => Some(collector.add_input(&label, argument)),
    };
    Ok(PlannedArgument { option, value })
}

/// Returns whether a text is the name of an npm package, with or without a scope. A URL, a path, an
/// option or the name of a repository is none.
fn is_npm_name(text: &str) -> bool {
    match text.strip_prefix('@') {
        Some(scoped_name) => scoped_name
            .split_once('/')
            .is_some_and(|(scope, name)| is_package_word(scope) && is_package_word(name)),
        None => is_package_word(text),
    }
}

fn is_package_word(text: &str) -> bool {
    let is_valid = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-');
    text.len() <= 214
        && text.starts_with(|c: char| c.is_ascii_alphanumeric())
        && text.bytes().all(is_valid)
}

/// Returns whether a text is one version of a package, not a range or a tag.
fn is_package_version(text: &str) -> bool {
    let is_valid = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'+' | b'-');
    text.len() <= 100
        && text.starts_with(|c: char| c.is_ascii_digit())
        && text.bytes().all(is_valid)
}

/// Returns whether an entry may set an environment variable. Rejects variables that select the
/// programs and libraries that the runner loads, or that change the source or the checks of
/// downloads, so that the allowed runner runs the shown package.
fn is_safe_variable(name: &str) -> bool {
    const RESERVED_NAMES: [&str; 13] = [
        "PATH",
        "HOME",
        "ENV",
        "IFS",
        "SHELL",
        "CC",
        "CXX",
        "LDSHARED",
        "GCONV_PATH",
        "MAKEFLAGS",
        "CFLAGS",
        "CXXFLAGS",
        "LDFLAGS",
    ];
    const RESERVED_PREFIXES: [&str; 16] = [
        "LD_",
        "DYLD_",
        "BASH_",
        "NODE_",
        "NPM_CONFIG_",
        "UV_",
        "PIP_",
        "PYTHON",
        "XDG_",
        "GIT_",
        "SSL_",
        "OPENSSL_",
        "CARGO_",
        "RUST",
        "CMAKE_",
        "JAVA_",
    ];
    const RESERVED_SUFFIXES: [&str; 3] = ["_PROXY", "_CA_BUNDLE", "_OPTIONS"];
    let upper_case_name = name.to_ascii_uppercase();
    if upper_case_name == "NODE_ENV" {
        return true;
    }
    let is_valid = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && name.bytes().all(is_valid)
        && !RESERVED_NAMES.contains(&upper_case_name.as_str())
        && !RESERVED_PREFIXES
            .iter()
            .any(|prefix| upper_case_name.starts_with(prefix))
        && !RESERVED_SUFFIXES
            .iter()
            .any(|suffix| upper_case_name.ends_with(suffix))
}
