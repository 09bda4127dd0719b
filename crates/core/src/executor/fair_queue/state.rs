use std::collections::{HashMap, VecDeque};

use tokio::sync::oneshot;

use super::{QueueFull, QueueLimits, QueuePermit, ToolSource};
use crate::executor::QuotaAccount;
use crate::registry::RegisteredTool;
use crate::tool::ToolName;

/// The running and the queued calls.
#[derive(Debug)]
pub(super) struct State {
    pub(super) bounds: QueueLimits,
    pub(super) running_count: usize,
    /// Number of running calls by source. Sources without running calls are absent.
    running_by_source: HashMap<ToolSource, usize>,
    /// Number of running calls by tool, for tools with their own limit. Tools without running calls
    /// are absent.
    running_by_tool: HashMap<ToolName, usize>,
    /// Number of running calls by account, if accounts have a limit. Accounts without running calls
    /// are absent.
    running_by_account: HashMap<QuotaAccount, usize>,
    pub(super) queued_count: usize,
    /// Number of queued calls by account. Accounts without queued calls are absent.
    queued_by_account: HashMap<QuotaAccount, usize>,
    /// The sources with queued calls, in the order of their turns.
    sources: VecDeque<(ToolSource, SourceQueue)>,
    next_id: u64,
}

/// The queued calls of one source. Accounts take turns.
#[derive(Debug, Default)]
struct SourceQueue {
    /// Queued calls by account, oldest first; never empty.
    waiters_by_account: HashMap<QuotaAccount, VecDeque<Waiter>>,
    /// The accounts with queued calls, in the order of their turns.
    turns: VecDeque<QuotaAccount>,
    queued_count: usize,
}

#[derive(Debug)]
pub(super) struct Waiter {
    id: u64,
    tool: ToolName,
    pub(super) sender: oneshot::Sender<Result<QueuePermit, QueueFull>>,
}

/// The counters that a running call increments.
#[derive(Debug)]
pub(super) struct CountedCall {
    source: ToolSource,
    /// The tool, if the tool has its own limit.
    tool: Option<ToolName>,
    /// The account, if accounts have a limit.
    account: Option<QuotaAccount>,
}

/// The source, tool and account for which a call requests a permit.
#[derive(Debug, Clone)]
pub(in crate::executor) struct PermitRequest {
    pub(super) source: ToolSource,
    pub(super) tool: ToolName,
    pub(super) account: QuotaAccount,
}

impl PermitRequest {
    /// Returns the permit request of a call. The permit counts for the source of the called tool.
    pub(in crate::executor) fn for_call(tool: &RegisteredTool, account: QuotaAccount) -> Self {
        Self {
            source: ToolSource::from(tool.origin()),
            tool: tool.name().clone(),
            account,
        }
    }

    /// Returns the permit request for work of this process that precedes the run of a tool, such as
    /// a check of arguments.
    pub(in crate::executor) fn for_local(tool: &RegisteredTool, account: QuotaAccount) -> Self {
        Self {
            source: ToolSource::Local,
            ..Self::for_call(tool, account)
        }
    }
}

impl State {
    pub(super) fn new(bounds: QueueLimits) -> Self {
        Self {
            bounds,
            running_count: 0,
            running_by_source: HashMap::new(),
            running_by_tool: HashMap::new(),
            running_by_account: HashMap::new(),
            queued_count: 0,
            queued_by_account: HashMap::new(),
            sources: VecDeque::new(),
            next_id: 0,
        }
    }

    /// Returns whether a permit is free for this call.
    pub(super) fn may_run(&self, request: &PermitRequest) -> bool {
        self.has_source_permit(&request.source) && self.has_permit(&request.tool, &request.account)
    }

    fn has_source_permit(&self, source: &ToolSource) -> bool {
        let count_running = |source: &ToolSource| count_of(&self.running_by_source, source);
        let running_of_servers = || self.running_count - count_running(&ToolSource::Local);
        self.running_count < self.bounds.max_running
            && count_running(source) < self.bounds.max_of_source(source)
            && (*source == ToolSource::Local
                || running_of_servers() < self.bounds.max_of_all_servers())
    }

    /// Returns whether the limits of the tool and of the account allow one more call.
    fn has_permit(&self, tool: &ToolName, account: &QuotaAccount) -> bool {
        let running_by_tool = || count_of(&self.running_by_tool, tool);
        let running_by_account = || count_of(&self.running_by_account, account);
        let max_of_tool = self.bounds.max_of_tool(tool);
        let max_per_account = self.bounds.max_per_account;
        max_of_tool.is_none_or(|max| running_by_tool() < max)
            && (max_per_account >= self.bounds.max_running
                || running_by_account() < max_per_account)
    }

    /// Counts a call as running.
    pub(super) fn count(&mut self, request: PermitRequest) -> Box<CountedCall> {
        self.running_count += 1;
        increment(&mut self.running_by_source, request.source.clone());
        let tool = self.bounds.max_of_tool(&request.tool).map(|_| request.tool);
        if let Some(tool) = &tool {
            increment(&mut self.running_by_tool, tool.clone());
        }
        let account =
            (self.bounds.max_per_account < self.bounds.max_running).then_some(request.account);
        if let Some(account) = &account {
            increment(&mut self.running_by_account, account.clone());
        }
        Box::new(CountedCall {
            source: request.source,
            tool,
            account,
        })
    }

    /// Removes a finished call from the counts.
    pub(super) fn uncount(&mut self, counted_call: &CountedCall) {
        self.running_count -= 1;
        decrement(&mut self.running_by_source, &counted_call.source);
        if let Some(tool) = &counted_call.tool {
            decrement(&mut self.running_by_tool, tool);
        }
        if let Some(account) = &counted_call.account {
            decrement(&mut self.running_by_account, account);
        }
    }

    /// Queues a call and returns its ID.
    pub(super) fn enqueue(
        &mut self,
        request: PermitRequest,
        sender: oneshot::Sender<Result<QueuePermit, QueueFull>>,
    ) -> u64 {
        let id = self.next_id;
        self.next_id += 1;
        self.queued_count += 1;
        increment(&mut self.queued_by_account, request.account.clone());
        let position = self.position_of(&request.source);
        let index = position.unwrap_or_else(|| {
            let queue = SourceQueue::default();
            self.sources.push_back((request.source, queue));
            self.sources.len() - 1
        });
        let waiter = Waiter {
            id,
            tool: request.tool,
            sender,
        };
        if let Some((_, queue)) = self.sources.get_mut(index) {
            queue.push(request.account, waiter);
        }
        id
    }

    /// Removes and returns the queued calls for which permits are free.
    pub(super) fn take_runnable_calls(&mut self) -> Vec<(Waiter, Box<CountedCall>)> {
        let mut picked_calls = Vec::new();
        while let Some(picked_call) = self.pick() {
            picked_calls.push(picked_call);
        }
        picked_calls
    }

    /// Removes and returns the call that runs next. Prefers the source with the fewest running
    /// calls; sources with equally many running calls take turns. Within a source, accounts take
    /// turns, and each account's oldest call runs first. Skips calls whose source, tool or account
    /// is at its limit.
    fn pick(&mut self) -> Option<(Waiter, Box<CountedCall>)> {
        if self.running_count >= self.bounds.max_running || self.sources.is_empty() {
            return None;
        }
        let sources = self.sources.iter().enumerate();
        let mut order: Vec<_> = sources
            .filter(|(_, (source, _))| self.has_source_permit(source))
            .map(|(index, (source, _))| (count_of(&self.running_by_source, source), index))
            .collect();
        order.sort_unstable();
        for (_, index) in order {
            let (source, mut queue) = std::mem::take(self.sources.get_mut(index)?);
            let next_call = queue.take(|tool, account| self.has_permit(tool, account));
            let Some((account, waiter)) = next_call else {
                *self.sources.get_mut(index)? = (source, queue);
                continue;
            };
            self.sources.remove(index);
            if queue.queued_count > 0 {
                self.sources.push_back((source.clone(), queue));
            }
            self.queued_count -= 1;
            decrement(&mut self.queued_by_account, &account);
            let request = PermitRequest {
                source,
                tool: waiter.tool.clone(),
                account,
            };
            let counted_call = self.count(request);
            return Some((waiter, counted_call));
        }
        None
    }

    /// Removes a queued call to make room for `request`. If the account with the most queued calls
    /// has at least two more queued calls than the account of `request`, removes the newest call of
    /// the account with the most queued calls. Otherwise applies this rule to sources. Fails if
    /// neither rule selects a call.
    pub(super) fn evict_call(&mut self, request: &PermitRequest) -> Result<Waiter, QueueFull> {
        let own_count = count_of(&self.queued_by_account, &request.account);
        let accounts = self.queued_by_account.iter();
        let busiest_account = accounts
            .max_by_key(|(_, queued_count)| **queued_count)
            .filter(|(_, queued_count)| **queued_count > own_count + 1);
        if let Some(account) = busiest_account.map(|(account, _)| account.clone()) {
            let queues = self.sources.iter().enumerate();
            let newest_call = queues
                .filter_map(|(index, (_, queue))| Some((queue.newest_call_id(&account)?, index)))
                .max();
            let (_, index) = newest_call.ok_or(QueueFull)?;
            return self.remove_newest(index, &account).ok_or(QueueFull);
        }
        let mut sources = self.sources.iter();
        let own_source = sources.find(|(source, _)| *source == request.source);
        let own_source_count = own_source.map_or(0, |(_, queue)| queue.queued_count);
        let sources = self.sources.iter().enumerate();
        let busiest_source = sources
            .max_by_key(|(_, (_, queue))| queue.queued_count)
            .filter(|(_, (_, queue))| queue.queued_count > own_source_count + 1);
        let (index, (_, queue)) = busiest_source.ok_or(QueueFull)?;
        let account = queue.busiest_account().cloned().ok_or(QueueFull)?;
        self.remove_newest(index, &account).ok_or(QueueFull)
    }

    fn remove_newest(&mut self, index: usize, account: &QuotaAccount) -> Option<Waiter> {
        let (_, queue) = self.sources.get_mut(index)?;
        let id = queue.newest_call_id(account)?;
        self.remove(index, account, id)
    }

    /// Removes a queued call. Does nothing if the call already has its permit.
    pub(super) fn remove_queued(&mut self, source: &ToolSource, account: &QuotaAccount, id: u64) {
        if let Some(index) = self.position_of(source) {
            drop(self.remove(index, account, id));
        }
    }

    fn position_of(&self, source: &ToolSource) -> Option<usize> {
        let mut sources = self.sources.iter();
        sources.position(|(queued_source, _)| queued_source == source)
    }

    fn remove(&mut self, index: usize, account: &QuotaAccount, id: u64) -> Option<Waiter> {
        let (_, queue) = self.sources.get_mut(index)?;
        let waiter = queue.remove(account, id)?;
        if queue.queued_count == 0 {
            self.sources.remove(index);
        }
        self.queued_count -= 1;
        decrement(&mut self.queued_by_account, account);
        Some(waiter)
    }
}

impl SourceQueue {
    fn push(&mut self, account: QuotaAccount, waiter: Waiter) {
        self.queued_count += 1;
        if let Some(waiters) = self.waiters_by_account.get_mut(&account) {
            waiters.push_back(waiter);
        } else {
            self.turns.push_back(account.clone());
            self.waiters_by_account.insert(account, [waiter].into());
        }
    }

    /// Removes and returns the first call that may run, beginning with the account whose turn it
    /// is.
    fn take(
        &mut self,
        may_run: impl Fn(&ToolName, &QuotaAccount) -> bool,
    ) -> Option<(QuotaAccount, Waiter)> {
        for turn in 0..self.turns.len() {
            let account = self.turns.get(turn)?;
            let waiters = self.waiters_by_account.get_mut(account)?;
            let mut candidates = waiters.iter();
            let index = candidates.position(|waiter| may_run(&waiter.tool, account));
            let Some(waiter) = index.and_then(|index| waiters.remove(index)) else {
                continue;
            };
            let is_last = waiters.is_empty();
            let account = self.turns.remove(turn)?;
            if is_last {
                self.waiters_by_account.remove(&account);
            } else {
                self.turns.push_back(account.clone());
            }
            self.queued_count -= 1;
            return Some((account, waiter));
        }
        None
    }

    /// Returns the ID of the account's newest queued call.
    fn newest_call_id(&self, account: &QuotaAccount) -> Option<u64> {
        let newest_waiter = self.waiters_by_account.get(account)?.back()?;
        Some(newest_waiter.id)
    }

    /// Returns the account with the most queued calls of this source.
    fn busiest_account(&self) -> Option<&QuotaAccount> {
        let busiest_entry = self
            .waiters_by_account
            .iter()
            .max_by_key(|(_, waiters)| waiters.len());
        busiest_entry.map(|(account, _)| account)
    }

    fn remove(&mut self, account: &QuotaAccount, id: u64) -> Option<Waiter> {
        let waiters = self.waiters_by_account.get_mut(account)?;
        let index = waiters.iter().position(|waiter| waiter.id == id)?;
        let waiter = waiters.remove(index)?;
        if waiters.is_empty() {
            self.waiters_by_account.remove(account);
            self.turns.retain(|turn| turn != account);
        }
        self.queued_count -= 1;
        Some(waiter)
    }
}

fn count_of<K: std::hash::Hash + Eq>(counts: &HashMap<K, usize>, key: &K) -> usize {
    counts.get(key).copied().unwrap_or_default()
}

fn increment<K: std::hash::Hash + Eq>(counts: &mut HashMap<K, usize>, key: K) {
    *counts.entry(key).or_default() += 1;
}

/// Decrements a count, and removes the entry when the count is 0.
fn decrement<K: std::hash::Hash + Eq>(counts: &mut HashMap<K, usize>, key: &K) {
    if let Some(count) = counts.get_mut(key) {
        *count -= 1;
        if *count == 0 {
            counts.remove(key);
        }
    }
}
