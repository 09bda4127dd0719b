//! Provider keys returned by PHP code: the callable runs on the PHP thread for each request.

use async_trait::async_trait;
use ext_php_rs::types::Zval;
use pillion_chat::{KeySource, ModelError, ModelErrorKind};
use pillion_core::tool::ToolFailure;
use secrecy::SecretString;

use super::job::{ChatJob, current_job_sender};
use crate::exception::{self, Caught};
use crate::wait::Job;
use crate::zend::{call_callable, type_name};

/// Requests the key from the PHP thread of the chat.
pub(super) struct PhpKeySource;

#[async_trait]
impl KeySource for PhpKeySource {
    async fn key(&self) -> Result<Option<SecretString>, ModelError> {
        let unauthorized = |message: String| ModelError::new(ModelErrorKind::Unauthorized, message);
        let jobs = current_job_sender().ok_or_else(|| {
            unauthorized("No PHP thread is available to return the key".to_owned())
        })?;
        let (job, response) = Job::new(());
        jobs(ChatJob::Key(job));
        match response.await {
            Ok(Ok(key)) => Ok(Some(key)),
            Ok(Err(failure)) => Err(unauthorized(format!(
                "The callable 'api_key' failed: {}",
                failure.message
            ))),
            Err(_) => Err(ModelError::new(
                ModelErrorKind::Cancelled,
                "The request for the key was cancelled",
            )),
        }
    }
}

/// Calls the callable that returns the provider's key. An exception from the callable fails the
/// request to the provider.
///
/// # Errors
/// A failure that must end the PHP request.
pub(super) fn call_key_callable(callable: &Zval) -> Caught<SecretString> {
    if callable.is_null() {
        return Ok(Err(ToolFailure::internal("no callable is set")));
    }
    exception::catch(call_callable(callable, []).map(|key| match key.str() {
        Some(key) => Ok(SecretString::from(key.to_owned())),
        None => Err(ToolFailure::internal(format!(
            "it must return a string, not {}",
            type_name(&key)
        ))),
    }))
}
