//! Who runs next (C1): so many calls at once, of some tools fewer, and of those that wait one of
//! each user in turn.

#[cfg(test)]
mod tests;

use std::collections::{HashMap, VecDeque};
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::oneshot;
use tokio::time::Instant;

use super::run::seconds_text;
use crate::registry::RegisteredTool;
use crate::tool::{ErrorCode, ToolFailure, ToolName};

/// When to come back to a full queue: nobody knows, and soon is likely.
const COME_BACK: Duration = Duration::from_secs(1);

/// The places for running calls, and who waits for one. Users take turns, so that one who has a
/// thousand calls waiting delays another's call by one call and not by a thousand.
#[derive(Debug)]
pub(super) struct FairQueue {
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    bounds: Bounds,
    running: usize,
    /// How many run of each tool that has places of its own; none of them is 0.
    running_of: HashMap<ToolName, usize>,
    waiting: usize,
    /// Who waits, by user, first come first served; no line is empty.
    lines: HashMap<String, VecDeque<Waiter>>,
    /// The users who have a line, in the order of their turns.
    turns: VecDeque<String>,
    next_ticket: u64,
}

/// How many calls may run and wait.
#[derive(Debug, Clone)]
pub(super) struct Bounds {
    pub(super) places: usize,
    /// Of single tools, by name; others may have all places.
    pub(super) tool_places: HashMap<String, NonZeroUsize>,
    pub(super) most_waiting: usize,
}

#[derive(Debug)]
struct Waiter {
    ticket: u64,
    tool: ToolName,
    answer: oneshot::Sender<Result<Place, Full>>,
}

/// A place among the running calls, free again when it is dropped.
#[derive(Debug)]
pub(super) struct Place {
    queue: Arc<FairQueue>,
    /// Whose place it is, where the tool has places of its own.
    counted: Option<ToolName>,
}

/// There is no place to wait, either.
#[derive(Debug)]
struct Full;

/// A waiting call; dropped, it leaves the line.
struct Waiting {
    queue: Arc<FairQueue>,
    user: String,
    ticket: u64,
    answer: oneshot::Receiver<Result<Place, Full>>,
}

/// How many calls run and wait.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Load {
    /// Calls whose tools run, or are about to.
    pub running: usize,
    /// Calls that wait for a place.
    pub queued: usize,
}

impl FairQueue {
    pub(super) fn new(bounds: Bounds) -> Arc<Self> {
        let state = State {
            bounds,
            running: 0,
            running_of: HashMap::new(),
            waiting: 0,
            lines: HashMap::new(),
            turns: VecDeque::new(),
            next_ticket: 0,
        };
        Arc::new(Self {
            state: Mutex::new(state),
        })
    }

    /// Other bounds; what runs or waits goes on.
    pub(super) fn set_bounds(self: &Arc<Self>, bounds: Bounds) {
        let mut state = self.state.lock();
        state.bounds = bounds;
        let next = state.next();
        drop(state);
        self.call(next);
    }

    pub(super) fn load(&self) -> Load {
        let state = self.state.lock();
        Load {
            running: state.running,
            queued: state.waiting,
        }
    }

    /// Waits for a place, at most `patience` and never beyond `deadline`.
    pub(super) async fn place(
        self: &Arc<Self>,
        tool: &RegisteredTool,
        user: Option<&str>,
        patience: Duration,
        deadline: Instant,
    ) -> Result<Place, ToolFailure> {
        let mut waiting = match self.enter(tool.name(), user.unwrap_or_default()) {
            Ok(Ok(place)) => return Ok(place),
            Ok(Err(waiting)) => waiting,
            Err(Full) => return Err(full()),
        };
        let patience = patience.min(deadline.saturating_duration_since(Instant::now()));
        match tokio::time::timeout(patience, &mut waiting.answer).await {
            Ok(Ok(Ok(place))) => Ok(place),
            Ok(Ok(Err(Full))) => Err(full()),
            // Nobody drops an answer unsent; were it so, there would be no place either.
            Ok(Err(_)) | Err(_) => Err(ToolFailure::new(
                ErrorCode::Unavailable,
                format!(
                    "Tool '{}' found no free place within {}",
                    tool.name(),
                    seconds_text(patience)
                ),
            )),
        }
    }

    /// A place, or else one in the line.
    fn enter(
        self: &Arc<Self>,
        tool: &ToolName,
        user: &str,
    ) -> Result<Result<Place, Waiting>, Full> {
        let mut state = self.state.lock();
        // Where there is a place, none of those who wait may have it: they were called.
        if state.may_run(tool) {
            let counted = state.count(tool);
            let queue = Arc::clone(self);
            return Ok(Ok(Place { queue, counted }));
        }
        let sent_away = if state.waiting < state.bounds.most_waiting {
            None
        } else {
            Some(state.make_room(user)?)
        };
        let (sender, answer) = oneshot::channel();
        let ticket = state.next_ticket;
        state.next_ticket += 1;
        state.waiting += 1;
        let waiter = Waiter {
            ticket,
            tool: tool.clone(),
            answer: sender,
        };
        if let Some(line) = state.lines.get_mut(user) {
            line.push_back(waiter);
        } else {
            state.turns.push_back(user.to_owned());
            state.lines.insert(user.to_owned(), [waiter].into());
        }
        drop(state);
        if let Some(waiter) = sent_away {
            // Whoever has stopped waiting need not hear it.
            drop(waiter.answer.send(Err(Full)));
        }
        Ok(Err(Waiting {
            queue: Arc::clone(self),
            user: user.to_owned(),
            ticket,
            answer,
        }))
    }

    /// Tells those who were picked.
    fn call(self: &Arc<Self>, next: Vec<(Waiter, Option<ToolName>)>) {
        for (waiter, counted) in next {
            let queue = Arc::clone(self);
            // Where nobody waits any more the place comes back, dropped, and is free again.
            drop(waiter.answer.send(Ok(Place { queue, counted })));
        }
    }
}

impl State {
    /// Whether there is a place for a call of this tool.
    fn may_run(&self, tool: &ToolName) -> bool {
        let own = self.bounds.tool_places.get(tool.as_str());
        let running = || self.running_of.get(tool).copied().unwrap_or_default();
        self.running < self.bounds.places && own.is_none_or(|own| running() < own.get())
    }

    /// One more runs. Its tool, if that has places of its own.
    fn count(&mut self, tool: &ToolName) -> Option<ToolName> {
        self.running += 1;
        let is_counted = self.bounds.tool_places.contains_key(tool.as_str());
        let counted = is_counted.then(|| tool.clone())?;
        *self.running_of.entry(counted.clone()).or_default() += 1;
        Some(counted)
    }

    /// Takes those out of the lines for whom there are places now, with what [`count`](Self::count)
    /// says of each.
    fn next(&mut self) -> Vec<(Waiter, Option<ToolName>)> {
        let mut next = Vec::new();
        // How many users in a row had nothing that may run.
        let mut passed = 0;
        while self.running < self.bounds.places
            && passed < self.turns.len()
            && let Some(user) = self.turns.pop_front()
        {
            let line = self.lines.get(&user);
            let place = line.and_then(|line| line.iter().position(|one| self.may_run(&one.tool)));
            let Some(line) = self.lines.get_mut(&user) else {
                continue;
            };
            match place.and_then(|place| line.remove(place)) {
                Some(waiter) => {
                    passed = 0;
                    if line.is_empty() {
                        self.lines.remove(&user);
                    } else {
                        self.turns.push_back(user);
                    }
                    self.waiting -= 1;
                    let counted = self.count(&waiter.tool);
                    next.push((waiter, counted));
                }
                None => {
                    passed += 1;
                    self.turns.push_back(user);
                }
            }
        }
        next
    }

    /// Takes the last call of the longest line out, if that line stays at least as long as that
    /// of `user` becomes.
    fn make_room(&mut self, user: &str) -> Result<Waiter, Full> {
        let own = self.lines.get(user).map_or(0, VecDeque::len);
        let longest = self.lines.values_mut().max_by_key(|line| line.len());
        let line = longest.filter(|line| line.len() > own + 1).ok_or(Full)?;
        let waiter = line.pop_back().ok_or(Full)?;
        self.waiting -= 1;
        Ok(waiter)
    }

    /// Takes a call out of its line; it may have got its place already.
    fn leave(&mut self, user: &str, ticket: u64) {
        let Some(line) = self.lines.get_mut(user) else {
            return;
        };
        let Some(place) = line.iter().position(|waiter| waiter.ticket == ticket) else {
            return;
        };
        line.remove(place);
        self.waiting -= 1;
        if line.is_empty() {
            self.lines.remove(user);
            self.turns.retain(|turn| turn != user);
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut state = self.queue.state.lock();
        state.running -= 1;
        if let Some(tool) = &self.counted
            && let Some(running) = state.running_of.get_mut(tool)
        {
            *running -= 1;
            if *running == 0 {
                state.running_of.remove(tool);
            }
        }
        let next = state.next();
        drop(state);
        self.queue.call(next);
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        self.queue.state.lock().leave(&self.user, self.ticket);
    }
}

fn full() -> ToolFailure {
    ToolFailure::new(
        ErrorCode::RateLimited,
        "Too many calls wait already. Retry after 1 second.",
    )
    .with_retry_after(COME_BACK)
}
