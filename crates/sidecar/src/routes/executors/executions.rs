use std::collections::HashMap;

use tokio::task::{AbortHandle, Id, JoinSet};

/// Maximum number of executions of one connection at a time; executions may nest.
pub(super) const MAX_EXECUTIONS: usize = 1_000;

/// Maximum number of calls in all executions of one connection at a time.
pub(super) const MAX_CALLS: usize = 10_000;

/// Maximum size of all running executions of a connection, as a multiple of the maximum message
/// size.
const MAX_MESSAGES: usize = 2;

/// Why an execution is rejected. None of its calls has run.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum ExecutionRejection {
    #[error("The id {0} is used by an execution that has not ended")]
    UsedId(u64),
    #[error("{MAX_EXECUTIONS} executions run on this connection, the maximum")]
    Count,
    #[error("The executions of a connection may have at most {MAX_CALLS} calls at a time")]
    Calls,
    #[error(
        "The executions of a connection may hold at most {max} bytes at a time \
         ({MAX_MESSAGES} times workers.max_message_bytes); each call counts with its context"
    )]
    Bytes { max: usize },
}

/// The resources that an execution holds until it ends.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct ExecutionSize {
    /// The number of calls.
    pub(super) calls: usize,
    /// The bytes of the message, and of the context for each call.
    pub(super) bytes: usize,
}

/// The executions of a connection that have not ended, limited in number and size. Dropping this
/// value cancels them.
#[derive(Debug)]
pub(super) struct Executions {
    tasks: JoinSet<()>,
    by_task: HashMap<Id, (u64, ExecutionSize)>,
    by_id: HashMap<u64, AbortHandle>,
    held: ExecutionSize,
    max_bytes: usize,
}

impl Executions {
    pub(super) fn new(max_message_bytes: usize) -> Self {
        Self {
            tasks: JoinSet::new(),
            by_task: HashMap::new(),
            by_id: HashMap::new(),
            held: ExecutionSize::default(),
            max_bytes: max_message_bytes.saturating_mul(MAX_MESSAGES),
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.tasks.is_empty()
    }

    /// Checks whether an execution may start.
    ///
    /// # Errors
    /// [`ExecutionRejection`]: the id is in use, or the execution exceeds a limit.
    pub(super) fn admit(&self, id: u64, size: ExecutionSize) -> Result<(), ExecutionRejection> {
        if self.by_id.contains_key(&id) {
            return Err(ExecutionRejection::UsedId(id));
        }
        if self.tasks.len() >= MAX_EXECUTIONS {
            return Err(ExecutionRejection::Count);
        }
        if self.held.calls.saturating_add(size.calls) > MAX_CALLS {
            return Err(ExecutionRejection::Calls);
        }
        let max = self.max_bytes;
        if self.held.bytes.saturating_add(size.bytes) > max {
            return Err(ExecutionRejection::Bytes { max });
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
        self.by_task.insert(task.id(), (id, size));
        self.by_id.insert(id, task);
        self.held.calls = self.held.calls.saturating_add(size.calls);
        self.held.bytes = self.held.bytes.saturating_add(size.bytes);
    }

    /// Cancels an execution. Its id stays in use until the execution has ended.
    pub(super) fn cancel(&self, id: u64) {
        if let Some(task) = self.by_id.get(&id) {
            task.abort();
        }
    }

    /// Waits for the end of any execution, and removes it. Returns `Err` with the execution's id if
    /// it panicked, because the request then has no response. Resolves to `None` if no execution
    /// runs. Cancel-safe.
    pub(super) async fn next_ended(&mut self) -> Option<Result<(), u64>> {
        let ended = self.tasks.join_next_with_id().await?;
        let task = match &ended {
            Ok((task, ())) => *task,
            Err(error) => error.id(),
        };
        let Some((id, size)) = self.by_task.remove(&task) else {
            return Some(Ok(()));
        };
        self.by_id.remove(&id);
        self.held.calls = self.held.calls.saturating_sub(size.calls);
        self.held.bytes = self.held.bytes.saturating_sub(size.bytes);
        Some(match ended {
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
        while let Some(ended) = executions.next_ended().await {
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
        let calls = Err(ExecutionRejection::Calls);
        let bytes = Err(ExecutionRejection::Bytes { max: 2_000 });
        assert_eq!(executions.admit(0, size(MAX_CALLS + 1, 1)), calls);
        assert_eq!(executions.admit(0, size(1, 2_001)), bytes);
        assert_eq!(executions.admit(0, size(1, usize::MAX)), bytes);
        for id in 0..MAX_EXECUTIONS as u64 {
            executions.admit(id, size(1, 1)).unwrap();
            executions.start(id, size(1, 1), std::future::pending());
        }
        let next = MAX_EXECUTIONS as u64;
        assert_eq!(
            executions.admit(next, size(1, 1)),
            Err(ExecutionRejection::Count)
        );
        // A cancelled execution counts toward the limits until it has ended.
        executions.cancel(7);
        assert_eq!(
            executions.admit(next, size(1, 1)),
            Err(ExecutionRejection::Count)
        );
        executions.next_ended().await.unwrap().unwrap();
        assert_eq!(executions.admit(next, size(MAX_CALLS - 998, 1)), calls);
        assert_eq!(executions.admit(next, size(1, 1_002)), bytes);
        executions
            .admit(next, size(MAX_CALLS - 999, 1_001))
            .unwrap();
        executions.shutdown().await;
    }
}
