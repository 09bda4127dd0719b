use std::collections::{HashMap, VecDeque};

use tokio::sync::oneshot;

use super::{Full, QueueLimits, QueuePermit, ToolSource};
use crate::executor::QuotaAccount;
use crate::registry::RegisteredTool;
use crate::tool::ToolName;

/// The running and the queued calls.
#[derive(Debug)]
pub(super) struct State {
    pub(super) bounds: QueueLimits,
    pub(super) running: usize,
    /// Number of running calls by source; never 0.
    running_from: HashMap<ToolSource, usize>,
    /// Number of running calls by tool, for tools with their own limit; never 0.
    running_of: HashMap<ToolName, usize>,
    /// Number of running calls by account, if accounts have a limit; never 0.
    running_for: HashMap<QuotaAccount, usize>,
    pub(super) waiting: usize,
    /// Number of queued calls by account; never 0.
    waiting_for: HashMap<QuotaAccount, usize>,
    /// The sources with queued calls, in the order of their turns.
    sources: VecDeque<(ToolSource, SourceQueue)>,
    next_ticket: u64,
}

/// The queued calls of one source. Accounts take turns.
#[derive(Debug, Default)]
struct SourceQueue {
    /// Queued calls by account, oldest first; never empty.
    lines: HashMap<QuotaAccount, VecDeque<Waiter>>,
    /// The accounts with queued calls, in the order of their turns.
    turns: VecDeque<QuotaAccount>,
    waiting: usize,
}

#[derive(Debug)]
pub(super) struct Waiter {
    ticket: u64,
    tool: ToolName,
    pub(super) answer: oneshot::Sender<Result<QueuePermit, Full>>,
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
    /// Returns the request of a call for its tool's source.
    pub(in crate::executor) fn to_run(tool: &RegisteredTool, account: QuotaAccount) -> Self {
        Self {
            source: ToolSource::from(tool.origin()),
            tool: tool.name().clone(),
            account,
        }
    }

    /// Returns the request for local work before a tool runs, wherever the tool runs.
    pub(in crate::executor) fn here(tool: &RegisteredTool, account: QuotaAccount) -> Self {
        Self {
            source: ToolSource::Local,
            tool: tool.name().clone(),
            account,
        }
    }
}

impl State {
    pub(super) fn new(bounds: QueueLimits) -> Self {
        Self {
            bounds,
            running: 0,
            running_from: HashMap::new(),
            running_of: HashMap::new(),
            running_for: HashMap::new(),
            waiting: 0,
            waiting_for: HashMap::new(),
            sources: VecDeque::new(),
            next_ticket: 0,
        }
    }

    /// Returns whether a permit is free for this call.
    pub(super) fn may_run(&self, need: &PermitRequest) -> bool {
        self.has_source_permit(&need.source) && self.has_permit(&need.tool, &need.account)
    }

    fn has_source_permit(&self, source: &ToolSource) -> bool {
        let from = |source| self.running_from.get(source).copied().unwrap_or_default();
        let of_servers = || self.running - from(&ToolSource::Local);
        self.running < self.bounds.places
            && from(source) < self.bounds.max_of_source(source)
            && (*source == ToolSource::Local || of_servers() < self.bounds.max_of_all_servers())
    }

    /// Returns whether the limits of the tool and of the account allow one more call.
    fn has_permit(&self, tool: &ToolName, account: &QuotaAccount) -> bool {
        let running_of = || self.running_of.get(tool).copied().unwrap_or_default();
        let running_for = || self.running_for.get(account).copied().unwrap_or_default();
        let most_of_tool = self.bounds.max_of_tool(tool);
        let most_for_account = self.bounds.account_places;
        most_of_tool.is_none_or(|most| running_of() < most)
            && (most_for_account >= self.bounds.places || running_for() < most_for_account)
    }

    /// Counts a call as running.
    pub(super) fn count(&mut self, need: PermitRequest) -> Box<CountedCall> {
        self.running += 1;
        *self.running_from.entry(need.source.clone()).or_default() += 1;
        let tool = self.bounds.max_of_tool(&need.tool).map(|_| need.tool);
        if let Some(tool) = &tool {
            *self.running_of.entry(tool.clone()).or_default() += 1;
        }
        let account = (self.bounds.account_places < self.bounds.places).then_some(need.account);
        if let Some(account) = &account {
            *self.running_for.entry(account.clone()).or_default() += 1;
        }
        Box::new(CountedCall {
            source: need.source,
            tool,
            account,
        })
    }

    /// Removes a finished call from the counts.
    pub(super) fn discount(&mut self, counted: &CountedCall) {
        self.running -= 1;
        less(&mut self.running_from, &counted.source);
        if let Some(tool) = &counted.tool {
            less(&mut self.running_of, tool);
        }
        if let Some(account) = &counted.account {
            less(&mut self.running_for, account);
        }
    }

    /// Queues a call and returns its ticket.
    pub(super) fn wait(
        &mut self,
        need: PermitRequest,
        answer: oneshot::Sender<Result<QueuePermit, Full>>,
    ) -> u64 {
        let ticket = self.next_ticket;
        self.next_ticket += 1;
        self.waiting += 1;
        *self.waiting_for.entry(need.account.clone()).or_default() += 1;
        let known = self
            .sources
            .iter()
            .position(|(source, _)| *source == need.source);
        let place = known.unwrap_or_else(|| {
            let queue = SourceQueue::default();
            self.sources.push_back((need.source, queue));
            self.sources.len() - 1
        });
        let waiter = Waiter {
            ticket,
            tool: need.tool,
            answer,
        };
        if let Some((_, queue)) = self.sources.get_mut(place) {
            queue.push(need.account, waiter);
        }
        ticket
    }

    /// Removes and returns the queued calls for which permits are free.
    pub(super) fn next(&mut self) -> Vec<(Waiter, Box<CountedCall>)> {
        let mut next = Vec::new();
        while let Some(picked) = self.pick() {
            next.push(picked);
        }
        next
    }

    /// Removes and returns the call that runs next: the oldest call of the source that has the
    /// fewest running calls and is below its limit. Sources with equally many running calls take
    /// turns.
    fn pick(&mut self) -> Option<(Waiter, Box<CountedCall>)> {
        if self.running >= self.bounds.places || self.sources.is_empty() {
            return None;
        }
        let sources = self.sources.iter().enumerate();
        let mut order: Vec<_> = sources
            .filter(|(_, (source, _))| self.has_source_permit(source))
            .map(|(place, (source, _))| {
                let running = self.running_from.get(source).copied();
                (running.unwrap_or_default(), place)
            })
            .collect();
        order.sort_unstable();
        for (_, place) in order {
            let (source, mut queue) = std::mem::take(self.sources.get_mut(place)?);
            let taken = queue.take(|tool, account| self.has_permit(tool, account));
            let Some((account, waiter)) = taken else {
                *self.sources.get_mut(place)? = (source, queue);
                continue;
            };
            self.sources.remove(place);
            if queue.waiting > 0 {
                self.sources.push_back((source.clone(), queue));
            }
            self.waiting -= 1;
            less(&mut self.waiting_for, &account);
            let need = PermitRequest {
                source,
                tool: waiter.tool.clone(),
                account,
            };
            let counted = self.count(need);
            return Some((waiter, counted));
        }
        None
    }

    /// Removes a queued call to make room for `need`: the newest call of the account with the most
    /// queued calls, if that account still has at least as many queued calls as the account of
    /// `need`; else the newest call of the source with the most queued calls, under the
    /// corresponding condition.
    pub(super) fn evict_for(&mut self, need: &PermitRequest) -> Result<Waiter, Full> {
        let own = self.waiting_for.get(&need.account).copied();
        let most = self
            .waiting_for
            .iter()
            .max_by_key(|(_, waiting)| **waiting)
            .filter(|(_, waiting)| **waiting > own.unwrap_or_default() + 1);
        if let Some(account) = most.map(|(account, _)| account.clone()) {
            let queues = self.sources.iter().enumerate();
            let last = queues
                .filter_map(|(place, (_, queue))| Some((queue.newest_of(&account)?, place)))
                .max();
            let (_, place) = last.ok_or(Full)?;
            return self.remove_last(place, &account).ok_or(Full);
        }
        let waiting_for = |wanted: &ToolSource| {
            let mut sources = self.sources.iter();
            let found = sources.find(|(source, _)| source == wanted);
            found.map_or(0, |(_, queue)| queue.waiting)
        };
        let own = waiting_for(&need.source);
        let sources = self.sources.iter().enumerate();
        let most = sources
            .max_by_key(|(_, (_, queue))| queue.waiting)
            .filter(|(_, (_, queue))| queue.waiting > own + 1);
        let (place, (_, queue)) = most.ok_or(Full)?;
        let account = queue.longest().cloned().ok_or(Full)?;
        self.remove_last(place, &account).ok_or(Full)
    }

    fn remove_last(&mut self, place: usize, account: &QuotaAccount) -> Option<Waiter> {
        let (_, queue) = self.sources.get_mut(place)?;
        let ticket = queue.newest_of(account)?;
        self.remove(place, account, ticket)
    }

    /// Removes a queued call. Does nothing if the call already has its permit.
    pub(super) fn leave(&mut self, source: &ToolSource, account: &QuotaAccount, ticket: u64) {
        let place = self.sources.iter().position(|(other, _)| other == source);
        if let Some(place) = place {
            drop(self.remove(place, account, ticket));
        }
    }

    fn remove(&mut self, place: usize, account: &QuotaAccount, ticket: u64) -> Option<Waiter> {
        let (_, queue) = self.sources.get_mut(place)?;
        let waiter = queue.remove(account, ticket)?;
        if queue.waiting == 0 {
            self.sources.remove(place);
        }
        self.waiting -= 1;
        less(&mut self.waiting_for, account);
        Some(waiter)
    }
}

impl SourceQueue {
    fn push(&mut self, account: QuotaAccount, waiter: Waiter) {
        self.waiting += 1;
        if let Some(line) = self.lines.get_mut(&account) {
            line.push_back(waiter);
        } else {
            self.turns.push_back(account.clone());
            self.lines.insert(account, [waiter].into());
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
            let line = self.lines.get_mut(account)?;
            let place = line.iter().position(|one| may_run(&one.tool, account));
            let Some(waiter) = place.and_then(|place| line.remove(place)) else {
                continue;
            };
            let is_over = line.is_empty();
            let account = self.turns.remove(turn)?;
            if is_over {
                self.lines.remove(&account);
            } else {
                self.turns.push_back(account.clone());
            }
            self.waiting -= 1;
            return Some((account, waiter));
        }
        None
    }

    /// Returns the ticket of the account's newest queued call.
    fn newest_of(&self, account: &QuotaAccount) -> Option<u64> {
        let last = self.lines.get(account)?.back()?;
        Some(last.ticket)
    }

    /// Returns the account with the most queued calls of this source.
    fn longest(&self) -> Option<&QuotaAccount> {
        let longest = self.lines.iter().max_by_key(|(_, line)| line.len());
        longest.map(|(account, _)| account)
    }

    fn remove(&mut self, account: &QuotaAccount, ticket: u64) -> Option<Waiter> {
        let line = self.lines.get_mut(account)?;
        let place = line.iter().position(|waiter| waiter.ticket == ticket)?;
        let waiter = line.remove(place)?;
        if line.is_empty() {
            self.lines.remove(account);
            self.turns.retain(|turn| turn != account);
        }
        self.waiting -= 1;
        Some(waiter)
    }
}

/// Decrements a count, and removes the entry when the count is 0.
fn less<K: std::hash::Hash + Eq>(numbers: &mut HashMap<K, usize>, key: &K) {
    if let Some(number) = numbers.get_mut(key) {
        *number -= 1;
        if *number == 0 {
            numbers.remove(key);
        }
    }
}
