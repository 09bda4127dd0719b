//! Diagnoses the connection with an MCP server: examines each stage of the connection separately,
//! and explains what a failure means and what helps.
//!
//! The first failure ends a diagnosis. A diagnosis takes at most [`MAX_DURATION`] and the time for
//! ending the session.

mod advice;
mod network;
mod program;
mod report;
mod session;
mod tools;

use std::sync::Arc;
use std::time::Duration;

use pillion_config::{CredentialPolicy, McpServerSection};
use pillion_egress::EgressError;
use pillion_gateway::access::AccessGrant;
use pillion_mcp_client::{Authentication, Endpoint, ServerConfig, ServerConfigError};

use super::definition::authentication_type;
use super::{Result, Server, ServerError, Servers};
pub use report::{Diagnosis, DiagnosisStep, StepKind, StepOutcome};
use report::{Finding, Recorder};

/// Maximum number of concurrent diagnoses, each of which may start a program.
pub(super) const MAX_DIAGNOSES: usize = 4;

/// Maximum duration of all steps of a diagnosis.
const MAX_DURATION: Duration = Duration::from_secs(20);

/// Maximum time for reading the settings and the credentials of a server.
const SETTINGS_TIMEOUT: Duration = Duration::from_secs(5);

/// A server to examine.
struct Target {
    section: McpServerSection,
    /// The configuration for the MCP client, with the credential of the user if calls use it.
    config: ServerConfig,
}

impl Server {
    fn is_program(&self) -> bool {
        match self {
            Self::FromFile(section) => section.server.url().is_none(),
            Self::FromStore(catalog_server, _) => catalog_server
                .definition
                .as_ref()
                .is_some_and(|definition| definition.is_program()),
        }
    }

    /// Returns why models do not see the tools of the server, and what helps; `None` if the server
    /// is in use.
    fn find_obstacle(&self) -> Option<String> {
        let is_enabled = match self {
            Self::FromFile(section) => section.settings.enabled,
            Self::FromStore(catalog_server, _) => catalog_server.record.enabled,
        };
        match self {
            _ if !is_enabled => Some(
                "The server is disabled, so models do not see its tools: enable the server to use \
                 it."
                .to_owned(),
            ),
            Self::FromStore(_, Some(problem)) => {
                Some(format!("The server is not in use: {problem}."))
            }
            _ => None,
        }
    }
}

impl Servers {
    /// Examines the connection with the server with this ID or name. Uses the credential of `user`
    /// if calls of `user` use it and the caller may act on behalf of `user`.
    ///
    /// Starts the server's program only if [`test_existing`](Self::test_existing) would start it.
    ///
    /// # Errors
    /// [`ServerError::NotFound`] if there is no such server; [`ServerError::TooManyDiagnoses`] if
    /// too many diagnoses are running. A failed step is not an error.
    pub async fn diagnose(
        &self,
        grant: &AccessGrant,
        key: &str,
        user: Option<&str>,
    ) -> Result<Diagnosis> {
        let server = self.find(key)?;
        let permit = self.diagnosis_permits.try_acquire();
        let _permit = permit.map_err(|_| ServerError::TooManyDiagnoses)?;
        let acting_user = user.filter(|user| grant.may_act_for(user));
        let plan: &[StepKind] = if server.is_program() {
            &StepKind::OF_PROGRAM
        } else {
            &StepKind::OF_URL
        };
        let mut recorder = Recorder::new(plan, MAX_DURATION);
        // The future is boxed, because it is large.
        Box::pin(self.run_steps(&mut recorder, server, acting_user)).await;
        Ok(recorder.finish())
    }

    /// Runs the steps until one fails. Returns `None` after a failed step.
    async fn run_steps(
        &self,
        recorder: &mut Recorder,
        server: Server,
        user: Option<&str>,
    ) -> Option<()> {
        let loading = Box::pin(self.load_target(server, user));
        let loaded = recorder.run(StepKind::Configuration, SETTINGS_TIMEOUT, loading);
        let target = match loaded.await? {
            Ok(target) => target,
            Err(error) => {
                let finding = Finding::new(error.to_string()).with_advice(advice::EGRESS);
                recorder.record_failure(StepKind::EgressPolicy, None, finding);
                return None;
            }
        };
        match &target.config.endpoint {
            Endpoint::Url(url) => {
                Box::pin(network::examine_url(recorder, &target.config.egress, url)).await?;
            }
            Endpoint::Command(command) => program::examine_program(recorder, command).await?,
            _ => {}
        }
        let gateway = self.gateway();
        let registry = gateway.map(|gateway| Arc::clone(gateway.registry()));
        Box::pin(session::examine_session(recorder, &target, registry)).await
    }

    /// Reads the settings of a server and the credential that calls of `user` use. The target is an
    /// error if the egress policy forbids the server's URL.
    async fn load_target(
        &self,
        server: Server,
        user: Option<&str>,
    ) -> Result<(Result<Target, EgressError>, Finding), Finding> {
        let id = server.id();
        let obstacle = server.find_obstacle();
        let loaded_section = self.load_for_test(server).await.and_then(|section| {
            section.server.validate()?;
            Ok(section)
        });
        let section = match loaded_section {
            Ok(section) => section,
            Err(ServerError::Config(ServerConfigError::Egress(error))) => {
                let finding = Finding::new("The egress policy forbids the server's URL.");
                return Ok((Err(error), finding));
            }
            Err(error) => {
                let advice = advice::for_settings(&error);
                return Err(Finding::new(error.to_string()).with_advice(advice));
            }
        };
        let policy = section.settings.credential;
        let credential_user = user.filter(|_| policy.uses_user_credentials());
        let user_config = match credential_user {
            Some(user) => {
                let credentials = &self.user_credentials;
                let config = credentials.config_of_user(&id, &section.server, user).await;
                config.map_err(|error| {
                    Finding::new(error.to_string()).with_advice(advice::CREDENTIAL_UNREADABLE)
                })?
            }
            None => None,
        };
        let has_credential_for_lists = !matches!(
            section.server.authentication,
            Authentication::None | Authentication::OAuth(_)
        );
        if policy == CredentialPolicy::PerUser && user_config.is_none() && !has_credential_for_lists
        {
            return Err(missing_credential(user));
        }
        let detail = match (&user_config, credential_user) {
            (Some(config), Some(user)) => {
                let kind = authentication_type(&config.authentication);
                format!("Requests carry the credential of '{user}' (type {kind}).")
            }
            _ => describe_shared_credential(&section.server),
        };
        let config = user_config.unwrap_or_else(|| section.server.clone());
        let finding = Finding::new(detail).with_optional_advice(obstacle);
        Ok((Ok(Target { section, config }), finding))
    }
}

/// Returns the finding for a server that needs a credential of each user.
fn missing_credential(user: Option<&str>) -> Finding {
    match user {
        Some(user) => Finding::new(format!(
            "The server needs a credential of each user, and '{user}' has none for the server's \
             address."
        ))
        .with_advice(
            "Set your credential on the page of the server, or with `pillion servers credentials \
             set`.",
        ),
        None => Finding::new(
            "The server needs a credential of each user, and this sign-in acts for no user.",
        )
        .with_advice("Sign in as a user, for example with `pillion console --user NAME`."),
    }
}

fn describe_shared_credential(server: &ServerConfig) -> String {
    match (&server.endpoint, &server.authentication) {
        (Endpoint::Command(_), _) => "The server is a program.".to_owned(),
        (_, Authentication::None) if server.headers.is_empty() => {
            "Requests carry no credential.".to_owned()
        }
        (_, Authentication::None) => "Requests carry the configured headers.".to_owned(),
        (_, authentication) => {
            let kind = authentication_type(authentication);
            format!("Requests carry the shared credential of the server (type {kind}).")
        }
    }
}
