//! Requests a provider's API key from a PHP callable, which runs on the PHP thread before each
//! request to the provider.

use async_trait::async_trait;
use ext_php_rs::types::Zval;
use pillion_chat::{KeySource, ModelError, ModelErrorKind};
use pillion_core::tool::ToolFailure;
use secrecy::SecretString;

use super::job::{ChatJob, current_job_sender};
use crate::exception::{self, PhpOutcome};
use crate::wait::Job;
use crate::zend::{call_callable, type_name};

/// Requests the provider's API key from the PHP thread of the chat.
pub(super) struct PhpKeySource;

#[async_trait]
impl KeySource for PhpKeySource {
    async fn key(&self) -> Result<Option<SecretString>, ModelError> {
        let unauthorized_error =
            |message: String| ModelError::new(ModelErrorKind::Unauthorized, message);
        let job_sender = current_job_sender().ok_or_else(|| {
            unauthorized_error(
                "No PHP thread is available to return the provider's API key".to_owned(),
            )
        })?;
        let (job, response) = Job::new(());
        job_sender(ChatJob::Key(job));
        match response.await {
            Ok(Ok(key)) => Ok(Some(key)),
            Ok(Err(failure)) => Err(unauthorized_error(format!(
                "The callable 'api_key' failed: {}",
                failure.message
            ))),
            Err(_) => Err(ModelError::new(
                ModelErrorKind::Cancelled,
                "The request for the provider's API key was cancelled",
            )),
        }
    }
}

/// Calls the callable that returns the provider's API key. An exception from the callable fails the
/// request to the provider.
///
/// # Errors
/// A failure that must end the PHP request, such as a fatal error or `exit()` in the callable.
pub(super) fn call_key_callable(callable: &Zval) -> PhpOutcome<SecretString> {
    if callable.is_null() {
        return Ok(Err(ToolFailure::internal(
            "the option 'api_key' must be a callable that returns the key",
        )));
    }
    exception::catch_exception(call_callable(callable, []).map(|key| match key.str() {
        Some(key) => Ok(SecretString::from(key.to_owned())),
        None => Err(ToolFailure::internal(format!(
            "the callable must return a string, not {}",
            type_name(&key)
        ))),
    }))
}
