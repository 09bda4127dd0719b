use std::collections::HashMap;

use tokio::task::{AbortHandle, Id, JoinSet};

/// Maximum number of executions of one connection at a time; executions may nest.
pub(super) const MAX_EXECUTIONS: usize = 1_000;

/// Maximum number of calls in all executions of one connection at a time.
pub(super) const MAX_CALLS: usize = 10_000;

/// Maximum size of all running executions of a connection, as a multiple of the maximum message
/// size.
const MAX_SIZE_FACTOR: usize = 2;

/// The reason why an execution is rejected. None of its calls has run.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum ExecutionRejection {
    #[error("The id {0} is used by an execution that has not ended")]
    UsedId(u64),
    #[error("The connection already runs {MAX_EXECUTIONS} executions, the maximum")]
    TooManyExecutions,
    #[error("The executions of a connection may have at most {MAX_CALLS} calls at a time")]
    TooManyCalls,
    #[error(
        "The executions of a connection may hold at most {max_bytes} bytes at a time \
         ({MAX_SIZE_FACTOR} times workers.max_message_bytes); each call counts with its context"
    )]
    TooManyBytes { max_bytes: usize },
}

/// The resources that an execution holds until it ends.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct ExecutionSize {
    /// The number of calls.
    pub(super) calls: usize,
    /// The size of the message plus one copy of the context per call, in bytes.
    pub(super) bytes: usize,
}

/// The executions of a connection that have not ended, limited in number and size. Dropping
/// `Executions` cancels the executions.
#[derive(Debug)]
pub(super) struct Executions {
    tasks: JoinSet<()>,
    executions_by_task: HashMap<Id, (u64, ExecutionSize)>,
    tasks_by_id: HashMap<u64, AbortHandle>,
    total_size: ExecutionSize,
    max_bytes: usize,
}

impl Executions {
    pub(super) fn new(max_message_bytes: usize) -> Self {
        Self {
            tasks: JoinSet::new(),
            executions_by_task: HashMap::new(),
            tasks_by_id: HashMap::new(),
            total_size: ExecutionSize::default(),
            max_bytes: max_message_bytes.saturating_mul(MAX_SIZE_FACTOR),
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.tasks.is_empty()
    }

    /// Checks whether an execution may start.
    ///
    /// # Errors
    /// [`ExecutionRejection`]: the ID is in use, or the execution exceeds a limit.
    pub(super) fn admit(&self, id: u64, size: ExecutionSize) -> Result<(), ExecutionRejection> {
        if self.tasks_by_id.contains_key(&id) {
            return Err(ExecutionRejection::UsedId(id));
        }
        if self.tasks.len() >= MAX_EXECUTIONS {
            return Err(ExecutionRejection::TooManyExecutions);
        }
        if self.total_size.calls.saturating_add(size.calls) > MAX_CALLS {
            return Err(ExecutionRejection::TooManyCalls);
        }
        let max_bytes = self.max_bytes;
        if self.total_size.bytes.saturating_add(size.bytes) > max_bytes {
            return Err(ExecutionRejection::TooManyBytes { max_bytes });
        }
        Ok(())
    }

    /// Starts an execution that [`admit`](Self::admit) has admitted.
    pub(super) fn start(
        &mut self,
        id: u64,
        size: ExecutionSize,
        execution: impl Future<Output = ()> + Send + 'static,
    ) {
        let task = self.tasks.spawn(execution);
        self.executions_by_task.insert(task.id(), (id, size));
        self.tasks_by_id.insert(id, task);
        self.total_size.calls = self.total_size.calls.saturating_add(size.calls);
        self.total_size.bytes = self.total_size.bytes.saturating_add(size.bytes);
    }

    /// Cancels an execution. Its ID stays in use until the execution has ended.
    pub(super) fn cancel(&self, id: u64) {
        if let Some(task) = self.tasks_by_id.get(&id) {
            task.abort();
        }
    }

    /// Waits for the end of any execution, and removes the execution. Returns `Err` with the ID of
    /// an execution that panicked, because its request then has no response. Resolves to `None` if
    /// no execution runs. Cancel-safe.
    pub(super) async fn join_next(&mut self) -> Option<Result<(), u64>> {
        let join_outcome = self.tasks.join_next_with_id().await?;
        let task_id = match &join_outcome {
            Ok((task_id, ())) => *task_id,
            Err(error) => error.id(),
        };
        let Some((id, size)) = self.executions_by_task.remove(&task_id) else {
            return Some(Ok(()));
        };
        self.tasks_by_id.remove(&id);
        self.total_size.calls = self.total_size.calls.saturating_sub(size.calls);
        self.total_size.bytes = self.total_size.bytes.saturating_sub(size.bytes);
        Some(match join_outcome {
            Err(error) if error.is_panic() => Err(id),
            Ok(_) | Err(_) => Ok(()),
        })
    }

    /// Cancels all executions, and waits until they have ended.
    pub(super) async fn shutdown(mut self) {
        self.tasks.shutdown().await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn size(calls: usize, bytes: usize) -> ExecutionSize {
        ExecutionSize { calls, bytes }
    }

    #[tokio::test]
    async fn an_id_is_used_once_until_its_execution_has_ended_however_it_ends() {
        let mut executions = Executions::new(1_000);
        let used = |id| Err(ExecutionRejection::UsedId(id));
        for (id, does_panic) in [(1, false), (2, true), (3, false)] {
            executions.admit(id, size(1, 10)).unwrap();
            executions.start(id, size(1, 10), async move {
                assert!(!does_panic, "an execution panics");
                if id == 3 {
                    std::future::pending::<()>().await;
                }
            });
            assert_eq!(executions.admit(id, size(0, 0)), used(id));
        }
        executions.cancel(3);
        executions.cancel(4);
        assert_eq!(executions.admit(3, size(0, 0)), used(3));
        let mut panicked = Vec::new();
        while let Some(ended) = executions.join_next().await {
            panicked.extend(ended.err());
        }
        assert_eq!(panicked, [2]);
        assert!(executions.is_empty());
        for id in 1..=3 {
            executions.admit(id, size(MAX_CALLS, 2_000)).unwrap();
        }
    }

    #[tokio::test]
    async fn executions_are_limited_in_number_calls_and_bytes() {
        let mut executions = Executions::new(1_000);
        let calls = Err(ExecutionRejection::TooManyCalls);
        let bytes = Err(ExecutionRejection::TooManyBytes { max_bytes: 2_000 });
        assert_eq!(executions.admit(0, size(MAX_CALLS + 1, 1)), calls);
        assert_eq!(executions.admit(0, size(1, 2_001)), bytes);
        assert_eq!(executions.admit(0, size(1, usize::MAX)), bytes);
        for id in 0..MAX_EXECUTIONS as u64 {
            executions.admit(id, size(1, 1)).unwrap();
            executions.start(id, size(1, 1), std::future::pending());
        }
        let next = MAX_EXECUTIONS as u64;
        let too_many = Err(ExecutionRejection::TooManyExecutions);
        assert_eq!(executions.admit(next, size(1, 1)), too_many);
        // A cancelled execution counts toward the limits until it has ended.
        executions.cancel(7);
        assert_eq!(executions.admit(next, size(1, 1)), too_many);
        executions.join_next().await.unwrap().unwrap();
        assert_eq!(executions.admit(next, size(MAX_CALLS - 998, 1)), calls);
        assert_eq!(executions.admit(next, size(1, 1_002)), bytes);
        let admission = executions.admit(next, size(MAX_CALLS - 999, 1_001));
        admission.unwrap();
        executions.shutdown().await;
    }
}
